"""The local engine as a backend."""
