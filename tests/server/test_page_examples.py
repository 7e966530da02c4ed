"""The questions on the first screen of the web chat are answered well, and in points, by the model they are for."""

import json
import re
from pathlib import Path

import pytest

import stretto.server.web
from stretto import Stretto

SOURCE = (Path(stretto.server.web.__file__).parent / "page" / "examples.js").read_text()
QUESTIONS = re.findall(r'"([^"]+\?)"', re.search(r"\[POCKET\]: \[(.*?)\]", SOURCE).group(1))
TOPICS = {
    "How do I look after a bicycle?": "bicycle_care",
    "How do I prepare for a job interview?": "job_interview_preparation",
    "What helps against a damp house?": "damp_house",
}
DATA = Path(__file__).parents[2] / "recipes" / "pocket" / "data" / "topics.jsonl"


@pytest.fixture(scope="module")
def titles():
    """The titles of the points of each topic."""
    topics = map(json.loads, DATA.read_text(encoding="utf-8").splitlines())
    return {topic["id"]: {point["title"] for point in topic["points"]} for topic in topics}


def test_the_first_screen_has_examples_for_the_demonstration_model():
    assert sorted(QUESTIONS) == sorted(TOPICS)


@pytest.fixture(scope="module")
def client():
    with Stretto("local:pocket") as opened:
        yield opened


@pytest.mark.parametrize(
    "question", [QUESTIONS[0], *(pytest.param(each, marks=pytest.mark.thorough) for each in QUESTIONS[1:])]
)
def test_the_demonstration_model_answers_its_examples_in_points_of_their_topic(question, titles, client):
    route = client.route(question)
    answer = client.ask(question, strategy="skeleton")
    assert route.shape in ("points", "steps")
    written = [branch.heading for branch in answer.branches if branch.kind == "section" and branch.text]
    assert len(written) >= 4
    assert set(written) <= titles[TOPICS[question]]
