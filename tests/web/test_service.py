"""What the routes share, and what stands beside the item: made once for all from the progress and the trainer."""

import pytest
from fastapi import HTTPException
from pydantic import TypeAdapter, ValidationError

from askwell.web.service import FRESH, WORDS, Live, Name, conflicts, curve_points, panel, refusals


@pytest.mark.parametrize("name", ["ada", "Ada Lovelace", "艾达", "o'neill", "a" * 80, "<b>"])
def test_names(name):
    assert TypeAdapter(Name).validate_python(name) == name


@pytest.mark.parametrize("name", ["", " ", " ada", "\u2003", "\u3000x", "a\nb", "a\0", "a" * 81, "\x85", "\ud800"])
def test_what_is_no_name(name):
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(name)


@pytest.mark.parametrize("character", [chr(code) for code in range(0x3100) if not chr(code).strip()])
def test_no_name_is_blank_to_the_session(character):
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(character)


def test_conflicts_keep_the_words():
    with pytest.raises(HTTPException) as refused, conflicts():
        raise ValueError("because")
    assert (refused.value.status_code, refused.value.detail) == (409, "because")


def test_refusals_are_documented():
    assert {403, 404, 408, 413} == set(refusals(404))
    assert refusals(401, drawn={401})[401]["content"] == {"text/html": {}}
    assert all(WORDS.values())


def round_of(labels, value, *, how="cross-validated", **more):
    estimate = {"metric": "accuracy", "how": how, "value": value, "low": value - 0.1, "high": value + 0.1}
    return {"round": labels, "labels": labels, "model": "linear", "estimate": estimate, **more}


def test_an_empty_project(session):
    found = panel(session.progress(), {})
    assert (found.share, found.left, found.points, found.model, found.advice) == (0.0, "", [], "", None)
    assert (found.busy, found.words, found.failed, found.ahead, found.most) == (False, "", "", "", 0)


def test_the_share_is_of_the_budget_or_of_the_pool(session):
    session.answer("ada", "a", "ham", key="k1")
    assert panel(session.progress(), {}).share == 1 / 50
    session.set_rules("ada", budget=None)
    assert panel(session.progress(), {}).share == 1 / 6


def test_other_figures_and_what_an_accuracy_takes_are_shown_where_they_are_known(session):
    interval = {"value": 0.8, "low": 0.7, "high": 0.9, "labels": 20}
    known = round_of(30, 0.7, how="drawn", needed=[[0.9, 5, 40]])
    known["estimate"] |= {"balanced_accuracy": None, "log_loss": interval, "classes": {"ham": interval}}
    session.put_round(known)
    found = panel(session.progress(), {})
    assert found.measures == [("log loss", "0.80 (0.70 to 0.90)"), ("accuracy of ham", "0.80 (0.70 to 0.90)")]
    assert found.needed == [("To reach 0.9", "about 40 more (at least 5)")]
    session.put_round(round_of(40, 0.7))  # as an earlier version records it
    found = panel(session.progress(), {})
    assert (found.measures, found.needed) == ([], [])


def test_the_curve_has_one_kind_of_truth():
    rounds = [round_of(10, 0.5), round_of(20, 0.6, how="held-out"), round_of(30, 0.7), round_of(30, 0.72)]
    assert [point[:2] for point in curve_points(rounds)] == [(10, 0.5), (30, 0.72)]
    assert curve_points([]) == []
    bare = {"labels": 5, "estimate": {"metric": "accuracy", "value": 0.5}}
    assert curve_points([bare]) == [(5, 0.5, 0.5, 0.5)]  # an estimate without an interval


def test_a_failed_round_is_said_and_the_old_model_goes_on(session):
    advice = {"stop": True, "rule": "r", "why": "w"}
    forecast = {"labels": 50, "gain": 0.012, "low": -0.002, "high": 0.0244}
    session.put_round(round_of(10, 0.5, advice=advice, next50=forecast))
    session.put_round({"round": 2, "failed": "no memory"})
    found = panel(session.progress(), {"training": True, "text": "no memory"})
    assert (found.failed, found.words, found.busy) == ("no memory", "", True)  # once is enough
    assert panel(session.progress(), {"training": True, "seconds": 200}).words == ""
    assert found.model == "Linear, fitted to 10 labels"
    assert found.advice == advice
    assert found.ahead == "50 more labels: +1.2 points expected (-0.2 to +2.4)"
    assert (found.metric, found.how) == ("accuracy", "cross-validated")
    session.put_round(round_of(20, 0.6))
    assert panel(session.progress(), {}).failed == ""


def test_how_long_it_has_trained(session):
    assert panel(session.progress(), {"training": True, "seconds": 12.4, "text": ""}).words == "Training for 12 s."
    assert panel(session.progress(), {"training": True, "seconds": 180.0}).words == "Training for 3 min."
    assert panel(session.progress(), {"training": True}).words == "Training now."


def test_a_round_of_one_class_is_no_model(session):
    session.put_round({"round": 1, "labels": 3, "model": "linear", "trained": False, "estimate": None})
    assert panel(session.progress(), {}).model == ""


def test_a_spent_budget_has_no_time_left(session):
    session.set_rules("ada", budget=2)
    for n, item in enumerate("ab"):
        session.answer("ada", item, "ham", key=f"k{n}")
    found = panel(session.progress(), {})
    assert (found.share, found.left) == (1.0, "")


def test_progress_is_made_once_for_all(session):
    now, asked = [0.0], []
    live = Live(session, status=lambda: asked.append(1) or {"text": "resting"}, clock=lambda: now[0])
    first = live.panel()
    assert first.words == "resting"
    session.answer("ada", "a", "ham", key="k1")
    assert live.panel() is first
    now[0] = FRESH * 1.01
    assert live.panel().progress.labels == 1
    assert len(asked) == 2
    assert Live(session, status=None).status() == {}


def test_a_failing_store_is_not_hidden(session, store):
    live = Live(session, status=None, clock=lambda: 0.0)
    store.close()
    with pytest.raises(Exception, match="closed"):
        live.panel()
