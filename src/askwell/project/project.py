"""A project's folder, open: the things that its settings name."""

import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, final

import cloudpickle
import numpy as np

from askwell.data import Items, Rows, open_items
from askwell.data.display import inside
from askwell.data.files import files_of, is_pattern, is_url
from askwell.models import MODELS, model_named
from askwell.project.features import EMBEDDINGS, Features, Pairing, is_file, kept_features, make_features
from askwell.project.settings import FILE, Settings, read_settings
from askwell.session.events import VectorsPaired
from askwell.store import open_store
from askwell.store.records import Store, StoreError
from askwell.targets import Targets, as_targets, class_prior

if TYPE_CHECKING:
    from askwell.session import Session

__all__ = ["CACHE", "Project", "open_project", "store_url"]

LOST = "deleted. Bring it back, from a backup if need be; or make a new project in another folder."
PAIRED = ("pool", "targets")  # whose vectors may be in files
AT_ONCE = 5_000  # keys in a record
LARGEST_TEMPLATE = 1_000_000  # bytes
LIKE = 10_000  # rows of a pool in files that a model's scales are taken from
CACHE = ".askwell"  # in a project's folder: what can be made again


@final
class Project:
    """A project that is open. Everything is made when it is first asked for, and once.

    `items` and `target_items` (None without targets) are what people see, `store()` and `session()` where their answers
    go; `features()`, `targets()`, `costs()` and `model()` are what is learnt from. A `new` one has no store yet.
    """

    def __init__(
        self, folder: Path, settings: Settings, *, new: bool = False, writable: bool = True, items: Items | None = None
    ) -> None:
        self.folder, self.settings, self._is_new, self._writable = folder, settings, new, writable
        self._made: dict[str, Any] = {}
        if items is not None:
            self.__dict__["items"] = items  # read already

    @cached_property
    def items(self) -> Items:
        """The pool's items."""
        return self._open(self.settings.pool, self.settings.id)

    @cached_property
    def target_items(self) -> Items | None:
        """The items of the targets, or None if there is no file of them. They need no ids: rows are counted then."""
        path, id = self.settings.targets, self.settings.id
        if path is None:
            return None
        try:
            return self._open(path, id)
        except ValueError:
            items = self._open(path, None)
            if id in (None, *items.columns):  # not the id column was the trouble
                raise
            return items

    def _open(self, path: str, id: str | None) -> Items:
        names = ("kind", "encoding", "delimiter")
        options = {name: getattr(self.settings, name) for name in names} | {"show": self.settings.show or None}
        return open_items(self.source(path), id=id, hide=self.no_inputs, **options)

    @property
    def no_inputs(self) -> list[str]:
        """The columns of labels and costs."""
        return [name for name in (self.settings.label, self.settings.cost) if name is not None]

    def store(self, *, new: bool = False) -> Store:
        """The open store; `new` lets it be empty, as it is only before a project is begun."""
        if "store" not in self._made:
            url = store_url(self.settings.store, self.folder)
            self._made["store"] = open_store(url) if new else _begun(url, self.settings.run, self._writable)
        store: Store = self._made["store"]
        return store

    def session(self) -> "Session":
        """Who is asked what, and what they answered."""
        from askwell.session import Session

        if "session" not in self._made:
            wanted = self.settings
            self._made["session"] = Session(self.store(), self.items.ids, run=wanted.run, seed=wanted.seed)
        session: Session = self._made["session"]
        return session

    def features(self) -> tuple[Any, Any]:
        """Inputs of the model: the pool's `[n, d]`, and the targets' `[m, d]` or None. The same in every process.

        Those of a pool in files are `askwell.data.Rows`, which read what is asked of them.
        """
        return self._features.pool, self._features.targets

    def targets(self) -> Targets:
        """Where x* comes from, as `askwell.Learner` takes it: the targets' inputs, the class prior, or the pool."""
        if self.settings.class_prior is not None:
            return class_prior({self._named(name): share for name, share in self.settings.class_prior.items()})
        return as_targets(self.features()[1])

    def class_weights(self) -> dict[str, float] | None:
        """What a wrong prediction of a class costs, by the names that classes have now; None if all cost the same."""
        given = self.settings.class_weights
        return None if given is None else {self._named(name): float(cost) for name, cost in given.items()}

    def _named(self, name: str) -> str:
        """A class of the settings by its name now: it may have been renamed since they were written."""
        return self.session().rules.named(name) if "store" in self._made else name

    def costs(self) -> np.ndarray | None:
        """What it costs to label each item, `[n]`, above zero; None if all cost the same."""
        name, table = self.settings.cost, self.items.table
        if name is None:
            return None
        if table is None:
            raise ValueError(f"cost must be a column of a table, but {self.items.source} is none.")
        values = table.column(name)
        if isinstance(values, list) or not (np.isfinite(values) & (values > 0)).all():
            wrong = 0 if isinstance(values, list) else int(np.flatnonzero(~(np.isfinite(values) & (values > 0)))[0])
            raise ValueError(
                f"{table.place(wrong)}: the cost column {name!r} must hold a number above zero in every row, but here "
                f"it holds {values[wrong]!s}."
            )
        return np.asarray(values, np.float64)

    def model(self) -> Any:
        """The model, as `askwell.Learner` takes it. A `module:function` is looked for in the project's folder first."""
        name = self.settings.model
        if name not in MODELS:
            return _called(name, self.folder)
        x, _ = self.features()
        some = x.some(LIKE) if isinstance(x, Rows) else x
        return model_named(name, some, alike=self._features.alike, numbers=self.settings.numbers)

    def template(self) -> str | None:
        """The Jinja template that draws an item; from the project's folder only, since the page shows what it says."""
        name = self.settings.template
        if name is None:
            return None
        try:
            file = inside(self.folder, name)
            if file.stat().st_size > LARGEST_TEMPLATE:
                raise ValueError(f"it is larger than {LARGEST_TEMPLATE // 10**6} MB")
            return file.read_text("utf-8")
        except (ValueError, OSError) as error:  # what is no UTF-8 is a ValueError too
            reason = str(error).removesuffix(".")
            raise ValueError(f"template must be a UTF-8 file in the project's folder, but: {reason}.") from None

    @property
    def features_note(self) -> str:
        """How the features were made, in words."""
        return self._features.note

    def source(self, name: str) -> str | Path:
        """A path, a glob or a URL of the settings as seen from here."""
        return name if is_url(name) else self.path(name)

    def path(self, name: str) -> Path:
        """A path of the settings as seen from here."""
        return Path(os.path.normpath(self.folder / name))  # p/../a is a beside p, also while p is not there yet

    def check_output(self, path: str | Path) -> None:
        """Refuse a file to write to that the project itself is made of."""
        wanted, features = self.settings, self.settings.features
        names = [FILE, wanted.pool, wanted.targets, wanted.template]
        if _has_files(features):
            names += [name.strip() for name in str(features).removeprefix(EMBEDDINGS).split(",")]
        names += [wanted.store.removeprefix("sqlite:///")] if wanted.store.startswith("sqlite:///") else []
        given = [self.source(name) for name in names if name]
        for own in (Path(file) for each in given for file in (files_of(each) if is_pattern(each) else [each])):
            if Path(path).exists() and own.exists() and own.samefile(path):
                raise ValueError(f"{str(path)!r} belongs to the project, and was not written over. Name another file.")

    def close(self) -> None:
        """Close the store."""
        if "store" in self._made:
            self._made.pop("store").close()
            self._made.pop("session", None)

    def __enter__(self) -> "Project":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def encoder(self) -> Features:
        """The features with their way of encoding other items, which no cache holds: made from the pool once more."""
        return self._features if self._features.encode is not None else self._remade

    @cached_property
    def _remade(self) -> Features:
        return make_features(*self._made_of, drop=self.no_inputs, folder=self.folder)

    @property
    def _made_of(self) -> tuple[Items, Items | None, str | tuple[str, ...]]:
        return self.items, self.target_items, self.settings.features

    def keep_pairings(self) -> None:
        """Store whose the vectors in files are, if that is not what is stored."""
        if not any(self._features.pairings):
            return
        for of, now, before in zip(PAIRED, self._features.pairings, self._pairings(), strict=False):
            if now is None or now == before:
                continue
            records = [
                VectorsPaired(of, now.file, now.sha256, first, now.keys[first : first + AT_ONCE]).to_record(
                    self._pairing_run
                )
                for first in range(0, len(now.keys), AT_ONCE)
            ]
            self.store().append(records)

    def _pairings(self) -> tuple[Pairing | None, ...]:
        """Whose the vectors in files are, by the store: of the pool and of the targets."""
        stored: dict[str, Pairing] = {}
        for record in self.store().read(self._pairing_run):
            event, before = VectorsPaired.from_record(record), stored.get(record.kind)
            keys = (before.keys if before is not None and event.first else ()) + tuple(event.keys)
            stored[event.kind] = Pairing(event.file, event.sha256, keys)
        return tuple(stored.get(of) for of in PAIRED)

    @property
    def _pairing_run(self) -> str:
        return f"{self.settings.run}: vectors"

    @cached_property
    def _features(self) -> Features:
        """With files of vectors, what they were paired with is looked up, and kept if it is new."""
        paired = _has_files(self.settings.features) and not self._is_new
        recorded = self._pairings() if paired else ()
        options: dict[str, Any] = {"drop": self.no_inputs, "folder": self.folder, "recorded": recorded}
        features = kept_features(*self._made_of, cache=self.folder / CACHE / "features.npz", **options)
        if paired:
            self.__dict__["_features"] = features
            self.keep_pairings()
            first = next(iter(features.pairings), None)
            if recorded[0] is None and first is not None:
                warnings.warn(
                    f"the order of the rows of {self.items.source} is kept with this project from now on, so that "
                    f"the vectors of {first.file} stay with their rows.",
                    stacklevel=2,
                )
        return features


def _has_files(features: str | tuple[str, ...]) -> bool:
    """Whether features are vectors in files."""
    return isinstance(features, str) and features.startswith(EMBEDDINGS) and is_file(features)


def open_project(folder: str | Path, *, writable: bool = True) -> Project:
    """The project in a folder; one that is not to be `writable` may lie on a disk that cannot be written."""
    path = Path(folder).absolute()
    path = path.parent if path.name == FILE else path
    return Project(path, read_settings(path / FILE), writable=writable)


# ---- models and stores ---------------------------------------------------------------------------------------------


def store_url(url: str, folder: Path) -> str:
    """A file's URL with the file's full path: as written it is seen from the project's folder."""
    if url.startswith("sqlite:///") and not url.startswith("sqlite:////") and len(url) > len("sqlite:///"):
        return f"sqlite:///{folder / url.removeprefix('sqlite:///')}"
    return url


def _begun(url: str, run: str, writable: bool) -> Store:
    """The store of a project that was begun: an empty one in its place would look as if nobody had ever labelled."""
    file = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not file.exists():
        raise StoreError(f"the store of this project, {str(file)!r}, is not there. Usual cause: it was moved or {LOST}")
    if not writable and url.startswith("sqlite:///"):  # what can be written is opened as ever: it may be in use
        writable = all(os.access(path, os.W_OK) for path in (file, file.parent))
    store = open_store(url, writable=writable)
    if run in store.runs():
        return store
    store.close()
    raise StoreError(
        f"the store of this project has no records of its run {run!r}. Usual cause: the database was emptied, or "
        f"[store] in {FILE} names another than the project began with, or it was {LOST}"
    )


def _called(name: str, folder: Path) -> Any:
    """What `module:function` returns; the module may lie in the project's folder.

    Nobody else looks for modules there. The processes of an engine get those of the folder with the model.
    """
    module, _, function = name.partition(":")
    try:
        with _modules_of(folder, module.partition(".")[0]):
            thing: Any = importlib.import_module(module)
        for part in function.split("."):
            thing = getattr(thing, part)
    except ImportError as error:
        raise ValueError(
            f"model {name!r} cannot be imported: {error}. Put {module}.py into the project's folder, or install it."
        ) from error
    except AttributeError:
        raise ValueError(f"model {name!r} names no function: {module} has no {function}.") from None
    return thing()


_FOLDERS: dict[Path, dict[str, ModuleType]] = {}  # project's folder -> the modules that were found there, by name


@contextmanager
def _modules_of(folder: Path, wanted: str) -> Iterator[None]:
    """Let imports find the modules of this folder, and none of the same name: another project's, or the program's."""
    own = _FOLDERS.setdefault(folder, {})
    foreign = {name for modules in _FOLDERS.values() for name in modules}
    if (folder / f"{wanted}.py").is_file() or (folder / wanted / "__init__.py").is_file():
        foreign |= {name for name in sys.modules if name.partition(".")[0] == wanted}
    aside = {name: sys.modules.pop(name) for name in foreign & sys.modules.keys()}
    sys.modules.update(own)
    importlib.invalidate_caches()  # the file may be younger than what is known of the folder
    sys.path.insert(0, str(folder))
    try:
        yield
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(f"{folder}{os.sep}"):
                own[name] = module
                cloudpickle.register_pickle_by_value(module)
    finally:
        sys.path.remove(str(folder))
        sys.modules.update(aside)
