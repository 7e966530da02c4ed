"""``python -m stretto.cli``: the program if its script is not on the path."""

from stretto.cli import main

main()
