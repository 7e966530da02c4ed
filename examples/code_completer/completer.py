"""Completes code with a model in this process; a newer request of the same editor cancels the older one."""

from __future__ import annotations

import threading

from stretto.local import Engine, Generation, Handle, Listener, find_source, load_model

MODEL = "local:pocket"  # for a real model: "local:smollm2", or "local:Qwen/Qwen2.5-Coder-0.5B", made for code
MOST_TOKENS = 48
CHARACTERS = 8  # of a token; more than there are on average


class Completer:
    """One model for any number of editors. Closed with `close`.

    The engine keeps the keys and values of what it has read. A text that begins like an earlier one is read from where
    the two differ, so most keystrokes cost a few tokens.
    """

    def __init__(self, model: str = MODEL) -> None:
        self.engine = Engine(load_model(find_source(model), compiled=None))
        self._latest: dict[str, Handle] = {}
        self._lock = threading.Lock()

    def complete(self, editor: str, before: str, listener: Listener | None = None) -> Handle:
        """Ask for what follows ``before``, and cancel what this editor asked for last.

        ``listener`` is called from the engine's thread with each `Piece` of text and, last, with the `Finished`.
        Without one, iterate over the `Handle`.
        """
        model = self.engine.model
        room = model.context_window - MOST_TOKENS
        before = before.encode(errors="replace").decode() or "\n"  # half of a surrogate pair is no text
        ids = model.tokenizer(before[kept_from(len(before), room * CHARACTERS) :], verbose=False).input_ids
        request = Generation(
            prompt=tuple(ids[kept_from(len(ids), room) :]),
            max_new_tokens=MOST_TOKENS,
            end_ids=model.end_ids,
            stop=("\n\n", "\n```"),  # a chat model closes the block of code that it thinks it is in
            decoding="suffix",  # code repeats itself: what stood earlier in the file is a good guess
        )
        with self._lock:
            if (older := self._latest.get(editor)) is not None:
                older.cancel()
            handle = self._latest[editor] = self.engine.submit(request, listener)
        return handle

    def forget(self, editor: str, handle: Handle) -> None:
        """End a request, and let go of it, unless the editor has made a newer one."""
        handle.cancel()
        with self._lock:
            if self._latest.get(editor) is handle:
                del self._latest[editor]

    def close(self) -> None:
        """End all requests and the engine."""
        self.engine.close()


def kept_from(length: int, room: int) -> int:
    """Where the part of a long text begins that is read.

    It moves in steps of a quarter. If it moved with each keystroke, nothing that was read before would fit any more.
    """
    step = max(1, room // 4)
    return -(-max(0, length - room) // step) * step
