"""The adapter with which the pocket model reads documents."""
