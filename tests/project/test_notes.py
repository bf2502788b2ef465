"""What does not fit together is said."""

import pytest

from askwell.project import init_project, open_project
from askwell.project.notes import project_warnings


@pytest.fixture
def place(tmp_path):
    rows(tmp_path, range(30))
    with init_project(tmp_path / "p", pool=tmp_path / "pool.csv", id="key", classes=["a", "b"], budget=9) as project:
        for item in ("k3", "k4"):
            project.session().answer("ada", item, "a", key=item)
    return tmp_path


def rows(folder, numbers):
    (folder / "pool.csv").write_text("key,x\n" + "".join(f"k{i},{i**2}\n" for i in numbers))


def said(folder):
    with open_project(folder / "p") as project:
        return project_warnings(project)


def edited(folder, old, new):
    file = folder / "p" / "askwell.toml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_nothing_is_said_of_a_project_that_fits(place):
    assert said(place) == []


def test_labels_of_items_that_left_the_pool(place):
    rows(place, range(4))
    assert said(place) == [
        "1 labelled item is no longer in the pool (k4). Its label is kept and exported, but not used for training."
    ]
    rows(place, range(3))
    (words,) = said(place)
    assert "2 labelled items are no longer in the pool (k3, k4)" in words


def test_rules_that_were_edited_where_they_do_not_count(place):
    edited(place, 'classes = ["a", "b"]', 'classes = ["a", "b", "c"]')
    edited(place, "budget = 9", "budget = 50")
    classes, budget = said(place)
    assert "the change to [start] classes in askwell.toml has no effect" in classes
    assert "The current classes are a, b. Change rules with askwell rules" in classes
    assert "current budget is 9." in budget


def test_rules_that_were_edited_after_they_changed(place):
    """Who writes down what is in force has not edited in vain."""
    with open_project(place / "p") as project:
        project.session().set_rules("ada", budget=50)
    assert said(place) == []
    edited(place, "budget = 9", "budget = 50")
    assert said(place) == []
