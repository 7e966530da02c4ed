"""litellm as a client of the server: run by ``make test-litellm``, in a separate environment.

It pins other versions of the SDKs than the tests do. Starts ``stretto serve`` on the pocket model with the Python given
as its argument, and asks it in every way that litellm has.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.metadata import version

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it would look for one on the net

import litellm

QUESTION = [{"role": "user", "content": "How do I look after a bicycle?"}]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return opened.getsockname()[1]


def wait_for(url, process):
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=2)  # noqa: S310 - of this machine
        except OSError:
            assert process.poll() is None, "the server did not start"
            time.sleep(0.2)
        else:
            return
    raise AssertionError("the server did not get ready")


def ask_everything(root):
    openai = {"model": "openai/stretto", "api_base": f"{root}/v1", "api_key": "none"}
    anthropic = {"model": "anthropic/stretto", "api_base": root, "api_key": "none"}

    whole = litellm.completion(messages=QUESTION, **openai)
    assert whole.choices[0].message.content.count("**") >= 4
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.completion_tokens > 0

    extra = {"stretto": {"events": True}}
    chunks = list(litellm.completion(messages=QUESTION, stream=True, extra_body=extra, **openai))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks).count("**") >= 4

    message = litellm.completion(messages=QUESTION, max_tokens=2000, **anthropic)
    assert message.choices[0].message.content
    chunks = list(litellm.completion(messages=QUESTION, max_tokens=2000, stream=True, **anthropic))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    response = litellm.responses(input="How do I look after a bicycle?", **openai)
    assert response.output[0].content[0].text

    text = litellm.text_completion(
        prompt="Hello.", max_tokens=8, **openai | {"model": "text-completion-openai/stretto"}
    )
    assert text.choices[0].text

    try:
        litellm.completion(messages=QUESTION, **openai | {"model": "openai/nothing"})
    except litellm.NotFoundError as error:
        said = str(error)
    assert "nothing" in said


def main():
    port = free_port()
    root = f"http://127.0.0.1:{port}"
    command = [sys.argv[1], "-m", "stretto.cli", "serve", "-m", "local:pocket", "--port", str(port)]
    with subprocess.Popen(command) as process:
        try:
            wait_for(f"{root}/ready", process)
            ask_everything(root)
        finally:
            process.terminate()
    assert process.returncode == 0
    print(f"litellm {version('litellm')} gets every answer")


if __name__ == "__main__":
    main()
