"""The adapter for long documents."""
