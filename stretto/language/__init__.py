"""What the library knows of languages, as data: number words, what points are called, how scripts are spelt.

Imports nothing else of the library.
"""
