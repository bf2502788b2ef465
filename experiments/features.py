"""What to show a model of texts and images: words or pixels, or what a net that was trained elsewhere makes of them.

Each data set is cut to 1,200 examples at most, drawn once. A seed draws 20, 50, 100 and 200 of them at random to learn
from, each set within the next, and tests on those that are left. The features are made as a project makes them
(`askwell.project.features`): of all examples, without labels, cut to 50 or 64 numbers. The nets are those that
`askwell init --features minilm` and `mobilenet` use; nothing of them is trained here.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from askwell.data import Items
from askwell.models import as_model, model_named
from askwell.models.protocol import mean_predict
from askwell.project.features import make_features
from askwell.seeds import rng_for
from experiments import data
from experiments.figure import Figure, Setting, Terms
from experiments.results import Job, Results, Row

__all__ = ["FIGURE", "IMAGES", "LABELS", "TEXTS", "run"]

TEXTS = ("sources", "chats", "tweets", "movieReviewSnippets", "amazonReviewSnippets")
IMAGES = ("mnist", "digits", "fashion", "emoji")
WAYS = {"text": ("text", "minilm"), "image": ("pixels", "mobilenet")}  # the simple default, and the net
MODELS = ("linear", "forest")
LABELS = (20, 50, 100, 200)
MOST = 1_200  # examples
AT = 100  # labels, of which the verdict speaks


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """A row for each number of labels: the accuracy on all others."""
    name, model = job.setting.split(", ")
    y = _examples(name)[1]
    x = _inputs(name, job.score)
    order = rng_for(job.seed, 0, f"features, {name}").permutation(len(y))
    test = order[LABELS[-1] :]
    for n in LABELS[len(past) : 2 if terms.effort == "quick" else None]:
        known = order[:n]
        made = as_model(model_named(model, x, alike=True))
        posterior = made.fit(x[known], y[known], rng=rng_for(job.seed, n, "features"))
        best = np.asarray(posterior.classes)[mean_predict(posterior, x[test]).argmax(axis=1)]
        yield {"labels": n, "accuracy": round(float((best == y[test]).mean()), 6)}


@cache
def _examples(name: str) -> tuple[Any, np.ndarray]:
    """Texts or images of bytes, and their classes from 0."""
    contents, y = _whole(name)
    rows = rng_for(0, 0, f"examples of {name}").permutation(len(y))[:MOST]
    return [contents[row] for row in rows.tolist()], y[rows]


def _whole(name: str) -> tuple[Any, np.ndarray]:
    if name == "mnist":
        split = data.mnist()
        return split.x.reshape(-1, 28, 28), split.y
    if name == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        return np.round(x.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8), y
    own = {"fashion": data.fashion, "emoji": data.emoji, "chats": data.chats}
    return own[name]() if name in own else data.texts(name)


@cache
def _inputs(name: str, way: str) -> np.ndarray:
    contents = _examples(name)[0]
    items = Items(name, "image" if name in IMAGES else "text", tuple(map(str, range(len(contents)))), contents)
    return np.asarray(make_features(items, None, way, drop=[], folder=Path()).pool)


def verdict(results: Results) -> str:
    """Accuracy with 100 labels of each way, and the gain by the net at each number of labels."""
    gains = " | ".join(f"gain at {n}" for n in LABELS)
    lines = [f"| inputs | model | words or pixels, {AT} labels | net, {AT} labels | {gains} |", "|---" * 8 + "|"]
    means: dict[tuple[str, str], list[float]] = {}
    for setting in results.names("setting"):
        name, model = setting.split(", ")
        kind = "image" if name in IMAGES else "text"
        cells = []
        for n in LABELS:
            plain, net = (_accuracy(results, setting, way, n) for way in WAYS[kind])
            if n == AT:
                levels = [f"{each.mean():.3f}" for each in (plain, net)]
                means.setdefault((kind, model), []).append(float((net - plain).mean()))
            gain = net - plain
            error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
            cells.append(f"{100 * gain.mean():+.1f} \u00b1 {100 * error:.1f}")
        lines.append(f"| {name} | {model} | {' | '.join([*levels, *cells])} |")
    lines.append("")
    for (kind, model), gain in means.items():
        lines.append(
            f"- {kind}s, {model}: {100 * np.mean(gain):+.1f} points in the mean of {len(gain)} sets at {AT} labels, "
            f"from {100 * min(gain):+.1f} to {100 * max(gain):+.1f}."
        )
    return "\n".join(lines)


def _accuracy(results: Results, setting: str, way: str, labels: int) -> np.ndarray:
    """Of each seed, `[seeds]`."""
    here = results.where(setting=setting, score=way, labels=labels)
    return np.asarray(here["accuracy"])[np.argsort(here["seed"])]


def draw(results: Results) -> Any:
    """A panel for each data set: accuracy over labels with the linear model, of words or pixels and of the net."""
    from matplotlib.figure import Figure as Drawing

    names = [name for name in (*TEXTS, *IMAGES) if f"{name}, linear" in results.names("setting")]
    figure = Drawing(figsize=(11, 4.6), layout="constrained", facecolor="white")
    for axes, name in zip(figure.subplots(2, 5).flat, names, strict=False):
        for way, colour in zip(WAYS["image" if name in IMAGES else "text"], ("#888888", "#4477aa"), strict=True):
            curve = np.array([_accuracy(results, f"{name}, linear", way, n) for n in LABELS])  # [labels, seeds]
            axes.plot(LABELS, curve.mean(axis=1), color=colour, marker="o", markersize=3, label=way)
            axes.fill_between(LABELS, curve.min(axis=1), curve.max(axis=1), color=colour, alpha=0.2, linewidth=0)
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.legend(frameon=False, fontsize=8, loc="lower right")
    for axes in figure.axes[len(names) :]:
        axes.set_axis_off()
    figure.supxlabel("labels, drawn at random", fontsize=9)
    figure.supylabel("accuracy, linear model; mean and range of the seeds", fontsize=9)
    return figure


def _settings() -> tuple[Setting, ...]:
    seeds = {"quick": 2, "standard": 5, "full": 20}
    steps = {"quick": 2, "standard": 4, "full": 4}
    return tuple(
        Setting(f"{name}, {model}", WAYS[kind], seeds, steps)
        for kind, names in (("text", TEXTS), ("image", IMAGES))
        for name in names
        for model in MODELS
    )


FIGURE = Figure(
    name="features",
    content="beyond the paper: words and pixels against the embeddings of a net",
    claim="Do embeddings of a small net beat TF-IDF and pixels with 20 to 200 labels?",
    settings=_settings(),
    run=run,
    draw=draw,
    verdict=verdict,
    columns=("labels", "accuracy"),
)
