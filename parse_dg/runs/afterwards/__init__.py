"""What can be asked of a run afterwards: how good it is, also on new images, and a model of only what it uses."""
