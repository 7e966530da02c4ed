"""The command line: ``stretto ask | route | chat | serve | check | compare | bench | doctor`` and others.

Private: not part of the public API, and may change at any time.
"""

_PACKAGES = {"typer", "rich", "click"}  # packages of the extra cli
_EXTRAS = {"chat": "chat", "serve": "server"}  # extras that include cli


def main() -> None:
    """Run the program ``stretto``."""
    import sys  # noqa: PLC0415 - importing this package costs nothing

    try:
        from stretto.cli.app import run  # noqa: PLC0415 - likewise

        run()
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        from stretto.values.errors import missing  # noqa: PLC0415 - only here

        command = next((word for word in sys.argv[1:2] if word in _EXTRAS), "")
        what = f"stretto {command}" if command else "The command stretto"
        print(f"error: {missing(what, error.name, _EXTRAS.get(command, 'cli'))}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # during imports; later ones are handled by the command
        print("interrupted", file=sys.stderr)
        sys.exit(130)
