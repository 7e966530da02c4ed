from typing import get_args

import pytest

from stretto.cli.exits import Exit, exit_of_error
from stretto.cli.options import Preference
from stretto.cli.output.plain import one_line, plain, plain_json
from stretto.values import errors
from stretto.values.request import Preference as Known


def test_the_preferences_are_those_of_a_request():
    assert tuple(Preference) == get_args(Known)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidRequestError("x"), Exit.BAD_REQUEST),
        (errors.UnknownModelError("x"), Exit.BAD_REQUEST),
        (errors.SettingsError("x"), Exit.BAD_REQUEST),
        (errors.MissingDependencyError("x"), Exit.BAD_REQUEST),
        (errors.RequestRejectedError("x"), Exit.BAD_REQUEST),
        (errors.ModelNotFoundError("x"), Exit.BAD_REQUEST),
        (errors.DeadlineExceededError("x"), Exit.INCOMPLETE),
        (errors.BudgetExceededError("x"), Exit.INCOMPLETE),
        (errors.AuthenticationError("x"), Exit.AUTHENTICATION),
        (errors.RateLimitedError("x"), Exit.FAILED),
        (errors.StrettoError("x"), Exit.FAILED),
    ],
)
def test_every_error_has_its_exit_code(error, code):
    assert exit_of_error(error) is code


def test_plain_text_keeps_newlines_tabs_and_every_script():
    assert plain("a\tb\nç 茶 👩‍👩‍👧\r\x1b[31m\x85") == "a\tb\nç 茶 👩‍👩‍👧[31m"
    assert one_line(" a\n\n b\t\x07c ") == "a b c"


def test_json_stays_the_same_value():
    assert plain_json('"\x9bü"') == '"\\u009bü"'
