"""``python -m stretto.cli``: the program where its script is not on the path."""

from stretto.cli import main

main()
