"""Makes messages into tokens by chat templates, and tokens into text."""
