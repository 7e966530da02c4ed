from stretto.testing import Reply
from stretto.values.errors import ServerFailedError


def asked(opened):
    """The messages of each call, as role and text."""
    return [[(message.role, message.content) for message in prompt.messages] for prompt, _ in opened[0].calls]


def test_the_history_holds_questions_and_answers(stretto):
    opened = []
    result = stretto("chat", "-s", "direct", piped="One?\nTwo?\n", script={"": ["First.", "Second."]}, opened=opened)
    assert result.exit_code == 0
    assert result.stdout == "First.\nSecond.\n"
    assert asked(opened)[1] == [("user", "One?"), ("assistant", "First."), ("user", "Two?")]


def test_what_failed_leaves_no_trace_in_the_history(stretto):
    failing = Reply(fault=ServerFailedError("It fell over."))
    opened = []
    result = stretto(
        "chat", "-s", "direct", piped="One?\nTwo?\n", script={"One": failing, "": "Second."}, opened=opened
    )
    assert "error: It fell over." in result.stderr
    assert result.stdout == "Second.\n"
    assert asked(opened)[-1] == [("user", "Two?")]


def test_the_history_can_be_forgotten(stretto):
    opened = []
    stretto("chat", "-s", "direct", piped="One?\n/clear\nTwo?\n", opened=opened)
    assert asked(opened)[1] == [("user", "Two?")]


def test_strategy_preference_and_system_apply_to_what_follows(stretto):
    opened = []
    lines = "/strategy direct\n/preference careful\n/system Be brief.\nWhy?\n"
    result = stretto("chat", "--trace", piped=lines, opened=opened)
    assert asked(opened)[0] == [("system", "Be brief."), ("user", "Why?")]
    assert "strategy: direct" in result.stderr
    assert "preference: careful" in result.stderr
    assert "critical path" in result.stderr


def test_another_model_goes_on_with_the_conversation(stretto):
    opened = []
    result = stretto("chat", "-s", "direct", piped="One?\n/model other:model\nTwo?\n", opened=opened)
    former, current = opened
    assert former.closed
    assert current.closed
    assert "model: other:model" in result.stderr
    assert [message.content for message in current.calls[0][0].messages] == ["One?", "A plain answer.", "Two?"]


def test_a_wrong_command_is_one_clear_line_and_the_chat_goes_on(stretto):
    lines = "/nope\n/strategy magic\n/preference soon\n/trace maybe\n/trace\nWhy?\n"
    result = stretto("chat", "-s", "direct", "-q", piped=lines)
    errors = result.stderr.splitlines()
    assert errors[0] == "error: There is no command /nope. /help lists them."
    assert errors[1].startswith("error: There is no strategy 'magic'. Choose one of: auto")
    assert errors[2] == "error: There is no preference 'soon'. Choose one of: fastest, balanced, careful."
    assert errors[3] == "error: /trace takes on or off, not 'maybe'."
    assert errors[4] == "error: There is no answer to draw yet. Ask something first."
    assert len(errors) == 5
    assert result.stdout == "A plain answer.\n"


def test_the_timeline_of_the_last_answer_can_be_drawn(stretto):
    result = stretto("chat", "-s", "direct", piped="Why?\n/trace\n")
    assert "critical path" in result.stderr


def test_quit_ends_before_the_next_line(stretto):
    assert stretto("chat", "-s", "direct", piped="One?\n/quit\nTwo?\n").stdout == "A plain answer.\n"


def test_help_lists_every_command(stretto):
    result = stretto("chat", piped="/help\n")
    for command in ("/strategy", "/model", "/preference", "/system", "/trace", "/clear", "/help", "/quit"):
        assert command in result.stderr


def test_two_slashes_ask_with_one(stretto):
    opened = []
    stretto("chat", "-s", "direct", piped="//etc is what?\n", opened=opened)
    assert asked(opened)[0] == [("user", "/etc is what?")]


def test_a_strategy_that_does_not_exist_is_the_only_line(stretto):
    result = stretto("chat", "-s", "magic", piped="Why?\n", name="local:pocket")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: There is no strategy 'magic'.")
    assert result.stderr.count("\n") == 1
