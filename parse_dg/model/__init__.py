"""An image becomes class scores."""
