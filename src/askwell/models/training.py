"""How a network learns from a few labels: the paper's way, and a much cheaper one.

A `Training` is given a `TrainingTask` (the net, and functions of it), changes the net's parameters and gives back the
validation losses it saw, as (step, negative log-likelihood) pairs.
"""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from askwell.models.tensors import Tensor, count, nn, rows, torch

__all__ = ["History", "ModernTraining", "PaperTraining", "Training", "TrainingTask"]

History = tuple[tuple[int, float], ...]


@final
@dataclass(frozen=True)
class TrainingTask:
    """What a training is given: n labelled inputs and a net."""

    net: Any
    log_probs: Callable[[Any], Tensor]  # inputs -> [n, c], by the net as it is now; in train mode with ordinary dropout
    predictive: Callable[[Any, int, int], Tensor]  # (inputs, draws, seed) -> log of the draws' mean probability [n, c]
    x: Any
    codes: Tensor  # [n], of the labels
    validation: tuple[Any, Tensor] | None = None

    def loss(self, x: Any, codes: Tensor) -> Tensor:
        """The negative log-likelihood of one ordinary dropout sample per example."""
        return nn.functional.nll_loss(self.log_probs(x), codes)

    def validation_loss(self, draws: int, seed: int) -> float:
        """The negative log-likelihood of the draws' mean prediction on the validation set."""
        assert self.validation is not None
        x, codes = self.validation
        return float(nn.functional.nll_loss(self.predictive(x, draws, seed), codes))


class Training(Protocol):
    """What can train a net."""

    def train(self, task: TrainingTask, *, rng: np.random.Generator) -> History:
        """Change the parameters of `task.net`; torch's global generators are seeded when this is called."""


@final
@dataclass(frozen=True, kw_only=True)
class PaperTraining:
    """The paper's: full-batch SGD, stopped early by the negative log-likelihood of a validation set.

    The settings are the perceptron's; the authors' for the images are `learning_rate=0.01, validate_every=100,
    patience=5_000`. `restore` puts the weights of the best validation back at the end, as the paper says; with False
    the net keeps its last ones, as the authors' code does, whose saved weights are the live ones by another name.
    Without a validation set one label in five is held out.
    """

    learning_rate: float = 0.1
    weight_decay: float = 1e-4
    steps: int = 50_000
    patience: int = 10_000  # steps without a better validation
    validate_every: int = 50
    samples: int = 100  # draws of a validation
    restore: bool = True

    def train(self, task: TrainingTask, *, rng: np.random.Generator) -> History:
        """Step until `patience` steps have brought nothing better."""
        task = _with_validation(task, rng)
        optimiser = torch.optim.SGD(task.net.parameters(), self.learning_rate, weight_decay=self.weight_decay)
        best = _Best(task, self.samples, self.restore)
        for step in range(self.steps + 1):
            if step % self.validate_every == 0 and best.look(step, rng) >= self.patience:
                break
            if step < self.steps:
                _step(optimiser, task.loss(task.x, task.codes))
        return best.end()


@final
@dataclass(frozen=True, kw_only=True)
class ModernTraining:
    """AdamW on mini-batches, the step size rising over the first tenth of the steps and then falling as a cosine.

    All labels are learnt from and the number of steps is fixed: with 20 to 300 labels there is none to spare for early
    stopping, and dropout, weight decay and the falling step size keep the net from running away. With a validation set,
    the weights of the best of `validations` looks at it are kept. `bfloat16` computes the products of a step with 8
    bits of precision (autocast; weights, loss and optimiser stay float32) and images with their channels last: for
    convolutions, on processors that have instructions for it; a small perceptron only waits for the conversions.
    """

    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    steps: int = 300
    batch: int = 32
    validations: int = 10
    samples: int = 100  # draws of a validation
    bfloat16: bool = False

    def train(self, task: TrainingTask, *, rng: np.random.Generator) -> History:
        """All steps; the best weights if there is a validation set, otherwise the last."""
        parameters = [part for part in task.net.parameters() if part.requires_grad]
        fused = all(part.device.type in ("cpu", "cuda") for part in parameters)  # one call a step for all parameters
        optimiser = torch.optim.AdamW(parameters, self.learning_rate, weight_decay=self.weight_decay, fused=fused)
        every = math.ceil(self.steps / self.validations) if task.validation is not None else self.steps + 1
        best = _Best(task, self.samples, restore=True)
        if self.bfloat16:
            task.net.to(memory_format=torch.channels_last)
        for step, index in zip(range(1, self.steps + 1), _batches(len(task.codes), self.batch, rng), strict=False):
            optimiser.param_groups[0]["lr"] = self.learning_rate * self._share(step)
            with torch.autocast(task.codes.device.type, torch.bfloat16, enabled=self.bfloat16):
                loss = task.loss(rows(task.x, index), task.codes[index])
            _step(optimiser, loss)
            if step % every == 0:
                best.look(step, rng)
        return best.end()

    def _share(self, step: int) -> float:
        """Of the largest step size."""
        rise = max(1, self.steps // 10)
        if step <= rise:
            return step / rise
        return 0.5 + 0.5 * math.cos(math.pi * (step - rise) / (self.steps + 1 - rise))


@final
class _Best:
    """The best validation so far, and its weights."""

    def __init__(self, task: TrainingTask, samples: int, restore: bool) -> None:
        self.task, self.samples, self.restore = task, samples, restore
        self.seen: list[tuple[int, float]] = []
        self.step, self.loss = 0, math.inf
        self.weights: Any = None

    def look(self, step: int, rng: np.random.Generator) -> int:
        """Validate; how many steps ago the best was."""
        loss = self.task.validation_loss(self.samples, int(rng.integers(2**63)))
        self.seen.append((step, loss))
        if loss < self.loss:
            self.step, self.loss = step, loss
            if self.restore:  # a copy: the state dict itself holds the live weights, which go on changing
                self.weights = copy.deepcopy(self.task.net.state_dict())
        return step - self.step

    def end(self) -> History:
        """Put the best weights back, if wanted."""
        if self.weights is not None:
            self.task.net.load_state_dict(self.weights)
        return tuple(self.seen)


def _step(optimiser: Any, loss: Tensor) -> None:
    for group in optimiser.param_groups:  # what zero_grad does, without its bookkeeping: a tenth of a small net's step
        for parameter in group["params"]:
            parameter.grad = None
    loss.backward()
    optimiser.step()


def _batches(n: int, size: int, rng: np.random.Generator) -> Iterator[Any]:
    """Endless mini-batches of nearly equal size: batch normalisation cannot learn from a single example."""
    while True:
        for part in np.array_split(rng.permutation(n), math.ceil(n / size)):
            yield torch.from_numpy(part)


def _with_validation(task: TrainingTask, rng: np.random.Generator) -> TrainingTask:
    """The task, with one label in five held out if it has no validation set."""
    if task.validation is not None:
        return task
    n = count(task.x)
    order = torch.from_numpy(rng.permutation(n))
    held, rest = order[: n // 5], order[n // 5 :]
    if len(held) == 0:
        raise ValueError(
            f"early stopping needs a validation set, and {n} labels are too few to hold one out. Give "
            "validation=(x, y), or train with ModernTraining, which needs none."
        )
    validation = (rows(task.x, held), task.codes[held])
    return TrainingTask(task.net, task.log_probs, task.predictive, rows(task.x, rest), task.codes[rest], validation)
