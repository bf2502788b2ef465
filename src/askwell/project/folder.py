"""A project's folder, open: the things that its settings name."""

import importlib
import os
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from askwell.items import Items, open_items
from askwell.project.features import Features, kept_features
from askwell.project.settings import FILE, Settings, read_settings
from askwell.store import open_store
from askwell.store.records import Store, StoreError
from askwell.targets import Targets, as_targets, class_prior

if TYPE_CHECKING:
    from askwell.desk import Desk

__all__ = ["CACHE", "Project", "open_project"]

PRIOR_SCALE = 3.0  # of logits: a typical input is about one of 20 to 1 either way
LOST = "deleted. Bring it back, from a backup if need be; or make a new project in another folder."
CACHE = ".askwell"  # in a project's folder: what can be made again


@final
class Project:
    """A project that is open. Everything is made when it is first asked for, and once.

    `items` and `target_items` (None without targets) are what people see, `store()` and `desk()` where their answers
    go; `features()`, `targets()`, `costs()` and `model()` are what is learnt from.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        self._made: dict[str, Any] = {}

    @cached_property
    def items(self) -> Items:
        """The pool's items."""
        wanted = self.settings
        hide = [name for name in (wanted.label, wanted.cost) if name is not None]
        return open_items(self.path(wanted.pool), id=wanted.id, hide=hide, **self._reading())

    @cached_property
    def target_items(self) -> Items | None:
        """The items of the targets, or None if there is no file of them. They need no ids: rows are counted then."""
        wanted = self.settings
        if wanted.targets is None:
            return None
        path, hide = self.path(wanted.targets), [name for name in (wanted.label, wanted.cost) if name is not None]
        try:
            return open_items(path, id=wanted.id, hide=hide, **self._reading())
        except ValueError:
            found = open_items(path, hide=hide, **self._reading())
            if wanted.id in (None, *found.columns):  # not the id column was the trouble
                raise
            return found

    def store(self, *, new: bool = False) -> Store:
        """The open store; `new` lets it be empty, as it is only before a project is begun."""
        if "store" not in self._made:
            url = _store_url(self.settings.store, self.folder)
            self._made["store"] = open_store(url) if new else _begun(url, self.settings.run)
        found: Store = self._made["store"]
        return found

    def desk(self) -> "Desk":
        """Who is asked what, and what they answered."""
        from askwell.desk import Desk

        if "desk" not in self._made:
            wanted = self.settings
            self._made["desk"] = Desk(self.store(), self.items.ids, run=wanted.run, seed=wanted.seed)
        found: Desk = self._made["desk"]
        return found

    def features(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Inputs of the model: the pool's `[n, d]`, and the targets' `[m, d]` or None. The same in every process."""
        return self._features.pool, self._features.targets

    def targets(self) -> Targets:
        """Where x* comes from, as `askwell.Learner` takes it: the targets' inputs, the class prior, or the pool."""
        if self.settings.class_prior is not None:
            return class_prior(dict(self.settings.class_prior))
        return as_targets(self.features()[1])

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
        if name == "linear":
            from askwell.models.linear import LinearModel

            if self._features.alike:
                # Five labels a class of hard texts have evidence for no scale, and the best one is then near zero.
                return LinearModel(standardise=False, prior_scale=PRIOR_SCALE)
            return LinearModel(reference=self.features()[0])
        if name == "forest":
            from askwell.models.forest import forest

            return forest()
        return _gp(self._features) if name == "gp" else _called(name, self.folder)

    @property
    def features_note(self) -> str:
        """How the features were made, in words."""
        return self._features.note

    def path(self, name: str) -> Path:
        """A path of the settings as seen from here."""
        return Path(os.path.normpath(self.folder / name))  # p/../a is a beside p, also while p is not there yet

    def close(self) -> None:
        """Close the store."""
        if "store" in self._made:
            self._made.pop("store").close()
            self._made.pop("desk", None)

    def __enter__(self) -> "Project":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _features(self) -> Features:
        wanted = self.settings
        return kept_features(
            self.items,
            self.target_items,
            wanted.features,
            drop=[name for name in (wanted.label, wanted.cost) if name is not None],
            folder=self.folder,
            kept=self.folder / CACHE / "features.npz",
        )

    def _reading(self) -> dict[str, Any]:
        wanted = self.settings
        return {
            "show": wanted.show or None,
            "kind": wanted.kind,
            "encoding": wanted.encoding,
            "delimiter": wanted.delimiter,
        }


def open_project(folder: str | Path) -> Project:
    """The project in a folder."""
    place = Path(folder)
    if place.name == FILE:
        place = place.parent
    return Project(place.absolute(), read_settings(place.absolute() / FILE))


# ---- models and stores ---------------------------------------------------------------------------------------------


def _store_url(url: str, folder: Path) -> str:
    """A file's URL with the file's full path: as written it is seen from the project's folder."""
    if url.startswith("sqlite:///") and not url.startswith("sqlite:////") and len(url) > len("sqlite:///"):
        return f"sqlite:///{folder / url.removeprefix('sqlite:///')}"
    return url


def _begun(url: str, run: str) -> Store:
    """The store of a project that was begun: an empty one in its place would look as if nobody had ever labelled."""
    file = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not file.exists():
        raise StoreError(f"the store of this project, {str(file)!r}, is not there. Usual cause: it was moved or {LOST}")
    store = open_store(url)
    if run in store.runs():
        return store
    store.close()
    raise StoreError(
        f"the store of this project has no records of its run {run!r}. Usual cause: the database was emptied, or "
        f"[store] in {FILE} names another than the project began with, or it was {LOST}"
    )


def _gp(features: Features) -> Any:
    """A Gaussian process in units of the pool: features count by their standard deviations, or all alike."""
    from askwell.models.gp import GPClassifier
    from askwell.models.gp_kernel import Kernel

    x = features.pool
    spread = np.ones(x.shape[1]) if features.alike else x.std(axis=0, dtype=np.float64)
    lengths = np.where(spread > 0, spread, 1.0) * np.sqrt(x.shape[1])
    return GPClassifier(Kernel(scale=10.0, length=tuple(lengths.tolist())), learn=True)


def _called(name: str, folder: Path) -> Any:
    """What `module:function` returns; the module may lie in the project's folder."""
    module, _, function = name.partition(":")
    sys.path.insert(0, str(folder))
    try:
        thing: Any = importlib.import_module(module)
        for part in function.split("."):
            thing = getattr(thing, part)
    except ImportError as fault:
        raise ValueError(
            f"model {name!r} cannot be imported: {fault}. Put {module}.py into the project's folder, or install it."
        ) from fault
    except AttributeError:
        raise ValueError(f"model {name!r} names no function: {module} has no {function}.") from None
    finally:
        sys.path.remove(str(folder))
    return thing()
