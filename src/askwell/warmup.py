"""Compile what askwell will need, before anybody needs it: `python -m askwell.warmup`, for images, CI and services.

The same is started in the background by the first process that finds nothing compiled (`askwell.compiling`).
"""

import contextlib
import os
import sys
import warnings
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from askwell.compiling import cache_folder, is_compiled, mark_compiled
from askwell.information.bounds import prepare, top_epig
from askwell.information.categorical import bald, epig, pairwise_epig
from askwell.information.draws import epig_quadratic
from askwell.learner import Learner
from askwell.models.forest import forest
from askwell.models.gp import GPClassifier
from askwell.models.linear import LinearModel
from askwell.models.protocol import shortcuts
from askwell.seeds import rng_for

__all__ = ["compile_all", "main"]

ITEMS, LABELS, DRAWS = 300, 30, 64  # as few as go through all loops


def compile_all() -> None:
    """Use each loop once, as models and scores do; when the usual ones are in the cache, write that down."""
    x = rng_for(0, 0, "warmup").normal(size=(ITEMS, 2)).astype(np.float32)
    for classes in (2, 3):
        labels = (x[:, 0] > 0).astype(int) + (classes - 2) * (x[:, 1] > 0)
        for model in (forest(trees=DRAWS), LinearModel(draws=DRAWS)):
            posterior: Any = _asked(model, x, labels)
            posterior.predict(x[:1])  # one input goes another way than many
            probs = posterior.predict(x)
            _score(probs)
            above = shortcuts(posterior).predict_above
            if above is not None and (prepared := prepare(probs)) is not None:
                above(x, prepared.screen(1e-9))
    mark_compiled()
    _asked(GPClassifier(), x, x[:, 0] > 0)
    for classes in (2, 3):
        _score(rng_for(0, 0, "warmup").dirichlet(np.ones(classes), size=(ITEMS, DRAWS)))


def _asked(model: Any, x: np.ndarray, labels: np.ndarray) -> Any:
    """The posterior after a question."""
    with Learner(model, x) as learner:
        learner.tell(list(range(LABELS)), labels[:LABELS].tolist())
        learner.ask()
        return learner.posterior


def _score(probs: np.ndarray) -> None:
    for score in (epig, pairwise_epig, epig_quadratic):
        score(probs, probs)
    bald(probs), top_epig(probs, probs, 1)


def main() -> None:
    """Compile, unless that has been done or another process is doing it."""
    background, folder = "--background" in sys.argv[1:], cache_folder()
    if folder is None:
        sys.exit("Nothing was compiled: no folder to keep it in can be written. Set NUMBA_CACHE_DIR to one that can.")
    if background and hasattr(os, "nice"):
        os.nice(19)
    os.environ["ASKWELL_COMPILE"] = "wait"
    warnings.simplefilter("ignore")  # of models that know three labels
    with contextlib.suppress(Timeout), FileLock(folder / ".askwell-compiling.lock", timeout=0 if background else -1):
        if not (background and is_compiled()):
            compile_all()
    print(f"Compiled; kept under {folder}")


if __name__ == "__main__":
    main()
