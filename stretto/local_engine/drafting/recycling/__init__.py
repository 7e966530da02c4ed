"""Token recycling: the tokens that the model held probable behind a token are guessed behind it next time."""
