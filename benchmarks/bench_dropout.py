"""Networks with dropout: all draws in few passes against one pass per draw, and the memory of many inputs.

Nothing is trained: what a pass costs does not depend on the weights.
"""

import functools
from typing import Any

import numpy as np

from benchmarks.measure import MIB, Row, in_child, interleaved, peak_above, row

DRAWS, IMAGES = 100, 1_000


def rows() -> list[Row]:
    """What, at which size, the goal, what this run measured, and whether it meets the goal."""
    return [*_time(), *_memory()]


# ---- time --------------------------------------------------------------------------------------------------------


def _time() -> list[Row]:
    found = in_child(f"{__name__}:against_passes", timeout=900, repeats=1)
    at = f"the paper's CNN, k={DRAWS}, {IMAGES:,} images 28 x 28, float32, {found['threads']} threads each"
    ratio = f"{found['wall']:.1f}x: {found['second']['wall']:.2f} against {found['first']['wall']:.2f} s; "
    cost = f"{found['cpu']:.1f}x in CPU-seconds"
    what = "`DropoutPosterior.predict` against one forward pass in train mode per draw"
    same = f"means differ by {found['mean']:.1f} standard errors at most, spreads by {100 * found['spread']:.0f} %"
    return [
        row(what, at, "at least 2x faster", ratio + cost, found["wall"] >= 2),
        row(
            "the same: distribution over draws of the class probabilities",
            f"the paper's CNN, 4,000 draws each, {found['numbers']} probabilities",
            "means within 4.5 standard errors, spreads within 10 %",
            same,
            found["mean"] < 4.5 and found["spread"] < 0.1,
        ),
    ]


def against_passes(repeats: int) -> dict[str, Any]:
    import torch

    from askwell.models.networks import cnn

    x = np.random.default_rng(0).standard_normal((IMAGES, 1, 28, 28), "float32")
    torch.manual_seed(0)
    net = cnn(10).train()
    posterior = untrained(net, x[:2], DRAWS)
    usual = functools.partial(_usual, net, x, DRAWS)
    posterior.predict(x[:20]), _usual(net, x[:20], 2)
    times = interleaved(usual, functools.partial(posterior.predict, x), repeats=repeats)
    fixed, ordinary = untrained(net, x[:2], 4_000).predict(x[:3]), _usual(net, x[:3], 4_000)
    error = np.sqrt((fixed.var(1) + ordinary.var(1)) / 4_000)
    return times | {
        "threads": torch.get_num_threads(),
        "numbers": error.size,
        "mean": float(np.max(np.abs(fixed.mean(1) - ordinary.mean(1)) / error)),
        "spread": float(np.max(np.abs(fixed.std(1) / ordinary.std(1) - 1))),
    }


def untrained(net: Any, x: np.ndarray, draws: int) -> Any:
    """A posterior on the weights as they are."""
    from askwell.models.dropout import DropoutModel
    from askwell.models.training import ModernTraining
    from askwell.seeds import rng_for

    model = DropoutModel(net, draws=draws, pretrained=True, training=ModernTraining(steps=0), device="cpu")
    return model.fit(x, [0] * len(x), rng=rng_for(0, 0, "fit"), classes=range(10))


def _usual(net: Any, x: np.ndarray, draws: int) -> np.ndarray:
    """Monte Carlo dropout as people write it; another mask for every row."""
    import torch

    inputs = torch.from_numpy(x)
    with torch.no_grad():
        return torch.stack([net(inputs).softmax(-1) for _ in range(draws)], 1).numpy()


# ---- memory ------------------------------------------------------------------------------------------------------


def _memory() -> list[Row]:
    sizes = ((2_000, DRAWS), (20_000, DRAWS), (200_000, DRAWS // 10))
    found = [in_child(f"{__name__}:predict_peak", n=n, draws=draws) for n, draws in sizes]
    more = [each["peak"] - each["output"] for each in found]
    measured = ", ".join(f"{extra:.0f}" for extra in more) + (
        f" MiB above inputs and output ({', '.join(format(each['output'], '.0f') for each in found)} MiB); "
        + found[0]["how"]
    )
    at = f"the paper's MLP, 36 features, c=10, 2,000 and 20,000 inputs with k={DRAWS}, 200,000 with k={DRAWS // 10}"
    goal = "grows only with the output (to 20 MiB)"
    return [row("memory of `DropoutPosterior.predict`", at, goal, measured, max(more) <= more[0] + 20)]


def predict_peak(n: int, draws: int) -> dict[str, Any]:
    from askwell.models.networks import mlp

    x = np.random.default_rng(0).standard_normal((n, 36), "float32")
    posterior = untrained(mlp(36, 10), x[:2], draws)
    posterior.predict(x[:2])  # not as many as fill a pass, or its memory would not be seen
    probs, peak, how = peak_above(functools.partial(posterior.predict, x))
    return {"peak": peak, "output": probs.nbytes / MIB, "how": how}
