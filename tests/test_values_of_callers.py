"""What callers make themselves refuses wrong values with an error of the library that names thing, value and remedy."""

import pytest

from stretto import (
    Budget,
    Document,
    GenerationOptions,
    Heading,
    InvalidRequestError,
    Message,
    Request,
    SecondOpinion,
    Settings,
    SettingsError,
)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Document(text=5), "Document.text=5 cannot be used: input should be a valid string."),
        (lambda: Document(title="a.txt"), "Document.text is missing. Give it."),
        (
            lambda: Document(text="Tea.", titel="a.txt"),
            "Document has no argument titel=. Did you mean title=? Its arguments are: headings, markup, pages, source, "
            "text, title, unread_pages, warnings.",
        ),
        (
            lambda: Document(text="Tea.", headings=[{"offset": "x", "level": 1, "text": "Tea"}]),
            "Document.headings.0.offset='x' cannot be used: input should be a valid integer.",
        ),
        (
            lambda: Heading(offset=0, level=1, text=None),
            "Heading.text=None cannot be used: input should be a valid string.",
        ),
        (
            lambda: Message(role="boss", content="Go."),
            "Message.role='boss' cannot be used: input should be 'system', 'user', 'assistant' or 'tool'.",
        ),
        (lambda: Message(role="user"), "A message of the user has no content. Give it a text."),
        (
            lambda: GenerationOptions(temperature=3),
            "GenerationOptions.temperature=3 cannot be used: input should be less than or equal to 2.",
        ),
        (lambda: Budget(max_calls=0), "Budget.max_calls=0 cannot be used: input should be greater than or equal to 1."),
        (Request, "Request.messages is missing. Give it."),
    ],
)
def test_a_value_that_cannot_be_used_is_a_wrong_request(make, says):
    with pytest.raises(InvalidRequestError) as refused:
        make()
    assert str(refused.value) == says


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: Settings(attempts=0),
            "The setting attempts=0 cannot be used: input should be greater than or equal to 1.",
        ),
        (lambda: Settings(attemps=3), "There is no setting attemps, given as 3. Did you mean attempts?"),
        (
            lambda: SecondOpinion(deadline_s=0),
            "deadline_s=0 leaves no time to answer. Give a number of seconds above 0.",
        ),
    ],
)
def test_a_setting_that_cannot_be_used_is_told_by_its_name(make, says):
    with pytest.raises(SettingsError) as refused:
        make()
    assert str(refused.value) == says


def test_a_key_is_not_shown():
    with pytest.raises(SettingsError, match=r"^The setting api_key=\.\.\. cannot be used"):
        Settings(api_key=["sk-secret"])


def test_a_value_without_a_name_is_told_the_names():
    with pytest.raises(TypeError, match=r"^Document takes its fields by name: text=, title=, source="):
        Document("Tea.")


def test_a_part_of_a_request_is_named_with_its_path():
    with pytest.raises(InvalidRequestError, match=r"^Request\.messages\.1\.role='boss' cannot be used"):
        Request(messages=[{"role": "user", "content": "Why?"}, {"role": "boss", "content": "Go."}])
