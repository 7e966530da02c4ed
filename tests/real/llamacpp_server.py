"""llama.cpp's own HTTP server in a process of its own: ``python llamacpp_server.py FILE.gguf PORT SLOTS WINDOW NAME``.

It prints its address when its model is loaded, and serves until its standard input is closed.
"""

import sys

import xllamacpp


def main() -> None:
    """Serve until whoever started this process is gone."""
    file, port, slots, window, name = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path = file
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_parallel = int(slots)
    params.n_ctx = int(window) * int(slots)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # two wait for each other on a busy machine
    params.endpoint_metrics = True
    server = xllamacpp.Server(params)  # the port is open from here on; it answers 503 until the model is loaded
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
