"""What a trained model is worth, and on which images."""
