"""What is simulated: a pool whose labels are known, a test set, and everything that decides how a run goes. Checked."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from inspect import isroutine
from typing import Any, final

import numpy as np

from askwell.acquire import item_costs
from askwell.acquisition import as_score, check_kind
from askwell.arrays import plain
from askwell.checks import count, fingerprint
from askwell.data.pool import Pool, as_pool
from askwell.models import as_model
from askwell.models.inputs import check_table
from askwell.models.inputs import count as rows
from askwell.models.protocol import check_labels, checked_number, class_codes, predicts_numbers
from askwell.seeds import rng_for
from askwell.selection import as_batch
from askwell.simulation.metrics import chosen_metrics
from askwell.targets import Targets, as_targets

__all__ = ["Design", "design"]

USUAL_CLASSES = ("random", "margin", "epig", "auto")  # the scores that are compared, where none are named
USUAL_NUMBERS = ("random", "variance", "epig")
FIRST_NUMBERS = 10  # labels to begin with, where they are numbers
PACKAGES = ("askwell", "numpy", "scipy", "scikit-learn")


@final
@dataclass(frozen=True, eq=False)
class Design:
    """All that a run needs but its name and seed.

    A run is named by its score; with the model before and the size after it, where there are several of these.
    """

    models: Mapping[str, Callable[[int], Any]]  # name of a run -> seed -> model
    pool: Pool  # its ids are positions
    labels: Sequence[Any]  # [n], the answers
    classes: Sequence[Any] | None  # None: labels are numbers
    test: tuple[Any, np.ndarray]  # inputs, and their labels: the columns of their classes, or numbers
    targets: Targets
    scores: Mapping[str, Any]  # name of a run -> name or function
    sizes: Mapping[str, int]  # name of a run -> labels per step
    starts: Mapping[int, Sequence[int]]  # seed -> positions labelled at the start
    limit: int  # labels at the end of a run
    batch: Any
    metrics: Mapping[str, Any]  # name -> name or function
    cost: np.ndarray | None  # [n], of each label
    keep_predictions: bool
    ids: Sequence[Any] | None  # what the owner of the pool calls its items
    settings: Mapping[str, Any]  # all of it in words that JSON can hold

    def steps(self, job: tuple[str, int]) -> int:
        """How many steps a run (name, seed) takes; telling the initial labels is one."""
        name, seed = job
        start = len(self.starts[seed])
        return (start > 0) + math.ceil((self.limit - start) / self.sizes[name])


def design(
    model: Any,
    x: Any,
    y: Any,
    *,
    test: Any,
    targets: Any,
    scores: Any,
    initial: Any,
    budget: int,
    seeds: Iterable[int],
    size: Any,
    classes: Sequence[Any] | None,
    batch: Any,
    ids: Iterable[Any] | None,
    metrics: Any = None,
    cost: Any = None,
    keep_predictions: bool = False,
) -> Design:
    """What the arguments of `askwell.simulate` describe, checked; what cannot be run is refused."""
    seeds = _numbers("seeds", seeds)
    models, numbers = _models(model, seeds[0])
    if numbers and classes is not None:
        raise ValueError("classes must be left out, because the model predicts numbers, not classes.")
    labels = _number_labels("y", y) if numbers else _labels("y", y)
    x, n = _inputs("x", x), len(labels)
    if rows(x) != n:
        raise ValueError(f"x and y must be of the same length, but they have {rows(x)} and {n}.")
    known = None if numbers else _classes(classes, labels)
    initial = (FIRST_NUMBERS if numbers else 2) if initial is None else initial
    starts = {seed: _start(initial, labels, known, rng_for(seed, 0, "initial")) for seed in seeds}
    budget = _budget(budget, starts, initial, known or ())
    chosen, aim = (
        _scores(USUAL_NUMBERS if scores is None and numbers else USUAL_CLASSES if scores is None else scores),
        as_targets(targets),
    )
    for score in chosen.values():
        check_kind(score, numbers=numbers)
    if batch is not None:
        as_batch(batch)
    sizes = [count("size", size)] if not isinstance(size, Iterable) else [count("size", each) for each in size]
    measures, costs = chosen_metrics(metrics, numbers=numbers), None if cost is None else item_costs(cost, n)
    runs = _runs(models, chosen, sizes)
    test_x, codes = _test(test, known)
    settings = {
        "model": {name: _words(each) for name, each in model.items()} if isinstance(model, Mapping) else _words(model),
        "n": n,
        "test": len(codes),
        "classes": known,
        "targets": _words(aim),
        "scores": list(chosen),
        "initial": _initial_words(initial),
        "budget": budget,
        "size": sizes if len(sizes) > 1 else sizes[0],
        "batch": None if batch is None else _words(batch),
        "seeds": seeds,
        "data": _fingerprint(x, labels, test_x, codes, None if targets is aim else targets),
        "versions": {name: version(name) for name in PACKAGES},
    }
    if metrics is not None:
        settings["metrics"] = list(measures)
    if costs is not None:
        settings["cost"] = fingerprint([costs])
    if keep_predictions:
        settings["keep_predictions"] = True
    return Design(
        models={name: run[0] for name, run in runs.items()},
        pool=as_pool(x, ids=range(n)),
        labels=labels,
        classes=known,
        test=(test_x, codes),
        targets=aim,
        scores={name: run[1] for name, run in runs.items()},
        sizes={name: run[2] for name, run in runs.items()},
        starts=starts,
        limit=min(budget, n),
        batch=batch,
        metrics=measures,
        cost=costs,
        keep_predictions=keep_predictions,
        ids=None if ids is None else [_plain_id(item) for item in as_pool(x, ids=ids).ids],
        settings=settings,
    )


# ---- labels --------------------------------------------------------------------------------------------------------


def _labels(name: str, y: Any) -> list[Any]:
    """Labels as plain values of one kind: text, numbers or booleans, none of them missing."""
    if isinstance(y, str) or not hasattr(y, "__len__"):
        raise ValueError(f"{name} must be a list of labels, one per input, but it is {y!r}.")
    values = [plain(value) for value in (y.tolist() if hasattr(y, "tolist") else list(y))]
    for row, value in enumerate(values):
        if not isinstance(value, str | int | float) or value != value:
            raise ValueError(
                f"{name} must hold a label for every input (text, numbers or booleans), but {name}[{row}] is "
                f"{value!r}. Leave inputs without a label out of both."
            )
        if _kind(value) is not _kind(values[0]):
            raise ValueError(
                f"{name} must hold labels of one kind, but {name}[{row}] is {value!r} and {name}[0] is {values[0]!r}. "
                "Try [str(label) for label in labels]."
            )
    check_labels(values, name=name)
    return values


def _number_labels(name: str, y: Any) -> list[Any]:
    """Labels that are numbers, all of them finite."""
    if isinstance(y, str) or not hasattr(y, "__len__"):
        raise ValueError(f"{name} must be a list of numbers, one per input, but it is {y!r}.")
    return [checked_number(plain(value), name=name) for value in (y.tolist() if hasattr(y, "tolist") else list(y))]


def _kind(label: Any) -> type:
    return type(label) if isinstance(label, str | bool) else float


def _among(label: Any, classes: Sequence[Any]) -> bool:
    return label in classes and _kind(label) is _kind(classes[0])  # True is not 1


def _inputs(name: str, x: Any) -> Any:
    """Rows of inputs: an array, a data frame, a list, a dict of arrays."""
    check_table(x, name=name)
    if isinstance(x, str) or not (hasattr(x, "shape") or hasattr(x, "__len__")):
        raise ValueError(f"{name} must be an array, a data frame or a list of inputs, but it is {type(x).__name__}.")
    return x


def _plain_id(item: Any) -> Any:
    return item if isinstance(item, str | int | float) else str(item)


def _classes(classes: Sequence[Any] | None, labels: Sequence[Any]) -> list[Any]:
    """The classes in column order; those of the labels if none are given."""
    known = sorted(set(labels)) if classes is None else _labels("classes", classes)
    if len(known) < 2:
        raise ValueError(
            f"y must hold labels of two or more classes, but there is only {known}. Give classes= all that can occur."
        )
    strange = next((label for label in labels if not _among(label, known)), None)
    if strange is not None:
        raise ValueError(f"y must hold labels of the classes {known}, but {strange!r} is none of them.")
    return known


def _test(test: Any, classes: Sequence[Any] | None) -> tuple[Any, np.ndarray]:
    """The test inputs, and the columns of their classes; without classes numbers."""
    try:
        x, y = test
    except (TypeError, ValueError):
        raise ValueError("test must be a pair of inputs and labels, test=(x, y), but it is something else.") from None
    x, labels = _inputs("test[0]", x), (_number_labels if classes is None else _labels)("test[1]", y)
    if rows(x) != len(labels) or not labels:
        raise ValueError(f"test must hold as many inputs as labels, but there are {rows(x)} and {len(labels)}.")
    if classes is None:
        return x, np.array(labels)
    strange = next((label for label in labels if not _among(label, classes)), None)
    if strange is not None:
        raise ValueError(
            f"test must hold labels of the pool's classes {list(classes)}, but {strange!r} is none of them: nothing "
            "could learn it. Give classes= all that can occur if that is meant."
        )
    return x, class_codes(labels, classes)[0]


# ---- the start -----------------------------------------------------------------------------------------------------


def _start(initial: Any, labels: Sequence[Any], classes: Sequence[Any] | None, rng: np.random.Generator) -> list[int]:
    """The positions that are labelled before the first question."""
    if callable(initial):
        return _positions(initial(rng), len(labels))
    if classes is None:
        if isinstance(initial, Mapping):
            raise ValueError(
                "initial must be how many labels to begin with, where they are numbers, but it is a mapping."
            )
        return [int(i) for i in rng.permutation(len(labels))[: count("initial", initial, least=0)]]
    wanted = initial if isinstance(initial, Mapping) else dict.fromkeys(classes, count("initial", initial, least=0))
    strange = next((label for label in wanted if label not in classes), None)
    if strange is not None:
        raise ValueError(f"initial must name classes of {list(classes)}, but {strange!r} is none of them.")
    chosen: list[int] = []
    for label in classes:
        size = count(f"initial[{label!r}]", wanted.get(label, 0), least=0)
        there = [position for position, value in enumerate(labels) if value == label]
        if size > len(there) and isinstance(initial, Mapping):
            raise ValueError(f"initial must be no more than there are, but {size} of the {len(there)} {label!r}.")
        chosen += rng.choice(there, min(size, len(there)), replace=False).tolist() if there else []
    return [int(position) for position in chosen]


def _positions(given: Iterable[Any], n: int) -> list[int]:
    positions = _numbers("initial(rng)", given, empty=True)
    if any(position >= n for position in positions):
        raise ValueError(f"initial(rng) must give positions from 0 to {n - 1}, but one is {max(positions)}.")
    return positions


def _budget(budget: int, starts: Mapping[int, Sequence[int]], initial: Any, classes: Sequence[Any]) -> int:
    budget, most = count("budget", budget), max(map(len, starts.values()))
    if budget < most:
        why = f" ({initial} of each of {len(classes)} classes)" if isinstance(initial, int) and classes else ""
        raise ValueError(
            f"budget must cover the initial labels, {most}{why}, but it is {budget}. Raise the budget, or begin with "
            "fewer: initial=1."
        )
    return budget


# ---- names and numbers ---------------------------------------------------------------------------------------------


def _scores(scores: Any) -> dict[str, Any]:
    """Name -> score."""
    if isinstance(scores, Mapping):
        named = {str(name): score for name, score in scores.items()}
    else:
        listed = [scores] if isinstance(scores, str) or callable(scores) else list(scores)
        named = {score if isinstance(score, str) else _words(score): score for score in listed}
        if len(named) < len(listed):
            raise ValueError(f"scores must have different names, but {len(listed)} have {list(named)}. Try a mapping.")
    if not named:
        raise ValueError("scores must name at least one score, but there is none.")
    for score in named.values():
        as_score(score)
    return named


def _models(model: Any, seed: int) -> tuple[dict[str, Callable[[int], Any]], bool]:
    """(name -> seed -> model, whether they predict numbers); one that is alone has no name."""
    named = dict(model) if isinstance(model, Mapping) else {"": model}
    if not named:
        raise ValueError("model must name at least one model, but there is none.")
    made = {str(name): each if _makes(each) else partial(_always, each) for name, each in named.items()}
    # refuses what is none, here rather than in every run
    kinds = {name: predicts_numbers(as_model(make(seed))) for name, make in made.items()}
    if len({*kinds.values()}) > 1:
        words = ", ".join(f"{name} {'numbers' if kind else 'classes'}" for name, kind in kinds.items())
        raise ValueError(f"the models of one simulation must predict the same, but {words}.")
    return made, next(iter(kinds.values()))


def _makes(model: Any) -> bool:
    return isroutine(model) or isinstance(model, partial)


def _runs(
    models: Mapping[str, Any], scores: Mapping[str, Any], sizes: Sequence[int]
) -> dict[str, tuple[Callable[[int], Any], Any, int]]:
    """Name -> (seed -> model, score, size).

    >>> list(_runs({"forest": 0, "gp": 0}, {"epig": "epig"}, [1, 10]))[:2]
    ['forest, epig, 1 at a time', 'forest, epig, 10 at a time']
    """
    return {
        ", ".join([*([model] if model else ()), score, *([f"{size} at a time"] if len(sizes) > 1 else ())]): (
            models[model],
            scores[score],
            size,
        )
        for model in models
        for score in scores
        for size in sizes
    }


def _always(model: Any, seed: int) -> Any:
    return model


def _numbers(name: str, values: Any, *, empty: bool = False) -> list[int]:
    """Different whole numbers from 0."""
    try:
        listed = [plain(value) for value in values]
    except TypeError:
        raise ValueError(f"{name} must be a list of whole numbers, but it is {values!r}. Try range(5).") from None
    for value in listed:
        count(name, value, least=0)
    if len(set(listed)) < len(listed) or not (listed or empty):
        raise ValueError(f"{name} must be different whole numbers, at least one, but they are {listed}.")
    return listed


def _words(thing: Any) -> str:
    """What a thing is called: the name of a function, the text of anything else without its place in memory."""
    named = thing if isinstance(thing, str) else getattr(thing, "__name__", None)
    return named if isinstance(named, str) else re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing))


def _initial_words(initial: Any) -> Any:
    if isinstance(initial, Mapping):
        return {str(label): int(size) for label, size in initial.items()}
    return _words(initial) if callable(initial) else int(initial)


def _unpacked(parts: Iterable[Any]) -> Iterator[Any]:
    """The parts; of a dict its names, and what they stand for."""
    for part in parts:
        if isinstance(part, dict):
            yield list(part)
            yield from part.values()
        else:
            yield part


def _fingerprint(*parts: Any) -> str:
    """A short text that differs where the data do."""

    def described() -> Iterator[Any]:
        for part in _unpacked(parts):
            try:
                array = np.asarray(part)
            except (TypeError, ValueError):  # rows of different lengths, tensors elsewhere
                array = np.array([repr(row) for row in part])
            yield f"{array.dtype} {array.shape} "
            yield repr(array.tolist()) if array.dtype.hasobject else array

    return fingerprint(described())
