"""Where paths that were written side by side are among the tokens of a prompt."""

from stretto.backends.base import ModelRequest, WrittenPaths
from stretto.backends.local.generations import tokens_with_paths
from stretto.values.request import Message

SHARED, PATHS, BEHIND = "Asked[fork]", ("[path]one", "[path]two two"), "[join]"
TEXT = SHARED + "".join(PATHS) + BEHIND


def request(text=TEXT, *forks):
    messages = (Message(role="user", content="Q"), Message(role="assistant", content=text))
    return ModelRequest(messages, paths=forks)


def characters(prompt):
    return tuple(ord(each) for message in prompt.messages for each in message.content)


def pairs(prompt):
    """A token for two characters each, so that one may reach over a boundary."""
    text = prompt.messages[-1].content
    return tuple(text[at : at + 2] for at in range(0, len(text), 2))


FORK = WrittenPaths(len(SHARED), (len(SHARED + PATHS[0]), len(TEXT) - len(BEHIND)))


def test_each_path_is_found_among_the_tokens():
    ids, (fork,) = tokens_with_paths(request(TEXT, FORK), characters)
    assert ids == characters(request())
    assert (fork.shared, fork.lengths) == (1 + len(SHARED), tuple(map(len, PATHS)))


def test_a_prompt_without_paths_is_read_as_it_is():
    assert tokens_with_paths(request(), characters) == (characters(request()), ())


def test_a_second_fork_stands_behind_the_first():
    text = TEXT + "[fork]" + "".join(PATHS) + BEHIND
    begin = len(TEXT + "[fork]")
    second = WrittenPaths(begin, (begin + len(PATHS[0]), len(text) - len(BEHIND)))
    ids, forks = tokens_with_paths(request(text, FORK, second), characters)
    assert ids == characters(request(text))
    assert [fork.shared for fork in forks] == [1 + len(SHARED), 1 + begin]


def test_a_token_that_reaches_over_the_beginning_of_a_path_belongs_to_what_is_before():
    ids, (fork,) = tokens_with_paths(request(TEXT, FORK), pairs)
    assert ids == pairs(request())
    assert (fork.shared, fork.lengths) == (6, (4, 7))  # 11, 20 and 33 characters


def test_paths_with_nothing_behind_them_are_read_in_a_row():
    text = SHARED + "".join(PATHS)
    assert tokens_with_paths(request(text, FORK), characters) == (characters(request(text)), ())
