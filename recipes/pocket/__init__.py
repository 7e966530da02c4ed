"""The pocket model: its texts, its training, its evaluation."""
