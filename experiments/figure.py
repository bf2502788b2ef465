"""The small shape that every figure of the paper has here: what is run, on what terms, how it is drawn and judged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, final, get_args

from experiments.results import Job, Results, Row

__all__ = ["EFFORTS", "Effort", "Figure", "Option", "Setting", "Terms"]

Effort = Literal["quick", "standard", "full"]
"""quick: minutes, to see that it works; standard: what the committed results were run with; full: the paper's."""

EFFORTS: tuple[Effort, ...] = get_args(Effort)


@final
@dataclass(frozen=True)
class Option:
    """A choice where the paper and its authors' code disagree or say nothing; the first value is the default."""

    values: tuple[str, ...]
    meaning: str  # one sentence, for --help and the README

    @property
    def default(self) -> str:
        """The paper's text, where it says anything."""
        return self.values[0]


@final
@dataclass(frozen=True)
class Terms:
    """How much is done, and how: a run is resumed only on the terms it was begun on."""

    effort: Effort = "standard"
    options: Mapping[str, str] = field(default_factory=dict)  # name -> value, those that are not the default

    @property
    def name(self) -> str:
        """A name for folders and files.

        >>> Terms().name, Terms("quick", {"labels": "logistic"}).name
        ('standard', 'quick+labels=logistic')
        """
        return "+".join([self.effort, *(f"{name}={value}" for name, value in sorted(self.options.items()))])


@final
@dataclass(frozen=True)
class Setting:
    """One panel: the scores that are compared in it, with how many seeds and, to tell the time left, in how many steps.

    An effort without seeds leaves the setting out.
    """

    name: str
    scores: tuple[str, ...]
    seeds: Mapping[str, int]  # effort -> how many
    steps: Mapping[str, int]  # effort -> rows per run, about


@final
@dataclass(frozen=True)
class Figure:
    """A figure of the paper.

    `run(job, terms, past)` yields the rows after those that are past, each a dict with at least the `columns`. It must
    depend on nothing else, so that a killed run goes on as it would have. `draw(results)` gives a Matplotlib figure and
    `verdict(results)` Markdown: a table, and what became of the claim.
    """

    name: str
    content: str  # what is to be seen, in half a sentence
    claim: str  # the paper's
    settings: tuple[Setting, ...]
    run: Callable[[Job, Terms, Sequence[Row]], Iterator[Row]]
    draw: Callable[[Results], Any]
    verdict: Callable[[Results], str]
    options: Mapping[str, Option] = field(default_factory=dict)
    columns: tuple[str, ...] = ("labels", "accuracy", "log_loss")
    family: str = ""  # figures of one family share runs: what one has done, the other need not do again

    def jobs(self, terms: Terms, *, seeds: int | None = None) -> list[Job]:
        """All runs on these terms, seed by seed, so that all scores and settings come along together."""
        counts = {setting.name: _count(setting, terms, seeds) for setting in self.settings}
        return [
            Job(setting.name, score, seed)
            for seed in range(max(counts.values(), default=0))
            for setting in self.settings
            if seed < counts[setting.name]
            for score in setting.scores
        ]

    def steps(self, job: Job, terms: Terms) -> int:
        """How many rows a run has, about."""
        (setting,) = [setting for setting in self.settings if setting.name == job.setting]
        return setting.steps[terms.effort]

    def terms(self, effort: Effort, options: Mapping[str, str]) -> Terms:
        """The terms with these options, checked; defaults are left out, so that they name the same runs."""
        for name, value in options.items():
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise ValueError(f"option must be one of {self.name}'s ({known}), but it is {name!r}.")
            if value not in self.options[name].values:
                known = ", ".join(self.options[name].values)
                raise ValueError(f"option {name} must be one of {known}, but it is {value!r}.")
        return Terms(effort, {name: value for name, value in options.items() if value != self.options[name].default})

    def option(self, terms: Terms, name: str) -> str:
        """The value of an option."""
        return terms.options.get(name, self.options[name].default)


def _count(setting: Setting, terms: Terms, seeds: int | None) -> int:
    usual = setting.seeds.get(terms.effort, 0)
    return usual if seeds is None or not usual else seeds
