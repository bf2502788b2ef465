"""Networks with dropout: a set of masks, one for each dropout layer, is a draw.

Ordinary Monte Carlo dropout draws new masks for every row and call, so that no two predictions share parameters. Here
the masks belong to the posterior: draw k is the same thinned network for all inputs in all calls, and the distribution
of a single prediction is that of ordinary dropout. `masks.py` says how all draws go through the net in few passes.
"""

import contextlib
import copy
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, final

import numpy as np

from askwell.arrays import Array
from askwell.models.inputs import aligned, column_names
from askwell.models.masks import LAYERS, Dropped
from askwell.models.passes import Forward, Passes, passes, with_outputs
from askwell.models.protocol import check_rng, class_codes
from askwell.models.tensors import (
    Tensor,
    arrays,
    as_tensors,
    chosen_device,
    count,
    mapped,
    nn,
    one_thread,
    rows,
    seeded,
    torch,
)
from askwell.models.training import History, ModernTraining, Training, TrainingTask
from askwell.notebook import brief

__all__ = ["DropoutModel", "DropoutPosterior", "gradient_embeddings"]

OUTPUTS = ("logits", "log_probs", "probs")


@final
@dataclass(frozen=True)
class DropoutModel:
    """Any `nn.Module` with dropout layers: Dropout, Dropout1d, 2d and 3d, AlphaDropout, FeatureAlphaDropout.

    The module is a template and is never trained itself. A fit starts from fresh weights, by the layers' own
    `reset_parameters` (frozen layers keep theirs); with `pretrained` it starts from the module's weights. If the last
    linear layer has not as many outputs as there are classes, the fit's copy gets a new one that has. Instead of
    a module, a function from the number of classes to one will do.

    - `draws`: k, the sets of masks of the posterior.
    - `training`: how to learn, `ModernTraining()` or `PaperTraining()` of `askwell.models.training`.
    - `output`: what the module gives, "logits", "log_probs" or "probs".
    - `logits`: a function of (module, inputs) that gives that output, for modules that are not called with one tensor;
      without it, a dict of inputs is passed by name, and `.logits` is taken of an answer that has it.
    - `validation`: (x, y) for early stopping, if the fit is not given one.
    - `bfloat16`: predict with 8 bits of precision, at about half the cost on processors that have instructions for it;
      probabilities move by some hundredths at most, scores by some thousandths.
    - `device`: "auto" is the GPU where there is one.

    Dropout that is no layer (`nn.functional.dropout`, the `dropout=` of `nn.LSTM` or `nn.MultiheadAttention`) is active
    in training only.

    >>> from askwell.seeds import rng_for
    >>> net = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
    >>> posterior = DropoutModel(net).fit([[0.0], [1.0]], ["no", "yes"], rng=rng_for(0, 0, "fit"))
    >>> posterior.predict([[0.0], [0.5], [1.0]]).shape                       # [n, k, c]
    (3, 100, 2)
    """

    module: Any
    _: KW_ONLY
    draws: int = 100
    training: Training = field(default_factory=ModernTraining)
    pretrained: bool = False
    output: str = "logits"
    logits: Callable[[Any, Any], Tensor] | None = None
    validation: tuple[Any, Any] | None = None
    bfloat16: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.output not in OUTPUTS:
            raise ValueError(f"output must be one of {', '.join(OUTPUTS)}, but it is {self.output!r}.")
        if self.draws < 1:
            raise ValueError(f"draws must be a whole number from 1, but it is {self.draws}.")
        if isinstance(self.module, nn.Module):
            _check_dropout(self.module)
        elif not callable(self.module):
            kind = type(self.module).__name__
            raise ValueError(f"module must be an nn.Module, or make one from a number of classes, but it is {kind}.")

    def fit(
        self,
        x: Any,
        y: Any,
        *,
        rng: np.random.Generator,
        classes: Sequence[Any] | None = None,
        validation: tuple[Any, Any] | None = None,
    ) -> "DropoutPosterior":
        """The posterior whose draws are masks over one trained net; the same rng gives the same posterior."""
        codes, known = class_codes(y, classes)
        check_rng(rng)
        device = chosen_device(self.device)
        masks_seed, net_seed = (int(seed) for seed in rng.integers(2**63, size=2))
        with seeded(net_seed, device=device):
            net = self._fresh(len(known)).to(device)
            door = _Door(x, net)
            data = door.labelled(x, codes, device)
            held = validation or self.validation
            checked = None if held is None else door.labelled(held[0], class_codes(held[1], known)[0], device)
            with one_thread() if device == "cpu" else contextlib.nullcontext():  # it tries two inputs only
                ways, task = self._task(net, data, checked, len(known))
            alone = device == "cpu" and ways.is_small(len(codes))
            with one_thread() if alone else contextlib.nullcontext():
                history = self.training.train(task, rng=rng)
        ways = ways.rounded() if self.bfloat16 else ways
        return DropoutPosterior(known, ways, self.draws, masks_seed, door, history, self.device)

    def _fresh(self, classes: int) -> Any:
        """A net to train; its weights come from torch's global generator, which is seeded here."""
        if not isinstance(self.module, nn.Module):
            return _check_dropout(self.module(classes))
        net = copy.deepcopy(self.module)
        for layer in () if self.pretrained else net.modules():
            reset = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
            own = list(layer.parameters())
            if reset is not None and (not own or any(part.requires_grad for part in own)):
                reset()
        return net

    def _task(self, net: Any, data: tuple[Any, Tensor], checked: Any, classes: int) -> tuple[Passes, TrainingTask]:
        forward = Forward(self.logits, self.output)
        x, codes = data
        two = rows(x, [0, min(1, len(codes) - 1)])
        net, head = with_outputs(net, forward, two, classes)
        ways = passes(net, head, forward, two)
        net.train()
        return ways, TrainingTask(net, lambda part: forward.log_probs(net, part), ways.predictive, x, codes, checked)


@final
class _Door:
    """What inputs must look like: as those of the fit."""

    def __init__(self, x: Any, net: Any) -> None:
        self.ids = any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in net.modules())
        self.names = column_names(x)
        self.shape = mapped(lambda part: tuple(part.shape[1:]), arrays(x))

    def arrays(self, x: Any) -> Any:
        """Inputs as arrays; the columns of a data frame in the order of the fit."""
        return arrays(aligned(x, self.names))

    def tensors(self, x: Any, device: str) -> Any:
        """Inputs as tensors; numbers must have the shape of the fit's, ids may be of any length."""
        result = as_tensors(x, device=device, ids=self.ids)
        if isinstance(x, dict) != isinstance(self.shape, dict):
            raise ValueError("x must be of the kind the model was fitted with: a dict of arrays, or an array.")
        if not isinstance(x, dict) and result.is_floating_point() and tuple(result.shape[1:]) != self.shape:
            wanted = ", ".join(str(size) for size in ("n", *self.shape))
            raise ValueError(
                f"x must have the shape [{wanted}] as in the fit, but its shape is {tuple(result.shape)}. "
                "Try x[None] for a single input."
            )
        return result

    def labelled(self, x: Any, codes: np.ndarray, device: str) -> tuple[Any, Tensor]:
        """Inputs and labels as tensors."""
        x = self.arrays(x)
        if count(x) != len(codes):
            raise ValueError(
                f"x and y must be of the same length, but they have {count(x)} and {len(codes)}. Give one label for "
                "each row."
            )
        return self.tensors(x, device), torch.as_tensor(codes, device=device)


@final
@dataclass(frozen=True, eq=False)
class DropoutPosterior:
    """Thinned networks as draws: one trained net, k sets of masks."""

    __repr__ = brief

    classes: tuple[Any, ...]
    passes: Passes
    draws: int
    seed: int  # of the masks
    door: _Door
    history: History  # (step, validation loss) of the training
    device: str

    def predict(self, x: Any) -> Array:
        """Class probabilities `[n, k, c]`, float32: NumPy for NumPy, a tensor on the same device for a tensor.

        Needs memory for the answer and for one pass, however many inputs there are.
        """
        x = self.door.arrays(x)
        like = next(iter(x.values())) if isinstance(x, dict) else x
        shape = (count(x), self.draws, len(self.classes))
        tensors, device = isinstance(like, torch.Tensor), chosen_device(self.device)
        out = torch.empty(shape, device=like.device) if tensors else np.empty(shape, np.float32)

        def work(way: Passes, span: slice, several: list[range]) -> None:
            now, before = self.door.tensors(rows(x, span), device), list[Tensor]()
            for part in several:
                probs = way.run(now, Dropped(count(now), part, self.seed, before=before)).exp()
                out[span, part.start : part.stop] = probs if tensors else probs.cpu().numpy()

        self.passes.net.to(device)
        self.passes.each(work, count(x), self.draws, device)
        return out

    def __getstate__(self) -> dict[str, Any]:
        """On the CPU: the other process may have no GPU."""
        return self.__dict__ | {"passes": replace(self.passes, net=copy.deepcopy(self.passes.net).cpu())}


def gradient_embeddings(posterior: DropoutPosterior, x: Any) -> np.ndarray:
    """BADGE's embeddings `[n, c*h]`: the gradient of the loss at the predicted label by the last layer's weights.

    With p = 1/k sum_k p_k the mean prediction and y its most probable class, the loss is -log p(y), and its gradient by
    the weights `[c, h]` of the last linear layer is

        sum_k w_k (p_k - e_y) outer h_k,    w_k = p_k(y) / sum_j p_j(y)

    with h_k the layer's input under draw k: that of the mean prediction itself, not the mean of the draws' gradients.

    >>> from askwell.seeds import rng_for
    >>> net = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
    >>> posterior = DropoutModel(net).fit([[0.0], [1.0]], ["no", "yes"], rng=rng_for(0, 0, "fit"))
    >>> gradient_embeddings(posterior, [[0.0], [0.5], [1.0]]).shape           # [n, c*h]
    (3, 64)
    """
    x, device = posterior.door.arrays(x), chosen_device(posterior.device)

    def work(way: Passes, span: slice, several: list[range]) -> np.ndarray:
        now, hidden, before = posterior.door.tensors(rows(x, span), device), list[Tensor](), list[Tensor]()
        sides = []
        for part in several:
            log_probs = way.run(now, Dropped(count(now), part, posterior.seed, hidden=hidden, before=before))
            sides.append((log_probs, _by_draw(hidden, log_probs)))
        return np.asarray(_gradients(*(torch.cat(side, 1) for side in zip(*sides, strict=True))).cpu())

    posterior.passes.net.to(device)
    result = posterior.passes.each(work, count(x), posterior.draws, device)
    return np.concatenate(result) if result else np.empty((0, 0), np.float32)


def _by_draw(hidden: list[Tensor], log_probs: Tensor) -> Tensor:
    """What came into the last linear layer, `[b, k, h]`."""
    b, k = log_probs.shape[:2]
    if not hidden or hidden[0].ndim != 2:
        raise ValueError(
            "gradient embeddings need a module whose logits come from a linear layer of [inputs, h], but this one's do "
            "not."
        )
    return hidden[0].float().reshape(b, -1, hidden[0].shape[1]).expand(b, k, -1)


def _gradients(log_probs: Tensor, hidden: Tensor) -> Tensor:
    """sum_k w_k (p_k - e_y) outer h_k, `[b, c*h]`."""
    label = log_probs.logsumexp(1).argmax(1)  # [b]
    at_label = log_probs.gather(2, label[:, None, None].expand(-1, log_probs.shape[1], 1))  # [b, k, 1]
    error = log_probs.exp() - nn.functional.one_hot(label, log_probs.shape[2])[:, None]  # [b, k, c]
    return ((at_label.softmax(1) * error).transpose(1, 2) @ hidden).flatten(1)  # [b, c*h]


def _check_dropout(module: Any) -> Any:
    """The module, which must have dropout layers."""
    layers = [layer for layer in module.modules() if isinstance(layer, LAYERS)]
    if not any(layer.p > 0 for layer in layers):
        raise ValueError(
            f"module must have dropout layers with p > 0, whose masks are the draws, but {type(module).__name__} has "
            f"{'only p = 0' if layers else 'none'}. Add nn.Dropout(0.1) behind an activation, or take an ensemble."
        )
    return module
