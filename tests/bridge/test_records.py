"""What the bridge records beside the answers, and the order of questions."""

import pytest

from askwell.bridge.documents import Annotation, StudioTask, order_doubt
from askwell.bridge.records import BridgeLog, Ranking, ranking_of
from askwell.seeds import rng_for
from askwell.session import Candidate, Session
from askwell.store import open_store


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'labels.db'}"


def test_one_bridge_at_a_time(url):
    first, second = open_store(url), open_store(url)
    BridgeLog(first, "main").take_turn()
    BridgeLog(first, "main").take_turn()
    with pytest.raises(ValueError, match="another bridge to Label Studio is running"):
        BridgeLog(second, "main").take_turn()
    BridgeLog(second, "other").take_turn()
    BridgeLog(first, "main").end_turn()
    BridgeLog(second, "main").take_turn()
    first.close()
    second.close()


def test_the_mark_lasts_until_a_new_one_is_wanted(url):
    with open_store(url) as store:
        mark = BridgeLog(store, "main").mark()
    with open_store(url) as store:
        books = BridgeLog(store, "main")
        assert books.mark() == mark
        books.saw_project(mark, 7, "http://a")
        books.saw_project(mark, 7, "http://a")
        assert books.project(mark) == (7, "http://a")
        other = books.mark(new=True)
        assert other != mark
        assert books.mark() == other
        assert books.project(other) is None
        assert len(store.read("main: label studio")) == 3


def test_an_import_is_open_until_its_end_is_known(url):
    with open_store(url) as store:
        books = BridgeLog(store, "main", clock=lambda: 5.0)
        done = books.begin(["a"])
        books.end(done)
        books.begin(["b", "c"])
    with open_store(url) as store:
        books = BridgeLog(store, "main")
        sent = books.importing()
        assert (sent.items, sent.at) == (("b", "c"), 5.0)
        books.end(sent)
        assert books.importing() is None
        assert store.read("main") == []  # the project's own records are not touched


def test_the_queue_becomes_scores_that_rise_from_zero():
    store = open_store(None)
    session = Session(store, ["a", "b", "c", "d"])
    session.put_queue(3, [Candidate("c", 0.4), Candidate("a", 0.1), Candidate("d")])
    record = store.read("main")[-1]
    ranking = ranking_of(record)
    assert [ranking.score(item) for item in ("c", "a", "d")] == [0.0, 1 / 3, 2 / 3]
    assert ranking.nats == {"c": 0.4, "a": 0.1, "d": None}
    assert ranking.version == f"askwell-3-{record.seq}"
    assert ranking.score("b", behind=2) == 3.0
    assert [ranking.is_first(item, 2) for item in ("c", "a", "d", "b")] == [True, True, False, False]


def test_two_queues_of_one_round_have_two_versions():
    store = open_store(None)
    session = Session(store, ["a"])
    session.put_queue(1, [Candidate("a")])
    session.put_queue(1, [Candidate("a")])
    assert len({ranking_of(record).version for record in store.read("main")}) == 2


def test_without_a_queue_all_are_alike():
    assert Ranking().is_first("a", 1)
    assert Ranking().score("a", behind=1) < Ranking().score("b", behind=2)


def listed(order, scores, *, people=1):
    """Tasks that were labelled in this order, one a minute, all sent at the start."""

    def said(task, minute):
        time = f"2026-11-16T05:{minute:02}:00Z"
        return Annotation("", task, minute % people, task, "label", "ham", None, time, time)

    start = "2026-11-16T04:00:00Z"
    minutes = {task: minute for minute, task in enumerate(order)}
    return [
        StudioTask(n, f"i{n}", start, (said(n, minutes[n]),) if n in minutes else (), {"v1": score}, {"v1": start})
        for n, score in enumerate(scores)
    ]


def test_the_right_order_is_not_doubted():
    assert order_doubt(listed(range(20), [n / 30 for n in range(30)])) is None


def test_three_people_side_by_side_are_not_doubted():
    order = [2, 0, 1, 5, 3, 4, 8, 6, 7, 11, 9, 10, 14, 12, 13]
    assert order_doubt(listed(order, [n / 30 for n in range(30)], people=3)) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_random_order_is_doubted(seed):
    order = rng_for(seed, 0, "order").permutation(40)[:20].tolist()
    doubt = order_doubt(listed(order, [n / 40 for n in range(40)]))
    assert doubt == pytest.approx(0.5, abs=0.2)


def test_a_few_answers_prove_nothing():
    assert order_doubt(listed([39, 38, 37], [n / 40 for n in range(40)])) is None
    assert order_doubt([]) is None


def test_what_came_later_or_has_no_score_is_not_counted():
    tasks = listed(range(12, 24), [n / 24 for n in range(24)])
    assert order_doubt(tasks) == pytest.approx(sum(12 / (23 - done) for done in range(12)) / 12)
    later = [
        StudioTask(t.id, t.item, "2026-11-16T06:00:00Z", t.annotations, t.scores, t.scored) if t.id < 12 else t
        for t in tasks
    ]
    assert order_doubt(later) is None  # the better ones were not there yet
    unscored = [StudioTask(t.id, t.item, t.created, t.annotations, {}, {}) if t.id < 12 else t for t in tasks]
    assert order_doubt(unscored) is None


def test_each_answer_is_judged_by_the_scores_of_its_time():
    first = listed(range(15), [n / 30 for n in range(30)])
    new = "2026-11-16T05:30:00Z"
    both = [
        StudioTask(t.id, t.item, t.created, t.annotations, t.scores | {"v2": 1 - t.id / 30}, t.scored | {"v2": new})
        for t in first
    ]
    assert order_doubt(both) is None
