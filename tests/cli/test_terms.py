import pytest
from typer.main import get_command

from stretto.cli.app import app
from stretto.cli.output.plain import OPTIONS, in_options


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Allow more with deadline_s.", "Allow more with --deadline."),
        ("Set OPENAI_API_KEY, or pass api_key=.", "Set OPENAI_API_KEY, or pass --key-variable."),
        ("max_tokens=0 cannot be used", "--max-tokens 0 cannot be used"),
        ("It was cut at max_tokens=20. Allow more.", "It was cut at --max-tokens 20. Allow more."),
        ("Ask with strategy='direct'.", "Ask with --strategy direct."),
        ("did not finish within deadline_s=0.5.", "did not finish within --deadline 0.5."),
        ("temperature=-1.5 is too low", "--temperature -1.5 is too low"),
        ("dtype='float13' cannot be used.", "--dtype float13 cannot be used."),
        ("device='cuda' cannot be used: no GPU.", "--device cuda cannot be used: no GPU."),
        ("threads=0 cannot be used", "--threads 0 cannot be used"),
        ("the budget of max_tokens_total=50", "the budget of max_tokens_total=50"),
        ("The strategy is fine, and so is the model.", "The strategy is fine, and so is the model."),
        ("a prefer_model=3 of its own", "a prefer_model=3 of its own"),
    ],
)
def test_arguments_of_the_library_become_options(said, shown):
    assert in_options(said) == shown


def test_every_option_of_the_table_exists():
    known = {option for parameter in get_command(app).commands["ask"].params for option in parameter.opts}
    assert set(OPTIONS.values()) <= known
