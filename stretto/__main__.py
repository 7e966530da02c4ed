"""``python -m stretto``: the command line."""

from stretto.cli import main

main()
