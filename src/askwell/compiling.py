"""Compiled loops: where they are cached, and who waits for the compiler.

Nobody does where NumPy can serve meanwhile. A process that finds the loops in the cache uses them from the start. One
that does not has them compiled by another process, in the background and once for the installation, and computes with
NumPy until they are there, or until it has computed so long that compiling here would have paid. It changes over at
most once, and never within a ranking. The environment variable `ASKWELL_COMPILE` overrules this: "wait" compiles before
the first score, "never" stays with NumPy. Worker processes wait: what they find is merged, and must come from one path.
"""

import contextlib
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["cache_folder", "is_compiled", "kernel", "mark_compiled", "ready", "steady"]

MODES = ("auto", "wait", "never")
PATIENCE = 10.0  # seconds of NumPy after which compiling in this process would have paid
WORTH = 0.01  # seconds of NumPy before which the background process is not worth starting
PACKAGE = Path(__file__).parent
UNCACHED = (
    "what askwell compiles cannot be kept, because neither its own folder ({}) nor a cache folder of this user can be "
    "written. Everything works, but each process compiles anew, which takes some 10 seconds. Set the environment "
    "variable NUMBA_CACHE_DIR to a folder that can be written."
)


class _State:
    """What this process knows."""

    lock = threading.Lock()
    compiled = False  # whether it has changed over to the compiled loops
    spent = 0.0  # seconds of NumPy so far, by estimate
    rankings = 0  # that are under way
    started = False  # the background process
    spoken = False  # of compiling here
    warned = False  # that nothing can be cached


# ---- the decorator ---------------------------------------------------------------------------------------------------


def kernel(*, allocates: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` that caches on disk where it can, and where it cannot compiles without a cache, with one warning.

    A function that makes no arrays says `allocates=False`: then numba does not count who holds those that it is given,
    and slices of them, with two locked instructions each. Called millions of times that is a third of its time.

    numba looks at the file of a function to tell whether what it has in its cache is still right. But functions of
    several files end up in one loop, so what it keeps goes by a name that changes with any of them.
    """
    from numba import njit

    _listen()
    if not allocates:
        options["_nrt"] = False  # as numba's own functions have it (`numba.extending.register_jitable`)

    def decorate(function: Callable[..., Any]) -> Any:
        function.__qualname__ = f"{function.__qualname__}_{_text_mark()}"
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            _warn_uncached()
            return njit(**options)(function)

    return decorate


def _warn_uncached() -> None:
    with _State.lock:
        first, _State.warned = not _State.warned, True
    if first:
        warnings.warn(UNCACHED.format(PACKAGE), RuntimeWarning, stacklevel=3)


@cache
def _listen() -> None:
    """From now on, say on standard error when something of askwell's is compiled in this process."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            if str(event.data["dispatcher"].py_func.__module__).partition(".")[0] == "askwell":
                _say_once()

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Listener())


def _say_once() -> None:
    with _State.lock:
        first, _State.spoken = not _State.spoken, True
    if first and os.environ.get("ASKWELL_WORKER", "0") == "0":  # of several workers one is enough
        print("askwell: compiling, once, about 10 s ...", file=sys.stderr, flush=True)


# ---- who waits -------------------------------------------------------------------------------------------------------


def ready(seconds: float) -> bool:
    """Whether compiled loops are to do what would take NumPy about so many seconds, on one processor."""
    mode = _mode()
    if mode == "never":
        return False
    if mode == "wait" or _State.compiled:
        return True
    with _State.lock:
        if not _State.rankings:
            _State.spent += seconds
            _State.compiled = _State.spent > PATIENCE or is_compiled()
        if _State.compiled or _State.spent < WORTH or _State.started or cache_folder() is None:
            return _State.compiled
        _State.started = True
    threading.Thread(target=_compile_elsewhere, name="askwell-compiling", daemon=True).start()
    return False


@contextlib.contextmanager
def steady(seconds: float) -> Iterator[None]:
    """Inside, all comes from one path: that of a computation which would take NumPy so many seconds as a whole.

    NumPy and the compiled loops round differently, and what is compared should be rounded alike.

    >>> with steady(0.0): ready(1e9) == ready(0.0)
    True
    """
    ready(seconds)
    with _State.lock:
        _State.rankings += 1
    try:
        yield
    finally:
        with _State.lock:
            _State.rankings -= 1


def _mode() -> str:
    mode = os.environ.get("ASKWELL_COMPILE") or ("wait" if "ASKWELL_WORKER" in os.environ else "auto")
    if mode not in MODES:
        raise ValueError(
            f"the environment variable ASKWELL_COMPILE must be one of {', '.join(MODES)}, but it is {mode!r}."
        )
    return mode


def _compile_elsewhere() -> None:
    """Fill the cache in a process of its own, which goes on if this one ends; at the lowest priority."""
    paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    with contextlib.suppress(OSError):  # no memory for another process: NumPy goes on
        subprocess.run(
            [sys.executable, "-P", "-m", "askwell.warmup", "--background"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # Ctrl-C is not for it
            check=False,
        )


# ---- what is in the cache --------------------------------------------------------------------------------------------


def cache_folder() -> Path | None:
    """The folder under which numba will keep what it compiles of askwell: the first that can be written, or None.

    `NUMBA_CACHE_DIR`, the package's own, the user's. Found without loading numba, which takes as long as a first score.
    """
    folders = [*map(Path, filter(None, [os.environ.get("NUMBA_CACHE_DIR")])), PACKAGE / "__pycache__", _users()]
    return next((folder for folder in folders if _writable(folder)), None)


def mark_compiled() -> None:
    """Write down that the loops are in the cache, for this code, this numba and this processor."""
    if (folder := cache_folder()) is None:
        return
    handle, name = tempfile.mkstemp(dir=folder, prefix=".askwell-")
    os.close(handle)
    os.replace(name, folder / _mark_name())


def is_compiled() -> bool:
    """Whether that has been written down."""
    folder = cache_folder()
    return folder is not None and (folder / _mark_name()).exists()


@cache
def _mark_name() -> str:
    """Another one where numba would find nothing that fits."""
    options = [pair for pair in sorted(os.environ.items()) if re.match("NUMBA_(?!CACHE_DIR|NUM_THREADS)", pair[0])]
    about = [_text_mark(), version("numba"), version("llvmlite"), sys.version, _processor(), options]
    return f".askwell-compiled-{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}"


@cache
def _text_mark() -> str:
    """Of all files that loops may come from."""
    known = hashlib.sha256()
    for file in sorted([*PACKAGE.glob("information/**/*.py"), *PACKAGE.glob("models/**/*.py")]):
        known.update(str(file.relative_to(PACKAGE)).encode() + file.read_bytes())
    return known.hexdigest()[:12]


def _processor() -> str:
    """What this machine's code depends on."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").partition("\n\n")[0].splitlines()
        return "\n".join(line for line in lines if line.startswith(("model", "cpu family", "flags", "Features")))
    return f"{platform.machine()} {platform.processor()}"


def _users() -> Path:
    """numba's folder for this user."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local"), "numba", "Cache")
    if sys.platform == "darwin":
        return Path(os.path.expanduser("~/Library/Caches/numba"))
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "numba")


@cache
def _writable(folder: Path) -> bool:
    """Whether files can be made there: found out as numba does, since permissions do not tell all."""
    if folder.parts[0] == "~":  # a user without a home
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True
