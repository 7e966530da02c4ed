"""Muon for the matrices, AdamW for everything else.

Muon: Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024): momentum whose update is
replaced by the nearest semi-orthogonal matrix, found by five Newton-Schulz steps.  AdamW: Loshchilov and Hutter,
arXiv:1711.05101.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import cast

import torch
from torch import Tensor, nn

__all__ = ["Optimiser", "orthogonalised"]

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalised(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """Each of ``matrices``  # [count, rows, columns]  with its singular values driven towards one.

    Computed in ``dtype``: bfloat16 is exact enough, but on a machine without it this was two thirds of a step.
    """
    wide = matrices.shape[1] <= matrices.shape[2]
    state = matrices.to(dtype) if wide else matrices.to(dtype).transpose(1, 2)
    state = state / (state.norm(dim=(1, 2), keepdim=True) + 1e-7)
    first, second, third = _COEFFICIENTS
    for _ in range(5):
        gram = state @ state.transpose(1, 2)  # [count, rows, rows]
        gram = torch.baddbmm(gram, gram, gram, beta=second, alpha=third)
        state = torch.baddbmm(state, gram, state, beta=first)
    result: Tensor = (state if wide else state.transpose(1, 2)).to(matrices.dtype)
    return result


class Optimiser:
    """Both optimisers behind one :meth:`step`; its state is a flat mapping of tensors, fit for safetensors."""

    def __init__(
        self,
        network: nn.Module,
        dtype: torch.dtype,
        *,
        matrix_rate: float = 0.02,
        other_rate: float = 0.003,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.98),
        decay: float = 0.02,
    ) -> None:
        self.dtype = dtype
        self.matrix_rate, self.other_rate, self.momentum, self.betas, self.decay = (
            matrix_rate,
            other_rate,
            momentum,
            betas,
            decay,
        )
        self.others: dict[str, nn.Parameter] = {}
        shapes: dict[tuple[int, ...], dict[str, nn.Parameter]] = defaultdict(dict)
        for name, parameter in network.named_parameters():
            if parameter.ndim == 3 or (parameter.ndim == 2 and "embed" not in name and "norm" not in name):
                shapes[tuple(parameter.shape)][name] = parameter
            else:
                self.others[name] = parameter
        self.groups = [
            dict(list(group.items())[at : at + 4]) for group in shapes.values() for at in range(0, len(group), 4)
        ]
        """Matrices of one shape, or of a stack of them, updated together."""
        self.state: dict[str, Tensor] = {}
        for group in self.groups:
            for name, parameter in group.items():
                self.state[f"momentum.{name}"] = torch.zeros_like(parameter)
        for name, parameter in self.others.items():
            self.state[f"first.{name}"] = torch.zeros_like(parameter)
            self.state[f"second.{name}"] = torch.zeros_like(parameter)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take over a saved state."""
        for name, tensor in self.state.items():
            tensor.copy_(state[name])

    def step(self, number: int, factor: float, workers: Executor) -> None:
        """Update every parameter from its gradient and clear the gradients, shared out among ``workers``.

        ``number`` counts steps from one; ``factor`` scales both learning rates.
        """
        for name, parameter in [*self.others.items(), *(pair for group in self.groups for pair in group.items())]:
            if parameter.grad is None:
                raise ValueError(f"{name} has no gradient: call backward first")
        jobs = [workers.submit(self._update_others, number, factor)]
        jobs += [workers.submit(self._update_matrices, group, factor) for group in self.groups]
        for job in jobs:
            job.result()

    @torch.no_grad()
    def _update_matrices(self, group: Mapping[str, nn.Parameter], factor: float) -> None:
        updates = []
        for name, parameter in group.items():
            momentum = self.state[f"momentum.{name}"]
            gradient = cast("Tensor", parameter.grad)
            momentum.lerp_(gradient, 1 - self.momentum)
            updates.append(gradient.lerp(momentum, self.momentum))  # Nesterov's look ahead
        rows, columns = updates[0].shape[-2:]
        rate = self.matrix_rate * factor
        scale = max(1.0, rows / columns) ** 0.5
        found = orthogonalised(torch.stack(updates).view(-1, rows, columns), self.dtype).chunk(len(updates))
        for parameter, update in zip(group.values(), found, strict=True):
            parameter.mul_(1 - rate * self.decay)
            parameter.add_(update.view_as(parameter), alpha=-rate * scale)
            parameter.grad = None

    @torch.no_grad()
    def _update_others(self, number: int, factor: float) -> None:
        small, large = self.betas
        rate = self.other_rate * factor
        for name, parameter in self.others.items():
            gradient = cast("Tensor", parameter.grad)
            first, second = self.state[f"first.{name}"], self.state[f"second.{name}"]
            first.lerp_(gradient, 1 - small)
            second.mul_(large).addcmul_(gradient, gradient, value=1 - large)
            spread = (second / (1 - large**number)).sqrt_().add_(1e-8)
            parameter.addcdiv_(first, spread, value=-rate / (1 - small**number))
            parameter.grad = None
