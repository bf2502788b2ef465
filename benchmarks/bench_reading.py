"""Reading files: a table of numbers against pandas, and projects of a million items from their files to the first item.

Numbers have six decimals. Files are written once for a run and read from the page cache. A million rows, and the
project, are read in fresh processes, importing included.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import ROOT, Row, in_child, interleaved, row

COLUMNS, MANY, SOME, FILES = 10, 1_000_000, 200_000, 4
WORDS, LENGTH = 20_000, 13  # different ones; of a text, about 100 letters
MOST_RATIO, MOST_SECONDS, MOST_OPENING = 2.0, 1.0, 5.0
ASKWELL = "from askwell.cli import main; main()"


def rows() -> list[Row]:
    """Tables by their number of rows, then the project."""
    with tempfile.TemporaryDirectory() as folder:
        table = [_against_pandas(Path(folder), SOME), _against_pandas(Path(folder), MANY), _whole(Path(folder))]
        return [*table, *_project(Path(folder)), *_in_files(Path(folder))]


def _file(folder: Path, n: int) -> Path:
    """A CSV of n rows of numbers."""
    path = folder / f"{n}.csv"
    if not path.exists():
        names = ",".join(f"x{column}" for column in range(COLUMNS))
        x = np.random.default_rng(0).normal(size=(n, COLUMNS))
        np.savetxt(path, x, "%.6f", delimiter=",", header=names, comments="")
    return path


def _against_pandas(folder: Path, n: int) -> Row:
    found = in_child(f"{__name__}:both", path=str(_file(folder, n)))
    mine, theirs = found["first"], found["second"]
    return row(
        "reading a CSV of numbers",
        f"{n:,} x {COLUMNS}, `read_table` against `pandas.read_csv`, CPU",
        f"<= {MOST_RATIO:g}x",
        f"{found['cpu']:.2f}x: {mine['cpu']:.2f} against {theirs['cpu']:.2f} CPU-s ({mine['wall']:.2f} s)",
        found["cpu"] <= MOST_RATIO,
    )


def both(path: str) -> dict[str, Any]:
    """Both readers in turn, in a warm process."""
    import pandas

    from askwell.data import read_table

    read_table(path), pandas.read_csv(path)
    return interleaved(lambda: read_table(path), lambda: pandas.read_csv(path), repeats=7)


def _whole(folder: Path) -> Row:
    tries = sorted(in_child(f"{__name__}:once", path=str(_file(folder, MANY)))["cpu"] for _ in range(5))
    return row(
        "reading a CSV of numbers, the first table of a process",
        f"{MANY:,} x {COLUMNS}, importing Arrow included, median of 5",
        f"<= {MOST_SECONDS:g} CPU-s",
        f"{tries[2]:.2f} CPU-s ({tries[0]:.2f} to {tries[-1]:.2f})",
        tries[2] <= MOST_SECONDS,
    )


def once(path: str) -> dict[str, float]:
    """One table in a process that has read none."""
    from askwell.data import read_table

    cpu = time.process_time()
    read_table(path)
    return {"cpu": time.process_time() - cpu}


# ---- a project -----------------------------------------------------------------------------------------------------


def _project(folder: Path) -> list[Row]:
    pool = folder / "texts.csv"
    _write_texts(pool)
    size = f"{MANY:,} texts of about 100 letters ({pool.stat().st_size / 1e6:.0f} MB)"
    return _to_the_first_item(folder, size, "--pool", "texts.csv", "--id", "id", "--show", "text")


def _in_files(folder: Path) -> list[Row]:
    """A pool of Parquet files, which stays there."""
    pool = folder / "numbers"
    pool.mkdir()
    _write_numbers(pool)
    size = f"{MANY:,} x {COLUMNS} numbers in {FILES} Parquet files, read chunk by chunk"
    return _to_the_first_item(folder, size, "--pool", "numbers/*.parquet", "--id", "id")


def _to_the_first_item(folder: Path, size: str, *words: str) -> list[Row]:
    project = f"p{len([*folder.iterdir()])}"
    made = _command(folder, "init", project, "--classes", "a,b", *words)
    opened = _command(folder, "status", project)
    first = in_child(f"{__name__}:first_item", folder=str(folder / project))
    return [
        row("`askwell init`", size, "none", _spent(made)),
        row("`askwell status`", size, f"<= {MOST_OPENING:g} CPU-s", _spent(opened), opened["cpu"] <= MOST_OPENING),
        row("opening a project, to the first item", size, f"<= {MOST_OPENING:g} CPU-s", _spent(first),
            first["cpu"] <= MOST_OPENING),
    ]  # fmt: skip


def _write_numbers(folder: Path) -> None:
    from pyarrow import parquet, table

    rng = np.random.default_rng(0)
    for number in range(FILES):
        rows = range(number * MANY // FILES, (number + 1) * MANY // FILES)
        columns = {f"x{column}": rng.normal(size=len(rows)) for column in range(COLUMNS)}
        parquet.write_table(table({"id": [f"r{row}" for row in rows]} | columns), folder / f"{number}.parquet")


def _write_texts(path: Path) -> None:
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, WORDS + 1)
    words = np.array([f"word{number}" for number in range(WORDS)], object)
    with path.open("w") as file:
        file.write("id,text\n")
        for start in range(0, MANY, 100_000):
            drawn = words[rng.choice(WORDS, size=(100_000, LENGTH), p=share / share.sum())]
            file.writelines(f"t{start + row},{' '.join(text)}\n" for row, text in enumerate(drawn))


def _command(folder: Path, *words: str) -> dict[str, float]:
    """What a command took; its peak memory by the system's own account of ended processes."""
    settings = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    wall = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", ASKWELL, *words], cwd=folder, env=settings, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"askwell {' '.join(words)} failed")
    return _usage(used, wall)


def first_item(folder: str) -> dict[str, float]:
    """Open a project, load its features and hand out the first item."""
    wall = time.perf_counter()
    from askwell.project import open_project

    with open_project(folder) as project:
        project.features()
        (task,) = project.session().next("ada", size=1)
        project.items.show(task.item)
    return _usage(resource.getrusage(resource.RUSAGE_SELF), wall)


def _usage(used: resource.struct_rusage, wall: float) -> dict[str, float]:
    seconds = time.perf_counter() - wall
    return {"cpu": used.ru_utime + used.ru_stime, "wall": seconds, "memory": used.ru_maxrss / 1024}


def _spent(found: dict[str, float]) -> str:
    return f"{found['cpu']:.1f} CPU-s ({found['wall']:.1f} s), at most {found['memory']:,.0f} MiB"
