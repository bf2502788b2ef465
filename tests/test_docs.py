"""The manual tells the truth: its examples run, its names exist, and no public name is missing from it."""

import doctest
import importlib
import re
import sys
from inspect import ismodule
from pathlib import Path

import pytest

import askwell

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RECIPES = ROOT / "docs" / "recipes.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^(?P<indent> *)```python[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.M | re.S)


def fences(text):
    """(line, code) of every python fence."""
    for found in FENCE.finditer(text):
        indent = len(found["indent"])
        code = "".join(line[indent:] if line.strip() else "\n" for line in found["code"].splitlines(keepends=True))
        yield text.count("\n", 0, found.start("code")), code


def run_page(text, name):
    """Run the fences of a page from top to bottom in one namespace; what went wrong, as text."""
    scope, faults = {"__name__": "__main__"}, []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    for line, code in fences(text):
        if ">>>" in code:
            test = doctest.DocTestParser().get_doctest(code, scope, f"{name}, line {line}", name, line)
            runner.run(test, out=faults.append, clear_globs=False)
            scope.update(test.globs)
        else:
            exec(compile("\n" * line + code, name, "exec"), scope)
    return "".join(faults)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != RECIPES], ids=lambda page: str(page.relative_to(ROOT))
)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    faults = run_page(page.read_text("utf-8"), str(page.relative_to(ROOT)))
    assert not faults, faults


def test_examples_that_are_wrong_are_found():
    good = "```python\nx = 1\n```\ntext\n\n```python\n>>> x + 1\n2\n\n```\n"
    assert run_page(good, "page") == ""
    assert "Expected:\n    3" in run_page(good.replace("\n2\n", "\n3\n"), "page")
    assert "line 7" in run_page(good.replace("\n2\n", "\n3\n"), "page")
    with pytest.raises(NameError):
        run_page(good.replace("x = 1", "x = y"), "page")
    assert len(list(fences("1. a list\n\n   ```python\n   if True:\n       x = 1\n   ```\n"))) == 1


# ---- recipes.md: each by itself, where its packages are installed ----------------------------------------------------


def recipes(text):
    """(name, the code of each fence before it in its section and at the top of the page, its words, its code)."""
    top, *sections = re.split(r"^(?=## )", text, flags=re.M)
    parts = re.compile(r"^```python(?P<words>[^\n]*)\n(?P<code>.*?)^```", re.M | re.S)
    common = [found["code"] for found in parts.finditer(top)]
    for section in sections:
        title, before = section.splitlines()[0].removeprefix("## "), [*common]
        for number, found in enumerate(parts.finditer(section)):
            words = dict(word.partition("=")[::2] for word in found["words"].split())
            if "given" in words:
                before.append(found["code"])
            else:
                yield f"{title}, {number + 1}", [*before], words, found["code"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of the packages, not ours
@pytest.mark.parametrize(
    ("given", "words", "code"),
    [pytest.param(*recipe, id=name) for name, *recipe in recipes(RECIPES.read_text("utf-8"))],
)
def test_recipes_are_as_short_as_they_say_and_keep_the_contract(given, words, code):
    for package in filter(None, words.get("needs", "").split(",")):
        pytest.importorskip(package, reason=f"{package} is not installed", exc_type=ImportError)
    assert len([line for line in code.splitlines() if line.strip()]) <= int(words["lines"])
    scope = {"__name__": "__main__"}
    for part in (*given, code):
        exec(compile(part, "recipes.md", "exec"), scope)
    askwell.testing.check_model(scope["model"], x=scope["x"], y=scope["y"])
    learner = askwell.Learner(scope["model"], scope["x"], score="epig", evaluation=0)
    learner.tell(range(30), scope["y"][:30])
    assert len(learner.ask(2)) == 2


# ---- paper.md: equation -> function -> test ------------------------------------------------------------------------


def table_cells(text, column):
    """What is in `backticks` in the cells of the tables' columns whose heading starts with a word."""
    heading = None
    for line in text.splitlines():
        if not line.startswith("|"):
            heading = None
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if heading is None:
            heading = [cell.strip("*` ").lower() for cell in cells]
        elif not set(line) <= set("|-: "):
            for title, cell in zip(heading, cells, strict=False):
                if title.startswith(column):
                    yield from re.findall(r"`([^`]+)`", cell)


def lookup(name):
    """The thing a page means by `epig`, `gaussian.epig` or `askwell.information.gaussian.epig(...)`; or None."""
    path = name.split("(")[0].removeprefix("askwell.").split(".")
    for start in (askwell, askwell.information):
        thing = start
        for part in path:
            thing = getattr(thing, part, None)
        if thing is not None:
            return thing
    return None


def known_tests():
    """Every test as `test_file.py::test_name`."""
    files = (ROOT / "tests").rglob("test_*.py")
    return {
        f"{file.name}::{n}" for file in files for n in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.M)
    }


PAPER = [page for page in PAGES if page.name == "paper.md"]


@pytest.mark.parametrize("page", PAPER, ids=lambda page: page.name)
def test_functions_of_the_paper_exist(page):
    named = list(table_cells(page.read_text("utf-8"), "function"))
    assert len(named) > 5, "paper.md has a table with a column 'function'"
    assert not [name for name in named if re.match(r"[\w.]+(\(|$)", name) and lookup(name) is None]


@pytest.mark.parametrize("page", PAPER, ids=lambda page: page.name)
def test_tests_of_the_paper_exist(page):
    known = known_tests()
    named = list(table_cells(page.read_text("utf-8"), "test"))
    assert len(named) > 5, "paper.md has a table with a column 'test'"
    assert not [name for name in named if name.split("/")[-1].split("[")[0] not in known]


def test_tables_are_read():
    text = (
        "| eq. | Function | Test |\n|--|:--|--|\n| (5) \\| x | `epig`, `nested.epig` | `test_a.py::test_b` |\n\n| a |\n"
    )
    assert list(table_cells(text, "function")) == ["epig", "nested.epig"]
    assert list(table_cells(text, "test")) == ["test_a.py::test_b"]
    assert lookup("askwell.epig(probs)") is lookup("categorical.epig") is askwell.epig
    assert lookup("gaussian.no_such_thing") is lookup("no.such") is None
    assert "test_docs.py::test_tables_are_read" in known_tests()


# ---- completeness --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", askwell.__all__)
def test_every_public_name_is_in_the_manual(name):
    manual = "\n".join(page.read_text("utf-8") for page in PAGES if page.parent.name == "docs")
    assert re.search(rf"\b{name}\b", manual), f"docs/*.md never mention askwell.{name}"


REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))


def in_the_reference():
    """What the reference is made from: askwell.Learner, askwell.information.draws, ..."""
    return {name for page in REFERENCE for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.M)}


@pytest.mark.parametrize("name", sorted(in_the_reference()))
def test_what_the_reference_names_exists(name):
    path, _, last = name.rpartition(".")
    thing = sys.modules.get(name) or getattr(importlib.import_module(path), last, None) or importlib.import_module(name)
    assert thing.__doc__


def test_every_public_name_is_in_the_reference():
    named = in_the_reference()
    rooms = {f"askwell.{room}" for room in askwell.__all__ if ismodule(getattr(askwell, room))}
    left = {f"askwell.{name}" for name in askwell.__all__} - named - rooms - {"askwell.simulate"}
    assert not left
    assert "askwell.simulation.simulate.simulate" in named, "askwell.simulate by its full name"
    assert not [room for room in rooms if not any(name.startswith(room) for name in named)]


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
