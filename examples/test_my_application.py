"""How to test an application that uses Stretto: no network, no model. Run with pytest."""

from stretto import ServerFailedError, Stretto
from stretto.testing import Reply, ScriptedBackend

PLAN = "Opening: Care pays.\nSections: Tyres | Chain\n1. steps\n2. steps"


def advice(stretto: Stretto, topic: str) -> str:
    """The application."""
    return stretto.ask(f"How do I look after {topic}?", strategy="skeleton").text


def test_advice_has_all_sections() -> None:
    """Patterns are looked for in the prompt; the first that is found answers."""
    backend = ScriptedBackend({"You plan the answer": PLAN, '"Tyres" and': "Pump.", '"Chain" and': "Oil."})
    with Stretto(backend) as stretto:
        assert advice(stretto, "a bicycle") == "Care pays.\n\n## Tyres\n\nPump.\n\n## Chain\n\nOil."


def test_advice_survives_a_failing_section() -> None:
    """The others live, and the failed one keeps its heading."""
    down = Reply(fault=ServerFailedError("The server is down."))
    backend = ScriptedBackend({"You plan the answer": PLAN, '"Tyres" and': "Pump.", "": down})
    with Stretto(backend) as stretto:
        assert "## Chain\n\n[could not be written]" in advice(stretto, "a bicycle")
