"""`askwell review`: labels that deserve a second look are listed until they have had it."""

import json

import pytest
from cli_calls import fine, refused

from askwell.session import Session
from askwell.store import open_store

ISSUES = [
    {"item": "m1", "label": "ham", "probability": 0.04, "suggested": "spam", "reason": "unlikely"},
    {"item": "m2", "label": "spam", "probability": 0.3, "suggested": "ham", "reason": "disagreement"},
]


@pytest.fixture
def reviewed(project, place):
    """A project whose last round found two labels doubtful: one of ada, and one that bob disagrees with."""
    with open_store(f"sqlite:///{place}/p/labels.db") as store:
        session = Session(store, [f"m{n}" for n in range(80)])
        for who, item, label in (("ada", "m1", "ham"), ("ada", "m2", "spam"), ("bob", "m2", "ham")):
            session.answer(who, item, label, key=f"{who} {item}")
        session.put_round({"round": 1, "labels": 2, "model": "linear", "label_issues": ISSUES})


def test_what_is_doubtful_is_listed_until_it_was_looked_at(reviewed):
    listed = fine("review", "p").splitlines()
    assert listed[0].startswith("m1  ham, or spam? (p = 0.04; ada)  ")
    assert listed[1].startswith("m2  spam, or ham? (people disagree; ada, bob)  ")
    assert json.loads(fine("review", "p", "--json").splitlines()[0]) == {**ISSUES[0], "who": ["ada"]}
    assert "2 labels deserve a second look: askwell review p" in fine("status", "p")
    assert json.loads(fine("status", "p", "--json"))["label_issues"] == 2
    assert fine("review", "p", "--who", "bob").startswith("m2 ")

    fine("tell", "p", "m1", "spam", "--who", "ada")
    said = fine("review", "p", "--confirm", "m2", "--who", "ada")
    assert said.splitlines() == [
        "Confirmed 1 label.",
        "No label deserves a second look, as far as the last training could tell.",
    ]
    assert "1 label deserves a second look" in fine("status", "p")  # bob's
    fine("review", "p", "--confirm", "m2", "--who", "bob")
    assert "second look" not in fine("status", "p")


def test_what_has_no_label_cannot_be_confirmed(reviewed):
    assert "bob has no label for 'm1' to confirm" in refused("review", "p", "--confirm", "m1", "--who", "bob")
    assert len(fine("review", "p").splitlines()) == 2


def test_without_a_training_nothing_is_doubted(project):
    assert fine("review", "p").startswith("No label deserves a second look")
