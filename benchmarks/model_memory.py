"""Memory of a loaded model: at most while it loads, and after an answer; with transformers and llama.cpp.

    python benchmarks/model_memory.py local:smollm2 local:pocket          float32 and bfloat16
    python benchmarks/model_memory.py local:smollm2 --dtype stored --engines stretto llama.cpp     in the file's blocks
    python benchmarks/model_memory.py ./folder --dtype int8 int4 --engines stretto       rounded while they are loaded
    python benchmarks/model_memory.py ./folder --keep NAME                keeps the figures in benchmarks/results/

Each row is a process of its own, which loads the model, answers with 32 tokens, and prints by how much its resident
memory has grown since its libraries were there and had run once. Pages of files that are mapped into memory count. A
multiple is of the weights: their number times the size of their type, tied ones once; for ``int8`` and ``int4`` of
those in bfloat16, which are read. For ``stored`` and llama.cpp it is of the file, whose types they keep. Keys and
values of the answer are in the figures; they take less than 3 MB here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import machine, save
from rich.console import Console
from rich.table import Table

PROMPT = "How do I look after a bicycle in winter?"
TOKENS = 32
MOST = 1.3
ROUNDED = ("int8", "int4")
console = Console(width=120)


class Growth:
    """What this process has grown by since this was made."""

    def __init__(self) -> None:
        from stretto.local_engine.model.loading.memory import give_back  # noqa: PLC0415 - each process imports what it measures

        give_back()
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
        self._before = _status("VmRSS")

    def figures(self, weights: int) -> dict[str, int]:
        """Bytes of the weights, at most since the beginning, and now."""
        return {"weights": weights, "peak": _status("VmHWM") - self._before, "after": _status("VmRSS") - self._before}


def _status(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    if found is None:
        raise SystemExit("The memory of a process is read from /proc, which this system does not have.")
    return 1024 * int(found.group(1))


def stretto(name: str, dtype: str) -> dict[str, int]:
    """The local engine, once its code is compiled."""
    import torch  # noqa: PLC0415 - as above

    from stretto.local_engine.generation import Generation  # noqa: PLC0415
    from stretto.local_engine.model.loading.load import load_model  # noqa: PLC0415
    from stretto.local_engine.model.loading.source import find_source  # noqa: PLC0415
    from stretto.local_engine.serving.engine import Engine  # noqa: PLC0415

    def answered(model: str) -> Engine:
        how = {"quantize": dtype} if dtype in ROUNDED else {"dtype": None if dtype == "stored" else dtype}
        engine = Engine(load_model(find_source(model), **how), prefix_cache_bytes=0)
        handle = engine.submit(Generation(tuple(engine.model.tokenizer(PROMPT).input_ids), TOKENS))
        if (error := list(handle)[-1].error) is not None:  # type: ignore[union-attr]  # the last event is the end
            raise error
        return engine

    answered("local:pocket").free()
    growth = Growth()
    engine = answered(name)
    found = growth.figures(0)
    engine.free()
    if dtype == "stored":
        file = find_source(name).file
        assert file is not None
        return found | {"weights": file.stat().st_size}
    size = torch.bfloat16.itemsize if dtype in ROUNDED else getattr(torch, dtype).itemsize
    return found | {"weights": _weights(name) * size}


def transformers(name: str, dtype: str) -> dict[str, int]:
    """Transformers' own way from the file to an answer."""
    import torch  # noqa: PLC0415 - as above
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    from stretto.local_engine.model.loading.source import find_source  # noqa: PLC0415

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # not typed there

    def answered(model: str) -> None:
        source = find_source(model)
        where, options = source.where, {}
        if source.file is not None:
            where, options = str(source.file.parent), {"gguf_file": source.file.name}
        tokenizer = AutoTokenizer.from_pretrained(where, **options)
        loaded: Any = AutoModelForCausalLM.from_pretrained(where, dtype=getattr(torch, dtype), **options)
        loaded.generate(**tokenizer(PROMPT, return_tensors="pt"), max_new_tokens=TOKENS, do_sample=False)
        kept.append(loaded)

    kept: list[object] = []
    answered("local:pocket")
    kept.clear()
    growth = Growth()
    answered(name)
    return growth.figures(_weights(name) * getattr(torch, dtype).itemsize)


def llamacpp(name: str, _: str) -> dict[str, int]:
    """llama.cpp's server within this process, one slot of 512 tokens."""
    import xllamacpp  # noqa: PLC0415 - as above

    from stretto.local_engine.model.loading.source import find_source  # noqa: PLC0415

    file = find_source(name).file
    assert file is not None
    growth = Growth()
    params = xllamacpp.CommonParams()
    params.model.path, params.n_parallel, params.n_ctx = str(file), 1, 512
    server = xllamacpp.Server(params)
    server.handle_completions({"prompt": PROMPT, "n_predict": TOKENS, "temperature": 0})
    found = growth.figures(file.stat().st_size)
    del server
    return found


def _weights(name: str) -> int:
    """How many there are, tied ones once."""
    from safetensors import safe_open  # noqa: PLC0415 - as above

    from stretto.local_engine.model.loading.source import find_source  # noqa: PLC0415

    source = find_source(name)
    if source.file is not None:
        return source.parameters() or 0
    assert source.folder is not None
    count = 0
    for path in source.folder.glob("model*.safetensors"):
        with safe_open(path, framework="np") as file:
            count += sum(_product(file.get_slice(key).get_shape()) for key in file.keys())  # noqa: SIM118 - no mapping
    return count


def _product(shape: list[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found


ENGINES: dict[str, Callable[[str, str], dict[str, int]]] = {
    "stretto": stretto,
    "transformers": transformers,
    "llama.cpp": llamacpp,
}


def measured(engine: str, name: str, dtype: str) -> dict[str, int]:
    """Run one row in a process of its own."""
    command = [sys.executable, __file__, name, "--only", engine, dtype]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{engine} with {name} in {dtype} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--keep", metavar="NAME")
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        engine, dtype = options.only
        print(json.dumps(ENGINES[engine](options.models[0], dtype)), flush=True)
        os._exit(0)  # what ends with the interpreter is not measured
    table = Table(title=f"megabytes, and multiples of the weights; {machine()}")
    for column in ("model", "type", "engine", "weights", "at most", "after an answer"):
        table.add_column(column, justify="left" if column in ("model", "type", "engine") else "right")
    rows = []
    for name in options.models:
        for dtype in options.dtype:
            for engine in options.engines:
                is_file = name.endswith((".gguf", "smollm2"))
                if engine == "llama.cpp" and not (is_file and dtype == options.dtype[0]):
                    continue
                if engine == "transformers" and dtype in ("stored", *ROUNDED):
                    continue
                found = measured(engine, name, dtype)
                console.print(f"{engine} {name} {dtype}: {found}")
                kind = "as stored" if engine == "llama.cpp" else dtype
                rows.append({"model": name, "dtype": kind, "engine": engine, **found})
                cells = [
                    f"{found[part] / 1e6:.0f} ({found[part] / found['weights']:.2f}x)" for part in ("peak", "after")
                ]
                table.add_row(name, kind, engine, f"{found['weights'] / 1e6:.0f}", *cells)
    console.print(table)
    for row in rows:
        if row["engine"] == "stretto" and row["after"] > MOST * row["weights"]:
            console.print(f"missed: {row['model']} in {row['dtype']} takes more than {MOST} times its weights")
    if options.keep:
        save(options.keep, {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
