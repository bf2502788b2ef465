"""How a score looks: the same name, colour, stroke and mark in the terminal, in figures and on the page.

The colours of up to six scores can be told apart with any kind of colour vision, in a tone for light and one for dark
ground. EPIG and auto are drawn thickest and last, random in grey; strokes differ too, for print and plain terminals.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from askwell.simulation.curves import Trace

__all__ = ["Style", "metric_name", "score_name", "scores_of", "styles"]

NAMES = {
    "epig": "EPIG",
    "bald": "BALD",
    "badge": "BADGE",
    "epig_corrected": "corrected EPIG",
    "epig_quadratic": "quadratic EPIG",
}


@final
@dataclass(frozen=True)
class Style:
    """How one score is drawn."""

    name: str  # as people write it
    light: str  # colour on light ground
    dark: str  # colour on dark ground
    ansi: str  # colour in a terminal
    mark: str  # where there are letters only
    dash: tuple[int, int]  # drawn and left out; (1, 0) is a whole line
    width: float  # of the stroke
    rank: int  # drawn in this order: the highest lies on top


_EPIG = ("#0068b3", "#5cb8ff", "94", "*", (1, 0), 3.0)
_BALD = ("#c85200", "#ff9d4d", "33", "o", (4, 2), 2.25)
_RANDOM = ("#7b828c", "#9aa2ad", "90", ".", (1, 2), 2.25)
_OTHERS = (
    ("#8a1fd6", "#cf4dff", "35", "+", (6, 2), 2.0),
    ("#3d2a14", "#ffd8b0", "93", "x", (2, 1), 2.0),
    ("#1f2a6b", "#4d84c4", "34", "#", (3, 3), 2.0),
    ("#b0305a", "#e8606a", "31", "@", (5, 3), 2.0),
    ("#590d3b", "#b3fff0", "36", "&", (2, 2), 2.0),
)
_AUTO = ("#134e46", "#ceff0a", "32", "%", (9, 2), 3.0)
_KNOWN = {"auto": _AUTO, "epig": _EPIG, "bald": _BALD, "random": _RANDOM}


def styles(scores: Iterable[str]) -> dict[str, Style]:
    """Score -> style, in the order given; scores without a colour of their own take the next free one, in turn.

    >>> found = styles(["random", "mine", "epig"])
    >>> [(style.name, style.light) for style in found.values()]
    [('random', '#7b828c'), ('mine', '#8a1fd6'), ('EPIG', '#0068b3')]
    """
    found: dict[str, Style] = {}
    others = 0
    for score in dict.fromkeys(scores):
        look = _KNOWN.get(score)
        if look is None:
            look = _OTHERS[others % len(_OTHERS)]
            others += 1
        rank = {"random": 0, "epig": 100, "auto": 101}.get(score, 1 + len(found))
        found[score] = Style(score_name(score), *look, rank)
    return found


def scores_of(traces: Iterable[Trace]) -> list[str]:
    """The scores of these runs, each once, in the order in which they occur."""
    scores = list(dict.fromkeys(trace.score for trace in traces))
    if not scores:
        raise ValueError("traces must be runs of a simulation, but there are none.")
    return scores


def score_name(score: str) -> str:
    """A score as people write it: "epig" is EPIG."""
    return NAMES.get(score, score)


def metric_name(metric: str) -> str:
    """A metric as people write it.

    >>> metric_name("log_loss")
    'log loss'
    """
    return metric.replace("_", " ")
