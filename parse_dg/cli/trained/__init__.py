"""The commands that ask something of a trained model, or of a run."""
