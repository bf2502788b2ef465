"""The loop: ask which labels are worth having, tell them, predict. Everything that is told goes through the store."""

import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, final

import numpy as np

from askwell import notebook
from askwell.acquire import Explanation, Round, Selected, Strategy, classes_of, item_costs, usual_evaluation
from askwell.acquisition import ScoreName, as_score, checked_class_weights
from askwell.arrays import plain, spans
from askwell.checks import count, fingerprint
from askwell.data.pool import as_pool
from askwell.engines import as_engine
from askwell.estimate import rmse
from askwell.estimate.accuracy import Estimate, estimate
from askwell.estimate.label_issues import LabelIssue, label_issues
from askwell.estimate.stopping import (
    MORE,
    Advice,
    Change,
    Forecast,
    advice,
    change,
    forecast,
    labels_needed,
    outlook,
)
from askwell.models import as_model
from askwell.models.inputs import aligned, column_names
from askwell.models.protocol import check_labels, checked_number, label_moments, mean_predict, shortcuts
from askwell.selection import BatchName, as_batch
from askwell.session import Session
from askwell.session.events import AnswerWithdrawn, ItemSkipped, LabelAdded, QuestionAsked, RunStarted, id_of, text_of
from askwell.session.state import Pending, State
from askwell.store import open_store
from askwell.store.records import Store, StoreError
from askwell.targets import as_targets

__all__ = ["Learner"]

NOBODY = ""  # who has a question that a closed learner left


@final
class Learner:
    """Asks for the labels that are expected to tell most about predictions on the targets.

    `model` is what `askwell.as_model` takes: of classes, or a regressor, and then labels are numbers.
    `pool` is an array, a data frame, a list of inputs, a dict of arrays (tokenised text) or a path; ids are the frame's
    index or row numbers, or `ids`. Columns of data frames are known by name: targets and inputs to predict may have
    them in another order.
    A folder of files, a glob or a URL stays in its files; `engine` ("local", "ray", see `askwell.engines`) says where
    the pool is scored, and does not change the questions.
    `targets` are inputs like those the model will meet: an array or a frame, or something from `askwell.targets`; None
    takes them from the pool. `score` is a name from `askwell.acquisition` or a function, `batch` a name from
    `askwell.selection` or a function; by default several questions are chosen jointly for auto and EPIG, else by score
    alone. `class_weights` maps classes to what a wrong prediction of them costs, 1 where nothing is said: questions are
    then chosen for the weighted log loss (see `askwell.epig`); the model and what it predicts stay as they are.
    `evaluation` is the share of the questions that are drawn at random from the targets instead of chosen: the model
    learns from them too, and `estimate` says how good it is on the targets. By default it is 0.2 with the default
    score, and 0 with a score that is named.
    `cost [n]` is what the label of each item costs; items are then ranked by score per cost.
    `store` is None (memory), "sqlite:///file.db" or "postgresql://...": opening it again goes on where it stopped, with
    the same next question. Learners that share a store and a `run` share labels, and never ask the same question.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> learner = Learner(RandomForestClassifier(30), x, seed=0)
    >>> learner.tell([0, 1, 2], x[:3, 0] > 0)
    >>> (item,) = learner.ask()
    >>> learner.ask() == [item]  # until it is answered
    True
    >>> learner.tell([item], [x[item, 0] > 0])
    >>> learner.predict_proba(x[:5]).shape
    (5, 2)
    """

    def __init__(
        self,
        model: Any,
        pool: Any,
        *,
        targets: Any = None,
        score: ScoreName | Callable[..., Any] = "auto",
        classes: Sequence[Any] | None = None,
        seed: int = 0,
        store: str | Store | None = None,
        batch: BatchName | Callable[..., Any] | None = None,
        ids: Iterable[Any] | None = None,
        run: str = "main",
        engine: Any = None,
        class_weights: Mapping[Any, float] | None = None,
        evaluation: float | None = None,
        cost: Any = None,
    ) -> None:
        as_score(score), as_batch(batch or "top")  # refuses what is neither a name nor a function
        self._classes = None if classes is None else _checked_classes(classes)
        items = as_pool(pool, ids=ids)
        self._strategy = Strategy(
            as_model(model),
            items,
            as_targets(targets),
            score=score,
            batch=batch,
            classes=self._classes,
            class_weights=None
            if class_weights is None
            else checked_class_weights(class_weights, score=score, classes=self._classes),
            cost=None if cost is None else item_costs(cost, len(items)),
            seed=seed,
            engine=None if engine is None else as_engine(engine),
            evaluation=usual_evaluation(score) if evaluation is None else evaluation,
        )
        self._pool = self._strategy.pool
        self._made: tuple[int, Round] | None = None
        self._positions: dict[str, int] = {}  # of the items met so far, which are read in every step
        # A model of somebody else's is taken as it is, so its scores are looked at once, when the first are made.
        self._look, self._look_flat = self._strategy.model is not model and score in ("epig", "auto"), True
        self._store = open_store(store) if store is None or isinstance(store, str) else store
        self._run, self._session, self._name = run, Session(self._store, run=run), uuid.uuid4().hex
        self._opened = self._begin()

    # ---- the loop ----

    def ask(self, size: int = 1, *, session: str | None = None) -> list[Any]:
        """The ids of the `size` items whose labels are worth most now; fewer if the pool is exhausted.

        Questions that were asked and not answered are given again before new ones are made up, also those that other
        learners asked before this one was opened, or left when they were closed. Until labels of two classes are known,
        and for at most three questions a class until one of each declared class is, the questions spread over the pool,
        near the targets if such were given. If the first scores of a model that is not askwell's own are hardly more
        than chance, a warning says so, once: see `signal`.
        Of items with equal scores the seed chooses; where most of the pool's scores are equal, a warning says so, once.
        `session` is for several who are asked through one learner: a name for each, who gets questions of their own.
        """
        size, asked, heard = count("size", size), list[Any](), list[str]()
        if session is not None and not (isinstance(session, str) and session):
            raise ValueError(f"session must be the name of whoever is asked, but it is {session!r}.")
        name = session or self._name

        def questions(state: State) -> list[QuestionAsked]:
            held = [item for item, question in state.pending.items() if self._is_for(name, question)][:size]
            chosen = self._choose(state, size - len(held), heard)
            asked[:] = [self._id(item) for item in held] + [self._pool.ids[each.position] for each in chosen]
            return [
                QuestionAsked(item, name, state.pending[item].score, again=True)
                for item in held
                if state.pending[item].session != name
            ] + [
                QuestionAsked(text_of(self._pool.ids[each.position]), name, each.score, False, each.probability)
                for each in chosen
            ]

        self._session.change(questions)
        for message in heard:
            warnings.warn(message, stacklevel=2)
        return asked

    def tell(self, ids: Iterable[Any], labels: Iterable[str | float | np.generic]) -> None:
        """Record labels, durably. A label for an item that has one corrects it; the same one again changes nothing."""
        items, values = self._texts(ids), self._checked_labels(_listed("labels", labels))
        if len(items) != len(values):
            raise ValueError(f"ids and labels must be equally many, but there are {len(items)} and {len(values)}.")

        def new(state: State) -> list[LabelAdded]:
            before = state.latest_labels
            labels = zip(items, values, strict=True)
            return [LabelAdded(i, label) for i, label in labels if i not in before or _kind(before[i]) != _kind(label)]

        self._session.change(new)

    def withdraw(self, ids: Iterable[Any]) -> None:
        """Take labels back. The items may be asked again."""
        items = self._texts(ids)
        self._session.change(lambda state: [AnswerWithdrawn(item) for item in items if state.votes(item)])

    def confirm(self, ids: Iterable[Any]) -> None:
        """Record that labels were looked at again and are right: they are not among the `label_issues` any more."""
        items = self._texts(ids)
        self._session.change(
            lambda state: [LabelAdded(item, state.latest_labels[item]) for item in items if item in state.latest_labels]
        )

    def skip(self, ids: Iterable[Any], *, reason: str = "") -> None:
        """Do not ask about these items again. Telling their labels is still welcome."""
        items = self._texts(ids)
        self._session.change(
            lambda state: [
                ItemSkipped(item, reason) for item in items if not state.votes(item) and state.skips.get(item) != reason
            ]
        )

    def predict_proba(self, x: Any) -> np.ndarray:
        """p(y|x) `[n, c]`, the mean over the posterior's draws; columns as in `classes`."""
        if self._strategy.numbers:
            raise ValueError(
                "predict_proba is for classes, and the labels are numbers. Try predict(x, return_std=True)."
            )
        return mean_predict(self.posterior, self._aligned(x))

    def predict(self, x: Any, *, return_std: bool = False) -> Any:
        """The most probable class of each input `[n]`; of equally probable ones the first of `classes`.

        Of labels that are numbers the mean, and with `return_std` the pair (mean `[n]`, standard deviation `[n]`): that
        of a label, its noise included.
        """
        if self._strategy.numbers:
            mean, variance = label_moments(self.posterior, self._aligned(x))
            return (mean, np.sqrt(variance)) if return_std else mean
        if return_std:
            raise ValueError("return_std is for labels that are numbers. For classes try predict_proba(x).")
        best: np.ndarray = np.asarray(self.posterior.classes)[self.predict_proba(x).argmax(axis=1)]
        return best

    def _aligned(self, x: Any) -> Any:
        """Inputs with the pool's columns in order; a model of somebody else's may not look at names."""
        return aligned(x, column_names(self._pool.x), by_name=True)  # other columns are for the model to judge

    def explain(self, item: Any, *, size: int = 5) -> Explanation:
        """What an item's label would tell, about which `size` targets most, and what the model believes now."""
        position = self._pool.position(item)
        label = self._labels.get(text_of(self._pool.ids[position]))
        return self._round.explain(position, label=label, size=size)

    def scores(self) -> dict[Any, float]:
        """id -> score of each item that may be asked, the best first; `pandas.Series(learner.scores())` is a column."""

        def taken(state: State) -> tuple[list[int], ...]:
            return tuple(
                [self._position(i) for i in items] for items in (state.latest_labels, state.pending, state.skips)
            )

        free = self._strategy.free(*self._session.read(taken))
        return {self._pool.ids[position]: score for position, score in self._round.scores(free)}

    def estimate(self) -> Estimate | None:
        """How good the model is on the targets, with a 95 % interval; None while there are too few labels to tell.

        With `evaluation=0.2` a fifth of the questions is drawn from the targets at random, and each of these is
        predicted by a model that did not learn from it. Without, or while there are fewer than five, it is
        cross-validation on the labels: questions that were chosen are harder than average, so that is usually a lower
        bound. Where labels are numbers it is the RMSE, and usually an upper bound.
        """
        skipped = {self._position(item) for item in self._session.read(lambda state: [*state.skips])}
        judge = rmse.rmse if self._strategy.numbers else estimate
        return judge(self._strategy, self._known(), skipped=skipped)

    def forecast(self, more: int = MORE) -> Forecast | None:
        """What `more` labels are expected to add to the accuracy on the targets, with a 95 % interval; None: too early.

        Of classes only: no forecast was measured where labels are numbers.

        It rests on what the last half of the labels changed (see `askwell.estimate.stopping`).
        """
        return forecast(self._change(), estimate=self.estimate(), more=more)

    def labels_needed(self, accuracy: float) -> tuple[int | None, int | None]:
        """(at least, about) how many more labels it takes until this accuracy; None: more than can be foreseen."""
        return labels_needed(self._change(), self.estimate(), accuracy)

    def advice(self) -> Advice:
        """Whether to stop labelling, by which rule, and why."""
        labels = self._known()
        if self._strategy.numbers and labels:
            return rmse.advice(self._round, labels)
        if len(classes_of(labels.values())) < 2:
            return advice(None, None)
        return outlook(self._round, labels).advice

    def label_issues(self) -> list[LabelIssue]:
        """Labels that are worth a second look: a model that learnt without them finds them very unlikely.

        `tell` corrects them, `confirm` remembers that they are right.
        """

        def reviewed(state: State) -> tuple[list[str], dict[str, list[Any]]]:
            votes = {item: [*state.votes(item).values()] for item in state.several}
            return [item for item in state.latest_labels if state.is_reviewed(item)], votes

        done, votes = self._session.read(reviewed)
        return label_issues(
            self._strategy,
            self._known(),
            votes=self._by_position(votes),
            reviewed={self._position(item) for item in done},
        )

    def signal(self, *, warn: bool = True) -> float:
        """How many times the scores of unrelated draws the EPIG scores are now; 1 is chance. See `askwell.signal`."""
        return self._round.signal(warn=warn)

    # ---- what is known ----

    @property
    def _labels(self) -> dict[str, Any]:
        """Item -> label."""
        return self._session.read(lambda state: dict(state.latest_labels))

    @property
    def _round(self) -> Round:
        return self._session.read(self._knowledge)

    @property
    def labels(self) -> dict[Any, Any]:
        """id -> label, in the order in which they were first told."""
        return {self._id(item): label for item, label in self._labels.items()}

    @property
    def pending(self) -> list[Any]:
        """The ids that were asked, by any learner of the run, and not answered yet."""
        return [self._id(item) for item in self._session.read(lambda state: [*state.pending])]

    @property
    def classes(self) -> list[Any]:
        """The labels that can occur, in the order of `predict_proba`'s columns; none where they are numbers."""
        if self._strategy.numbers:
            return []
        return self._classes_in(self._labels)

    @property
    def posterior(self) -> Any:
        """What is believed after the labels so far."""
        return self._round.posterior

    def close(self) -> None:
        """Close the store. Everything told is there already; what is pending is for the next learner."""
        with suppress(StoreError):  # closed already, or out of reach: whoever opens the run later has them anyway
            self._session.change(
                lambda state: [
                    QuestionAsked(item, NOBODY, question.score, again=True)
                    for item, question in state.pending.items()
                    if question.session == self._name
                ]
            )
        self._store.close()

    def __repr__(self) -> str:
        return f"Learner({', '.join(f'{name}: {value}' for name, value in self._facts().items())})"

    def _repr_html_(self) -> str:
        pending = self.pending
        if pending:
            following = (
                f"Asked and not answered: {', '.join(map(repr, pending[:8]))}. Next: tell([{pending[0]!r}], [label])."
            )
        else:
            following = "Next: ask() for questions, estimate() for how good the model is, advice() for when to stop."
        return notebook.table([], self._facts().items()) + notebook.paragraph(following)

    def _facts(self) -> dict[str, Any]:
        model, labels = self._strategy.model, self._labels
        if self._strategy.numbers and labels:
            known = f"{min(labels.values()):g} to {max(labels.values()):g}"
        else:
            known = ", ".join(f"{label!r} {times}" for label, times in Counter(labels.values()).most_common(8))
        return {
            "model": type(getattr(model, "estimator", model)).__name__,
            "pool": f"{len(self._pool)} items",
            "labels": f"{len(labels)} ({known})" if labels else "none",
            "pending": len(self.pending),
            "score": getattr(self._strategy.score, "__name__", self._strategy.score),
        }

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Learner holds an open store, so it cannot be pickled or copied. What it knows is in the store: give "
            'store="sqlite:///labels.db" and open a Learner on the same store there. learner.posterior can be pickled.'
        )

    def __enter__(self) -> "Learner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> int:
        """Record which run this is, or make sure that it is the one that was begun; the last record of those before."""
        strategy = self._strategy
        named = {"score": strategy.score, "batch": strategy.selection}
        settings = {name: getattr(value, "__name__", str(value)) for name, value in named.items()} | {
            "seed": strategy.seed,
            "classes": self._classes,
            "targets": repr(strategy.targets),
            "items": len(self._pool),
            "ids": _fingerprint(self._pool.ids),
        }
        if strategy.numbers:
            settings["labels"] = "numbers"
        if strategy.class_weights is not None:
            settings["class_weights"] = [[label, cost] for label, cost in strategy.class_weights.items()]
        self._session.change(lambda state: [] if state.settings else [RunStarted(settings)])
        begun, seq = self._session.read(lambda state: (state.settings, state.seq))
        for name in ("seed", "items", "ids", "classes", "labels"):
            was, now = begun.get(name, "classes"), settings.get(name, "classes")
            if was != now:
                raise ValueError(
                    f"the run {self._run!r} of this store was begun with other {name}: {was!r}, and now it is {now!r}. "
                    "Open it as it was begun, or give run= another name."
                )
        return seq

    def _is_for(self, name: str, question: Pending) -> bool:
        """Whether a question was asked of that session; of the learner's own also: before it was opened, or left."""
        left = question.session == NOBODY or question.seq <= self._opened
        return question.session == name or (name == self._name and left)

    def _choose(self, state: State, size: int, heard: list[str]) -> list[Selected]:
        """New questions, of items neither labelled, nor pending, nor skipped; warnings go to `heard`."""
        labels, pending = self._by_position(state.latest_labels), [self._position(item) for item in state.pending]
        skipped = [self._position(item) for item in state.skips]
        free = self._strategy.free(labels, pending, skipped)
        size = min(size, int(free.sum()))
        if size <= 0:
            return []
        mixed = partial(self._strategy.questions, asked=[*labels, *pending], skipped=skipped)
        first = self._strategy.first(labels)
        if first is not None:
            return [*islice(mixed((each, None) for each in first if free[each]), size)]
        now = self._knowledge(state)
        chosen = [*islice(mixed(now.choose(size, free=free, pending=pending)), size)]
        flat = now.flat_warning() if self._look_flat else None
        if flat is not None:
            self._look_flat = False
            heard.append(flat)
        elif self._look and shortcuts(now.posterior).epig is None:
            self._look = False
            now.signal(warn=True)
        return chosen

    def _knowledge(self, state: State) -> Round:
        """What follows from the labels; the same one until they change."""
        if self._made is None or self._made[0] != state.changes:
            labels = state.latest_labels
            if not labels:
                raise ValueError("there is no model yet, because no label is known. Tell a few labels first.")
            self._made = state.changes, self._strategy.round(self._by_position(labels))
        return self._made[1]

    # ---- ids and labels ----

    def _texts(self, ids: Any) -> list[str]:
        """Ids of the pool as the text they are kept as."""
        given = _listed("ids", ids)
        items = [text_of(self._pool.ids[self._pool.position(item)]) for item in given]
        if len(set(items)) < len(items):
            twice = next(item for n, item in enumerate(given) if items[n] in items[:n])
            raise ValueError(f"ids must all be different, but {twice!r} occurs more than once.")
        return items

    def _position(self, item: str) -> int:
        position = self._positions.get(item)
        if position is None:
            position = self._positions[item] = self._pool.position(id_of(item))
        return position

    def _change(self) -> Change | None:
        if self._strategy.numbers:
            raise ValueError("forecasts are for classes: where labels are numbers there are estimate() and advice().")
        labels = self._known()
        return change(self._round, labels) if len(classes_of(labels.values())) > 1 else None

    def _known(self) -> dict[int, Any]:
        """Position -> label, in the order in which they were told."""
        return self._by_position(self._labels)

    def _by_position(self, labels: Mapping[str, Any]) -> dict[int, Any]:
        return {self._position(item): label for item, label in labels.items()}

    def _id(self, item: str) -> Any:
        return self._pool.ids[self._position(item)]

    def _classes_in(self, labels: Mapping[str, Any]) -> list[Any]:
        return classes_of(labels.values()) if self._classes is None else self._classes

    def _checked_labels(self, values: list[Any]) -> list[Any]:
        """Labels as plain values: of the classes, or, where those are not known yet, all of one kind."""
        labels = [plain(value) for value in values]
        if self._strategy.numbers:
            return [checked_number(label, name="labels") for label in labels]
        known = None if self._classes is None else {_kind(label) for label in self._classes}
        before = [*self._labels.values()]
        told = next(iter([*before, *labels]), None)
        for label in labels:
            if not isinstance(label, str | int | float) or label != label:
                raise ValueError(f"labels must be text, numbers or truth values, but one is {label!r}.")
            if known is not None and _kind(label) not in known:
                raise ValueError(f"labels must be among the classes {self._classes}, but one is {label!r}.")
            if isinstance(told, str) != isinstance(label, str):
                raise ValueError(f"labels must be of one kind, but {label!r} is not like {told!r}, which came before.")
        check_labels(labels, like=self._classes or before, name="labels")
        return labels


def _fingerprint(ids: Sequence[Any]) -> str:
    """Of the ids in order, one per line; some at a time, since there may be ten million."""

    def lines() -> Iterator[str]:
        for span in spans(len(ids), 1 << 16):
            part = ids[span]
            numbers = isinstance(part, range) or {*map(type, part)} == {int}  # their text is known without asking JSON
            yield ("\n" if span.start else "") + "\n".join(map(str if numbers else text_of, part))

    return fingerprint(lines())


def _checked_classes(classes: Sequence[Any]) -> list[Any]:
    known = [plain(label) for label in classes]
    if len(known) < 2 or len({_kind(label) for label in known}) < len(known):
        raise ValueError(f"classes must be two or more different labels, but they are {known!r}.")
    check_labels(known, name="classes")
    return known


def _kind(label: Any) -> tuple[bool, Any]:
    """Equal for labels that are equal and of one kind: 1 and True are not."""
    return isinstance(label, bool), label


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name} must be a list, but it is {values!r}. Try [{values!r}].")
    return list(values)
