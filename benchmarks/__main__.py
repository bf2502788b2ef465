"""`python -m benchmarks [name ...] [--write]`: measure, print a Markdown table, put it into README.md if asked to."""

import argparse
import importlib
import os
import time
from pathlib import Path

from benchmarks.measure import Row, machine

HERE = Path(__file__).parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
COMPARISONS = (
    "draws",
    "models",
    "posterior",
    "scale",
)  # no speed, no goals: tables of the manual, made by name only
SPEED = [name for name in NAMES if name not in COMPARISONS]
START, END = "<!-- measured -->", "<!-- /measured -->"
HEAD = ("what", "at", "goal", "measured")
MET = {True: "yes", False: "**no**", None: "-"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; without: all but {', '.join(COMPARISONS)}"
    )
    parser.add_argument(
        "--write", action="store_true", help="put the table into benchmarks/README.md; without names only"
    )
    asked = parser.parse_args()
    os.environ.setdefault("ASKWELL_COMPILE", "wait")  # what is measured is what is compiled, also the first time
    if unknown := set(asked.names) - set(NAMES):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if asked.write and asked.names:
        parser.error("--write takes no names: the table of the README is of one run of all benchmarks")
    text = _report(asked.names or SPEED)
    if asked.write:
        _write(text)


def _report(names: list[str]) -> str:
    """The machine and the table, printed as it grows."""
    began = time.perf_counter()
    lines = [*(f"- {line}" for line in machine()), "", _line([*HEAD, "met"]), "|---" * (len(HEAD) + 1) + "|"]
    print("\n".join(lines), flush=True)
    parts = []
    for name in names:
        start = time.perf_counter()
        for row in importlib.import_module(f"benchmarks.bench_{name}").rows():
            lines.append(_cells(row))
            print(lines[-1], flush=True)
        parts.append(f"{name} {time.perf_counter() - start:.0f}")
    whole = f"{time.perf_counter() - began:.0f} s ({', '.join(parts)})"
    lines += ["", f"Measured on {time.strftime('%Y-%m-%d')} in {whole}."]
    print("\n".join(lines[-2:]), flush=True)
    return "\n".join(lines)


def _cells(row: Row) -> str:
    return _line([*(str(row[key]) for key in HEAD), MET[row.get("ok")]])


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _write(text: str) -> None:
    page = HERE / "README.md"
    before, rest = page.read_text().split(START)
    after = rest.split(END)[1]
    page.write_text(f"{before}{START}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
