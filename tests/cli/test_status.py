"""`askwell status`: everything is there, and nothing that is not known."""

import json
import shutil
import subprocess
import sys

import pytest
from cli_calls import fine, refused

from askwell.cli.status import status_text
from askwell.session import Candidate, Session
from askwell.store import open_store


def report(number, labels, value=0.8, **more):
    estimate = {"metric": "accuracy", "value": value, "low": value - 0.1, "high": value + 0.1, "how": "cross-validated"}
    advice = {"stop": False, "rule": "Two signs of three.", "why": "No sign is there."}
    return {"round": number, "labels": labels, "seconds": 1.0, "model": "linear", "estimate": estimate, "gain": 0.0123,
            "signal": 3.0, "next50": None, "advice": advice} | more  # fmt: skip


@pytest.fixture
def session():
    clock = iter(range(1_000_000, 2_000_000, 20))
    found = Session(open_store(None), [f"k{i}" for i in range(100)], clock=lambda: float(next(clock)))
    found.set_rules("ada", classes=["ham", "spam"], budget=50)
    return found


def label(session, who, items):
    for item in items:
        session.answer(who, f"k{item}", "ham" if item % 3 else "spam", key=f"{who}{item}", seconds=2.5)


def text(session, **options):
    return status_text(session.progress(), title="mail", plain=True, **options)


def test_before_there_is_anything(session):
    found = text(session)
    assert found.splitlines()[0] == "mail: 0 of 100 items labelled; 50 of 50 labels of the budget left"
    assert "No model yet: training starts once two classes have labels" in " ".join(found.split())
    session.put_round(report(1, 0, estimate=None, gain=None), queue=[Candidate("k1")])
    assert "No model yet" in text(session)
    session.put_round(report(2, 3, estimate=None, gain=None, trained=False))  # three labels of one class
    assert "No model yet" in text(session)


def test_while_it_trains(session):
    """Newcomer: it said that a model begins with labels of two classes, which were there."""
    label(session, "ada", range(4))
    found = " ".join(text(session, training=12.3).split())
    assert "Training for 12 s so far. No model yet. Questions are drawn at random or spread over the pool" in found
    assert "two classes" not in found
    assert "begins" not in text(session)
    session.put_round(report(1, 4))
    assert "Training for 3 s so far. Trained on 4 labels" in " ".join(text(session, training=3.0).split())


def test_counts_people_curve_gain_and_advice(session):
    label(session, "ada", range(9))
    label(session, "bob", [20])
    session.skip("bob", "k30", "unclear", key="s")
    for number, labels, value in ((1, 4, 0.6), (2, 8, 0.7), (3, 8, 0.75), (4, 10, 0.8)):
        session.put_round(report(number, labels, value))
    found = text(session)
    assert "10 of 100 items labelled, 1 skipped; 40 of 50 labels of the budget left" in " ".join(found.split())
    assert "  ada: 9 labels, 2.5 s each\n  bob: 1 label, 1 skipped, 2.5 s each\n  ham 7, spam 3" in found
    assert "accuracy\n" in found, "the curve"
    assert "cross-validated" in found
    assert "accuracy 0.800 (95% interval 0.700 to 0.900) cross-validated" in " ".join(found.split())
    assert "Trained on 10 labels in round 4 (linear)." in found
    assert "Expected information per label: 0.0123 nats" in found
    assert "(EPIG; a fair coin flip has 0.69 nats)" in " ".join(found.split())
    assert "Advice: continue. No sign is there.\nRule: Two signs of three." in found
    assert all(len(line) <= 72 for line in found.splitlines())
    assert found.isascii()


def test_one_estimate_is_no_curve_and_kinds_are_not_mixed(session):
    session.put_round(report(1, 4, 0.6))
    assert "labels\n" not in text(session).split("Trained")[0]
    held = {"metric": "accuracy", "value": 0.9, "low": 0.8, "high": 1.0, "how": "held-out"}
    session.put_round(report(2, 8, estimate=held))
    found = text(session)
    assert "held-out" in found
    assert "cross-validated" not in found


def test_stop_forecast_warnings_failures_and_the_end(session):
    ahead = {"labels": 50, "gain": 0.02, "low": -0.01, "high": 0.05}
    stop = {"stop": True, "rule": "Two signs of three.", "why": "All three signs are there."}
    session.put_round(report(1, 10, next50=ahead, advice=stop, warnings=["few draws"]))
    session.put_round({"round": 2, "failed": "The memory was too small."})
    label(session, "ada", range(50))
    found = " ".join(text(session).split())
    assert "Another 50 labels are expected to add +2.0% of accuracy (-1.0% to +5.0%)." in found
    assert "Advice: stop. All three signs are there." in found
    assert "Note: few draws" in found
    assert "The last training failed, so questions are chosen as before it: The memory was too small." in found
    assert "No more questions: " in found
    assert "0 of 50 labels of the budget left" in found


def test_a_spent_budget_is_not_advised_to_continue_nor_how_long_it_takes(session):
    label(session, "ada", range(50))
    session.put_round(report(1, 50))
    found = " ".join(text(session).split())
    assert "Advice: continue, once the budget allows it." in found
    assert "minutes" not in found


def test_other_figures_are_shown_where_they_are_known(session):
    interval = {"value": 0.8, "low": 0.7, "high": 0.9, "labels": 20}
    drawn = report(1, 30)
    drawn["estimate"] |= {"balanced_accuracy": interval, "log_loss": interval, "classes": {"ham": interval}}
    session.put_round(drawn)
    found = " ".join(text(session).split())
    assert "balanced accuracy 0.800 (0.700 to 0.900), log loss 0.800 (0.700 to 0.900)" in found
    assert "accuracy by class: ham 0.80" in found


def test_agreement(session):
    session.set_rules("ada", labels_per_item=2)
    for who in ("ada", "bob"):
        label(session, who, range(6))
    session.answer("bob", "k5", "spam", key="other")
    assert "people agree on 83% of the 6 items labelled by several, kappa 0.67" in " ".join(text(session).split())


# ---- the command ----

AS_NOBODY = """
import json, os, sys
from click.testing import CliRunner
from askwell.cli import main
commands = json.load(sys.stdin)
for round in range(2):  # looking first as whoever we are: then all is imported, which others may not be able to do
    found = []
    for words in commands[: 2 + round]:
        done = CliRunner().invoke(main, words)
        found.append([done.exit_code, done.output])
    if not os.geteuid():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
print(json.dumps(found))
"""


def test_what_an_accuracy_takes(project, place):
    drawn = {"metric": "accuracy", "value": 0.8, "low": 0.7, "high": 0.9, "how": "drawn", "labels": 20, "of": "pool"}
    change = {"labels": 60, "before": 30, "changed": 0.2, "improved": 0.1, "targets": 100}
    with open_store(f"sqlite:///{place}/p/labels.db") as store:
        session = Session(store, [f"m{n}" for n in range(80)])
        session.put_round(report(1, 60, estimate=drawn, change=change))
    assert "An accuracy of 0.81 on the targets takes at least 0 more labels, probably about 17." in " ".join(
        fine("status", "p", "--reach", 0.81).split()
    )
    assert "takes at least 58 more labels, probably more than can be foreseen" in " ".join(
        fine("status", "p", "--reach", 0.93).split()
    )
    beyond = " ".join(fine("status", "p", "--reach", 0.99).split())  # more than the pool has
    assert "How many more labels an accuracy of 0.99 on the targets takes cannot be foreseen." in beyond
    assert "an accuracy of 0.7 on the targets already" in " ".join(fine("status", "p", "--reach", 0.7).split())
    found = json.loads(fine("status", "p", "--json", "--reach", 0.81))
    assert found["labels_needed"] == {"accuracy": 0.81, "least": 0, "about": 17}
    assert {*found["accuracy"]} == {"value", "low", "high", "of", "how", "labels"}
    assert (found["forecast"], found["advice"]["stop"], found["label_issues"]) == (None, False, 0)
    assert "accuracy must be above 0 and at most 1, but it is 95.0. Try 0.95." in refused("status", "p", "--reach", 95)


def test_no_project(place):
    for command, *words in (
        ("ask",),
        ("tell", "a", "b"),
        ("status",),
        ("export", "a.csv"),
        ("bring", "a.csv"),
        ("serve",),
    ):
        assert "there is no project in" in refused(command, "nowhere", *words)


def test_a_damaged_store_is_one_message(project, place):
    (place / "p" / "labels.db").write_bytes(b"damaged")
    assert "cannot open the store" in refused("status", "p")


def test_a_copy_that_may_only_be_read_can_be_looked_at_and_exported(project, place, tmp_path_factory, enterable):
    folder, out = place / "p", tmp_path_factory.mktemp("out")
    for item, label in list(project.items())[:3]:
        fine("tell", folder, item, label)
    shutil.copytree(folder, out / "p", ignore=shutil.ignore_patterns("*-lock", "*-sessions"))
    shutil.copy(place / "pool.csv", out)
    shutil.copy(place / "traffic.csv", out)
    out.chmod(0o777)
    enterable(out)
    for path in (out / "p").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    (out / "p").chmod(0o555)
    try:
        commands = [
            ["status", str(out / "p"), "--json"],
            ["export", str(out / "p"), str(out / "labels.csv")],
            ["tell", str(out / "p"), "m70", "ham"],
        ]
        words = [sys.executable, "-P", "-c", AS_NOBODY]
        done = subprocess.run(words, input=json.dumps(commands), cwd=out, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (status, shown), (export, _), (tell, said) = json.loads(done.stdout)
        assert (status, export, tell) == (0, 0, 2), done.stdout
        assert json.loads(shown)["labels"] == 3
        assert len((out / "labels.csv").read_text().splitlines()) == 4
        assert "may not be written" in said
    finally:
        (out / "p").chmod(0o755)
