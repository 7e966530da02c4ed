"""Lexical unit decoding: [PAD] rows, trained for it, predict the tokens after the next one."""
