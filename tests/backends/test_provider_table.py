"""A provider is one module and one line of the table: everything else that names providers follows."""

import json
import re
import sys
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute

from stretto.backends.provider_table import PROVIDERS, default_keys, either, on_this_machine

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "extending.md").read_text(encoding="utf-8")
MODULE, TRIED = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[:2]
PROGRAM = """
import json, os, sys

sys.modules["torch"] = None  # `doctor` would import it
from stretto.backends import provider_table

provider_table.PROVIDERS["acme"] = provider_table.Provider("acme", "acme:Acme", "acme-1", ("acme-",))

from pathlib import Path

from typer.testing import CliRunner

from stretto import Stretto, StrettoError
from stretto.backends.known_models import capabilities_of, own_rows
from stretto.backends.providers.transport.headers import kept_headers
from stretto.backends.resilience.rate_limits import reports
from stretto.cli.app import app
from stretto.cli.commands.examination import look_at_backends
from stretto.cli.output.live import demonstration
from stretto.cli.options import complete_model

sys.path.insert(0, sys.argv[2])  # of the documentation
from make_cli import providers


def shown(*arguments):
    result = CliRunner().invoke(app, [*arguments], prog_name="stretto", terminal_width=200)
    return " ".join(result.output.split())


def refused(model, **options):
    try:
        Stretto(model, **options)
    except StrettoError as error:
        return str(error)


rows = Path("rows.toml")
rows.write_text('[acme."small"]\\nwindow = 12345\\noutput = 100')
limits = {"acme-ratelimit-requests-remaining": "3", "acme-ratelimit-requests-reset": "1s", "set-cookie": "a"}
without = {name: os.environ.pop(name) for name in [*os.environ] if name.endswith("_API_KEY")}
found = {
    "help": {command: shown(command, "--help") for command in ("ask", "serve")},
    "completed": complete_model("ac"),
    "unknown": refused("nothing:x"),
    "guess": refused("acme-1"),
    "no_string": refused(3),
    "leaked": refused("sk-proj-0123456789abcdefghijklmnop"),
    "doctor": {each.backend: [each.works, each.why] for each in look_at_backends({}, None)},
    "doctor_with_key": {each.backend: each.works for each in look_at_backends({"ACME_API_KEY": "k"}, None)},
    "variables": json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)["environment"],
    "demonstration": demonstration(),
    "without_key": Stretto().model_reason,
    "table": providers(),
    "rows": capabilities_of("acme", "small", own_rows(rows)).context_window,
    "headers": list(kept_headers(limits)),
    "limits": list(reports(limits)),
}
os.environ["ACME_API_KEY"] = "k"
found["with_key"] = Stretto().model_reason
found["answer"] = shown("ask", "--quiet", "--model", "acme:small", "--base-url", sys.argv[1], "Count to three.")
print(json.dumps(found))
"""

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]  # a program, and its commands


async def test_a_line_and_a_module_make_a_provider_that_everything_knows(tmp_path):
    (tmp_path / "acme.py").write_text(MODULE)
    (tmp_path / "program.py").write_text(PROGRAM)
    names = {"__name__": "page"}
    exec(compile(MODULE + TRIED, "extending.md", "exec"), names)  # noqa: S102 - our own page
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, names["answer"])
        url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"  # noqa: S610 - anyio's, not Django's
        run = await anyio.run_process([sys.executable, "program.py", url, DOCS], cwd=tmp_path, check=False)
        tasks.cancel_scope.cancel()
    assert run.returncode == 0, run.stderr.decode()
    found = json.loads(run.stdout)

    servers, keys = on_this_machine(), (*default_keys(), "ACME_API_KEY")
    named = "".join(f"{name}:NAME, " for name in (*PROVIDERS, "acme") if name not in servers)
    assert f"{named}{servers[0]}:NAME" in found["help"]["ask"]
    assert f"{named}local:FOLDER" in found["help"]["serve"]
    assert found["completed"] == ["acme:"]
    assert all("acme:MODEL" in found[error] for error in ("unknown", "no_string", "leaked"))
    assert found["guess"] == "Model 'acme-1' has no provider. Write 'acme:acme-1'."
    assert "ACME_API_KEY" in found["leaked"]
    assert found["doctor"]["acme"] == [False, "ACME_API_KEY is not set. Set it"]
    assert found["doctor_with_key"]["acme"]
    assert {"ACME_API_KEY", "ACME_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL"} <= set(found["variables"])
    assert f"set {either(keys)}" in found["demonstration"]
    assert found["without_key"].startswith(f"Neither {' nor '.join(keys)} is set")
    assert found["with_key"] == "ACME_API_KEY is set, so acme:acme-1 answers."
    assert (
        "| `acme:NAME` | `ACME_API_KEY` | https://api.acme.example/v1, or `ACME_BASE_URL` | `acme-1` |"
        in found["table"].splitlines()
    )
    assert found["rows"] == 12345
    assert found["headers"] == ["acme-ratelimit-requests-remaining", "acme-ratelimit-requests-reset"]
    assert found["limits"] == ["requests"]
    assert found["answer"] == "one two three"
