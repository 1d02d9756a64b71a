"""What each public benchmark is: its domains, classes, published counts, addresses and splits."""
