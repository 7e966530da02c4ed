"""The router's shape model: its rows, its training, its evaluation."""
