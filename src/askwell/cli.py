"""The command line: parse, call, print."""

import click
import numpy as np
from scipy.special import ndtr

import askwell
from askwell.seeds import rng_for

__all__ = ["main"]

BARS = " ▁▂▃▄▅▆▇█"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(askwell.__version__, prog_name="askwell")
def main() -> None:
    """Which examples to label next, so that a model predicts well on the inputs you care about."""


@main.command()
@click.option("--seed", default=0, show_default=True, help="Of the posterior draws.")
@click.option("--draws", default=500, show_default=True, type=click.IntRange(min=2), help="Of the posterior.")
def demo(seed: int, draws: int) -> None:
    """Show what BALD and EPIG would ask on a line with two labels, when predictions are wanted near x = 2."""
    x, targets = np.linspace(-6, 6, 97), np.linspace(1.5, 2.5, 20)
    labelled = np.array([-0.5, 0.5])
    probs = _posterior(np.concatenate([x, targets]), labelled, np.array([-1.5, 1.5]), draws, seed)
    pool, target = probs[: len(x)], probs[len(x) :]
    scores = {"entropy": askwell.entropy(pool), "BALD": askwell.bald(pool), "EPIG": askwell.epig(pool, target)}

    click.echo(
        f"A pool on the line, two labels, {draws} posterior draws. Predictions are wanted on the targets only.\n"
    )
    click.echo(_strip("labels", x, labelled, "01"))
    click.echo(_strip("targets", x, targets, "▔" * len(targets)))
    for name, score in scores.items():
        levels = np.rint(score / score.max() * (len(BARS) - 1)).astype(int)
        best = x[int(np.argmax(score))]
        click.echo(f"{name:>9} {''.join(BARS[level] for level in levels)}  asks at x = {best:5.2f}")
    click.echo(f"{'':>9} {'-6':<48}{'0':<47}6\n")
    click.echo(
        f"EPIG has {askwell.signal(pool, target, warn=False):.1f} times the signal of unrelated draws (1 is chance)."
    )
    (best,), (score,) = askwell.top_epig(pool, target, 1)
    click.echo(f"A label at x = {x[best]:.2f} is expected to tell {score:.3f} nats about a target's label.")


def _posterior(x: np.ndarray, labelled: np.ndarray, values: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """`[n, k, 2]` probabilities of a probit Gaussian process that was told its function at the labelled inputs."""

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        covariance: np.ndarray = 4 * np.exp(-((a[:, None] - b) ** 2) / 2)
        return covariance

    gain = np.linalg.solve(kernel(labelled, labelled) + 0.1 * np.eye(len(labelled)), kernel(labelled, x)).T
    covariance = kernel(x, x) - gain @ kernel(labelled, x)
    spread, axes = np.linalg.eigh(covariance)
    noise = rng_for(seed, 0, "demo draws").standard_normal((draws, len(x)))
    latent = gain @ values + noise @ (axes * np.sqrt(np.clip(spread, 0, None))).T  # [k, n]
    return np.stack([ndtr(-latent), ndtr(latent)], axis=-1).swapaxes(0, 1)  # [n, k, 2]


def _strip(name: str, x: np.ndarray, places: np.ndarray, marks: str) -> str:
    """A line of text with marks at places on x."""
    line = [" "] * len(x)
    for place, mark in zip(places, marks, strict=True):
        line[int(np.argmin(abs(x - place)))] = mark
    return f"{name:>9} {''.join(line)}"
