"""All draws of a network in few passes, whatever the module looks like from outside.

Sharing what comes before the first dropout layer is tried on two inputs and compared with the plain way, which repeats
the inputs for every draw. Where a module will not have it (a skip past the first dropout layer, an attention mask that
was made before it), the plain way is used.
"""

import copy
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, TypeAlias, final

from askwell.arrays import keep_freed_memory, spans, threads
from askwell.models.masks import Dropped, drop, fuse, once, same_weights, with_fixed_masks
from askwell.models.tensors import Tensor, count, mapped, nn, one_thread, rows, torch

__all__ = ["Forward", "Passes", "passes", "with_outputs"]

PASS_BYTES = {"cpu": 1 << 22, "cuda": 1 << 28}  # of the largest output of a layer: on the CPU it stays in cache
MOST_WORKERS = 16  # each holds a few such outputs
SMALL_BYTES = 1 << 19  # of the largest output of a layer
TOLERANCE = 1e-3  # of log-probabilities of the same draw by two ways


@final
@dataclass(frozen=True)
class Forward:
    """How to call a module, and what it answers."""

    logits: Callable[[Any, Any], Tensor] | None = None
    output: str = "logits"

    def raw(self, net: Any, x: Any) -> Tensor:
        """The module's own output, `[rows, c]`."""
        if self.logits is not None:
            return self.logits(net, x)
        result = net(**x) if isinstance(x, dict) else net(x)
        result = getattr(result, "logits", result)
        return result[0] if isinstance(result, tuple) else result

    def log_probs(self, net: Any, x: Any) -> Tensor:
        """Log-probabilities `[rows, c]`."""
        result = self.raw(net, x).float()
        if self.output == "probs":
            return result.clamp_min(torch.finfo(result.dtype).tiny).log()
        # Classes are few: with the rows side by side, torch takes many at a time.
        return nn.functional.log_softmax(result.mT.contiguous(), -2).mT


@final
@dataclass(frozen=True, eq=False)
class Passes:
    """A net with fixed masks, and how much of it goes through at once."""

    net: Any
    forward: Forward
    shared: bool  # what comes before the first dropout layer is computed once for all draws
    bfloat16: bool = False  # the net's weights are, and what goes through it is
    input_bytes: int = 1  # of the largest output of a layer before the first dropout, per input
    row_bytes: int = 1  # of the largest output of a layer behind it, per input and draw

    def run(self, x: Any, now: Dropped) -> Tensor:
        """Log-probabilities `[b, k, c]` of b inputs, in one pass."""
        if self.bfloat16:
            x = mapped(lambda part: part.bfloat16() if part.is_floating_point() else part, x)
        if not self.shared:
            x = mapped(lambda part: part.repeat_interleave(len(now.draws), 0), x)
        return drop(lambda: self.forward.log_probs(self.net, x), now)

    def chunks(self, n: int, draws: int, device: str) -> tuple[list[slice], list[range]]:
        """Which inputs to run at once, and which draws of them."""
        budget = PASS_BYTES.get(torch.device(device).type, PASS_BYTES["cuda"])
        several = min(draws, max(1, budget // self.row_bytes))
        inputs = max(1, min(budget // (self.row_bytes * several), budget // self.input_bytes))
        return list(spans(n, inputs)), [range(part.start, part.stop) for part in spans(draws, several)]

    def each(self, work: "ChunkWork", n: int, draws: int, device: str) -> list[Any]:
        """What `work(passes, inputs, draws)` gives for all inputs, chunk by chunk; on the CPU several at a time."""
        parts, several = self.chunks(n, draws, device)
        if torch.device(device).type != "cpu":
            return [work(self, span, several) for span in parts]
        number = max(1, min(threads(), MOST_WORKERS, len(parts)))
        idle: SimpleQueue[Passes] = SimpleQueue()
        for i in range(number):  # layers of their own: the user's may leave things on themselves while they run
            idle.put(replace(self, net=same_weights(self.net)) if i else self)

        def job(span: slice) -> Any:
            mine = idle.get()
            try:
                return work(mine, span, several)
            finally:
                idle.put(mine)

        keep_freed_memory()
        with one_thread():
            if number == 1:
                return [job(span) for span in parts]
            with ThreadPoolExecutor(number, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                return list(pool.map(job, parts))

    def is_small(self, n: int) -> bool:
        """Whether n inputs at once are too little work for torch's threads."""
        return n * max(self.input_bytes, self.row_bytes) < SMALL_BYTES

    def rounded(self) -> "Passes":
        """The same net in bfloat16: its weights, with 8 bits of precision, and all that goes through it."""
        return replace(self, net=copy.deepcopy(self.net).bfloat16(), bfloat16=True)

    def predictive(self, x: Any, draws: int, seed: int) -> Tensor:
        """The log of the draws' mean probability, `[n, c]`."""

        def work(way: Passes, span: slice, several: list[range]) -> Tensor:
            now, before = rows(x, span), list[Tensor]()
            dropped = [Dropped(count(now), part, seed, before=before) for part in several]
            result = [way.run(now, each).logsumexp(1) for each in dropped]  # [b, c] each
            return torch.stack(result).logsumexp(0)

        device = next(iter(self.net.parameters())).device
        return torch.cat(self.each(work, count(x), draws, str(device))) - math.log(draws)


ChunkWork: TypeAlias = Callable[[Passes, slice, list[range]], Any]
"""What is done with a chunk: the passes to run, which inputs, and the draws that go through together."""


def passes(net: Any, head: Any, forward: Forward, two: Any) -> Passes:
    """The fastest way that gives what the plain way gives on two inputs; follows the net through its training."""
    slow = Passes(with_fixed_masks(net, head=head), forward, shared=False)
    now = Dropped(2, range(3), 0)
    wanted = slow.run(two, now)
    if not now.calls:
        raise ValueError("module must use its dropout layers, but its forward calls none of them in eval mode.")
    alone = slow.run(rows(two, slice(0, 1)), Dropped(1, range(3), 0))
    if not _close(alone, wanted[:1]):
        raise ValueError(
            "module must treat the rows of a batch apart, but an input alone gets another answer than in company. "
            "Layers that want [time, batch, features] take batch_first=True."
        )
    fast = fuse(with_fixed_masks(net, head=head))
    if isinstance(two, dict):  # one of them may be a mask for later layers, and looked at only where it hides something
        ways = [Passes(fast, forward, shared=False)]
    else:
        ways = [
            Passes(once(fast) if forward.logits is None else fast, forward, shared=True),
            replace(slow, shared=True),
        ]
    return _measured(next((way for way in ways if _agrees(way, two, wanted)), slow), two)


def _agrees(way: Passes, two: Any, wanted: Tensor) -> bool:
    try:
        return _close(way.run(two, Dropped(2, range(3), 0)), wanted)
    except Exception:  # the module is the user's: whatever it raises, this way is not for it
        return False


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(torch.allclose(a, b, atol=TOLERANCE, rtol=TOLERANCE))


def _measured(way: Passes, two: Any) -> Passes:
    """With the bytes of the largest layer's output."""
    largest = {2: 1, 6: 1}  # [b, ...] and [b*k, ...]

    def look(_layer: Any, _given: Any, out: Any) -> None:
        if isinstance(out, torch.Tensor) and out.ndim and len(out) in largest:
            largest[len(out)] = max(largest[len(out)], out.numel() * out.element_size())

    hooks = [layer.register_forward_hook(look) for layer in way.net.modules()]
    way.run(two, Dropped(2, range(3), 0))
    for hook in hooks:
        hook.remove()
    return replace(way, input_bytes=largest[2] // 2 + 1, row_bytes=largest[6] // 6 + 1)


def with_outputs(net: Any, forward: Forward, two: Any, classes: int) -> tuple[Any, Any]:
    """(the net with one output per class, its last linear layer or None); a last layer of another width is replaced."""
    out, head = _last_linear(net, forward, two)
    if out.shape[1] != classes and head is not None:
        new = nn.Linear(head.in_features, classes, bias=head.bias is not None).to(head.weight.device)
        for parent in net.modules():
            parent._modules.update({name: new for name, layer in parent._modules.items() if layer is head})
        out, head = _last_linear(net, forward, two)
    if out.shape[1] != classes:
        raise ValueError(
            f"module must give one number per class, {classes}, but it gives {out.shape[1]}. Pass a function from the "
            "number of classes to a module instead."
        )
    if forward.output == "logits" and bool((out >= 0).all()) and _close(out.sum(1), torch.ones_like(out[:, 0])):
        raise ValueError('module must give logits, but it seems to end in a softmax. Pass output="probs".')
    return net, head


def _last_linear(net: Any, forward: Forward, two: Any) -> tuple[Tensor, Any]:
    """The net's output for two inputs, and the linear layer that made it, perhaps but for a softmax."""
    met: list[tuple[Any, Any]] = []
    hooks = [layer.register_forward_hook(lambda layer, _, out: met.append((layer, out))) for layer in net.modules()]
    net.eval()
    try:
        with torch.no_grad():
            out = forward.raw(net, two)
    except (RuntimeError, TypeError, IndexError) as error:
        shapes = mapped(lambda part: tuple(part.shape), two)
        raise ValueError(
            f"module must take x, but for two inputs of shape {shapes} it says: {error}. Its first layer must fit the "
            "features of x; a module that is called in another way fits with logits=, a function of (module, inputs)."
        ) from error
    for hook in hooks:
        hook.remove()
    if out.ndim != 2 or len(out) != 2:
        raise ValueError(
            f"module must give [inputs, classes], but for 2 inputs it gives {tuple(out.shape)}. A module of another "
            "kind fits with logits=, a function of (module, inputs)."
        )
    made = ((layer, given) for layer, given in reversed(met) if isinstance(layer, nn.Linear))
    layer, given = next(made, (None, out))
    same = any(_close(form, out) for form in (given, given.softmax(-1), given.log_softmax(-1)))
    return out, layer if same else None
