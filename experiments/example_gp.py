"""Example 1: observations that tell ever more about a function, and ever less about its values where they matter.

f ~ GP(0, k) with k(x, x') = exp(-(x - x')²), labels y = f(x) + N(0, 1), asked at M, 2M, ..., M²; of interest is f(x*)
for x* in [0, 1]. Both informations are Gaussian and exact: BALD = ½ log det(I + K), which nears ½ M log 2, and
EIG = I(y; f(x*)), whose mean over x* falls as fast as the kernel does.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from askwell.information import gaussian
from askwell.report.figures import styles
from experiments.drawing import judged
from experiments.figure import Figure, Setting, Terms
from experiments.results import Job, Results, Row

__all__ = ["FIGURE"]

SETTING = "Example 1"
LARGEST = {"quick": 12, "standard": 12, "full": 12}
PLACES = np.linspace(0, 1, 101)  # of x*
NAMES = {"bald": "BALD", "eig": "EIG in f(x*)"}


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """The information in nats for M = 1, 2, ...; that in f(x*) is the mean over x* in [0, 1].

    >>> [round(row["nats"], 3) for row in run(Job("Example 1", "bald", 0), Terms(), [])][:3]
    [0.347, 0.693, 1.04]
    """
    for size in range(len(past) + 1, LARGEST[terms.effort] + 1):
        x = size * np.arange(1.0, size + 1)
        prior = _kernel(x, x)
        nats = float(gaussian.joint_bald(prior, 1.0)) if job.score == "bald" else _eig(x, prior)
        yield {"labels": size, "nats": nats}


def draw(results: Results) -> Any:
    """Side by side: BALD, and the information in f(x*) on a logarithmic axis."""
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(8.4, 3.6), layout="constrained", facecolor="white")
    looks = styles(["bald", "epig"])
    for place, (score, look) in enumerate(zip(NAMES, looks.values(), strict=True)):
        axes, found = picture.add_subplot(1, 2, place + 1), results.where(score=score)
        axes.plot(found["labels"], found["nats"], marker="o", color=look.light)
        axes.set_title(NAMES[score], loc="left", fontsize=11, fontweight="bold", parse_math=False)
        axes.set_xlabel("M: labels, and the distance between them")
        axes.grid(axis="y", color="#d9dde2", linewidth=0.8)
        if score == "bald":
            axes.set(ylabel="nats", ylim=(0, None))
        else:
            axes.set_yscale("log")
        for side in ("top", "left", "right"):
            axes.spines[side].set_visible(False)
    return picture


def verdict(results: Results) -> str:
    """A table of both, and whether they go where the example says."""
    bald, eig = (results.where(score=score) for score in NAMES)
    lines = ["| M | BALD | ½ M log 2 | EIG in f(x*) |", "|---|---|---|---|"]
    lines += [
        f"| {size} | {told:.4g} | {size * np.log(2) / 2:.4g} | {useful:.3g} |"
        for size, told, useful in zip(bald["labels"], bald["nats"], eig["nats"], strict=True)
    ]
    grows = bool((np.diff(bald["nats"]) > 0.25).all())  # as much with each label: there is no bound
    falls = bool((np.diff(eig["nats"]) <= 0).all() and eig["nats"][-1] < 1e-12)
    return "\n\n".join(
        [
            "\n".join(lines),
            judged("BALD grows without bound", [grows], ["Example 1"]),
            judged("the information in the prediction of interest goes to zero", [falls], ["Example 1"]),
        ]
    )


def _kernel(x: np.ndarray, x2: np.ndarray) -> np.ndarray:
    gram: np.ndarray = np.exp(-(np.subtract.outer(x, x2) ** 2))
    return gram


def _eig(x: np.ndarray, prior: np.ndarray) -> float:
    """I(y; f(x*)), in the mean over x*."""
    cross = _kernel(x, PLACES).T[:, :, None]  # [places, M, 1]
    noisy = np.broadcast_to(prior + np.eye(len(x)), (len(PLACES), *prior.shape))
    told = gaussian.information_between(noisy, np.ones((len(PLACES), 1, 1)), cross)
    return float(np.mean(told))


FIGURE = Figure(
    name="example_gp",
    content="example 1: BALD grows without bound where EPIG goes to zero",
    claim="As M grows, BALD of the labels at M, 2M, ..., M² goes to infinity and the EIG in f(x*) to zero",
    settings=(Setting(SETTING, tuple(NAMES), dict.fromkeys(LARGEST, 1), LARGEST),),
    run=run,
    draw=draw,
    verdict=verdict,
    columns=("labels", "nats"),
)
