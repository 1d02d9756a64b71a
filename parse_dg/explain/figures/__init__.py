"""Pictures: a prediction with its relations, and the paper's figures at paper size."""
