"""Prompts, and ways to ask an engine."""

SHARED = tuple((7 * i + 3) % 390 + 5 for i in range(30))
PROMPTS = [SHARED + tail for tail in ((11, 12), (13,), (14, 15, 16, 17, 18, 19, 20), SHARED[:15], (11, 12, 21))]


def submit_together(engine, requests):
    """Submits so that all run in one batch: the engine waits for those announced."""
    with engine.announced():
        return [engine.submit(request) for request in requests]


def outcome(handle):
    events = list(handle)
    return "".join(event.text for event in events[:-1]), events[-1]


def tokens(handle):
    outcome(handle)
    return handle.sequence.generated
