"""The plan of an answer in sections, as a model writes it."""

ASKED = "You plan the answer"
"""Stands in the prompt that asks for one; that of a section has its heading, as `asked_for` says."""


def plan(*headings, opening="Care pays.", closing="none"):
    lines = [f"Opening: {opening}", f"Sections: {' | '.join(headings)}"]
    return "\n".join([*lines, *(f"{number}. words" for number in range(1, len(headings) + 1)), f"Closing: {closing}"])


def asked_for(heading):
    """Stands in the prompt of one section."""
    return f'"{heading}" and nothing else'
