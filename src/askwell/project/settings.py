"""What a project is, in words: `askwell.toml`, one readable file, and every value in it checked."""

import difflib
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, final, get_args

from askwell.acquisition import as_score, check_kind, checked_class_weights
from askwell.data.display import Kind
from askwell.data.pretrained import NAMED, is_pretrained
from askwell.models import MODELS

__all__ = ["FILE", "MODELS", "Settings", "read_settings", "settings_text"]

FILE = "askwell.toml"
FEATURES = ("text", "pixels", "columns")
LARGEST = 1_000_000  # bytes of a settings file
LONGEST_CLASS = 100  # characters
WIDEST = 36  # characters of a line before its comment, in the file


@final
@dataclass(frozen=True)
class Settings:
    """What a project was begun with. Paths are as seen from the project's folder.

    `features` is "text", "pixels", "columns" (all of them), a tuple of columns, an encoder of `askwell.data.pretrained`
    with the fingerprint of its weights ("minilm@..."), or "embeddings:..." with the name of a column or of a .npy file
    (and, after a comma, that of the targets). `model` is "forest", "linear", "gp", or
    "module:function", whose result is anything that `askwell.as_model` takes. `classes`, `budget`, `labels_per_item`,
    `most_labels` and `lease_seconds` are those at the start: people may change them later, in the store.

    >>> Settings(pool="mail.csv", kind="text", classes=("ham", "spam"), features="text", model="linear", batch=0)
    Traceback (most recent call last):
    ValueError: batch must be a whole number from 1, but it is 0. ...
    """

    pool: str
    kind: Kind
    classes: tuple[str, ...]
    features: str | tuple[str, ...]
    model: str
    targets: str | None = None
    class_prior: Mapping[str, float] | None = None
    class_weights: Mapping[str, float] | None = None
    id: str | None = None
    show: tuple[str, ...] = ()
    label: str | None = None
    cost: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    template: str | None = None
    score: str = "auto"
    seed: int = 0
    batch: int = 10
    retrain_every: int = 10
    retrain_seconds: float = 300.0
    evaluation: float | None = None  # `usual_evaluation`
    budget: int | None = None
    numbers: bool = False  # labels are numbers, not classes
    label_range: tuple[float, float] | None = None  # of these
    labels_per_item: int = 1
    most_labels: int | None = None  # 2 labels_per_item - 1: enough for a majority
    lease_seconds: float = 90.0
    store: str = "sqlite:///labels.db"
    run: str = "main"

    def __post_init__(self) -> None:
        for name in ("pool", "model", "run", "store"):
            _check(name, getattr(self, name), str, "a text that is not empty", bool)
        for name in ("targets", "id", "label", "cost", "encoding", "delimiter", "template"):
            _check(name, getattr(self, name), str | None, "a text that is not empty", lambda text: text is None or text)
        for name in ("batch", "retrain_every", "labels_per_item"):
            _check(name, getattr(self, name), int, "a whole number from 1", lambda number: number >= 1)
        for name in ("budget", "most_labels"):
            wanted = "a whole number from 1, or left out"
            _check(name, getattr(self, name), int | None, wanted, lambda n: n is None or n >= 1)
        _check("seed", self.seed, int, "a whole number from 0", lambda number: number >= 0)
        for name in ("retrain_seconds", "lease_seconds"):
            _check(name, getattr(self, name), float | int, "a number of seconds from 1", lambda s: 1 <= s < math.inf)
        _check(
            "evaluation",
            self.evaluation,
            float | int | None,
            "a share from 0 to 0.5",
            lambda s: s is None or 0 <= s <= 0.5,
        )
        _check("kind", self.kind, str, f"one of {', '.join(get_args(Kind))}", lambda kind: kind in get_args(Kind))
        if self.most_labels is not None and self.most_labels < self.labels_per_item:
            raise ValueError(
                f"most_labels must be at least labels_per_item, but it is {self.most_labels} and that is "
                f"{self.labels_per_item}."
            )
        _check_names("show", self.show)
        _check_features(self.features)
        _check_model(self.model)
        as_score(self.score)
        if not isinstance(self.numbers, bool):
            raise ValueError(f"numbers must be true or false, but it is {self.numbers!r}.")
        check_kind(self.score, numbers=self.numbers)
        _check_numbers(self)
        if not self.numbers:
            _check_classes(self.classes)
        _check_prior(self.class_prior, self.classes, self.targets)
        if self.class_weights is not None:
            checked_class_weights(self.class_weights, score=self.score, classes=self.classes)


# ---- checks --------------------------------------------------------------------------------------------------------


def _check(name: str, value: Any, kind: Any, wanted: str, right: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, kind) or not right(value):
        raise ValueError(f"{name} must be {wanted}, but it is {value!r}. Correct it in {FILE}, or where it was given.")


def _check_names(name: str, names: Any) -> None:
    if not isinstance(names, tuple) or not all(isinstance(each, str) and each for each in names):
        raise ValueError(f"{name} must be a list of column names, but it is {names!r}.")
    if len({*names}) < len(names):
        raise ValueError(f"{name} must name each column once, but it is {', '.join(names)}.")


def _check_features(features: Any) -> None:
    if isinstance(features, tuple):
        if not features:
            raise ValueError("features must name a column at least, but the list is empty.")
        _check_names("features", features)
    elif not isinstance(features, str) or not (
        features in FEATURES or re.match("embeddings:.", features) or is_pretrained(features)
    ):
        raise ValueError(
            f'features must be one of {", ".join((*FEATURES, *NAMED))}, a list of columns, "embeddings:" and a column '
            f"or a .npy file, or an encoder (an ONNX file, a folder, owner/model), but it is {features!r}."
        )


def _check_model(model: str) -> None:
    if model not in MODELS and not re.fullmatch(r"[\w.]+:[\w.]+", model):
        near = difflib.get_close_matches(model, MODELS, n=1)
        raise ValueError(
            f"model must be one of {', '.join(MODELS)}, or module:function, but it is {model!r}."
            + (f" Did you mean {near[0]!r}?" if near else "")
        )


def _check_classes(classes: Any) -> None:
    if not isinstance(classes, tuple) or len(classes) < 2:
        raise ValueError(f"classes must be two or more names, such as ham,spam, but they are {classes!r}.")
    for name in classes:
        if not isinstance(name, str) or not name.strip() or name != name.strip() or not name.isprintable():
            raise ValueError(f"classes must be printable texts without blanks around them, but one is {name!r}.")
        if len(name) > LONGEST_CLASS:
            raise ValueError(
                f"classes must have at most {LONGEST_CLASS} letters, but {name[:20]!r}... has {len(name)}."
            )
    if len({*classes}) < len(classes):
        raise ValueError(f"classes must all be different, but they are {', '.join(classes)}.")


def _check_numbers(settings: Settings) -> None:
    """Labels are classes, or numbers in a range."""
    ends = settings.label_range
    if not settings.numbers:
        if ends is not None:
            raise ValueError("label_range is for labels that are numbers: set numbers = true too.")
        return
    for name in ("classes", "class_prior", "class_weights"):
        if getattr(settings, name):
            raise ValueError(f"{name} must be left out where labels are numbers.")
    numbers = isinstance(ends, tuple) and len(ends) == 2 and all(type(end) in (int, float) for end in ends)
    if ends is not None and not (numbers and -math.inf < ends[0] < ends[1] < math.inf):
        raise ValueError(f"label_range must be two numbers, the lower first, such as [0, 100], but it is {ends!r}.")


def _check_prior(prior: Any, classes: Sequence[str], targets: str | None) -> None:
    if prior is None:
        return
    if targets is not None:
        raise ValueError("targets and class_prior exclude each other: give inputs that will be met, or frequencies.")
    from askwell.targets import class_prior

    if not isinstance(prior, Mapping) or any(isinstance(share, bool) for share in prior.values()):
        raise ValueError(f"class_prior must map classes to probabilities, but it is {prior!r}.")
    strange = [name for name in prior if name not in classes]
    if strange:
        raise ValueError(
            f"class_prior must name classes of the project, {', '.join(classes)}, but {strange[0]!r} is none of them."
        )
    class_prior(dict(prior))


# ---- the file ------------------------------------------------------------------------------------------------------


class _Line(NamedTuple):
    """A setting in the file: what it means to a reader, and what an example looks like where it is not set."""

    name: str
    meaning: str
    example: str = ""


_SECTIONS: dict[str, tuple[str, tuple[_Line, ...]]] = {
    "data": (
        "The pool, the targets, and how to read and show them. Paths are relative to this folder.",
        (
            _Line("pool", "a table (.csv, .jsonl, .parquet), an array (.npy), a folder of images or text files"),
            _Line("targets", "unlabelled inputs the model will have to predict; default: the pool", '"traffic.csv"'),
            _Line("kind", "how items are shown: text, image or table"),
            _Line("show", "columns shown to annotators; default: all", '["text"]'),
            _Line("id", "column with unique ids; default: row numbers", '"key"'),
            _Line("label", "column with initial labels", '"label"'),
            _Line(
                "cost", "column with the cost of labelling a row; items are then ranked by gain per cost", '"minutes"'
            ),
            _Line("encoding", "CSV encoding; default: UTF-8", '"cp1252"'),
            _Line("delimiter", "CSV delimiter; default: detected", '";"'),
            _Line("template", "your own Jinja template for showing an item on the page", '"item.html"'),
        ),
    ),
    "model": (
        "The model and the acquisition function. A change takes effect at the next training.",
        (
            _Line(
                "features",
                "text, pixels, columns, a list of columns, minilm, mobilenet, embeddings:FILE.npy or a column",
            ),
            _Line("model", "forest, linear, gp (two classes), or module:function of your own"),
            _Line("score", "acquisition function: auto, epig, bald, entropy, margin, random, ..."),
            _Line("seed", "random seed: the same seed and labels give the same questions"),
        ),
    ),
    "training": (
        "When the model is retrained while people label.",
        (
            _Line("batch", "batch size: questions chosen together"),
            _Line("retrain_every", "new labels before the model is retrained"),
            _Line("retrain_seconds", "or seconds before it is retrained, if there is a new label"),
            _Line(
                "evaluation",
                "share of questions drawn from the targets, to know how good the model is; default: 0.2 for auto",
                "0.2",
            ),
        ),
    ),
    "start": (
        "Rules when the project is created. Later changes here have no effect: use askwell rules, or the page.",
        (
            _Line("classes", "in the order of their keys 1, 2, 3, ...", '["ham", "spam"]'),
            _Line("numbers", "whether labels are numbers to predict, instead of classes"),
            _Line("label_range", "the lowest and the highest of these; default: any", "[0, 100]"),
            _Line("budget", "total number of labels; default: unlimited", "500"),
            _Line("labels_per_item", "from different people"),
            _Line("most_labels", "maximum per item if people disagree; default: enough for a majority", "3"),
            _Line("lease_seconds", "how long a question is reserved for one person; renewed while the page is open"),
        ),
    ),
    "store": (
        "Where labels and all other records are stored. For a team: a PostgreSQL database.",
        (
            _Line("store", "sqlite:///file in this folder, or postgresql://user@host/database (keep passwords out)"),
            _Line("run", "the project's name in the store"),
        ),
    ),
}
_BY_CLASS = {
    "data": (
        "class_prior",
        "expected class frequencies",
        "# [class_prior]  # expected class frequencies, instead of targets\n# ham = 0.9\n# spam = 0.1",
    ),
    "model": (
        "class_weights",
        "cost of a wrong prediction, per class; default: 1",
        "# [class_weights]  # cost of a wrong prediction, per class; default: 1\n# spam = 1\n# fraud = 50",
    ),
}
"""Section -> the table of numbers by class that stands below it: its name, what it means, and an example."""
_FORMER = {"held_out": "evaluation"}  # names that settings had in earlier versions
_TABLES = [name for name, *_ in _BY_CLASS.values()]
_FIELDS = {field.name: field for field in fields(Settings)}


def settings_text(settings: Settings) -> str:
    """The settings as a file that explains itself; `read_settings` reads it back.

    >>> text = settings_text(Settings("mail.csv", "text", ("ham", "spam"), "text", "linear"))
    >>> [line for line in text.splitlines() if line.startswith("classes")]
    ['classes = ["ham", "spam"]  # in the order of their keys 1, 2, 3, ...']
    """
    lines = ['# An askwell labelling project. See the manual, page "A labelling project".']
    for section, (meaning, entries) in _SECTIONS.items():
        lines += ["", f"[{section}]  # {meaning}"]
        written = [_written(settings, line) for line in entries]
        width = min(WIDEST, max(map(len, written)))
        lines += [f"{text:<{width}}  # {line.meaning}" for text, line in zip(written, entries, strict=True)]
        if section in _BY_CLASS:
            name, meaning, example = _BY_CLASS[section]
            numbers = [f"{_toml(label)} = {_toml(number)}" for label, number in (getattr(settings, name) or {}).items()]
            lines += ["", "\n".join([f"[{name}]  # {meaning}", *numbers]) if numbers else example]
    return "\n".join(lines) + "\n"


def _written(settings: Settings, line: _Line) -> str:
    value = getattr(settings, line.name)
    unset = value is None or value == ()
    return f"# {line.name} = {line.example}" if unset else f"{line.name} = {_toml(value)}"


def read_settings(path: Path) -> Settings:
    """The settings in a file, checked; a ValueError says what to correct."""
    name = f"{path.parent.name}/{path.name}"
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"{name} is larger than {LARGEST // 10**6} MB, so it is no settings file.")
        content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise ValueError(
            f"there is no project in {str(path.parent)!r}: it has no {FILE}. Name a project's folder, or make one with "
            "askwell init."
        ) from None
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not UTF-8 text. Save it as UTF-8.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{name} cannot be read: {error}. Texts stand in quotation marks, lists in [...].") from None
    try:
        return Settings(**_flat(content))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _flat(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> value out of the sections; refuses names that mean nothing, and says which ones are missing."""
    values: dict[str, Any] = {}
    for section, content in sections.items():
        if section in _TABLES:
            values[section] = content
            continue
        known = [line.name for line in _SECTIONS[section][1]] if section in _SECTIONS else [*_SECTIONS, *_TABLES]
        if section not in _SECTIONS or not isinstance(content, dict):
            raise ValueError(f"[{section}] is no section. {_near(section, known)}")
        for written, value in content.items():
            name = str(written if written in known else _FORMER.get(written, written))
            if name not in known:
                raise ValueError(f"{name!r} means nothing in [{section}]. {_near(name, known)}")
            values[name] = tuple(value) if isinstance(value, list) else value
    if values.get("numbers"):
        values.setdefault("classes", ())
    lacking = [name for name, field in _FIELDS.items() if field.default is MISSING and name not in values]
    if lacking:
        raise ValueError(f"{lacking[0]!r} is missing. It belongs to [{_section(lacking[0])}].")
    return values


def _section(name: str) -> str:
    return next(section for section, (_, lines) in _SECTIONS.items() if name in [line.name for line in lines])


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return (f"Did you mean {near[0]!r}? " if near else "") + f"There are {', '.join(known)}."


def _toml(value: Any) -> str:
    """A value as TOML writes it: JSON's strings are TOML's, but for one control character."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
