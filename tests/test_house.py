"""The rules of the house that a machine can keep: names, sizes, pairs of file and test, who may import what."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import get_args

import pytest

import askwell
from askwell.acquisition import SCORES, ScoreName
from askwell.selection import BATCHES, BatchName

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "askwell"
MODULES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text("utf-8")) for path in MODULES}

TESTED_WITH_THEIR_ROOM = {  # the insides
    *("shapes", "tree_kernels", "linear_kernels", "masks", "networks", "passes", "tensors", "training"),
}
OPTIONAL = {  # a package that not everybody has or wants to wait for -> the only files that may import it
    "torch": {"models/tensors.py"},
    "sklearn": {
        "session/progress.py",
        "models/scikit_learn.py",
        "project/features.py",
        "data/encoding.py",
        "demo.py",
    },
    "pandas": {"simulation/simulate.py"},
    "click": {
        f"cli/{name}.py"
        for name in (
            *("__init__", "ask", "export", "init", "options", "predict", "reproduce", "review", "rules"),
            *("score", "serve", "simulate", "status"),
        )
    },
    "PIL": {"data/display.py", "report/page.py"},
    "fastapi": {"bridge/ml_backend.py", *(f"web/{name}.py" for name in ("app", "api", "service"))},
    "httpx": {"bridge/client.py"},
    "itsdangerous": {"web/security.py"},
    "jinja2": {"report/page.py", "web/app.py", "web/view.py"},
    "pydantic": {"bridge/ml_backend.py", *(f"web/{name}.py" for name in ("api", "service", "view"))},
    "uvicorn": {"cli/serve.py", "web/connections.py"},
    "matplotlib": {"report/figures.py"},
    "hypothesis": {"store/contract.py"},
    "psycopg": {"store/postgres.py"},
    "pytest": {"store/contract.py"},
    "ray": {"engines/ray.py"},
    "rich": {"cli/reproduce.py", "demo.py", "progress.py"},
    "pyarrow": {
        "project/exchange.py",
        *(f"data/{name}.py" for name in ("table", "csv", "parquet")),
    },
    "fsspec": {"data/files.py"},
    "tokenizers": {"data/pretrained.py"},
    "onnxruntime": {"data/pretrained.py"},
    "huggingface_hub": {"data/pretrained.py"},
    "numba": {
        "compiling.py",
        "information/_kernels/epig.py",
        "information/_kernels/product.py",
        "information/_kernels/votes.py",
        "models/tree_kernels.py",
    },
    "llvmlite": {
        "information/_kernels/product.py",
        "information/_kernels/votes.py",
        "models/tree_kernels.py",
    },
}
MOST_LINES = 700
each_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))


def imported(tree):
    """The packages a module imports, at its top or anywhere inside."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def dotted(node):
    """`np.random.rand` of an attribute or a name; "" of anything else."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def names_in_order(names):
    """As ruff sorts `__all__`: CONSTANTS, Classes, then the rest."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def test_there_is_a_house():
    assert len(MODULES) > 10  # or the rules below hold of nothing


# ---- the public face -----------------------------------------------------------------------------------------------


def test_public_names_are_few_and_exist():
    assert len(askwell.__all__) <= 20
    assert all(hasattr(askwell, name) for name in askwell.__all__)


@pytest.mark.parametrize("name", askwell.__all__)
def test_public_names_are_explained_and_shown(name):
    thing = getattr(askwell, name)
    assert thing.__doc__
    assert isinstance(thing, types.ModuleType) or ">>>" in thing.__doc__


@pytest.mark.parametrize("name", ["bounds", "categorical", "draws", "gaussian", "nested", "probit", "variational"])
def test_functions_of_the_information_room_are_explained(name):
    module = getattr(askwell.information, name)
    for public in module.__all__:
        assert getattr(module, public).__doc__, f"{name}.{public}"


@each_module
def test_a_module_says_what_it_is_and_what_it_offers(path):
    tree = TREES[path]
    assert ast.get_docstring(tree)
    offers = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and dotted(node.targets[0]) == "__all__"
    ]
    assert len(offers) == 1, "one __all__"
    assert offers[0] == names_in_order(offers[0])
    assert len({*offers[0]}) == len(offers[0])


# ---- names ---------------------------------------------------------------------------------------------------------


@each_module
def test_names(path):
    assert path.stem not in {"utils", "util", "helpers", "common", "misc"}
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert not re.match(r"_*(get|compute)_", node.name), node.name
        if isinstance(node, ast.ClassDef):
            assert not re.search(r"(Manager|Handler|Helper|Base|Factory)$", node.name), node.name


def test_a_public_class_name_exists_once_in_the_house():
    """Of classes and type aliases at the top of a module: one word, one thing."""
    homes = {}
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.AnnAssign) and dotted(node.annotation).split(".")[-1] == "TypeAlias":
                name = node.target.id
            else:
                continue
            if not name.startswith("_"):
                homes.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    twice = {name: places for name, places in homes.items() if len(places) > 1}
    assert homes
    assert not twice


@each_module
def test_options_are_keyword_only(path):
    """What has a default must be named by the caller; private functions may do as they like."""
    for node in TREES[path].body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            assert not node.args.defaults, f"{node.name} has an option that can be given by place"


@each_module
def test_nothing_is_left_to_do(path):
    assert not re.search("TO" + "DO|FIX" + "ME|XX" + "X", path.read_text("utf-8"))


# ---- sizes and pairs -----------------------------------------------------------------------------------------------


@each_module
def test_files_are_short(path):
    assert len(path.read_text("utf-8").splitlines()) <= MOST_LINES


@each_module
def test_every_module_has_its_test(path):
    inside = any(
        part.startswith("_") for part in path.relative_to(SOURCE).parts
    )  # __init__.py, and a room's own insides
    if inside or path.stem in TESTED_WITH_THEIR_ROOM:
        return
    test = ROOT / "tests" / path.relative_to(SOURCE).with_name(f"test_{path.name}")
    assert test.exists(), f"{test.relative_to(ROOT)} is missing"


def test_every_test_has_its_module():
    free = {"test_house", "test_docs", "test_one_loop", "test_one_table", "test_reliability"} | {"test_numbers"}
    for test in (ROOT / "tests").rglob("test_*.py"):
        room = test.parent.relative_to(ROOT / "tests")
        place = ROOT if room == Path("experiments") else SOURCE
        name = test.stem.removeprefix("test_")
        assert test.stem in free or (place / room / f"{name}.py").exists() or (place / room / name).is_dir(), test


# ---- the log -------------------------------------------------------------------------------------------------------

MAKE_RECORDS = {  # events; a store reads its own and tests itself; a backup is restored as it was
    *("session/events.py", "project/backup.py"),
    *(f"store/{name}.py" for name in ("contract", "records")),
}


def test_only_events_become_records():
    """What the log can say is defined in one file: nobody else makes a record."""
    for path in MODULES:
        made = [node for node in ast.walk(TREES[path]) if isinstance(node, ast.Call)]
        if str(path.relative_to(SOURCE)) not in MAKE_RECORDS:
            assert not [node.lineno for node in made if dotted(node.func).split(".")[-1] == "Record"], path


BRIDGE_MAY_KNOW = {"checks", "data", "session", "session.events", "store"}  # rooms, and the vocabulary of the log


def test_the_bridge_could_live_outside():
    """It speaks to the public face of a few rooms: no module inside them, and nothing private of theirs."""
    for path in (SOURCE / "bridge").glob("*.py"):
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.Import):
                assert not any(each.name.startswith("askwell") for each in node.names), path
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("askwell."):
                room = node.module.removeprefix("askwell.")
                assert room in BRIDGE_MAY_KNOW or room.split(".")[0] == "bridge", f"{path.name}: {node.module}"
                assert not any(each.name.startswith("_") for each in node.names), path
            if isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr):
                assert dotted(node.value) == "self", f"{path.name}:{node.lineno}: private, and another object's"


# ---- randomness and imports ----------------------------------------------------------------------------------------


@each_module
def test_generators_come_from_one_place(path):
    """Types may be named anywhere; making a generator is for seeds.py, and the global state is for nobody."""
    for node in ast.walk(TREES[path]):
        name = dotted(node)
        if isinstance(node, ast.Attribute) and re.match(r"(np|numpy)\.random\.\w", name):
            allowed = {"Generator", "default_rng"} if path.name == "seeds.py" else {"Generator"}
            assert name.split(".")[2] in allowed, name
        if isinstance(node, ast.Name):
            assert name != "default_rng"
    assert "random" not in imported(TREES[path])


@pytest.mark.parametrize("package", OPTIONAL)
def test_optional_packages_have_their_files(package):
    users = {str(path.relative_to(SOURCE)) for path in MODULES if package in imported(TREES[path])}
    assert users <= OPTIONAL[package]


def test_dependencies_give_their_reason():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    dependencies = tomllib.loads(text)["project"]["dependencies"]
    assert dependencies
    for dependency in dependencies:
        (line,) = [line for line in text.splitlines() if line.strip().startswith(f'"{dependency}"')]
        assert re.search(r"#\s*\w{3,}", line), f"why does askwell need {dependency}?"


def test_version_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert askwell.__version__ == project["version"]


# ---- the checkout --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("git") or not (ROOT / ".git").exists(), reason="not a git checkout")
def test_no_file_knows_the_machine_it_was_written_on():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    homes = "|".join("/" + room + "/" for room in ("home", "root", "tmp", "Users", "work", "mnt"))
    pattern = re.compile(r"(?<![\w.~>)}/-])(" + homes + r")\w")  # at the start of a path, not inside one
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        file = ROOT / name
        if not file.is_file() or b"\0" in (data := file.read_bytes()):
            continue
        lines = data.decode("utf-8").splitlines()
        found += [f"{name}:{number}: {line}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    assert not found, "\n".join(found)


def test_shortcuts_of_a_posterior_are_asked_for_in_one_place():
    """The optional methods of `FastPosterior` have one door, `models.protocol.shortcuts`."""
    optional = {"predict_votes", "predict_above", "epig", "top_epig", "concurrent"}
    asking = [
        path.relative_to(SOURCE).as_posix()
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and dotted(node.func) in ("hasattr", "getattr")
        if isinstance(node.args[1], ast.Constant) and node.args[1].value in optional
    ]
    assert {*asking} <= {"models/protocol.py"}


def test_names_that_editors_know_are_the_names_there_are():
    assert {*get_args(ScoreName)} == {*SCORES}
    assert {*get_args(BatchName)} == {*BATCHES}


PROGRAM = """
import numpy as np
import askwell
learner = askwell.Learner(None, [[0.0]], score='epig', batch='joint')
learner.tell([0, 1], ["yes", "no"])
learner.tell(np.arange(2), np.array([True, False]))
learner.tell({0: 1}, (label for label in (1, 2.0)))
questions: list[int] = learner.ask(2, session="ann")
askwell.Learner(None, [[0.0]], score='epgi')  # wrong
askwell.Learner(None, [[0.0]], batch='join')  # wrong
askwell.simulate(None, [[0.0]], [0], test=([[0.0]], [0]), scores=['epig', 'marign'])  # wrong
learner.tell([0], [["yes", "no"]])  # wrong
learner.tell([0], [None])  # wrong
learner.tell(0, ["yes"])  # wrong
learner.ask("two")  # wrong
"""
CHECKERS = {
    "mypy": [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, "program.py"],
    "pyright": ["pyright", "--pythonpath", sys.executable, "program.py"],
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_what_is_wrong_in_a_program_is_an_error_in_the_editor(checker, tmp_path):
    command = CHECKERS[checker]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{checker} is not installed: npm install --global pyright")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout
    wrong = [str(number) for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")]
    found = re.findall(r"program.py:(\d+):[\d:]* (?:- )?error", said)
    assert list(dict.fromkeys(found)) == wrong, said
