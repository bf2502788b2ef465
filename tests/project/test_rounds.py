"""A round of a real project: what it records, in which order, and what it does when something is wrong."""

import csv
import json

import numpy as np
import pytest
from light_model import LightModel

import askwell
from askwell.acquire import Strategy
from askwell.acquisition import weighted
from askwell.data.pool import as_pool
from askwell.estimate.stopping import RULE
from askwell.models.linear import LinearModel
from askwell.project import init_project, open_project
from askwell.project.rounds import plan_round, project_warnings, train_round
from askwell.scoring import score_items
from askwell.seeds import rng_for
from askwell.targets import as_targets, class_prior, draw, given

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
            "evaluation": 0.0,
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
    assert (body["estimate"]["how"], body["estimate"]["labels"]) == ("cross-validated", 40)
    assert body["estimate"]["low"] < body["estimate"]["value"] <= body["estimate"]["high"]
    assert body["estimate"]["value"] > 0.7
    assert body["gain"] > 0
    assert body["noise"] > 0
    assert body["signal"] > 1
    assert body["seconds"] > 0
    assert body["advice"]["rule"] == RULE
    ids = [json.loads(item) for item, *_ in queue["items"]]
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
    options = {"classes": ["up", "down"], "model": "linear", "evaluation": 0}
    with init_project(tmp_path / "p", pool=tmp_path / "pool.npy", **options) as found:
        for place in range(12):
            label = "up" if x[place, 0] > 0 else "down"
            found.session().answer("ada", found.items.ids[place], label, key=f"k{place}")
        train_round(found)
        _, queue = recorded(found)
    said = [(item, [target for target, _ in why]) for item, _, why, *_ in queue["items"] if why]
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
    ids = [json.loads(item) for item, *_ in queue["items"]]
    assert ids[:10] == [f"p{place}" for place in range(10, 20)]  # 10-13 disagree, 14-19 have one label
    assert not set(ids) & {f"p{place}" for place in range(10)}
    assert body["labels"] == 20


def test_a_share_is_drawn_to_know_how_good_the_model_is(project):
    found = project(evaluation=0.3, targets=False)
    order = draw(as_pool(X), as_targets(None), seed=5).positions.tolist()
    label(found, order[:12])
    label(found, [place for place in range(80) if place not in order[:14]][:28])
    train_round(found)
    body, queue = recorded(found)
    ahead = order[12:]
    assert (body["labels"], body["estimate"]["how"], body["estimate"]["of"]) == (40, "drawn", "pool")
    assert body["estimate"]["labels"] >= 12
    drawn = {int(json.loads(item)[1:]): rest[0] for item, _, _, *rest in queue["items"] if rest}
    assert ahead[0] in drawn
    assert {*drawn.values()} == {1 / 80}
    asked = [int(json.loads(item)[1:]) for item, *_ in queue["items"]]
    assert 0 < sum(place in drawn for place in asked[:10]) <= 3
    assert [each.probability for each in found.session().read(lambda state: state.queue).candidates()][
        asked.index(ahead[0])
    ] == 1 / 80


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
    assert (rounds[-1]["change"]["labels"], rounds[-1]["change"]["before"]) == (60, 30)
    assert "of 60 labels improved the accuracy on the targets by " in rounds[-1]["advice"]["why"]


# ---- the plan follows from labels and seed alone; its queue is long, free of what is labelled, worth its cost --------


POINTS = rng_for(4, 0, "planning").normal(size=(300, 2))
TRUTH = np.where(POINTS[:, 0] + POINTS[:, 1] > 0, "up", "down")
POOL, TARGETS, CLASSES = as_pool(POINTS), given(POINTS[:40] + 0.1), ["down", "up"]


def labels_of(positions):
    return {int(position): str(TRUTH[position]) for position in positions}


def strategy_of(model=None, *, pool=POOL, targets=TARGETS, classes=CLASSES, seed=3, **options):
    return Strategy(model or LightModel(), pool, targets, classes=classes, seed=seed, **options)


def plan(labels, *, size=4, **options):
    return plan_round(strategy_of(**options), labels, size=size)


def positions(found):
    return [line.position for line in found.queue]


def scores_of(labels, score="epig", **options):
    """EPIG of the whole pool under the plan's own posterior."""
    known = strategy_of(score=score if isinstance(score, str) else "epig", **options).round(labels)
    scores = np.full(300, -np.inf)
    scores[known.search.asked] = score_items(known.search, score)
    return scores, known


# ---- the queue -----------------------------------------------------------------------------------------------------


def test_the_same_labels_give_the_same_plan_in_whatever_order():
    labels = labels_of(range(30))
    again = dict(reversed(labels.items()))
    assert plan(labels).queue == plan(again).queue
    assert plan(labels).gain == plan(again).gain
    assert plan(labels).estimate == plan(again).estimate
    assert plan(labels).queue != plan(labels, seed=4).queue


def test_the_queue_holds_several_batches_and_nothing_that_is_labelled():
    labels = labels_of(range(20))
    for size, room in ((4, 200), (25, 250), (100, 280)):
        found = positions(plan(labels, size=size))
        assert len(found) == len(set(found)) == room
        assert not set(found) & set(labels)


@pytest.mark.parametrize(("given", "score"), [({}, "auto"), ({"score": "epig"}, "epig")])
def test_the_head_is_chosen_jointly_and_the_rest_by_score(given, score):
    labels = labels_of(range(20))
    scores, known = scores_of(labels, score)
    found = plan(labels, **given)
    assert positions(found)[:12] == [position for position, _ in known.choose(12)]
    behind = [line.score for line in found.queue[12:]]
    assert behind == sorted(behind, reverse=True)
    assert [line.score for line in found.queue] == pytest.approx(scores[positions(found)])
    left = np.setdiff1d(np.arange(300), [*labels, *positions(found)])
    assert scores[left].max() <= min(behind)


def test_other_scores_are_taken_in_order():
    found = plan(labels_of(range(20)), score="bald")
    assert [line.score for line in found.queue] == sorted((line.score for line in found.queue), reverse=True)


def test_gain_per_cost_decides():
    labels = labels_of(range(20))
    cost = np.where(np.arange(300) % 2 == 0, 1.0, 1000.0)
    found = plan(labels, cost=cost, score="epig")
    assert all(place % 2 == 0 for place in positions(found)[:140])
    scores, _ = scores_of(labels)
    assert [line.score for line in found.queue] == pytest.approx((scores / cost)[positions(found)])
    assert positions(plan(labels, cost=np.full(300, 7.0))) == positions(plan(labels))


@pytest.mark.parametrize("score", ["epig", "auto"])
def test_costs_of_errors_rank_the_queue(score):
    labels, costs = labels_of(range(20)), {"up": 30.0}
    scores, known = scores_of(labels, weighted(score, costs, CLASSES))
    found = plan(labels, score=score, class_weights=costs)
    assert [line.score for line in found.queue] == pytest.approx(scores[positions(found)])
    assert positions(found) != positions(plan(labels, score=score))
    ahead = strategy_of(score=score, class_weights=costs).round(labels).choose(12)
    assert positions(found)[:12] == [position for position, _ in ahead]
    first = found.queue[0]
    pairs = askwell.pairwise_epig(
        known.search.predict([first.position]), known.search.target_probs, class_weights=[1, 30]
    )[0]
    assert [nats for _, nats in first.informs] == pytest.approx(np.sort(pairs)[::-1][:6])
    assert positions(plan(labels, score=score, class_weights={"gone": 9, "up": 1})) == positions(
        plan(labels, score=score)
    )


def test_the_head_names_the_targets_it_informs():
    found = plan(labels_of(range(20)), size=20)
    _, known = scores_of(labels_of(range(20)))
    assert len(found.targets) == 40
    for line in found.queue[:30]:
        pairs = askwell.pairwise_epig(known.search.predict([line.position]), known.search.target_probs)[0]
        assert [nats for _, nats in line.informs] == pytest.approx(np.sort(pairs)[::-1][:6])
        assert [pairs[place] for place, _ in line.informs] == pytest.approx([nats for _, nats in line.informs])
    assert not any(line.informs for line in found.queue[30:])


@pytest.mark.parametrize("labels", [{}, {5: "up"}, {5: "up", 6: "up", 7: "up"}])
def test_before_two_classes_are_known_the_questions_spread(labels):
    found = plan(labels)
    assert len(found.queue) == 200
    assert not set(positions(found)) & set(labels)
    assert found.gain is found.signal is found.outlook is None
    assert found.estimate is None
    head = POINTS[positions(found)[:12]]
    apart = np.linalg.norm(head[:, None] - head[None], axis=-1)[np.triu_indices(12, 1)]
    assert apart.min() > 0.3
    assert positions(found) == positions(plan(labels))


def test_until_each_class_was_seen_first_questions_come_before_what_the_model_would_ask():
    labels, three = labels_of([5, 6, 7, 8]), ["down", "sideways", "up"]
    assert len({*labels.values()}) == 2
    found, usual = plan(labels, classes=three), plan(labels, classes=CLASSES)
    assert len(found.queue) == len({*positions(found)}) == 200
    assert [line.score is None for line in found.queue[:24]] == [True] * 12 + [False] * 12
    assert usual.queue[0].score is not None
    assert found.gain is not None  # there is a model, and it is judged
    late = labels_of(range(9))  # three questions for each class
    assert plan(late, classes=three).queue[0].score is not None
    assert plan(labels, classes=three, score="random").queue[0].score is not None


def test_a_pool_that_is_used_up():
    found = plan(labels_of(range(300)))
    assert (found.queue, found.gain) == ((), 0.0)
    assert found.estimate.value > 0.8
    assert len(plan(labels_of(range(298))).queue) == 2


# ---- evaluation ----------------------------------------------------------------------------------------------------


def test_drawn_questions_stand_between_the_others_in_their_share():
    labels = labels_of(range(60))
    plain, mixed = plan(labels), plan(labels, evaluation=0.2)
    drawn = [line.position for line in mixed.queue if line.probability is not None]
    order = [each for each in strategy_of(evaluation=0.2).drawn.positions.tolist() if each >= 60]
    assert [each for each in order if each in drawn] == drawn
    assert all(line.score is None for line in mixed.queue if line.probability is not None)
    rest = [line for line in mixed.queue if line.probability is None]
    left = [line for line in plain.queue if line.position not in drawn]
    assert rest == left[: len(rest)]
    assert (plain.gain, plain.signal, plain.outlook.change) == (mixed.gain, mixed.signal, mixed.outlook.change)
    assert plain.estimate.how == "cross-validated"
    assert len(mixed.queue) == len(plain.queue)


def test_drawn_questions_come_among_the_first_ones_too():
    first = plan({}, evaluation=0.2)
    assert [each for each, line in enumerate(first.queue[:20]) if line.probability is not None] == [4, 9, 14, 19]


# ---- how it stands -------------------------------------------------------------------------------------------------


def test_the_gain_is_the_corrected_score_under_other_draws():
    labels = labels_of(range(20))
    found = plan(labels)
    x, y = POINTS[:20], [labels[i] for i in range(20)]
    other = LightModel().fit(x, y, rng=rng_for(3, 20, "second fit"))
    probs, targets = other.predict(POINTS[positions(found)[:4]]), other.predict(POINTS[:40] + 0.1)
    assert found.gain == pytest.approx(askwell.epig_corrected(probs, targets).mean())
    assert found.noise == pytest.approx(askwell.epig_error(probs, targets).mean())


def test_the_gain_is_not_flattered_by_the_choice():
    """Where there is nothing to know, the best of many noisy scores look good; judged by other draws they do not."""

    class Noise:
        """Draws that know nothing of each other, nor from one input to the next."""

        def fit(self, x, y, *, rng):
            return Votes(int(rng.integers(2**31)))

    class Votes:
        classes = ("down", "up")

        def __init__(self, seed):
            self.seed = seed

        def predict(self, x):
            return np.stack(
                [
                    np.eye(2)[rng_for(self.seed, int(1e6 * abs(row[0])), "vote").integers(0, 2, 40)]
                    for row in np.asarray(x)
                ]
            )

    gains, flattered = [], []
    for seed in range(8):
        strategy = strategy_of(Noise(), pool=as_pool(POINTS[:80]), targets=given(POINTS[100:115]), seed=seed)
        found = plan_round(strategy, labels_of(range(5)), size=4)
        gains.append(found.gain)
        flattered.append(np.mean([line.score for line in found.queue[:4]]))
    assert abs(np.mean(gains)) < 3 * np.std(gains, ddof=1) / np.sqrt(8)
    assert np.mean(flattered) > 5 * np.std(gains, ddof=1)


def test_weighted_targets_count_by_their_weights():
    found = plan(labels_of(range(80)), targets=class_prior({"up": 0.9, "down": 0.1}, m=30))
    assert 1 <= found.outlook.change.targets <= 30
    assert found.gain is not None


def test_signal_is_that_of_the_scores():
    labels = labels_of(range(20))
    _, known = scores_of(labels)
    probs = known.search.predict(known.search.asked)
    assert plan(labels).signal == pytest.approx(askwell.signal(probs, known.search.target_probs, warn=False))


def test_a_posterior_without_draws_to_speak_of():
    class Sure(LightModel):
        def fit(self, x, y, *, rng):
            return LightModel(draws=1).fit(x, y, rng=rng)

    found = plan_round(strategy_of(Sure(), score="entropy"), labels_of(range(20)))
    assert found.gain is found.signal is None
    assert len(found.queue) == 200


def test_a_posterior_in_closed_form_has_no_noise():
    from askwell.models.gp import GPClassifier

    few = as_pool(POINTS[:24])
    found = plan_round(strategy_of(GPClassifier(), pool=few, targets=given(POINTS[:8])), labels_of(range(8)))
    assert found.gain > 0
    assert (found.noise, found.signal) == (0.0, None)


def test_classes_without_a_label_yet():
    strategy = strategy_of(LinearModel(draws=40), classes=["down", "sideways", "up"])
    found = plan_round(strategy, labels_of(range(20)))
    assert len(found.queue) == 200
    assert found.estimate.value > 0.6


# ---- what does not fit together is said ------------------------------------------------------------------------------


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


# ---- a second look, and when people agree no better than the model --------------------------------------------------


def test_label_issues_are_recorded_until_they_were_looked_at(project):
    found = project()
    clear = [int(each) for each in np.argsort(-np.abs(X[:, 0] + X[:, 1])) if each < 60][:2]
    label(found, [place for place in range(60) if place not in clear])
    label(found, clear, flipped=True)
    train_round(found)
    issues = recorded(found)[0]["label_issues"]
    assert {f"p{place}" for place in clear} <= {each["item"] for each in issues}
    assert {*issues[0]} == {"item", "label", "probability", "suggested", "reason"}
    session = found.session()
    session.answer("ada", f"p{clear[0]}", str(Y[clear[0]]), key="corrected")
    for each in issues:
        if each["item"] != f"p{clear[0]}":
            session.answer("ada", each["item"], each["label"], key=f"confirmed {each['item']}")
    assert session.label_issues() == []
    train_round(found)
    assert not {each["item"] for each in recorded(found)[0]["label_issues"]} & {each["item"] for each in issues}


def test_what_an_accuracy_takes_is_recorded_where_the_estimate_is_no_bound(project):
    found = project(evaluation=0.3)
    order = draw(as_pool(X), given(X[:15] + 0.05), seed=5).positions.tolist()
    label(found, {*order[:12], *range(40, 60)})
    train_round(found)
    body = recorded(found)[0]
    assert body["estimate"]["how"] == "drawn"
    for goal, least, about in body["needed"]:
        assert goal > body["estimate"]["value"]
        assert about is None or least <= about <= 80
    settings = found.folder / "askwell.toml"
    settings.write_text(settings.read_text().replace("evaluation = 0.3", "evaluation = 0.0"))
    with open_project(found.folder) as bound:
        train_round(bound)
    assert recorded(found)[0]["estimate"]["how"] == "cross-validated"
    assert recorded(found)[0]["needed"] == []


def test_agreement_on_items_that_were_chosen_is_not_compared_with_the_models_on_drawn_ones(project):
    found = project(evaluation=0.5, targets=False, labels_per_item=2)
    order = draw(as_pool(X), as_targets(None), seed=5).positions.tolist()
    label(found, order[:30])
    label(found, order[40:])
    label(found, order[40:], who="bob", flipped=True)  # they never agree, on 40 items that may be the hardest
    train_round(found)
    assert found.session().progress().agreement.kappa < 0
    assert "kappa" not in recorded(found)[0]["advice"]["why"]


def test_two_annotators_who_agree_no_better_than_the_model_end_it(project):
    """Played: both label everything, and each errs often; the model learns what they agree on."""
    found = project(evaluation=0.5, targets=False, labels_per_item=2)
    order = draw(as_pool(X), as_targets(None), seed=5).positions.tolist()[:50]
    label(found, order)
    rng = rng_for(1, 0, "disagree")
    hasty = [place for place in order if rng.random() < 0.4]
    label(found, [place for place in order if place not in hasty], who="bob")
    train_round(found)
    calm = recorded(found)[0]["advice"]
    label(found, hasty, who="bob", flipped=True)
    train_round(found)
    body = recorded(found)[0]
    agreed = found.session().progress().agreement
    assert (agreed.items, agreed.kappa < body["estimate"]["kappa"]) == (50, True)
    assert body["advice"]["stop"]
    assert f"(kappa {body['estimate']['kappa']:.2f}, {agreed.kappa:.2f})" in body["advice"]["why"]
    assert "kappa" not in calm["why"]  # while they agreed, they agreed better than the model
    assert {each["reason"] for each in body["label_issues"]} >= {"disagreement"}
