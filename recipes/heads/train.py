"""Training heads that draft: ``python -m recipes.heads.train MODEL``.

The model stays as it is. It answers some thousand questions, greedily and sampled; a head learns to foresee these
answers. See `recipes.heads.eagle` and `recipes.heads.medusa` for what is learned, and `recipes.heads.trainer` for how.

Training goes on from its last checkpoint when it is started again, and so does the writing of the answers.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from recipes.heads.eagle import Eagle
from recipes.heads.evaluate import measure
from recipes.heads.medusa import Medusa
from recipes.heads.network import Head, Sizes
from recipes.heads.on_disk import write_head
from recipes.heads.questions import asked, held_out
from recipes.heads.target import Target
from recipes.heads.texts import Texts, frequent
from recipes.heads.trainer import Plan, Trainer
from recipes.heads.writing import Writing, Written, keep, kept
from recipes.program import add_arguments, announce, run_until_stopped, training_dtype
from stretto.local_engine.kernels.thread_team import limit_threads
from stretto.local_engine.model.adapters.adapter_files import fingerprint
from stretto.local_engine.model.loading.load import LoadedModel, load_model, prepare, read_model
from stretto.local_engine.model.loading.source import Source, find_source
from stretto.values.errors import SettingsError, StrettoError

__all__ = ["KINDS", "main"]

KINDS: dict[str, type[Head]] = {"eagle3": Eagle, "medusa": Medusa}
_DEPTHS = {"eagle3": 5}
_DEPTH = 4  # of the others
_SHARES = {"eagle3": 6.0}  # of the time; of the others 1
_WRITING, _WRITING_ON_GPU = 0.5, 0.2  # of the time at most: of a few texts, a head learns only those
_MEASURED = 64  # held-out questions


def main(arguments: list[str] | None = None) -> None:
    """Train (or continue to train) heads for a model, on answers that it writes itself."""
    parser = argparse.ArgumentParser(prog="python -m recipes.heads.train", description=main.__doc__)
    parser.add_argument("model", nargs="?", default="local:pocket", help="local:pocket, a folder or a GGUF file")
    add_arguments(parser, minutes=60.0, folder=Path("build/heads"))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["eagle3"], help="of heads (default eagle3)")
    parser.add_argument("--out", type=Path, help="where the heads are written; by default the folder of the run")
    parser.add_argument("--words", type=int, default=8192, help="tokens that a head can say (default 8192)")
    parser.add_argument("--inner", type=int, help="units of a feed-forward layer; by default as many as the model's")
    parser.add_argument("--depth", type=int, help="tokens that a head guesses (default 5 of eagle3, 4 of others)")
    parser.add_argument("--tokens", type=int, help="of the texts of a step (default 2048, on a GPU 16384)")
    parser.add_argument("--together", type=int, help="answers written in a batch (default 16, on a GPU 1024)")
    parser.add_argument("--longest", type=int, default=256, help="tokens of an answer at most (default 256)")
    parser.add_argument(
        "--rate", type=float, default=Plan.rate, help="learning rate (default %(default)s); lower for few --tokens"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args(arguments)
    try:
        _train(chosen)
    except StrettoError as error:
        sys.exit(str(error))


def _train(chosen: argparse.Namespace) -> None:
    began, console, on_gpu = time.monotonic(), Console(), chosen.device != "cpu"
    source = find_source(chosen.model)
    torch.set_num_threads(chosen.threads)
    dtype = training_dtype(chosen.device)
    read, tokenizer, _ = read_model(source, dtype, trust_remote_code=False)
    if on_gpu:
        read = read.to(chosen.device)
        model = prepare(source.name, read, tokenizer, packed=False, compiled=False, cuda_graphs=False)
    else:  # as the engine runs it, which is several times as fast
        limit_threads(chosen.threads)
        model = load_model(source, device="cpu")
    base, target = _hash_of(source), Target(read)
    announce(console, chosen.device, dtype, chosen.threads)
    texts, unseen = _write(chosen, model, base, console)
    if on_gpu:
        torch.cuda.empty_cache()  # what held the keys and values of the answers
    words = frequent(texts, chosen.words, model.ends, len(target.output))
    answered = torch.tensor([token for text in texts for token in text.tokens[text.learned :]])
    covered = torch.isin(answered, words).float().mean()
    console.print(f"the head can say {len(words)} tokens, {covered:.1%} of the answers", highlight=False)
    whole = sum(_SHARES.get(kind, 1.0) for kind in chosen.kinds)
    left = max(0.0, chosen.minutes - (time.monotonic() - began) / 60)
    plan = Plan(
        steps=chosen.steps,
        tokens=chosen.tokens or (16384 if on_gpu else 2048),
        rate=chosen.rate,
        other_rate=Plan.other_rate * chosen.rate / Plan.rate,
        seed=chosen.seed,
    )
    for kind in chosen.kinds:
        depth = chosen.depth or _DEPTHS.get(kind, _DEPTH)
        torch.manual_seed(chosen.seed)
        head = KINDS[kind](target, words, Sizes(depth, chosen.inner or int(target.config.intermediate_size)))
        folder, out = chosen.folder / kind, (chosen.out or chosen.folder) / kind
        if chosen.fresh:
            (folder / "checkpoint.safetensors").unlink(missing_ok=True)
        trainer = Trainer(
            replace(plan, minutes=max(0.01, left * _SHARES.get(kind, 1.0) / whole)),
            target,
            head.to(chosen.device),
            Texts(texts, depth, target.device, kept=not head.reads_lower),
            folder,
            base=base,
            export=partial(write_head, out, target, base),
        )
        console.print(f"{kind}:")
        unseen_texts = Texts(unseen, depth, target.device, kept=not head.reads_lower)
        finished = run_until_stopped(trainer, console)
        console.print(f"{kind}, held-out questions: {measure(target, head, unseen_texts)}")
        console.print(f"wrote {out}, {(out / 'model.safetensors').stat().st_size / 1e6:.1f} MB", highlight=False)
        if not finished:
            return


def _write(
    chosen: argparse.Namespace, model: LoadedModel, base: str, console: Console
) -> tuple[list[Written], list[Written]]:
    """Have the model answer, or read what it answered when the run began; also its answers to held-out questions."""
    began, pocket = time.monotonic(), model.name == "local:pocket"
    on_gpu = chosen.device != "cpu"
    # A GPU reads the texts again at every step, in less time than their states take to be moved.
    states = not on_gpu and any(not KINDS[kind].reads_lower for kind in chosen.kinds)
    writing = Writing(chosen.together or (1024 if on_gpu else 16), chosen.longest, seed=chosen.seed, states=states)
    folder = chosen.folder / f"own-{base[:12]}-{writing.together}-{writing.longest}-{writing.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    unseen = folder / "held-out.safetensors"
    if not unseen.is_file():
        prompts = writing.prompts(model, held_out(pocket=pocket))[:_MEASURED]
        keep(unseen, writing.answers(model, prompts, [0.0] * len(prompts)))
    until = time.monotonic() + 60 * chosen.minutes * (_WRITING_ON_GPU if on_gpu else _WRITING)
    columns = (TextColumn("writing"), BarColumn(), TextColumn("{task.percentage:.1f}%"), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        shown = bar.add_task("writing", total=1.0)
        texts = writing.write(
            model,
            asked(pocket=pocket),
            folder,
            go_on=lambda: time.monotonic() < until,
            advance=lambda share: bar.update(shown, completed=share),
        )
    count = sum(len(text.tokens) - text.learned for text in texts)
    console.print(f"{len(texts)} answers, {count} tokens, {time.monotonic() - began:.0f} s", highlight=False)
    return texts, kept(unseen)


def _hash_of(source: Source) -> str:
    """SHA-256 of the model's weights. Raises `SettingsError` for a hub name."""
    if source.file is not None:
        return hashlib.sha256(source.file.read_bytes()).hexdigest()
    if source.folder is None:
        raise SettingsError(f"{source.name} is a hub name. Save the model in a folder, and name that.")
    return fingerprint(source.folder)


if __name__ == "__main__":
    main()
