"""GVRT: a classifier that must also explain itself in words, with its words, decoder and sentence encoders."""
