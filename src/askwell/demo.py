"""A demonstration: the paper's "redundant" setting on handwritten digits that come with scikit-learn.

Anything can be labelled, but the model only has to distinguish 1s from 7s. Random and BALD spend most labels on other
digits. EPIG looks at the targets and queries what matters. So does the default acquisition function, "auto".
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.acquisition import ScoreName
from askwell.models.forest import forest
from askwell.report import Picture, Tile, TileRow, gallery, html_report, terminal_curves, terminal_style
from askwell.report.figures import score_name
from askwell.seeds import rng_for
from askwell.simulation import Simulation, simulate
from askwell.simulation.curves import Trace, area

__all__ = ["RedundantDigits", "redundant_digits", "run_demo"]

TASK = (1, 7)
CLASSES = ("1", "7", "neither")
SCORES: tuple[ScoreName, ...] = ("random", "bald", "epig", "auto")
POOL, TARGETS, TEST = 80, 40, 59  # images of each digit; the last two of 1 and 7 only
SHOWN = 24  # first questions in the report
TITLE = "Which digits are worth a label?"
ONE_SPLIT = (
    "All seeds share one split of the images; the intervals do not cover other splits (docs/report.md has some)."
)


@final
@dataclass(frozen=True, eq=False)
class RedundantDigits:
    """A pool of all digits, for the task of distinguishing 1s from 7s."""

    x: np.ndarray  # [n, 64], the pool
    y: np.ndarray  # [n], "1", "7" or "neither"
    digits: np.ndarray  # [n], what they really are
    targets: np.ndarray  # [m, 64], 1s and 7s without labels
    test: tuple[np.ndarray, np.ndarray]  # 1s and 7s

    def first_labels(self, rng: np.random.Generator) -> list[int]:
        """Positions of two 1s, two 7s, and one image each of two other digits, as in the paper."""
        others = rng.choice([digit for digit in range(10) if digit not in TASK], 2, replace=False).tolist()
        return [
            int(position)
            for digit, count in [*((digit, 2) for digit in TASK), *((digit, 1) for digit in others)]
            for position in rng.choice(np.flatnonzero(self.digits == digit), count, replace=False)
        ]


def redundant_digits(seed: int) -> RedundantDigits:
    """scikit-learn's digits, divided at random into pool, targets and test; no image is in two of them.

    >>> digits = redundant_digits(0)
    >>> digits.x.shape, digits.targets.shape, digits.test[0].shape
    ((800, 64), (80, 64), (118, 64))
    """
    from sklearn.datasets import load_digits

    x, digits = load_digits(return_X_y=True)
    rng = rng_for(seed, 0, "demo split")
    pool, targets, test = list[int](), list[int](), list[int]()
    for digit in range(10):
        places = rng.permutation(np.flatnonzero(digits == digit)).tolist()
        pool += places[:POOL]
        if digit in TASK:
            targets += places[POOL : POOL + TARGETS]
            test += places[POOL + TARGETS : POOL + TARGETS + TEST]
    pool = rng.permutation(pool).tolist()  # or a tie between candidates would go to the 0s
    labels = np.where(np.isin(digits, TASK), digits.astype(str), CLASSES[2])
    return RedundantDigits(x[pool], labels[pool], digits[pool], x[targets], (x[test], labels[test]))


def run_demo(
    *,
    seeds: Iterable[int] = range(5),
    budget: int = 60,
    folder: str | os.PathLike[str] = "askwell-demo",
    processes: int | None = None,
    echo: Callable[[str], Any] = print,
) -> Path:
    """Simulate, show, and write `report.html` and `result.json` to the folder; returns the report's path.

    The split is the same for all seeds, initial labels and forests differ; docs/report.md has other splits. Call
    it again with the same folder to resume an interrupted run.
    """
    digits, seeds, out = redundant_digits(0), list(seeds), Path(folder)
    echo(_introduction(digits, seeds, budget))
    with _live(echo) as progress:
        result = simulate(
            forest(),
            digits.x,
            digits.y,
            test=digits.test,
            targets=digits.targets,
            scores=SCORES,
            classes=CLASSES,
            initial=digits.first_labels,
            budget=budget,
            seeds=seeds,
            processes=processes,
            folder=out / "steps" / f"budget-{budget}",
            progress=progress,
        )
    result.save(out / "result.json")
    report = html_report(
        result,
        out / "report.html",
        title=TITLE,
        intro=_story(digits),
        figures=[_first_questions(digits, result)],
        repeat=f"askwell demo --seeds {len(seeds)} --budget {budget}",
    )
    echo(terminal_curves(result.traces, **_look()))
    echo(
        f"\n{result.table()}\n\n{result.verdict()}\n{_shares_as_text(digits, result)}\n{ONE_SPLIT}\n\nReport: {report}"
    )
    return report


# ---- words and pictures --------------------------------------------------------------------------------------------


def _introduction(digits: RedundantDigits, seeds: Sequence[int], budget: int) -> str:
    return (
        f"{TITLE}\n\n"
        f"The pool has {len(digits.x)} handwritten digits, {POOL} of each. The classes are 1, 7 and neither.\n"
        f"The model only has to predict 1s and 7s: {len(digits.targets)} unlabelled images of them are the targets.\n"
        f"Four acquisition functions, {budget} labels each, {len(seeds)} seeds:\n\n"
        "  random  random sampling\n"
        "  BALD    most information about the model\n"
        "  EPIG    most information about predictions on the targets\n"
        "  auto    the default: EPIG about predictions that can still change, times the margin\n"
    )


def _story(digits: RedundantDigits) -> str:
    return (
        f"The pool holds {len(digits.x)} images of handwritten digits, {POOL} of each. But the model will only ever "
        "have to predict 1s and 7s. A person can label an image as 1, 7 or neither, and each label costs.\n\n"
        "Random draws images at random. BALD chooses images that are most informative about the model, and so learns "
        f"about all digits. EPIG gets {len(digits.targets)} unlabelled images of 1s and 7s, the targets, and chooses "
        "images that are most informative about predictions on them. Auto, the default, does the same for predictions "
        "that can still change, and prefers images whose own label is uncertain.\n\n"
        "All are tested on other 1s and 7s, where “neither” is always wrong. Nearly all errors of random and BALD are "
        "“neither”: every label of another digit makes it more probable, so accuracy falls before it rises. "
        + ONE_SPLIT
    )


def _first_questions(digits: RedundantDigits, result: Simulation) -> Picture:
    """The first images that each score asked for, in the first seed."""
    seed = min(trace.seed for trace in result.traces)
    rows = []
    for trace in result.traces:
        if trace.seed == seed:
            asked = _asked(trace)[:SHOWN]
            tiles = [
                Tile(digits.x[i].reshape(8, 8) / 16, str(digits.digits[i]), marked=digits.digits[i] in TASK)
                for i in asked
            ]
            hits = sum(tile.marked for tile in tiles)
            note = f"{hits} of the first {len(asked)} are 1s or 7s"
            rows.append(TileRow(score_name(trace.score), tiles, note=note, score=trace.score))
    caption = f"In the order of the queries, after the initial labels; seed {seed}. {_shares_as_text(digits, result)}"
    return gallery("The first queries of each acquisition function", rows, caption=caption)


def _shares_as_text(digits: RedundantDigits, result: Simulation) -> str:
    """How often each score asked for a 1 or a 7."""
    shares: dict[str, list[bool]] = {}
    for trace in result.traces:
        shares.setdefault(trace.score, []).extend(bool(digits.digits[i] in TASK) for i in _asked(trace))
    text = ", ".join(f"{np.mean(hits):.0%} by {score_name(score)}" for score, hits in shares.items() if hits)
    return f"Queries of 1s and 7s, which are 20% of the pool: {text}." if text else "Nothing was queried."


def _asked(trace: Trace) -> tuple[int, ...]:
    """The questions after the initial labels."""
    return trace.questions[trace.labels[0] :]


# ---- while it runs -------------------------------------------------------------------------------------------------


@contextmanager
def _live(echo: Callable[[str], Any]) -> Iterator[Callable[[int, int, dict[str, Any]], None]]:
    """What to call after every step: redraws the curves on a terminal, else says now and then how it goes."""
    traces: dict[tuple[str, int], Trace] = {}
    if not terminal_style()["colour"]:
        yield _in_lines(traces, echo)
        return
    from rich.console import Console
    from rich.live import Live

    look = _look()  # before standard output is taken over
    with Live(console=Console(), auto_refresh=False, transient=True) as live:
        yield _in_place(traces, live, look)


def _in_lines(traces: dict[tuple[str, int], Trace], echo: Callable[[str], Any]) -> Callable[..., None]:
    """A line at every tenth of the way."""
    shown = 0

    def progress(done: int, total: int, latest: dict[str, Any]) -> None:
        nonlocal shown
        _keep(traces, latest)
        if 10 * done // total > shown:
            shown = 10 * done // total
            echo(f"{10 * shown:3d} %  {_so_far(traces)}")

    return progress


def _in_place(traces: dict[tuple[str, int], Trace], live: Any, look: dict[str, Any]) -> Callable[..., None]:
    """The curves so far, four times a second at most."""
    from rich.text import Text

    drawn = 0.0

    def progress(done: int, total: int, latest: dict[str, Any]) -> None:
        nonlocal drawn
        _keep(traces, latest)
        if time.monotonic() - drawn > 0.25 or done == total:
            drawn = time.monotonic()
            bar = "=" * (40 * done // total)
            text = f"{terminal_curves(traces.values(), **look)}\n\n[{bar:<40}] {done / total:4.0%}\n{_so_far(traces)}"
            live.update(Text.from_ansi(text), refresh=True)

    return progress


def _keep(traces: dict[tuple[str, int], Trace], latest: dict[str, Any]) -> None:
    traces[latest["score"], latest["seed"]] = Trace(**latest)


def _so_far(traces: dict[tuple[str, int], Trace]) -> str:
    """The mean accuracy of each score up to here."""
    means = {score: [area(run) for (name, _), run in traces.items() if name == score] for score in SCORES}
    text = ", ".join(f"{score_name(score)} {np.mean(values):.3f}" for score, values in means.items() if values)
    return f"mean accuracy so far: {text}"


def _look() -> dict[str, Any]:
    """How curves are drawn on standard output."""
    return {"width": max(40, min(72, shutil.get_terminal_size().columns - 1)), **terminal_style()}
