"""BALD and EPIG over the plane, for ten labels and two distributions of targets; the best place starred.

Ten labelled inputs x ~ p1, the paper's Gaussian process, and both scores on a square grid: BALD knows of no targets,
EPIG has 1,000 of p1 or of p2. The width of p2 is 0.4 in the paper and 0.2 in its authors' code (D2). The authors' code
for this figure was not released; the square of [-5, 5]² is ours.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from askwell.information import probit
from askwell.models.gp import GPClassifier
from askwell.seeds import rng_for
from experiments.drawing import judged
from experiments.figure import Figure, Option, Setting, Terms
from experiments.results import Job, Results, Row
from experiments.synthetic import P1, P2, P2_OF_CODE, Student, labels
from experiments.two_d import OPTIONS as RUN_OPTIONS

__all__ = ["FIGURE"]

LABELS = 10
M = 1000
REACH = 5.0
SIDE = {"quick": 31, "standard": 61, "full": 61}
OPTIONS = {
    "p2": Option(("0.4", "0.2"), "the scale of the second target distribution: 0.4 (paper) or 0.2 (authors' code)."),
    "link": RUN_OPTIONS["link"],
    "inference": RUN_OPTIONS["inference"],
}
PANELS = (("the model", "bald"), ("p1", "epig"), ("p2", "epig"))
TITLES = {"the model": "BALD", "p1": "EPIG, targets of $p_1$", "p2": "EPIG, targets of $p_2$"}
DATA = "data"


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """The score at each place of the grid; or the labels at theirs, or the scales of p1 and p2 at their centres.

    >>> next(run(Job("data", "labels", 0), Terms(), []))
    {'x1': ..., 'x2': ..., 'value': ...}
    """
    options = {name: terms.options.get(name, option.default) for name, option in OPTIONS.items()}
    x = P1.draw(LABELS, rng=rng_for(job.seed, 0, "heatmap inputs"))
    y = labels(x, link=options["link"], rng=rng_for(job.seed, 0, "heatmap labels"))
    if job == Job(DATA, "targets", job.seed):
        both = [_target(name, options["p2"]) for name in ("p1", "p2")]
        places, values = np.array([each.location for each in both]), np.array([each.scale for each in both])
    elif job.setting == DATA:
        places, values = x, y.astype(float)
    else:
        places = _grid(SIDE[terms.effort])
        posterior = GPClassifier(inference=options["inference"]).fit(
            x, y, rng=rng_for(job.seed, 0, "fit"), classes=[0, 1]
        )
        if job.score == "bald":
            values = probit.bald(*posterior.latent(places))
        else:
            targets = _target(job.setting, options["p2"]).draw(M, rng=rng_for(job.seed, 0, "heatmap targets"))
            values = posterior.epig(places, targets)
    rows = zip(*places.T.tolist(), values.tolist(), strict=True)
    for x1, x2, value in list(rows)[len(past) :]:
        yield {"x1": round(x1, 6), "x2": round(x2, 6), "value": float(f"{value:.6g}")}


def draw(results: Results) -> Any:
    """Three maps side by side, darker is higher; labelled inputs by class, contours of the targets, and the star."""
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(11.4, 4.5), layout="constrained", facecolor="white")
    data, targets = results.where(setting=DATA, score="labels", seed=0), _targets(results)
    for place, (setting, score) in enumerate(PANELS):
        axes = picture.add_subplot(1, len(PANELS), place + 1)
        found = results.where(setting=setting, score=score, seed=0)
        side = round(len(found) ** 0.5)
        box = (-REACH, REACH, -REACH, REACH)
        axes.imshow(
            found["value"].reshape(side, side), origin="lower", extent=box, cmap="Blues", interpolation="bilinear"
        )
        for value, mark, colour in ((0, "o", "#c85200"), (1, "s", "#2f7d4f")):
            of_class = data.where(value=value)
            axes.scatter(
                of_class["x1"], of_class["x2"], marker=mark, c=colour, s=26, edgecolors="white", linewidths=0.7,
                label=f"label {value}",
            )  # fmt: skip
        if setting in targets:
            _contours(axes, targets[setting])
        (star,) = _stars(found)
        axes.plot(*star, marker="*", markersize=17, color="#ffd21f", markeredgecolor="black", clip_on=False, zorder=9)
        axes.set_title(TITLES[setting], loc="left", fontsize=11, fontweight="bold")
        axes.set(xlim=box[:2], ylim=box[2:], xticks=[-4, 0, 4], yticks=[-4, 0, 4], aspect="equal")
        axes.tick_params(length=0)
    handles, names = axes.get_legend_handles_labels()
    picture.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    return picture


def verdict(results: Results) -> str:
    """Where the stars are, how much of the targets is less dense than there, and how flat the map is."""
    lines = [
        "| score | targets | star | of p1 less dense than there | of p2 | of the square within 1 % of the best |",
        "|---|---|---|---|---|---|",
    ]
    targets, shares = _targets(results), {}
    for setting, score in PANELS:
        found = results.where(setting=setting, score=score)
        flat = float((found["value"] >= 0.99 * found["value"].max()).mean())
        for star in _stars(found):
            own = [float(each.outside(star[None])[0]) for each in targets.values()]
            shares[setting] = own[1 if setting == "p2" else 0]
            lines.append(
                f"| {score.upper()} | {'-' if score == 'bald' else setting} | ({star[0]:.2f}, {star[1]:.2f}) "
                f"| {own[0]:.1%} | {own[1]:.1%} | {flat:.1%} |"
            )
    return "\n\n".join(
        [
            "\n".join(lines),
            judged("BALD is highest away from the data", [shares["the model"] < 0.05], ["the plane"]),
            judged(
                "EPIG is highest where targets are dense",
                [shares[name] > 0.05 for name in ("p1", "p2")],
                ["p1", "p2"],
            ),
        ]
    )


def _grid(side: int) -> np.ndarray:
    """Places `[side², 2]`, row by row from below."""
    axis = np.linspace(-REACH, REACH, side)
    return np.stack([each.ravel() for each in np.meshgrid(axis, axis)], axis=1)


def _target(setting: str, p2: str) -> Student:
    return P1 if setting == "p1" else P2 if p2 == "0.4" else P2_OF_CODE


def _targets(results: Results) -> dict[str, Student]:
    """The target distributions of the runs."""
    kept = results.where(setting=DATA, score="targets", seed=0)
    rows = zip(("p1", "p2"), kept["x1"].tolist(), kept["x2"].tolist(), kept["value"].tolist(), strict=True)
    return {name: Student((x1, x2), scale) for name, x1, x2, scale in rows}


def _contours(axes: Any, target: Student) -> None:
    """Circles that hold 50 % and 90 % of the targets."""
    from matplotlib.patches import Circle

    for inside in (0.5, 0.9):
        radius = float(np.sqrt(5 * target.scale * ((1 - inside) ** (-2 / 5) - 1)))
        axes.add_patch(Circle(target.location, radius, fill=False, edgecolor="#30353c", linewidth=0.8, linestyle=":"))


def _stars(found: Results) -> list[np.ndarray]:
    """The best place of each seed."""
    stars = []
    for seed in found.names("seed"):
        run = found.where(seed=seed)
        best = int(run["value"].argmax())
        stars.append(np.array([run["x1"][best], run["x2"][best]]))
    return stars


FIGURE = Figure(
    name="heatmaps",
    content="BALD and EPIG over the plane, for two target distributions",
    claim="BALD rises away from the data; EPIG is maximised only where the target density is relatively high",
    settings=(
        *(
            Setting(setting, (score,), dict.fromkeys(SIDE, 1), {effort: side**2 for effort, side in SIDE.items()})
            for setting, score in PANELS
        ),
        Setting(DATA, ("labels", "targets"), dict.fromkeys(SIDE, 1), dict.fromkeys(SIDE, LABELS)),
    ),
    run=run,
    draw=draw,
    verdict=verdict,
    options=OPTIONS,
    columns=("x1", "x2", "value"),
)
