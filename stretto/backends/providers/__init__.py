"""Who generates behind an API, one module each."""
