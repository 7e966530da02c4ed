"""What each extra makes possible, asked with the interpreter of an environment that has this extra alone.

    python asked_of_extras.py cli

Remote models are Stretto's scripted HTTP server, spoken to by the real SDKs. `test_extras.py` runs this.
"""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stretto import MissingDependencyError, Settings, Stretto, Usage
from stretto.prices import Prices
from stretto.testing.server import ScriptedServer

QUESTION = "Is tea healthy?"
REPLY = "Yes, in moderation."
PATIENCE_S = 120.0
BIN = Path(sys.executable).parent


@contextmanager
def scripted() -> Iterator[ScriptedServer]:
    """A scripted server in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = ScriptedServer(REPLY)
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
        yield server
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def openai() -> None:
    """The first example, at the scripted server."""
    with scripted() as server, Stretto("openai:scripted", base_url=server.openai_url) as stretto:
        assert stretto.ask(QUESTION).text == REPLY


def anthropic() -> None:
    """The same at Anthropic's API."""
    with scripted() as server, Stretto("anthropic:scripted", base_url=server.url, api_key="k") as stretto:
        assert stretto.ask(QUESTION).text == REPLY


def cli() -> None:
    """`stretto ask`."""
    with scripted() as server:
        done = program("ask", QUESTION, "--model", "openai:scripted", "--base-url", server.openai_url)
    assert REPLY in done.stdout, done


def chat() -> None:
    """`stretto chat` on a terminal: the question is typed, the answer is seen, Ctrl-D ends it."""
    with scripted() as server:
        screen = typed(
            [str(BIN / "stretto"), "chat", "--model", "openai:scripted", "--base-url", server.openai_url],
            [("scripted", f"{QUESTION}\r"), ("in moderation", "\x04")],
        )
        assert "\x1b[?1049h" in screen, "it has not taken the whole terminal"


def langchain() -> None:
    """A chat model of LangChain."""
    from stretto.integrations.langchain import ChatStretto  # noqa: PLC0415 - what is tried

    with scripted() as server:
        assert ChatStretto(model="openai:scripted", base_url=server.openai_url).invoke(QUESTION).content == REPLY


def documents() -> None:
    """A question about a Word file and a page of HTML."""
    named = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    with zipfile.ZipFile("lease.docx", "w") as written:
        text = f'<w:document xmlns:w="{named}"><w:body><w:p><w:r><w:t>The rent is 700 euros.</w:t></w:r></w:p></w:body>'
        written.writestr("word/document.xml", f"{text}</w:document>")
    Path("page.html").write_text("<p>The deposit is 1,400 euros.</p>", encoding="utf-8")
    with scripted() as server, Stretto("openai:scripted", base_url=server.openai_url) as stretto:
        stretto.ask("What does the flat cost?", documents=[Path("lease.docx"), Path("page.html")])
        read = repr([request.body for request in server.requests])
    assert "700 euros" in read, read
    assert "1,400 euros" in read, read


def server() -> None:
    """`stretto serve`, asked by OpenAI's SDK."""
    import openai as sdk  # noqa: PLC0415 - what is tried

    with scripted() as upstream:
        serving = subprocess.Popen(
            [BIN / "stretto", "serve", "--port", "0", "--model", "openai:scripted", "--base-url", upstream.openai_url],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert serving.stderr is not None
            address = next(found[0] for line in serving.stderr if (found := re.search(r"http://127[\d.]+:\d+", line)))
            with sdk.OpenAI(base_url=f"{address}/v1", api_key="k") as client:
                completion = client.chat.completions.create(
                    model="scripted", messages=[{"role": "user", "content": QUESTION}]
                )
            assert completion.choices[0].message.content == REPLY
        finally:
            serving.terminate()
            serving.communicate(timeout=PATIENCE_S)


def redis() -> None:
    """Limits in a real Redis server."""
    program_file = shutil.which("redis-server")
    assert program_file is not None, "there is no redis-server here; run .ci/redis.sh"
    where = Path("redis.sock").resolve()
    serving = subprocess.Popen(
        [program_file, "--port", "0", "--unixsocket", where, "--save", "", "--appendonly", "no"],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(where.exists)
        with (
            scripted() as upstream,
            Stretto(
                "openai:scripted", base_url=upstream.openai_url, settings=Settings(shared=f"unix://{where}")
            ) as stretto,
        ):
            answer = stretto.ask(QUESTION)
        assert answer.text == REPLY
        assert not answer.warnings, answer.warnings
    finally:
        serving.terminate()
        serving.wait()


def prices() -> None:
    """Prices of the package."""
    cost = Prices().cost("openai:gpt-5-mini", [Usage(prompt_tokens=1_000_000)])
    assert cost is not None
    assert "genai-prices" in cost.source, cost


def local() -> None:
    """The built-in model in torch's operations, with the one warning that names the faster way."""
    done = answered_here({})
    assert done.stderr.strip().splitlines() == [
        "Local models run in torch's operations, more slowly: numba is not installed. "
        "Run: pip install 'stretto[compiled]'. STRETTO_COMPILED=0 does without it."
    ], done.stderr


def compiled() -> None:
    """The same in code compiled for this processor, without a warning."""
    assert answered_here({"STRETTO_COMPILED": "1"}).stderr == ""


def ray() -> None:
    """The server in a cluster of this machine, asked by OpenAI's SDK."""
    import openai as sdk  # noqa: PLC0415 - what is tried
    import ray as cluster  # type: ignore[import-not-found]  # noqa: PLC0415
    from ray import serve  # type: ignore[import-not-found]  # noqa: PLC0415

    from stretto.integrations.ray_serve import RayOptions, build  # noqa: PLC0415

    with scripted() as upstream:
        cluster.init(num_cpus=4, num_gpus=0, include_dashboard=False, object_store_memory=100_000_000)
        try:
            serve.start(http_options={"host": "127.0.0.1", "port": 8765})
            options = RayOptions(model="openai:scripted", settings={"base_url": upstream.openai_url}, server_cpus=0.2)
            serve.run(build(options), name="main", route_prefix="/")
            with sdk.OpenAI(base_url="http://127.0.0.1:8765/v1", api_key="k") as client:
                completion = client.chat.completions.create(
                    model="scripted", messages=[{"role": "user", "content": QUESTION}]
                )
            assert completion.choices[0].message.content == REPLY
        finally:
            serve.shutdown()
            cluster.shutdown()


def everything() -> None:
    """What the extras make possible, but Ray, which `[all]` leaves out."""
    for each in (openai, anthropic, cli, chat, langchain, documents, server, redis, prices, compiled):
        each()


def core() -> None:
    """The first example, and what is said of everything else; no SDK is imported before it is needed."""
    openai()
    loaded = "import sys, stretto; print(*{name.partition('.')[0] for name in sys.modules})"
    run = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert not {"openai", "numpy", "httpx", "httpx2", "jsonschema_rs", "markdown_it"} & set(run.stdout.split())
    cost = Prices().cost("openai:gpt-5-mini", [Usage(prompt_tokens=1_000_000)])
    assert cost is not None
    assert cost.as_of is not None
    Path("page.html").write_text("<p>The deposit is 1,400 euros.</p>", encoding="utf-8")

    def about_a_page() -> None:
        with Stretto("openai:scripted", base_url="http://127.0.0.1:9/v1") as stretto:
            stretto.ask("What is the deposit?", documents=Path("page.html"))

    def by_the_local_model() -> None:
        with Stretto("local:pocket") as stretto:
            stretto.ask(QUESTION)

    refused(lambda: Stretto("anthropic:claude-haiku-4-5", api_key="k"), "anthropic", "anthropic")
    refused(by_the_local_model, "stretto-pocket", "local")
    refused(about_a_page, "selectolax", "documents")
    refused(lambda: __import__("stretto.integrations.langchain"), "langchain-core", "langchain")
    refused(lambda: __import__("stretto.integrations.ray_serve"), "ray", "ray")
    refused(lambda: __import__("stretto.server"), "prometheus_client", "server")
    refused(lambda: Stretto("openai:scripted", settings=Settings(shared="redis://127.0.0.1:9/0")), "redis", "redis")
    for command, extra in (("ask", "cli"), ("chat", "chat"), ("serve", "server")):
        done = program(command, QUESTION, fails=True)
        assert done.returncode == 2, done
        assert re.search(rf"needs (typer|rich), .*pip install 'stretto\[{extra}\]'", done.stderr), done
        assert len(done.stderr.splitlines()) == 1, done
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "uninstall", "--yes", "openai"], check=True)
    alone = "from stretto import Stretto; Stretto('openai:gpt-5.4-mini', api_key='k')"
    run = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True, check=False)
    assert "MissingDependencyError: openai:gpt-5.4-mini needs openai" in run.stderr, run.stderr
    assert "pip install 'stretto[openai]'" in run.stderr, run.stderr


def refused(ask: Callable[[], object], package: str, extra: str) -> None:
    """What is asked for must fail with one sentence that names the package and the extra."""
    message = ""
    try:
        ask()
    except MissingDependencyError as error:
        message = str(error)
    assert package in message, (package, message)
    assert f"pip install 'stretto[{extra}]'" in message, (extra, message)
    print(f"  {message}")


def program(*arguments: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
    """Run `stretto`."""
    return subprocess.run([BIN / "stretto", *arguments], capture_output=True, text=True, check=not fails)


def answered_here(variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Ask the built-in model in a program of its own, whose standard error is looked at."""
    code = (
        "from stretto import Stretto\n"
        "with Stretto('local:pocket') as stretto:\n"
        "    answer = stretto.ask('How do I look after a bicycle?')\n"
        "assert len(answer.text) > 200 and not answer.warnings, answer\n"
    )
    environment = {**os.environ, **variables, "NUMBA_CACHE_DIR": str(Path.cwd() / "compiled")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def typed(command: list[str], steps: list[tuple[str, str]]) -> str:
    """Run a program on a terminal: wait for each text, then type what belongs to it; gives all that was shown."""
    child, terminal = pty.fork()
    if child == 0:
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1"}
        os.execve(command[0], command, environment)  # noqa: S606 - the program that is tried
    screen, until = "", time.monotonic() + PATIENCE_S
    try:
        for awaited, keys in steps:
            while awaited not in screen:
                assert time.monotonic() < until, f"{awaited!r} was not shown, only {screen!r}"
                if select.select([terminal], [], [], 1)[0]:
                    screen += os.read(terminal, 65_536).decode(errors="replace")
            os.write(terminal, keys.encode())
    finally:
        os.close(terminal)  # as a window that is closed; the program ends
        os.waitpid(child, 0)
    return screen


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a state of another program."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "it did not start"
        time.sleep(0.05)


TASKS = {each.__name__: each for each in (core, openai, anthropic, cli, chat, langchain, documents, server, redis)}
TASKS |= {each.__name__: each for each in (prices, local, compiled, ray)} | {"all": everything}

if __name__ == "__main__":
    TASKS[sys.argv[1]]()
