"""A discovery with its names: what users get, as tables, as a model, as a folder and as pictures."""
