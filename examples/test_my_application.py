"""How to test an application that uses Stretto: no network, no model. Run with pytest."""

from stretto import ServerFailedError, Stretto
from stretto.testing import Reply, ScriptedBackend


def advice(stretto: Stretto, topic: str) -> str:
    """The application."""
    return stretto.ask(f"How do I look after {topic}?", strategy="skeleton").text


def test_advice_has_all_points() -> None:
    """Patterns are looked for in the prompt; the first that is found answers."""
    backend = ScriptedBackend({"outline": "1. Tyres\n2. Chain", "point 1,": "Pump.", "point 2,": "Oil.", "": "Hm."})
    with Stretto(backend) as stretto:
        assert advice(stretto, "a bicycle") == "1. **Tyres**: Pump.\n2. **Chain**: Oil."


def test_advice_survives_a_failing_point() -> None:
    """The others live, and the failed one keeps its title."""
    down = Reply(fault=ServerFailedError("The server is down."))
    backend = ScriptedBackend({"outline": "1. Tyres\n2. Chain", "point 1,": "Pump.", "": down})
    with Stretto(backend) as stretto:
        assert "2. **Chain**: [could not be written]" in advice(stretto, "a bicycle")
