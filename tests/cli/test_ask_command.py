import json
import re

import pytest
from plans import asked_for, plan
from pydantic import TypeAdapter
from typer.testing import CliRunner

from stretto.backends.tenants import UNKNOWN, asking
from stretto.cli.app import app
from stretto.testing import Reply
from stretto.values.answer import Answer
from stretto.values.errors import (
    AuthenticationError,
    ConnectionFailedError,
    ContextOverflowError,
    ServerFailedError,
    StreamBrokenError,
)
from stretto.values.events import Event, TextDelta

BICYCLE = "How do I look after a bicycle?"


TEA = "Care pays.\n\n## Tea\n\nSome words.\n\n"
PLAN = plan("Tea", "Milk", "Sugar")
ONE_FAILS = {
    f"{asked_for('Milk')}|part on .Milk": Reply(fault=ServerFailedError("The server fell over.")),
    "Write the section": "Some words.",
    "": PLAN,
}


def in_sections(prompt):
    """A plan of three sections, then a sentence in each."""
    return "Some words about it." if "Write the section" in prompt.messages[-1].content else PLAN


def test_the_answer_goes_to_standard_output_and_the_rest_to_standard_error(stretto):
    result = stretto("ask", "-s", "direct", "What", "is", "tea?")
    assert result.exit_code == 0
    assert result.stdout == "A plain answer.\n"
    assert "direct" in result.stderr
    assert "A plain answer" not in result.stderr


def test_the_words_of_the_command_are_the_question(stretto):
    opened = []
    stretto("ask", "-s", "direct", "What", "is", "tea?", opened=opened)
    assert opened[0].calls[0][0].messages[-1].content == "What is tea?"


def test_text_from_a_pipe_is_put_below_the_question(stretto):
    opened = []
    stretto("ask", "-s", "direct", "Summarise this.", piped="A long story.\n", opened=opened)
    assert opened[0].calls[0][0].messages[-1].content == "Summarise this.\n\nA long story."


def test_text_from_a_pipe_alone_is_the_question(stretto):
    opened = []
    stretto("ask", "-s", "direct", piped="What is tea?\n", opened=opened)
    assert opened[0].calls[0][0].messages[-1].content == "What is tea?"


def test_without_a_question_it_says_how_to_ask(stretto):
    result = stretto("ask", piped=" \n")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: There is no question.")
    assert result.stdout == ""


def test_options_reach_the_model(stretto):
    opened = []
    options = ("--system", "Be brief.", "--max-tokens", "9", "--temperature", "0", "--seed", "3")
    stretto("ask", "Why?", "-s", "direct", *options, opened=opened)
    prompt, sent = opened[0].calls[0]
    assert prompt.messages[0].content == "Be brief."
    assert (sent.max_tokens, sent.temperature, sent.seed) == (9, 0, 3)


def test_documents_are_read_and_titled_by_their_files(stretto, tmp_path):
    (tmp_path / "story.txt").write_text("Once upon a time.", encoding="utf-8")
    opened = []
    result = stretto("ask", "What happens?", "--document", str(tmp_path / "story.txt"), opened=opened)
    assert result.exit_code == 0, result.stderr
    sent = "\n".join(message.content for prompt, _ in opened[0].calls for message in prompt.messages)
    assert "story.txt" in sent
    assert "Once upon a time." in sent


def test_json_is_the_whole_answer(stretto):
    result = stretto("ask", "What is tea?", "-s", "direct", "--json")
    answer = Answer.model_validate_json(result.stdout)
    assert answer.text == "A plain answer."
    assert answer.route.strategy == "direct"


def test_events_are_one_a_line_and_their_texts_are_the_answer(stretto):
    result = stretto("ask", "How do I make tea?", "-s", "skeleton", "--events", script=in_sections)
    events = [TypeAdapter(Event).validate_json(line) for line in result.stdout.splitlines()]
    assert events[0].type == "route_chosen"
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert events[-1].answer.text == text


@pytest.mark.parametrize("second", ["--json", "--compare"])
def test_events_go_alone(stretto, second):
    result = stretto("ask", "Why?", "--events", second)
    assert result.exit_code == 2
    assert "--events exclude" in result.stderr


def test_quiet_leaves_the_answer_only(stretto):
    result = stretto("ask", "Why?", "--quiet")
    assert result.output == "A plain answer.\n"


def test_a_model_cannot_control_the_terminal(stretto):
    result = stretto("ask", "Why?", script="\x1b]0;owned\x07Fine\x9b2J.\r\n")
    assert result.stdout == "]0;ownedFine2J.\n"


def test_json_holds_no_raw_control_character(stretto):
    result = stretto("ask", "Why?", "--json", script="a\x9bb\x7fc\x1bd")
    assert not {"\x9b", "\x7f", "\x1b"} & set(result.stdout)
    assert json.loads(result.stdout)["text"] == "a\x9bb\x7fc\x1bd"


def test_the_strategy_that_is_asked_for_writes_the_answer(stretto):
    result = stretto("ask", "How do I make tea?", "--strategy", "skeleton", script=in_sections)
    assert result.exit_code == 0
    assert result.stdout.count("Some words about it.") == 3
    assert "4 calls" in result.stderr


def test_the_route_explains_itself_where_the_router_chose(stretto):
    question = "Write a poem about the sea."
    assert "direct: Written in one piece" in stretto("ask", question).stderr
    assert "caller" not in stretto("ask", question, "-s", "direct").stderr


def test_an_error_stands_alone_without_the_reason_of_the_route(stretto):
    result = stretto("ask", "Why?", script={"": Reply(fault=AuthenticationError("no key"))})
    assert result.stderr == "error: no key\n"


def test_a_point_that_fails_makes_the_answer_incomplete(stretto):
    result = stretto("ask", "How do I make tea?", "-s", "skeleton", script=ONE_FAILS)
    assert result.exit_code == 3
    assert "warning: Section 2, 'Milk', is incomplete: The server fell over." in result.stderr


def test_an_answer_cut_by_length_is_incomplete(stretto):
    assert stretto("ask", "Why?", "--max-tokens", "2", script="One two three four five.").exit_code == 3


@pytest.mark.leaping
def test_an_answer_cut_by_its_deadline_is_incomplete(stretto):
    held = Reply("One two.", chunks=("One ", "two."), chunk_delay_s=600)
    result = stretto("ask", "Why?", "-s", "direct", "--deadline", "1", script={"": held})
    assert result.exit_code == 3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AuthenticationError("The key is wrong."), 4),
        (ConnectionFailedError("Nobody answers."), 1),
        (ContextOverflowError("The prompt is too long."), 2),
    ],
)
def test_a_failure_is_one_line_and_an_exit_code(stretto, error, code):
    result = stretto("ask", "Why?", "--quiet", script={"": Reply(fault=error)})
    assert result.exit_code == code
    assert result.stderr == f"error: {error}\n"
    assert result.stdout == ""


def test_an_error_of_a_server_cannot_control_the_terminal_either(stretto):
    result = stretto("ask", "Why?", "-q", script={"": Reply(fault=AuthenticationError("No.\n\x1b[2J\nGo away."))})
    assert result.stderr == "error: No. [2J Go away.\n"


def test_the_demonstration_model_says_what_it_is(stretto):
    result = stretto("ask", "Who will win?", name="local:pocket")
    assert "demonstration model" in result.stderr
    assert "OPENAI_API_KEY" in result.stderr
    assert "may be wrong" in result.stderr
    assert "pip install" not in result.stderr
    assert result.stderr.count("demonstration model") == 2  # before the answer, and in the status line


def test_other_models_need_no_such_notice(stretto):
    assert "demonstration" not in stretto("ask", "Why?").stderr


def test_a_model_that_nobody_named_on_the_command_line_is_told(stretto):
    assert "scripted:model answers: the settings say so." in stretto("ask", "Why?").stderr
    assert "answers:" not in stretto("ask", "Why?", "--model", "other:model").stderr


def test_trace_draws_the_branches(stretto):
    result = stretto("ask", "How do I make tea?", "-s", "skeleton", "--trace", script=in_sections)
    assert "2 Milk" in result.stderr
    assert "critical path" in result.stderr
    assert "critical path" not in result.stdout


@pytest.mark.parametrize("form", ["--trace {}", "--trace={}"])
def test_trace_writes_a_page(stretto, tmp_path, form):
    page = tmp_path / "out.html"
    options = form.format(page).split()
    result = stretto("ask", "-s", "skeleton", *options, "How do I make tea?", script=in_sections)
    assert result.exit_code == 0
    assert "How do I make tea?" in page.read_text()
    assert "<svg" in page.read_text()
    assert str(page) in result.stderr.replace("\n", "")


def test_trace_writes_a_page_for_each_of_two_answers(stretto, tmp_path):
    stretto("ask", "Why?", "-s", "skeleton", "--compare", "--trace", str(tmp_path / "out.svg"), script=in_sections)
    assert sorted(file.name for file in tmp_path.glob("*.svg")) == ["out-direct.svg", "out.svg"]


def test_out_writes_the_rewritten_file(stretto, tmp_path):
    page, out = tmp_path / "in.html", tmp_path / "out.html"
    page.write_text("<html><body>" + "<p>A line of the page.</p>\n" * 200 + "</body></html>\n")

    def reply(prompt):
        found = re.search(r" piece\n(\{.*?\})\n", prompt.messages[-1].content)
        return found[1].replace("line", "Zeile") if found else "{}"

    result = stretto(
        "ask", "Translate this page into German.", "--document", str(page), "--out", str(out), script={"": reply}
    )
    assert result.exit_code == 0
    assert out.read_text() == page.read_text().replace("line", "Zeile")
    missing = stretto("ask", "Why?", "--out", str(tmp_path / "no" / "out.md"))
    assert missing.exit_code != 0
    assert "there is no folder" in missing.stderr.replace("\n", " ")


def test_compare_asks_direct_as_well(stretto):
    opened = []
    result = stretto("ask", "How do I make tea?", "-s", "skeleton", "--compare", script=in_sections, opened=opened)
    assert result.exit_code == 0
    assert len(opened[0].calls) == 5
    assert re.search("^ +skeleton +direct$", result.stderr, re.MULTILINE)
    for shown in ("seconds to first text", "prompt tokens", "completion tokens", "calls"):
        assert shown in result.stderr
    assert result.stdout.count("## Tea") == 1  # the second answer is counted, not shown


def test_compare_drafts_neither_answer_from_the_other(stretto):
    tenants = []

    def recorded(prompt):
        tenants.append(asking())
        return in_sections(prompt)

    stretto("ask", "How do I make tea?", "-s", "skeleton", "--compare", script=recorded)
    assert set(tenants) == {UNKNOWN}


def test_compare_as_json_holds_both_answers(stretto):
    result = stretto("ask", "How do I make tea?", "-s", "skeleton", "--compare", "--json", script=in_sections)
    both = json.loads(result.stdout)
    assert Answer.model_validate(both["answer"]).route.strategy == "skeleton"
    assert Answer.model_validate(both["direct"]).route.strategy == "direct"
    assert both["comparison"]["skeleton"]["calls"] == 4
    assert both["comparison"]["direct"]["calls"] == 1


def test_a_key_that_was_given_as_a_variables_name_is_not_repeated(stretto):
    result = stretto("ask", "Why?", "--key-variable", "sk-very-secret")
    assert result.exit_code == 2
    assert "sk-very" not in result.output


def test_the_decoding_of_a_local_model_is_passed_on(stretto):
    opened = []
    stretto("ask", "Why?", "--decoding", "suffix", opened=opened, decodings=("auto", "suffix"))
    assert opened[0].calls[0][1].decoding == "suffix"


def test_a_model_behind_an_api_takes_no_decoding_and_a_warning_says_so(stretto):
    result = stretto("ask", "Why?", "--decoding", "suffix")
    assert result.exit_code == 0
    assert "warning: --decoding suffix was left out: scripted:model has no decoding methods" in result.stderr


@pytest.mark.thorough
def test_log_probabilities_are_a_table_below_the_answer():
    result = CliRunner().invoke(
        app, ["ask", "-q", "-s", "direct", "-m", "local:pocket", "--max-tokens", "4", "--logprobs", "2", BICYCLE]
    )
    head, *rows = result.stderr.strip().splitlines()
    assert head.split() == ["token", "probability", "logprob", "most", "probable"]
    assert len(rows) == 4
    shown = [re.match(r'("[^"]*") +[0-9.]+% +-?[0-9.]+  ("[^"]*") [0-9.]+%  "[^"]*" <?[0-9.]+%$', row) for row in rows]
    assert "".join(json.loads(row[1]) for row in shown) == result.stdout.rstrip("\n")
    assert [row[1] for row in shown] == [row[2] for row in shown]  # by default it writes the most probable one


@pytest.mark.thorough
def test_with_json_log_probabilities_are_in_the_answer_and_nowhere_else():
    result = CliRunner().invoke(
        app,
        ["ask", "-q", "-s", "direct", "-m", "local:pocket", "--max-tokens", "4", "--logprobs", "0", "--json", BICYCLE],
    )
    answer = Answer.model_validate_json(result.stdout)
    assert "".join(score.token for score in answer.logprobs) == answer.text
    assert result.stderr == ""


def test_a_model_that_tells_no_log_probabilities_after_all_draws_no_table(stretto):
    result = stretto("ask", "Why?", "--logprobs", "2", logprobs=True)
    assert "warning: --logprobs 2 was asked for, and scripted:model returned none." in result.stderr
    assert "most probable" not in result.stderr


@pytest.mark.thorough
def test_a_local_model_is_run_as_the_options_say():
    pytest.importorskip("torch")
    options = [
        "--dtype",
        "float64",
        "--device",
        "cpu",
        "--threads",
        "1",
        "--no-compiled",
        "--decoding",
        "autoregressive",
    ]
    command = ["ask", "-q", "-m", "local:pocket", "-s", "direct", "--max-tokens", "4", *options]
    result = CliRunner().invoke(app, [*command, "How do I look after a bicycle?"], prog_name="stretto")
    assert (result.exit_code, result.stderr) == (3, "")
    assert result.stdout.strip()


@pytest.mark.parametrize(
    ("script", "options", "said"),
    [
        (" ".join(map(str, range(90))), ("--max-tokens", "20"), "The answer was cut at --max-tokens 20. Allow more."),
        pytest.param(
            Reply(chunks=("One ", "two."), chunk_delay_s=600),
            ("--deadline", "1"),
            "Allow more with --deadline.",
            marks=pytest.mark.leaping,
        ),
        (Reply("a b c", fault=StreamBrokenError("It broke off."), fault_after=1), (), "is incomplete: It broke off."),
    ],
    ids=["length", "deadline", "stream"],
)
def test_an_answer_that_is_cut_says_why_and_what_to_change(stretto, script, options, said):
    result = stretto("ask", "Why?", "-s", "direct", *options, script={"": script})
    assert result.exit_code == 3
    (warning,) = (line for line in result.stderr.splitlines() if line.startswith("warning: "))
    assert said in warning


def test_the_status_line_says_how_the_answer_was_written_in_the_end(stretto):
    result = stretto("ask", "How do I make tea?", "-s", "skeleton", script="I would rather not.")
    assert "direct (instead of skeleton) · " in result.stderr.splitlines()[-1]
    result = stretto("ask", "How do I make tea?", "-s", "skeleton", "--compare", script="I would rather not.")
    assert "Nothing to compare" in result.stderr


@pytest.mark.parametrize(
    ("choice", "text", "code"),
    [
        ("note", f"{TEA}## Milk\n\n[could not be written]\n\n## Sugar\n\nSome words.\n", 3),
        ("omit", f"{TEA}## Sugar\n\nSome words.\n", 3),
    ],
)
def test_what_becomes_of_a_missing_part_can_be_chosen(stretto, choice, text, code):
    result = stretto("ask", "How do I make tea?", "-s", "skeleton", "--on-missing", choice, script=ONE_FAILS)
    assert (result.stdout, result.exit_code) == (text, code)


def test_a_missing_part_can_be_an_error(stretto):
    result = stretto("ask", "-q", "How do I make tea?", "-s", "skeleton", "--on-missing", "raise", script=ONE_FAILS)
    assert result.exit_code == 3
    assert result.stderr.startswith("error: The answer lacks 1 of 3 parts. Section 2, 'Milk', is incomplete")


@pytest.mark.parametrize("form", [(), ("--json",), ("--events",)])
def test_no_output_turns_the_direction_of_text(stretto, form):
    turned = "a\u202eb\u202a\u2066c\u2069"
    result = stretto("ask", "Why?", "-s", "direct", *form, script=turned)
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", result.output)
    if form == ("--json",):
        assert json.loads(result.stdout)["text"] == turned


@pytest.mark.parametrize("form", ["--json", "--events"])
def test_half_a_character_does_not_end_the_program(stretto, form):
    result = stretto("ask", "Why?", "-s", "direct", form, script={"": Reply(chunks=("a \ud83d", "\ude00 \ud83d"))})
    assert result.exit_code == 0, result.stderr
    assert "a 😀 �" in result.stdout


@pytest.mark.thorough
def test_a_fallback_answers_where_the_server_is_dead(unused_port):
    options = ["--base-url", f"http://127.0.0.1:{unused_port}/v1", "--fallback", "local:pocket", "--max-tokens", "8"]
    result = CliRunner().invoke(app, ["ask", "-s", "direct", "-m", "openai:any", *options, BICYCLE])
    assert result.exit_code == 3  # eight tokens are not the whole answer
    assert result.stdout.strip()
    assert "The answer was written by local:pocket for openai:any" in result.stderr
