"""One forward: loading a model, its layers, its key-value cache."""
