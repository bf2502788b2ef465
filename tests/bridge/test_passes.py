from askwell.bridge.annotations import Task
from askwell.bridge.passes import SAMPLING, Pass, warnings_about


def test_a_pass_in_words():
    assert str(Pass(labels=1, added=1, open=1)) == "1 label and 0 skips came in; 1 question was added, 1 are open."
    assert str(Pass(labels=2, withdrawn=3, rescored=4, open=5)) == (
        "2 labels and 0 skips came in, 3 taken back; 0 questions were added, 4 put in a new order, 5 are open."
    )


def test_a_pass_is_quiet_if_nothing_happened():
    assert Pass(open=20, warnings=("odd",)).is_quiet
    assert not any(Pass(**{name: 1}).is_quiet for name in ("labels", "skips", "withdrawn", "added", "rescored"))


def test_another_order_is_noticed():
    (warning,) = warnings_about({"sampling": "Sequential sampling"}, [])
    assert "'Sequential sampling'" in warning
    assert warnings_about({"sampling": SAMPLING}, []) == []


def test_items_that_are_there_twice_are_noticed():
    tasks = [Task(n, item, "", (), {}, {}) for n, item in enumerate("abca")]
    (warning,) = warnings_about({"sampling": SAMPLING}, tasks)
    assert warning == "1 items are there more than once ('a': tasks 0, 3). Delete all but one."
