"""Runs the tests with the lowest versions that pyproject.toml declares, and with the newest ones.

    python scripts/versions.py lowest
    python scripts/versions.py newest --python python3.13

Each makes a fresh virtual environment (.venv-lowest, .venv-newest), prints what was installed, and runs the tests of
the mathematics, the models, the data and the loop there, and of the pages and commands that the optional packages
serve. In `lowest` every `name>=X` of the dependencies and extras is installed as `name==X`, and the data frames of the
tests likewise; what they need in turn and the tools of the tests are the newest that fit. A bound that cannot be tried
on a machine is replaced with --pin, or its package left out with --without, and is not proved.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = {"pytest", "pytest-xdist", "hypothesis", "mpmath", "playwright", "schemathesis", "httpx", "httpx2"}
FRAMES = {"pandas", "polars"}  # users bring their own, and scikit-learn knows those of its time only
ROOMS = [
    *("arrays", "curves", "pool", "learner", "knowledge", "acquisition", "selection", "simulate", "problem", "trial"),
    *("compiling", "seeds", "warmup"),
    *("information", "models", "tables", "rows", "items", "scoring", "selection/", "targets", "store", "report"),
    *("testing", "workers", "engines", "project", "session", "web", "bridge", "cli", "cli/", "progress", "demo"),
]


def main() -> int:
    """The exit code of the tests."""
    asked = _arguments()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *(line for line in extras["dev"] if _name(line) in FRAMES)]
    declared += [line for name, lines in extras.items() if name not in {"all", "dev", "docs"} for line in lines]
    tools = [line for line in extras["dev"] if _name(line) in TOOLS]
    wanted = sorted({*(lowest(declared) if asked.versions == "lowest" else declared)})
    replaced = {_name(line) for line in [*asked.pin, *asked.without]}
    wanted = [line for line in wanted if _name(line) not in replaced] + asked.pin

    place = Path(asked.place or ROOT / f".venv-{asked.versions}")
    python = place / "bin" / "python"
    subprocess.run([asked.python, "-m", "venv", "--clear", place], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--prefer-binary"]
    subprocess.run([*pip, "--upgrade", "pip"], check=True)
    subprocess.run([*pip, *wanted, *tools], check=True)
    subprocess.run([*pip, "--no-deps", "-e", ROOT], check=True)  # nothing is changed by it
    subprocess.run([python, "-m", "pip", "check"], check=True)

    found = subprocess.run([python, "-m", "pip", "list", "--format=freeze"], check=True, capture_output=True, text=True)
    have = {_name(line): line.partition("==")[2] for line in found.stdout.splitlines()}
    names = sorted({_name(line) for line in wanted})
    about = subprocess.run([python, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"{about} with {', '.join(f'{name} {have[name]}' for name in names)}", flush=True)
    tests = asked.tests or [str(path) for name in ROOMS for path in _tests(name)]
    # Old packages among newer ones are told that they are old. With the newest every warning is an error.
    calm = ["-W", "ignore::DeprecationWarning"] if asked.versions == "lowest" else []
    return subprocess.run(
        [python, "-m", "pytest", "-rfEs", "-n", "auto", "--dist", "loadfile", *calm, *tests], cwd=ROOT
    ).returncode


def lowest(requirements: list[str]) -> Iterator[str]:
    """`name==X` for each `name>=X`, extras kept."""
    for line in requirements:
        bound = re.fullmatch(r"([\w.\[\]-]+)>=([\w.]+)", line)
        if not bound:
            raise SystemExit(f"{line!r} of pyproject.toml has no lower bound of the form name>=X: give it one.")
        yield f"{bound[1]}=={bound[2]}"


def _name(requirement: str) -> str:
    """The package of a requirement, as pip compares names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~ ]", requirement, maxsplit=1)[0]).lower()


def _tests(room: str) -> Iterator[Path]:
    """The test file or the folder of a room; a stroke behind the name asks for the folder where there are both."""
    file, folder = ROOT / "tests" / f"test_{room}.py", ROOT / "tests" / room.rstrip("/")
    found = file if file.exists() else folder
    if not found.exists():
        raise SystemExit(f"There are no tests called {room}: mend ROOMS in scripts/versions.py.")
    yield found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", choices=["lowest", "newest"])
    parser.add_argument("--python", default=sys.executable, help="the interpreter to make the environment with")
    parser.add_argument("--place", help="where the environment is made [default: .venv-lowest or .venv-newest]")
    parser.add_argument(
        "--pin", action="append", default=[], metavar="NAME==X", help="a version instead of the bound's"
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="NAME", help="a package that is not there for this Python"
    )
    parser.add_argument("tests", nargs="*", help="what to run instead of the tests listed in ROOMS")
    return parser.parse_intermixed_args()


if __name__ == "__main__":
    sys.exit(main())
