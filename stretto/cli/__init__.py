"""The command line: ``stretto ask | route | chat | serve | check | compare | bench | doctor`` and others."""


def main() -> None:
    """Run the program ``stretto``."""
    import sys  # noqa: PLC0415 - importing this package costs nothing

    try:
        from stretto.cli.app import run  # noqa: PLC0415 - likewise

        run()
    except KeyboardInterrupt:  # while modules are imported; later ones are dealt with by the command
        print("interrupted", file=sys.stderr)
        sys.exit(130)
