"""Making a project: everything is looked at before anything is written, and nothing half-made is left behind."""

import csv
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from askwell.checks import write_file
from askwell.data import Items, Table, holds_numbers, open_items
from askwell.data.encoding import is_prose
from askwell.data.files import is_url
from askwell.data.pretrained import is_pretrained, missing_packages, pretrained
from askwell.data.reading import read_table
from askwell.data.table import is_missing
from askwell.models import as_model
from askwell.models.protocol import predicts_numbers
from askwell.project.features import EMBEDDINGS
from askwell.project.project import CACHE, Project
from askwell.project.settings import FILE, Settings, settings_text
from askwell.session.events import Event, LabelAdded, RulesChanged, event_of, text_of
from askwell.session.rules import Rules
from askwell.session.session import Session
from askwell.session.state import State

__all__ = ["features_advice", "init_project", "project_note"]

SHOWN = 5  # of what was left out
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
MOST_NUMBERS = 20  # classes that are numbers with fractions; more are a quantity, as `askwell simulate` has it
IMPORTED = "import"  # who gave the initial labels


def init_project(
    folder: str | Path,
    *,
    pool: str | Path,
    classes: Sequence[str] | None = None,
    targets: str | Path | None = None,
    class_prior: Mapping[str, float] | None = None,
    class_weights: Mapping[str, float] | None = None,
    show: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    model: str | None = None,
    label_targets: bool = False,
    **others: Any,
) -> Project:
    """Make a project in a new folder, or in one that is none yet, and open it. Nothing half-made is left behind.

    `pool` and `targets` are paths from where we are; they are kept as seen from the project's folder if they were given
    that way or lie in it. A `template` that lies elsewhere is copied into the folder. Without `classes` they are those
    of the `label` column. Without `features` and `model` these follow from what is shown: a text gives "text" and
    "linear", pictures "pixels" and "linear", a table "columns" and "forest" ("linear" if it has prose). With
    `label_targets` people are asked about the targets too: the pool becomes a new file in the folder, with both.
    `others` are the other fields of `Settings`.
    """
    home = Path(folder).absolute()
    _check_place(home)
    if label_targets:
        given = {name: others.get(name) for name in ("encoding", "delimiter")}
        with _both(home, pool, targets, id=others.get("id"), **given) as together:
            return init_project(
                folder, pool=together, classes=classes, targets=targets, class_prior=class_prior,
                class_weights=class_weights, show=show, features=features, model=model, **others,
            )  # fmt: skip
    strange = sorted({*others} - {*_OTHERS})
    if strange:
        raise ValueError(f"init_project has no option {strange[0]!r}. There are {', '.join(sorted(_OTHERS))}.")
    settings, items = _settings(
        home,
        pool=_path_from(pool, home),
        targets=None if targets is None else _path_from(targets, home),
        class_prior=class_prior,
        class_weights=class_weights,
        classes=None if classes is None else tuple(classes),
        show=() if show is None else (show,) if isinstance(show, str) else tuple(show),
        features=features,
        model=model,
        **{name: value for name, value in others.items() if value is not None},
    )
    project = Project(home, settings, new=True, items=items)
    with _all_or_nothing(home, settings):
        _bring_template(others.get("template"), project)
        _check_things(project)
        _begin(project)
        project.keep_pairings()
    return project


_OTHERS = {*Settings.__dataclass_fields__} - {
    *("pool", "classes", "targets", "class_prior", "class_weights", "show", "features", "model")
}


@contextmanager
def _both(
    home: Path, pool: str | Path, targets: str | Path | None, *, id: str | None, **options: Any
) -> Iterator[Path]:
    """A file in the folder with the pool and, behind it, the targets; it goes again if the project cannot be made."""
    if targets is None:
        raise ValueError("label_targets needs targets: name the file of them.")
    paths = [Path(str(each)) for each in (pool, targets)]
    arrays, tables = (all(path.suffix.lower() in ends for path in paths) for ends in ((".npy",), TABLES))
    if not arrays and not tables:
        raise ValueError(
            f"label_targets joins two tables ({', '.join(TABLES)}) or two arrays (.npy), but they are {paths[0].name} "
            f"and {paths[1].name}. Put the targets into the pool yourself, as more files or rows."
        )
    file, new = home / ("pool.npy" if arrays else "pool.csv"), not home.exists()
    if file.exists():
        raise ValueError(f"label_targets would replace {str(file)!r}. Move it, or name another folder.")
    home.mkdir(parents=True, exist_ok=True)
    try:
        if arrays:
            rows = [np.load(path) for path in paths]
            if rows[0].shape[1:] != rows[1].shape[1:]:
                shapes = " and ".join(str(each.shape) for each in rows)
                raise ValueError(f"pool and targets must have equally many columns, but they have the shapes {shapes}.")
            np.save(file, np.concatenate(rows))
        else:
            parts = [read_table(path, **options) for path in paths]
            _check_ids(paths, parts, id)
            _write_rows(file, parts, **options)
        yield file
    except BaseException:
        file.unlink(missing_ok=True)
        if new:
            with suppress(OSError):
                home.rmdir()
        raise


def _check_ids(paths: Sequence[Path], tables: Sequence[Table], id: str | None) -> None:
    if id is None or not all(id in table.columns for table in tables):
        return
    pool, targets = ({*table.texts(id)} for table in tables)
    if both := sorted(pool & targets):
        raise ValueError(
            f"label_targets joins {paths[0].name} and {paths[1].name}, but both have rows of the same id, such as "
            f"{both[0]!r} in the column {id!r}. Give the targets other ids, or name no id column: rows are counted "
            "then. Targets that are rows of the pool already are asked about without label_targets."
        )


def _write_rows(file: Path, tables: Sequence[Table], *, encoding: str | None, delimiter: str | None) -> None:
    """The rows of all tables, cells as they stand in their files; columns that one of them lacks are empty there."""
    names = [*dict.fromkeys(name for table in tables for name in table.columns)]
    with file.open("w", newline="", encoding=encoding or "utf-8") as out:
        writer = csv.writer(out, delimiter=delimiter or ",")
        writer.writerow(names)
        for table in tables:
            columns = [_written(table, name) if name in table.columns else [""] * table.rows for name in names]
            writer.writerows(zip(*columns, strict=True))


def _written(table: Table, name: str) -> list[str]:
    """A column's cells; a number with a comma, as files with semicolons have it, with a point."""
    values, cells = table.columns[name], table.texts(name)
    if isinstance(values, list):
        return cells
    return [str(value) if "," in cell else cell for value, cell in zip(values.tolist(), cells, strict=True)]


# ---- from what was given to settings -------------------------------------------------------------------------------


def _settings(home: Path, *, features: Any, model: str | None, classes: Any, **given: Any) -> tuple[Settings, Items]:
    """The settings, with what was not said found out from the data; and the pool, which has been read."""
    kind = given.pop("kind", None)
    items = open_items(
        given["pool"] if is_url(given["pool"]) else os.path.normpath(home / given["pool"]),
        id=given.get("id"),
        show=given["show"] or None,
        kind=kind,
        hide=[given[name] for name in ("label", "cost") if given.get(name)],
        encoding=given.get("encoding"),
        delimiter=given.get("delimiter"),
    )
    if features is None:
        features = {"text": "text", "image": "pixels", "table": "columns"}[items.kind]
    elif not isinstance(features, str):
        features = tuple(features)
    elif is_pretrained(features):
        features = (features,) if features in items.columns else _with_fingerprint(features, home)
    elif features.startswith(EMBEDDINGS) and (names := features.removeprefix(EMBEDDINGS)) not in items.columns:
        features = EMBEDDINGS + ",".join(_path_from(name.strip(), home) for name in names.split(","))
    if given.get("template") is not None:
        template = Path(_path_from(given["template"], home))
        outside = template.is_absolute() or ".." in template.parts
        given["template"] = template.name if outside else template.as_posix()  # a copy: see `_bring_template`
    if given.get("numbers") is None and classes is None and given.get("label"):
        given["numbers"] = _holds_numbers(items, given["label"])
    if given.get("numbers"):
        classes = classes or ()
    elif classes is None:
        classes = _classes_of(items, given.get("label"))
    if items.kind != "table":
        given["show"] = items.shown  # the column that was found
    model = model or _fitting(items, features)
    return Settings(**given, kind=items.kind, classes=classes, features=features, model=model), items


def _with_fingerprint(name: str, home: Path) -> str:
    """The encoder's name as seen from the project's folder, and what its weights are known by from now on."""
    plain, at, recorded = name.partition("@")
    if Path(plain).exists():
        seen = _path_from(plain, home)
        plain = seen if is_pretrained(seen) else f"./{seen}"
    return pretrained(f"{plain}{at}{recorded}", folder=home).full_name


def _fitting(items: Items, features: str | tuple[str, ...]) -> str:
    """The model that suits the features: a forest for columns, a linear one where all numbers are of one kind."""
    if isinstance(features, str) and features != "columns":
        return "linear"
    if not isinstance(items.table, Table):  # in files texts are no inputs
        return "forest"
    columns = items.table.columns
    used = columns if isinstance(features, str) else [name for name in features if name in columns]
    return "linear" if any(is_prose(columns[name]) for name in used) else "forest"


def _classes_of(items: Items, label: str | None) -> tuple[str, ...]:
    if label is None:
        raise ValueError("classes must be named, such as ham,spam; or name the label column that has them.")
    labels = sorted(set(_initial_labels(items, label).values()))
    if len(labels) < 2:
        there = f"only {labels[0]!r}" if labels else "no label"
        raise ValueError(
            f"classes must be two or more, and the label column {label!r} of {items.source} holds {there}. Name all "
            f"classes that there can be: classes='{labels[0] if labels else 'ham'},...'."
        )
    if len(labels) > MOST_NUMBERS and any(_is_fraction(text) for text in labels):
        raise ValueError(
            f"the label column {label!r} of {items.source} holds {len(labels)} different numbers, with fractions. If "
            "it is a number to predict, say so (--numbers); else choose another column, cut the numbers into a few "
            "ranges, or name the classes if these are some."
        )
    return tuple(labels)


def _holds_numbers(items: Items, label: str) -> bool:
    """Whether the label column looks like numbers to predict, as `askwell simulate` has it."""
    try:
        return holds_numbers([float(text) for text in _initial_labels(items, label).values()])
    except ValueError:
        return False


def _is_fraction(text: str) -> bool:
    try:
        return not float(text).is_integer()
    except (ValueError, OverflowError):  # a word; "inf"
        return False


def _initial_labels(items: Items, label: str) -> dict[str, str]:
    """Item -> label, of the rows that have one."""
    if items.table is None:
        raise ValueError(f"label must be a column of a table, but {items.source} is none.")
    missing, cells = is_missing(items.table.column(label)), items.table.texts(label)
    return {item: cell.strip() for item, cell, gap in zip(items.ids, cells, missing, strict=True) if not gap}


def _path_from(given: str | Path, home: Path) -> str:
    """The path as seen from the project's folder, if it was given as seen from somewhere or lies in the folder."""
    path = Path(given)
    if is_url(str(given)):
        return str(given)
    if path.is_absolute() and not path.is_relative_to(home):
        return str(path)
    return Path(os.path.relpath(path.absolute(), home)).as_posix()


# ---- making it -----------------------------------------------------------------------------------------------------


def _check_place(home: Path) -> None:
    if home.exists() and not home.is_dir():
        raise ValueError(f"folder must be a new one, but {str(home)!r} is a file. Name another.")
    if (home / FILE).exists():
        raise ValueError(f"{str(home)!r} is a project already. Open it, or name another folder.")


@contextmanager
def _all_or_nothing(folder: Path, settings: Settings) -> Iterator[None]:
    """The folder becomes a project when `askwell.toml` appears, last of all; if making it fails, it is as it was."""
    folders = [each for each in (folder, *folder.parents) if not each.exists()]
    own = (folder / CACHE, *_store_files(settings.store, folder), *_template_file(settings, folder))
    new = [path for path in own if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
        write_file(folder / FILE, settings_text(settings), safe=True)
    except BaseException:
        for path in new:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        with suppress(OSError):  # what somebody else has put there stays
            for each in folders:
                each.rmdir()
        raise


def _store_files(url: str, home: Path) -> list[Path]:
    """The files that a store of its own in the folder consists of."""
    name = url.removeprefix("sqlite:///")
    if not url.startswith("sqlite:///") or name.startswith("/") or not name:
        return []
    return [Path(f"{home / name}{end}") for end in ("", "-lock", "-new", "-journal")]


def _template_file(settings: Settings, home: Path) -> list[Path]:
    return [] if settings.template is None else [home / settings.template]


def _bring_template(given: str | Path | None, project: Project) -> None:
    """Copy a template that lies elsewhere into the folder: the page shows what is in it, and nothing else."""
    for file in _template_file(project.settings, project.folder):
        source = Path(os.path.abspath(str(given)))
        try:
            content = source.read_bytes()
            if source != file and file.exists() and file.read_bytes() != content:
                raise ValueError(f"template would replace the other {file.name!r} of the folder. Rename one of them.")
            if not file.exists():
                file.write_bytes(content)
        except OSError as error:
            raise ValueError(f"template must be a file, but {str(given)!r}: {error.strerror or error}.") from None


def _check_things(project: Project) -> None:
    """Make everything once that settings name, so that what is wrong is said now."""
    project.features()
    project.targets()
    project.costs()
    as_model(project.model())
    project.template()
    if predicts_numbers(as_model(project.model())) != project.settings.numbers:
        kind, other = ("numbers", "classes") if project.settings.numbers else ("classes", "numbers")
        raise ValueError(f"model must predict {kind}, because the labels are {kind}, but it predicts {other}.")
    if project.settings.model == "gp" and len(project.settings.classes) != 2 and not project.settings.numbers:
        raise ValueError(f"model gp is for two classes, but there are {len(project.settings.classes)}. Try forest.")


def _begin(project: Project) -> None:
    """The first records, all of them or none: the rules, and the initial labels.

    A store in the folder that has just these is what an init that was killed left: run again, it resumes.
    """
    wanted = project.settings
    per_item = wanted.labels_per_item
    rules = {
        "classes": list(wanted.classes),
        "labels_per_item": per_item,
        "most_labels": wanted.most_labels or 2 * per_item - 1,
        "lease_seconds": wanted.lease_seconds,
        "budget": wanted.budget,
        "renamed": {},
    } | ({"label_range": list(wanted.label_range or (None, None))} if wanted.numbers else {})
    events: list[Event] = [RulesChanged(rules)]
    if wanted.label is not None:
        for item, label in _initial_labels(project.items, wanted.label).items():
            table, row = project.items.table, project.items.position(item)
            if wanted.numbers:
                try:
                    events.append(LabelAdded(text_of(item), Rules().after(rules).checked(label)))
                except ValueError as error:
                    raise ValueError(f"{table.place(row) if table else item}: {error}") from None
                continue
            if label not in wanted.classes:
                raise ValueError(
                    f"{table.place(row) if table else item}: the label column {wanted.label!r} holds {label!r}, which "
                    f"is none of the classes {', '.join(wanted.classes)}."
                )
            events.append(LabelAdded(text_of(item), label))

    store = project.store(new=True)

    def first(state: State) -> list[Event]:
        there = store.read(wanted.run) if _store_files(wanted.store, project.folder) else []
        if there and [(each.who, event_of(each)) for each in there] == [(IMPORTED, event) for event in events]:
            return []
        if state.seq:
            raise ValueError(
                f"the store has a run {wanted.run!r} with records already. Give run= another name; or, to join a "
                f"project that others began, copy its {FILE}."
            )
        return events

    try:
        Session(store, run=wanted.run).change(first, who=IMPORTED)
    except BaseException:
        project.close()
        raise


# ---- in words ------------------------------------------------------------------------------------------------------


def project_note(project: Project) -> str:
    """A summary of the data and settings, one line for each."""
    wanted, items, theirs = project.settings, project.items, project.target_items
    shown = f", showing {', '.join(items.shown[:5])}{', ...' if len(items.shown) > 5 else ''}" if items.shown else ""
    lines = [f"pool: {items.source}, {len(items):,} items ({items.kind}){shown}", *_left_out(items)]
    if theirs is not None:
        lines += [f"targets: {theirs.source}, {len(theirs):,} items", *_left_out(theirs)]
    elif wanted.class_prior is not None:
        shares = ", ".join(f"{name} {share:g}" for name, share in wanted.class_prior.items())
        lines.append(f"targets: the pool, weighted towards {shares}")
    else:
        lines.append("targets: the pool itself")
    pool, _ = project.features()
    first, *more = project.features_note.splitlines()
    lines += [f"features: {pool.shape[1]} dimensions; {first}", *(f"  {line}" for line in more)]
    ends = "" if wanted.label_range is None else f" from {wanted.label_range[0]:g} to {wanted.label_range[1]:g}"
    lines.append(f"labels: numbers{ends}" if wanted.numbers else f"classes: {', '.join(wanted.classes)}")
    known = 0 if wanted.label is None else len(_initial_labels(items, wanted.label))
    if wanted.label is not None:
        lines.append(f"initial labels: {known:,}, from the column {wanted.label}")
    lines.append(f"model: {wanted.model}; acquisition function: {wanted.score}; batch size: {wanted.batch}")
    if wanted.class_weights is not None:
        costs = (f"{name} {wanted.class_weights.get(name, 1):g}" for name in wanted.classes)
        lines.append(f"class weights: {', '.join(costs)}")
    return "\n".join(lines)


def features_advice(project: Project) -> str | None:
    """What to try in place of the simple default for texts or pictures, as `askwell reproduce features` measured it."""
    name, gain = _MEASURED.get(str(project.settings.features), ("", ""))
    if not name:
        return None
    missing = missing_packages(name)
    how = f" It needs: {missing}." if missing else " All it needs is installed."
    return f"hint: --features {name}: {gain}.{how}"


_MEASURED = {
    "text": ("minilm", "with 100 labels 9 to 19 points more accurate than TF-IDF on five sets of English texts"),
    "pixels": (
        "mobilenet",
        "with 100 labels 2 to 9 points more accurate than pixels on three sets of pictures, 5 less on digits of 8 x 8",
    ),
}
"""Features -> a better encoder, and how much better with the linear model: experiments/README.md."""


def _left_out(items: Items) -> list[str]:
    """The first rows that are no items, and how many there are."""
    if not items.left_out:
        return []
    head = [f"  {each}" for each in items.left_out[:SHOWN]]
    more = len(items.left_out) - len(head)
    return [f"  {len(items.left_out):,} left out:", *head, *([f"  and {more:,} more"] if more else [])]
