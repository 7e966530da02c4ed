"""A server in front of a scripted model, in a process that can be killed: ``python scripted_program.py PORT SCRIPT``.

SCRIPT is JSON, patterns to the fields of a `Reply`. The address is printed once the port is open.
"""

import json
import sys

from stretto import AsyncStretto, Settings
from stretto.server import ServerOptions
from stretto.server.running import serve
from stretto.testing import Reply, ScriptedBackend

if __name__ == "__main__":
    port, script = sys.argv[1:]
    backend = ScriptedBackend({pattern: Reply(**fields) for pattern, fields in json.loads(script).items()})
    client = AsyncStretto(backend, settings=Settings(attempts=1))
    serve(client, ServerOptions(port=int(port)), lambda address, _: print(address, flush=True))
