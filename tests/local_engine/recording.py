"""Recording on a CPU as a GPU does it: a recording knows where its tensors were, and keeps none of them."""

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["Recordings"]

aten = torch.ops.aten


class _Place:
    """Where a tensor was. What was made while recording is held; what was there before may be gone."""

    def __init__(self, tensor, made):
        storage = tensor.untyped_storage()
        self.key = storage._cdata
        self.held = storage if self.key in made else None
        self.weak = StorageWeakRef(storage)
        self.geometry = tensor.storage_offset(), tensor.shape, tensor.stride()
        self.dtype = tensor.dtype

    def read(self, recordings):
        """The tensor that is there now; rubbish where its memory has been freed."""
        storage = self.held or torch.UntypedStorage._new_with_weak_ptr(self.weak.cdata)
        if storage is not None:
            return torch.empty(0, dtype=self.dtype).set_(storage, *self.geometry)
        recordings.freed += 1
        rubbish = torch.nan if self.dtype.is_floating_point else True if self.dtype is torch.bool else 2**40
        return torch.full(self.geometry[1], rubbish, dtype=self.dtype)


class _Tape(TorchDispatchMode):
    """Writes operations down while they run."""

    def __init__(self):
        super().__init__()
        self.calls, self.made, self.storages = [], set(), []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if operation in (aten._local_scalar_dense.default, aten.nonzero.default):
            raise RuntimeError("operation not permitted when stream is capturing")
        given = tree_map(self.place, (args, kwargs or {}))
        known = {_Place(each, self.made).key for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)}
        out = operation(*args, **(kwargs or {}))
        for each in tree_leaves(out):
            if isinstance(each, torch.Tensor) and each.untyped_storage()._cdata not in known:
                self.made.add(each.untyped_storage()._cdata)
                self.storages.append(each.untyped_storage())
        self.calls.append((operation, given, tree_map(self.place, out)))
        return out

    def place(self, value):
        return _Place(value, self.made) if isinstance(value, torch.Tensor) else value


class Recordings:
    """A recorder of `GraphedForward`.

    Attributes:
        made: recordings.
        repeated: how often any of them was repeated.
        freed: tensors that a recording read after their memory had been freed.
    """

    def __init__(self):
        self.made = self.repeated = self.freed = 0

    def __call__(self, run):
        self.made += 1
        with _Tape() as tape:
            last = tape.place(run())
        calls = tape.calls

        def replay():
            self.repeated += 1
            for operation, given, out in calls:
                args, kwargs = tree_map(self._read, given)
                found = operation(*args, **kwargs)
                for new, place in zip(tree_leaves(found), tree_leaves(out), strict=True):
                    if isinstance(place, _Place) and new.untyped_storage()._cdata != place.key:
                        place.read(self).copy_(new)
            return last.read(self)

        return replay

    def _read(self, value):
        return value.read(self) if isinstance(value, _Place) else value
