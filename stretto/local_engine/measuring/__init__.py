"""How fast a model is on this machine, and compiling before anybody waits for it."""
