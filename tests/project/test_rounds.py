"""A round of a real project: what it records, in which order, and what it does when something is wrong."""

import csv
import json

import numpy as np
import pytest

from askwell.estimate.accuracy import judging_order
from askwell.estimate.stopping import RULE
from askwell.project import init_project, open_project
from askwell.project.rounds import train_round
from askwell.seeds import rng_for

X = rng_for(8, 0, "rounds").normal(size=(80, 3)).round(4)
Y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
MODEL = """
import warnings
from askwell.models.linear import LinearModel

def quick():
    return LinearModel(draws=40)

class Broken:
    def fit(self, x, y, *, rng):
        raise RuntimeError("out of cheese")

def broken():
    return Broken()

class Loud:
    def fit(self, x, y, *, rng, classes=None):
        warnings.warn("mind the gap")
        return quick().fit(x, y, rng=rng, classes=classes)

def loud():
    return Loud()

def huge():
    raise MemoryError
"""


def write(path, x, extra=()):
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["key", "a", "b", "c", *(name for name, _ in extra)])
        for place, row in enumerate(x):
            lines.writerow([f"{path.stem}{place}", *row.tolist(), *(values[place] for _, values in extra)])
    return path


@pytest.fixture
def project(tmp_path):
    """Makes a project of 80 items; `targets=True` for one with targets."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mine.py").write_text(MODEL)
    opened = []

    def make(*, cost=None, targets=True, **others):
        pool = write(tmp_path / "p.csv", X, [] if cost is None else [("price", cost)])
        given = {"targets": write(tmp_path / "t.csv", X[:15] + 0.05, [])} if targets else {}
        wanted = {
            "classes": ["down", "up"],
            "id": "key",
            "model": "mine:quick",
            "seed": 5,
            "batch": 3,
            **given,
            **others,
        }
        if cost is not None:
            wanted |= {"cost": "price", "targets": None}
        opened.append(init_project(tmp_path / "here", pool=pool, **wanted))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def label(project, places, who="ada", flipped=False):
    for place in places:
        said = Y[place] if not flipped else {"up": "down", "down": "up"}[Y[place]]
        project.session().answer(who, f"p{place}", str(said), key=f"{who} {place}")


def recorded(project):
    """(the last round, the last queue) as they stand in the store."""
    kinds = {record.kind: record.body for record in project.store().read("main")}
    return kinds["round"], kinds.get("queue")


# ---- what is recorded ----------------------------------------------------------------------------------------------


def test_a_first_round_spreads_over_the_pool(project):
    found = project()
    train_round(found)
    body, queue = recorded(found)
    assert (body["round"], body["labels"], body["estimate"], body["gain"], body["next50"]) == (1, 0, None, None, None)
    assert body["advice"]["stop"] is False
    assert (queue["round"], len(queue["items"])) == (1, 80)
    assert all(score is None and why == [] for _, score, why in queue["items"])
    assert found.session().next("ada")[0].item == json.loads(queue["items"][0][0])


def test_a_round_with_labels(project):
    found = project()
    label(found, range(40))
    train_round(found)
    body, queue = recorded(found)
    assert (body["labels"], body["changes"], body["model"]) == (40, 40, "mine:quick")
    assert (body["estimate"]["how"], body["estimate"]["judged"]) == ("cross-validated", 40)
    assert body["estimate"]["low"] < body["estimate"]["value"] <= body["estimate"]["high"]
    assert body["estimate"]["value"] > 0.7
    assert body["gain"] > 0
    assert body["noise"] > 0
    assert body["signal"] > 1
    assert body["seconds"] > 0
    assert body["advice"]["rule"] == RULE
    ids = [json.loads(item) for item, _, _ in queue["items"]]
    assert sorted(ids) == sorted(f"p{place}" for place in range(40, 80))
    _, score, why = queue["items"][0]
    assert score > 0
    assert len(why) == 5
    assert all(json.loads(target).startswith("t") and nats >= 0 for target, nats in why)
    (task,) = found.session().next("ada")
    assert (task.item, task.score) == (ids[0], score)
    assert [nats for _, nats in task.why] == sorted((nats for _, nats in task.why), reverse=True)


def test_without_targets_an_item_is_no_reason_for_itself(tmp_path):
    """Newcomer: the first reason was the item itself, since the targets are drawn from the pool."""
    x = rng_for(3, 0, "reasons").normal(size=(60, 2))
    np.save(tmp_path / "pool.npy", x)
    with init_project(tmp_path / "p", pool=tmp_path / "pool.npy", classes=["up", "down"], model="linear") as found:
        for place in range(12):
            label = "up" if x[place, 0] > 0 else "down"
            found.session().answer("ada", found.items.ids[place], label, key=f"k{place}")
        train_round(found)
        _, queue = recorded(found)
    said = [(item, [target for target, _ in why]) for item, _, why in queue["items"] if why]
    assert len(said) == 30
    assert all(item not in targets and len(targets) == 5 for item, targets in said)


def test_the_same_labels_give_the_same_queue(project):
    found = project()
    label(found, range(30))
    train_round(found)
    first = recorded(found)[1]
    train_round(open_project(found.folder))
    body, again = recorded(found)
    assert again["items"] == first["items"]
    assert (again["round"], body["round"]) == (2, 2)


def test_targets_of_the_pool_are_named_by_its_items(project):
    found = project(targets=False)
    label(found, range(30))
    train_round(found)
    named = {json.loads(target) for _, _, why in recorded(found)[1]["items"] for target, _ in why}
    assert named
    assert named <= {f"p{place}" for place in range(80)}


def test_costs_count(project):
    found = project(cost=[1 if place % 2 else 1000 for place in range(80)])
    label(found, range(20))
    train_round(found)
    ids = [int(json.loads(item)[1:]) for item, _, _ in recorded(found)[1]["items"]]
    assert all(place % 2 for place in ids[:25])


def test_what_most_people_say_is_learnt_and_who_is_missing_is_asked(project):
    found = project(labels_per_item=2, most_labels=3)
    label(found, range(20))
    label(found, range(10), who="bob")
    label(found, range(10, 14), who="cy", flipped=True)
    train_round(found)
    body, queue = recorded(found)
    ids = [json.loads(item) for item, _, _ in queue["items"]]
    assert ids[:10] == [f"p{place}" for place in range(10, 20)]  # 10-13 disagree, 14-19 have one label
    assert not set(ids) & {f"p{place}" for place in range(10)}
    assert body["labels"] == 20


def test_a_share_is_asked_for_judging_only(project):
    found = project(held_out=0.3)
    judges = judging_order(80, 0.3, seed=5).tolist()
    assert len(judges) >= 12
    label(found, judges[:12])
    label(found, [place for place in range(80) if place not in judges][:28])
    train_round(found)
    body, queue = recorded(found)
    assert (body["labels"], body["estimate"]["how"], body["estimate"]["judged"]) == (40, "held-out", 12)
    assert (body["cross_validated"]["how"], body["cross_validated"]["judged"]) == ("cross-validated", 28)
    asked = [int(json.loads(item)[1:]) for item, _, _ in queue["items"]]
    assert [place for place in asked if place in judges] == judges[12:]


def test_a_class_that_was_added_or_is_known_to_labels_only(project):
    found = project()
    label(found, range(20))
    found.session().set_rules("ada", classes=["down", "up", "sideways"])
    train_round(found)
    assert "failed" not in recorded(found)[0]
    found.session().answer("ada", "p50", "sideways", key="x")
    train_round(found)
    assert "failed" not in recorded(found)[0]


def test_warnings_are_told(project):
    found = project(targets=False, class_prior={"up": 0.5, "down": 0.5}, model="mine:loud")
    label(found, range(12))
    train_round(found)
    assert recorded(found)[0]["warnings"] == ["mind the gap"]


# ---- what goes wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("mine:broken", "The model could not be trained: RuntimeError: out of cheese (mine.py, line 10)."),
        ("mine:huge", "The memory was too small to train. Try a smaller model, fewer features, or another machine."),
    ],
)
def test_a_failure_is_recorded_and_the_old_queue_stays(project, model, said):
    found = project()
    label(found, range(20))
    train_round(found)
    old = recorded(found)[1]
    settings = found.folder / "askwell.toml"
    settings.write_text(settings.read_text().replace("mine:quick", model))
    with open_project(found.folder) as broken:
        train_round(broken)
    body, queue = recorded(found)
    assert body == {"round": 2, "failed": said}
    assert queue == old
    train_round(found)
    assert recorded(found)[0]["round"] == 3
    assert "failed" not in recorded(found)[0]


def test_our_own_refusals_are_recorded_as_they_are(project):
    found = project(cost=[1 + place for place in range(80)])
    label(found, range(20))
    file = found.path(found.settings.pool)
    file.write_text(file.read_text().replace(",5\r\n", ",-5\r\n").replace(",5\n", ",-5\n"))
    with open_project(found.folder) as broken:
        train_round(broken)
    assert "the cost column 'price' must hold a number above zero" in recorded(found)[0]["failed"]


def test_rounds_of_a_project_become_advice(project):
    found = project()
    for end in range(20, 80, 10):
        label(found, range(end - 10, end))
        train_round(found)
    rounds = found.session().progress().rounds
    assert [body["round"] for body in rounds] == [1, 2, 3, 4, 5, 6]
    assert rounds[-1]["next50"]["labels"] == 50
    assert rounds[-1]["change"]["labels"] == 50
    assert "% of the predictions on the targets (" in rounds[-1]["advice"]["why"]
