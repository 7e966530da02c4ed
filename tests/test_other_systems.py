"""Windows, of which nothing runs here, by a double of its rules.

The program below gives the modules of Stretto, and nobody else, what Windows would: no `fcntl`, `resource` and the
like, an `os`, `signal` and `mmap` without the names that only POSIX has, `win32` as the platform, and no signal
handlers in the event loop. A file that is opened without an encoding is an error: Windows would use another one.
"""

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(600),  # torch and LangChain are imported anew
]

DOUBLE = r"""
import asyncio, builtins, sys, types, warnings

MISSING = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog", "uvloop", "readline"}
LACKS = {
    "os": {
        "fork", "register_at_fork", "sysconf", "nice", "getuid", "geteuid", "getgid", "sched_getaffinity", "killpg",
        "setsid", "getpgid", "statvfs", "uname", "mkfifo", "chown", "fchmod", "getloadavg", "wait4", "WNOHANG",
        "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "posix_spawn", "posix_fadvise",
    },
    "signal": {
        "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD", "SIGPIPE", "SIGQUIT", "SIGSTOP", "SIGCONT",
        "SIGTSTP", "SIGWINCH", "alarm", "setitimer", "pthread_sigmask", "sigwait", "pause", "siginterrupt",
    },
    "mmap": {"MAP_PRIVATE", "MAP_ANONYMOUS", "MAP_SHARED", "MADV_HUGEPAGE", "MADV_DONTNEED", "PROT_READ"},
    "socket": {"AF_UNIX", "SO_REUSEPORT", "socketpair_unix"},
    "sys": set(),
}
TOLD = {"sys": {"platform": "win32"}, "os": {"name": "nt"}}
refused = []


class Double(types.ModuleType):
    def __init__(self, real):
        object.__setattr__(self, "_real", real)

    def __getattribute__(self, name):
        real = object.__getattribute__(self, "_real")
        if name in LACKS[real.__name__]:
            refused.append(f"{real.__name__}.{name}")
            raise AttributeError(f"module {real.__name__!r} has no attribute {name!r}", name=name, obj=self)
        told = TOLD.get(real.__name__, {})
        return told[name] if name in told else getattr(real, name)

    def __setattr__(self, name, value):
        setattr(object.__getattribute__(self, "_real"), name, value)


real_import, doubles = builtins.__import__, {name: Double(__import__(name)) for name in LACKS}


def imported(name, globals=None, locals=None, fromlist=(), level=0):
    ours = ((globals or {}).get("__name__") or "").partition(".")[0] == "stretto" and level == 0
    if ours and name.partition(".")[0] in MISSING:
        refused.append(name)
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return doubles[name] if ours and name in doubles else real_import(name, globals, locals, fromlist, level)


def no_handler(*_):
    raise NotImplementedError


builtins.__import__ = imported
asyncio.BaseEventLoop.add_signal_handler = no_handler
asyncio.SelectorEventLoop.add_signal_handler = no_handler
warnings.filterwarnings("error", category=EncodingWarning, module="stretto")
"""

ALL_MODULES = """
import pkgutil, stretto
count = 0
for found in pkgutil.walk_packages(stretto.__path__, "stretto.", onerror=lambda name: None):
    if found.name.startswith("stretto.integrations.ray_serve") or found.name.endswith("__main__"):
        continue
    real_import(found.name)
    count += 1
assert count > 300, count
"""

CHAT = """
from pathlib import Path
from stretto.cli.chat.chat_file import ChatFile, Turn
file = ChatFile(Path("chats") / "one.jsonl")
for number, question in enumerate(("Is tea healthy?", "Und grüner Tee? 茶")):
    file.asked(Turn(str(number), question))
assert b"\\r" not in file.file.read_bytes()
assert [turn.question for turn in file.read().turns] == ["Is tea healthy?", "Und grüner Tee? 茶"]
print(sorted(set(refused)))
"""

DOCUMENT = """
from pathlib import Path
from stretto import Stretto
from stretto.testing import ScriptedBackend
Path("page.html").write_text("<p>The deposit is 1,400 euros: größer.</p>", encoding="utf-8")
backend = ScriptedBackend({"": "It is 1,400 euros."})
with Stretto(backend) as stretto:
    assert "1,400" in stretto.ask("What is the deposit?", documents=Path("page.html")).text
assert "größer" in repr(backend.calls)
print(sorted(set(refused)))
"""

LOCAL = """
from stretto import Settings, Stretto
with Stretto("local:pocket", settings=Settings(compiled=False)) as stretto:
    assert len(stretto.ask("How do I look after a bicycle?", max_tokens=20).text) > 20
print(sorted(set(refused)))
"""


def run(program, folder):
    """Run a program with the double; gives what Stretto asked for and Windows has not."""
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", DOUBLE + program],
        cwd=folder,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "STRETTO_SETTINGS": os.devnull},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_every_module_can_be_imported_and_a_local_model_answers(tmp_path):
    assert "os.register_at_fork" in run(ALL_MODULES + LOCAL, tmp_path)


@pytest.mark.parametrize(
    ("program", "missed"), [(CHAT, "fcntl"), (DOCUMENT, "os.O_NONBLOCK")], ids=["chat", "document"]
)
def test_what_needs_the_system_most_works_without_what_windows_lacks(program, missed, tmp_path):
    assert missed in run(program, tmp_path)
