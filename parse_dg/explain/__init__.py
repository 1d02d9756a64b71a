"""Why a model said what it said, as data and as pictures."""
