"""The command line: ``stretto ask | route | chat | prompts | doctor``."""


def main() -> None:
    """Run the program ``stretto``."""
    from stretto.cli.app import run  # noqa: PLC0415 - importing this package costs nothing

    run()
