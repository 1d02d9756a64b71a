"""Many runs: what is to be trained, what it will cost, and the loop that gets it done."""
