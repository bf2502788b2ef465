"""A plan follows from labels and seed alone; its queue is long, free of what is labelled, and worth its cost."""

import numpy as np
import pytest
from light_model import LightModel

import askwell
from askwell.acquire import new_round
from askwell.acquisition import weighted
from askwell.data.pool import as_pool
from askwell.models.linear import LinearModel
from askwell.project.planning import plan_round
from askwell.scoring import score_items
from askwell.seeds import rng_for
from askwell.targets import class_prior, given

X = rng_for(4, 0, "planning").normal(size=(300, 2))
Y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
POOL, TARGETS, CLASSES = as_pool(X), given(X[:40] + 0.1), ["down", "up"]


def labels_of(positions):
    return {int(position): str(Y[position]) for position in positions}


def plan(labels, **options):
    options = {"classes": CLASSES, "seed": 3, "size": 4, **options}
    return plan_round(LightModel(), POOL, options.pop("targets", TARGETS), labels, **options)


def positions(found):
    return [line.position for line in found.queue]


def scores_of(labels, score="epig"):
    """EPIG of the whole pool under the plan's own posterior."""
    known = new_round(LightModel(), POOL, TARGETS, labels, classes=CLASSES, seed=3)
    scores = np.full(300, -np.inf)
    scores[known.search.asked] = score_items(known.search, score)
    return scores, known


# ---- the queue -----------------------------------------------------------------------------------------------------


def test_the_same_labels_give_the_same_plan_in_whatever_order():
    labels = labels_of(range(30))
    again = dict(reversed(labels.items()))
    assert plan(labels).queue == plan(again).queue
    assert plan(labels).gain == plan(again).gain
    assert plan(labels).estimates == plan(again).estimates
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
    free = np.ones(300, bool)
    free[:20] = False
    together = known.choose(score, "joint", 12, free=free, pending=[], rng=rng_for(0, 0, "unused"))
    assert positions(found)[:12] == [place for place, _ in together]
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
    weighing = weighted(score, costs, CLASSES)
    scores, known = scores_of(labels, weighing)
    found = plan(labels, score=score, class_weights=costs)
    assert [line.score for line in found.queue] == pytest.approx(scores[positions(found)])
    assert positions(found) != positions(plan(labels, score=score))
    free = np.ones(300, bool)
    free[:20] = False
    ahead = known.choose(weighing, "joint", 12, free=free, pending=[], rng=rng_for(0, 0, "unused"))
    assert positions(found)[:12] == [place for place, _ in ahead]
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
    assert found.gain is found.signal is found.change is None
    assert found.estimates == ()
    head = X[positions(found)[:12]]
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
    assert found.estimates[0].value > 0.8
    assert len(plan(labels_of(range(298))).queue) == 2


# ---- judging -------------------------------------------------------------------------------------------------------


def test_items_for_judging_are_asked_in_their_share_and_not_learnt_from():
    judges = [*range(100, 150)]
    labels = labels_of([*range(60), *range(100, 120)])
    found = plan(labels, judges=judges, share=0.25)
    held, crossed = found.estimates
    assert (held.how, held.judged, crossed.how, crossed.judged) == ("held-out", 20, "cross-validated", 60)
    without = plan(labels_of(range(60)), judges=judges, share=0.25)
    assert found.gain == without.gain
    assert [line for line in found.queue if line.position not in judges] == [
        line for line in without.queue if line.position not in judges
    ]
    asked = [line.position for line in found.queue if line.position in judges]
    assert asked == judges[20:]
    for place, line in enumerate(found.queue[:100]):
        if line.position in judges:
            assert line.score is None
        share = (20 + sum(each.position in judges for each in found.queue[: place + 1])) / (81 + place)
        assert share == pytest.approx(0.25, abs=0.02)


def test_judges_that_are_behind_their_share_come_first():
    found = plan(labels_of(range(60)), judges=[*range(100, 150)], share=0.25)
    assert all(100 <= place < 150 for place in positions(found)[:20])


# ---- how it stands -------------------------------------------------------------------------------------------------


def test_the_gain_is_the_corrected_score_under_other_draws():
    labels = labels_of(range(20))
    found = plan(labels)
    x, y = X[:20], [labels[i] for i in range(20)]
    other = LightModel().fit(x, y, rng=rng_for(3, 20, "second fit"))
    probs, targets = other.predict(X[positions(found)[:4]]), other.predict(X[:40] + 0.1)
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
        found = plan_round(
            Noise(), as_pool(X[:80]), given(X[100:115]), labels_of(range(5)), classes=CLASSES, seed=seed, size=4
        )
        gains.append(found.gain)
        flattered.append(np.mean([line.score for line in found.queue[:4]]))
    assert abs(np.mean(gains)) < 3 * np.std(gains, ddof=1) / np.sqrt(8)
    assert np.mean(flattered) > 5 * np.std(gains, ddof=1)


def test_what_the_last_labels_changed():
    labels = labels_of(range(80))
    found = plan(labels).change
    x, y = X[:80], [labels[i] for i in range(80)]
    now = LightModel().fit(x, y, rng=rng_for(3, 80, "fit")).predict(X[:40] + 0.1).mean(axis=1)
    before = LightModel().fit(x[:30], y[:30], rng=rng_for(3, 80, "earlier fit")).predict(X[:40] + 0.1).mean(axis=1)
    assert found.changed == np.mean(now.argmax(axis=1) != before.argmax(axis=1))
    assert found.improved == pytest.approx(np.mean(now.max(axis=1) - now[np.arange(40), before.argmax(axis=1)]))
    assert (found.labels, found.targets) == (50, 40)
    assert 0 <= found.improved <= found.changed
    assert plan(labels_of(range(51))).change is None  # one label before


def test_weighted_targets_count_by_their_weights():
    found = plan(labels_of(range(80)), targets=class_prior({"up": 0.9, "down": 0.1}, m=30))
    assert 1 <= found.change.targets <= 30
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

    found = plan_round(Sure(), POOL, TARGETS, labels_of(range(20)), classes=CLASSES, seed=0, score="entropy")
    assert found.gain is found.signal is None
    assert len(found.queue) == 200


def test_a_posterior_in_closed_form_has_no_noise():
    from askwell.models.gp import GPClassifier

    few = as_pool(X[:24])
    found = plan_round(GPClassifier(), few, given(X[:8]), labels_of(range(8)), classes=CLASSES, seed=0)
    assert found.gain > 0
    assert (found.noise, found.signal) == (0.0, None)


def test_classes_without_a_label_yet():
    found = plan_round(
        LinearModel(draws=40), POOL, TARGETS, labels_of(range(20)), classes=["down", "sideways", "up"], seed=0
    )
    assert len(found.queue) == 200
    assert found.estimates[0].value > 0.6
