"""The loop, as its users use it."""

import copy
import functools
import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from killed import OPTIONS, POOL, TRUTH, live
from light_model import LightModel
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from store.conftest import postgres_schema, postgres_server, postgres_url  # noqa: F401 - fixtures

import askwell
import askwell.testing
from askwell.acquisition import as_score, auto
from askwell.learner import Learner
from askwell.seeds import rng_for
from askwell.selection import power
from askwell.store import open_store
from askwell.targets import class_prior, given


@pytest.fixture
def x():
    return rng_for(0, 0, "a pool").normal(size=(80, 2))


def truth(x):
    return np.where(x[:, 0] + x[:, 1] > 0, "high", "low")


def going(x, **options):
    learner = Learner(LightModel(), x, seed=3, **options)
    start = [int(np.argmax(x[:, 0])), int(np.argmin(x[:, 0]))]
    learner.tell(start, truth(x)[start])
    return learner


def questions_of(learner, x, steps, size=1):
    """What a learner asks when every question is answered."""
    asked = []
    for _ in range(steps):
        ids = learner.ask(size)
        learner.tell(ids, [truth(x)[item] for item in ids])
        asked += ids
    return asked


@pytest.mark.parametrize(("given", "name"), [({}, "auto"), ({"score": "epig"}, "epig")])
def test_the_first_question_is_the_one_with_the_highest_score(x, given, name):
    learner, targets = going(x, targets=x[:20] + 0.1, **given), x[:20] + 0.1
    probs, target_probs = learner.posterior.predict(x), learner.posterior.predict(targets)
    scores = as_score(name)(probs, target_probs, weights=None, rng=None)
    scores[list(learner.labels)] = -1
    assert learner.ask() == [int(np.argmax(scores))]


@pytest.mark.parametrize(
    "score", ["random", "entropy", "margin", "least_confidence", "bald", "epig", "epig_quadratic", "auto"]
)
def test_every_score_asks_new_items_until_the_pool_is_exhausted(x, score):
    learner = going(x[:12], score=score)
    asked = questions_of(learner, x, 6, size=2)
    assert sorted([*asked, *list(learner.labels)[:2]]) == list(range(12))
    assert learner.ask(3) == []


@pytest.mark.parametrize("batch", ["top", "power", "softmax", "softrank", "joint", "batchbald", "badge", "kcentre"])
def test_every_batch_asks_different_items(x, batch):
    learner = going(x, batch=batch)
    ids = learner.ask(5)
    assert len(set(ids)) == 5
    assert not set(ids) & set(learner.labels)


def test_own_functions_for_score_and_batch(x):
    def leftmost(probs, target_probs, *, weights, rng):
        return -np.arange(len(probs), dtype=float)

    def last(candidates, size, *, rng):
        return np.argsort(candidates.scores)[:size]

    free = sorted(set(range(80)) - set(going(x).labels))
    assert going(x, score=leftmost).ask(2) == free[:2]
    assert going(x, score=leftmost, batch=last).ask(2) == free[-1:-3:-1]
    assert len(going(x, batch=functools.partial(power, beta=4)).ask(2)) == 2


def test_a_question_is_given_again_until_it_is_answered_or_skipped(x):
    learner = going(x)
    first = learner.ask(3)
    assert learner.ask(3) == first
    assert learner.ask(2) == first[:2]
    more = learner.ask(5)
    assert more[:3] == first
    assert learner.pending == more
    learner.tell([first[1]], ["low"])
    learner.skip([first[0]], reason="too dark")
    assert learner.ask(1) == [first[2]]
    learner.skip(learner.pending)
    assert not set(learner.ask(70)) & {first[0], *more}
    learner.tell([first[0]], ["low"])  # still welcome
    assert learner.labels[first[0]] == "low"


def test_asking_again_costs_no_fit_and_no_prediction(x, monkeypatch):
    learner = going(x)
    learner.ask(2)
    monkeypatch.setattr("askwell.acquire.fit_model", None)
    monkeypatch.setattr("askwell.acquire.best_items", None)
    learner.ask(2)
    learner.ask(4)  # two more, of those already scored


def test_labels_are_corrected_and_withdrawn(x):
    learner = going(x)
    a, b = learner.labels
    learner.tell([a], ["low"])
    assert learner.labels[a] == "low"
    learner.withdraw([a])
    assert list(learner.labels) == [b]
    learner.withdraw([a])  # nothing left to take back
    assert list(learner.labels) == [b]


def test_the_same_label_again_changes_nothing(x):
    store = open_store(None)
    learner = going(x, store=store)
    before = store.read("main")
    for item, label in learner.labels.items():
        learner.tell([item], [label])
    assert store.read("main") == before


def test_a_learner_opened_again_goes_on_with_the_same_questions(x, tmp_path):
    undisturbed = questions_of(going(x), x, 8)
    url = f"sqlite:///{tmp_path / 'labels.db'}"
    going(x, store=url).close()
    asked = []
    for step in range(8):
        with Learner(LightModel(), x, seed=3, store=url) as learner:
            ids = learner.ask()
        with Learner(LightModel(), x, seed=3, store=url) as learner:  # as if it had died before the answer
            assert learner.ask() == ids
            learner.tell(ids, truth(x)[ids])
            if step % 3 == 0:
                learner.predict_proba(x[:2])
            asked += ids
    assert asked == undisturbed


def test_two_learners_on_one_store_share_labels_and_never_a_question(x, tmp_path):
    url = f"sqlite:///{tmp_path / 'labels.db'}"
    with going(x, store=url) as one, Learner(LightModel(), x, seed=3, store=url) as two:
        asked = [*one.ask(5), *two.ask(5), *one.ask(8), *two.ask(8)]
        assert len(set(asked)) == 16
        one.tell([asked[0]], ["low"])
        two.tell([asked[5]], ["high"])
        assert one.labels == two.labels
        assert len(one.labels) == 4
        waiting = [item for item in two.pending if item in asked[:5]]
        one.close()
        assert two.ask(4) == waiting[:4]  # what the other left behind comes first


def test_ids_are_the_users_own(x):
    names = [("customer", number) for number in range(80)]
    learner = Learner(LightModel(), x, ids=names, seed=0)
    learner.tell(names[:4], [1, 0, 1, 0])
    (item,) = learner.ask()
    assert item in names[4:]
    learner.tell([item], [1])
    assert set(learner.labels) == {*names[:4], item}


def test_no_labels_and_one_class_only_still_give_questions(x):
    learner = Learner(LightModel(), x, seed=0)
    first = learner.ask(4)
    assert len(set(first)) == 4
    learner.tell(first, ["high"] * 4)
    second = learner.ask(3)
    assert not set(first) & set(second)
    assert learner.predict_proba(x[:2]).shape == (2, 1)
    words = Learner(LightModel(), [{"text": str(i)} for i in range(9)], seed=0)  # no numbers to spread over
    assert len(set(words.ask(9))) == 9


def test_first_questions_spread_over_clusters():
    rng = rng_for(1, 0, "clusters")
    centres = np.array([[0, 0], [20, 0], [0, 20], [20, 20]])
    x = np.repeat(centres, 50, axis=0) + rng.normal(size=(200, 2))
    first = Learner(LightModel(), x, seed=0).ask(4)
    assert {item // 50 for item in first} == {0, 1, 2, 3}


def test_first_questions_go_on_until_each_declared_class_was_seen():
    x = rng_for(1, 0, "x").normal(size=(200, 2))

    def scored(labels, *, classes, score="auto"):
        learner = Learner(LightModel(), x, classes=classes, score=score, seed=0)
        learner.tell(range(len(labels)), labels)
        learner.ask(2)
        return all(
            question.score is not None for question in learner._session.read(lambda state: state.pending).values()
        )

    two, three = ["a", "b"], ["a", "b", "c"]
    assert scored(two, classes=None)
    assert scored(two, classes=two)
    assert not scored(two, classes=three)
    assert not scored([*two, "a"], classes=three)
    assert scored(three, classes=three)
    assert scored(two, classes=three, score="random")  # asked for at random: they are not waited for
    assert scored(two * 5, classes=three)  # nobody has seen it in nine questions


def test_classes_may_be_given(x):
    learner = Learner(LightModel(), x, classes=["low", "middle", "high"], seed=0)
    learner.tell([0, 1], ["low", "high"])
    assert learner.predict_proba(x[:3]).shape == (3, 3)
    assert learner.predict_proba(x[:3])[:, 1].max() == 0
    assert learner.classes == ["low", "middle", "high"]


@pytest.mark.parametrize("labels", [("ham", "spam"), (3, 7), (False, True)])
def test_predict_gives_the_most_probable_class_of_each_input(labels):
    x = rng_for(0, 0, "x").normal(size=(60, 2))
    y = [labels[int(a > 0)] for a in x[:, 0]]
    learner = Learner(LightModel(), x)
    learner.tell(range(20), y[:20])
    found = learner.predict(x)
    probs = learner.predict_proba(x)
    assert found.tolist() == [learner.classes[column] for column in probs.argmax(axis=1)]
    assert np.mean([a == b for a, b in zip(found.tolist(), y, strict=True)]) > 0.8
    assert learner.predict(x[:1]).shape == (1,)


def test_targets_of_every_kind(x):
    for targets in (None, x[:10], given(x[:10]), class_prior({"high": 0.9, "low": 0.1})):
        assert len(going(x, targets=targets).ask(2)) == 2


@pytest.mark.parametrize("score", ["epig", "auto"])
def test_costs_of_errors_choose_the_questions(x, score):
    learner = going(x, targets=x[:20] + 0.1, score=score, class_weights={"high": 50})
    probs, target_probs = learner.posterior.predict(x), learner.posterior.predict(x[:20] + 0.1)
    costs = [50, 1]  # high, low
    scores = {"epig": askwell.epig, "auto": auto}[score](probs, target_probs, class_weights=costs)
    scores[list(learner.labels)] = -1
    assert learner.ask() == [int(np.argmax(scores))]
    assert len({*going(x, score=score, class_weights={"high": 50}).ask(8)}) == 8  # together
    assert questions_of(going(x, score=score, class_weights={"high": 3, "low": 3}), x, 4) == questions_of(
        going(x, score=score), x, 4
    )


def test_a_learner_with_costs_goes_on_and_remembers_them(x, tmp_path):
    costs = {"low": 20, "high": 1}
    whole = questions_of(going(x, class_weights=costs), x, 12)
    assert whole != questions_of(going(x), x, 12)
    url = f"sqlite:///{tmp_path / 'labels.db'}"
    with going(x, store=url, class_weights=costs) as learner:
        first = questions_of(learner, x, 6)
    with Learner(LightModel(), x, seed=3, store=url, class_weights=costs) as learner:
        assert first + questions_of(learner, x, 6) == whole
    (begun,) = [record for record in open_store(url).read("main") if record.kind == "run"]
    assert begun.body["class_weights"] == [["low", 20], ["high", 1]]


def test_a_gaussian_process_with_costs_is_asked_by_its_draws(x):
    from askwell.models.gp import GPClassifier

    learner = Learner(GPClassifier(), x, seed=3, targets=x[:20], class_weights={"high": 50})
    learner.tell([0, 1, 2, 3], truth(x)[:4])
    assert len(learner.ask(3)) == 3


def test_explanations_with_costs_are_the_scores(x):
    targets = x[:20] + 0.1
    learner = going(x, targets=targets, class_weights={"high": 50})
    (item,) = learner.ask()
    why = learner.explain(item)
    probs, of_targets, costs = learner.posterior.predict(x[[item]]), learner.posterior.predict(targets), [50, 1]
    assert why.score == pytest.approx(float(askwell.epig(probs, of_targets, class_weights=costs)[0]))
    assert why.margin * why.about_open == pytest.approx(float(auto(probs, of_targets, class_weights=costs)[0]))
    assert why.informs[0][1] == pytest.approx(
        float(askwell.pairwise_epig(probs, of_targets, class_weights=costs).max())
    )
    assert "an error costs: 'high' 50, 'low' 1" in str(why)
    assert "an error costs" not in str(going(x).explain(item))


def test_explanations_say_what_is_asked_for(x):
    learner = going(x, targets=x[:20] + 0.1)
    (item,) = learner.ask()
    why = learner.explain(item, size=20)
    probs, targets = learner.posterior.predict(x[[item]]), learner.posterior.predict(x[:20] + 0.1)
    assert why.score == pytest.approx(float(askwell.epig(probs, targets)[0]), rel=1e-9)
    assert why.bald == pytest.approx(float(askwell.bald(probs)[0]))
    pairs = askwell.pairwise_epig(probs, targets)[0]
    assert [nats for _, nats in why.informs] == sorted(pairs.tolist(), reverse=True)
    assert all(pairs[target] == nats for target, nats in why.informs)
    assert sum(why.belief.values()) == pytest.approx(1)
    assert why.label is None
    assert f"item {item}" in str(why)
    assert "nats about target" in str(why)
    known = next(iter(learner.labels))
    assert learner.explain(known).label == "high"


@pytest.mark.parametrize("engine", [None, "local:2"])
def test_a_pool_in_files_is_asked_the_same_questions(x, tmp_path, engine):
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", x[20 * number : 20 * (number + 1)].astype(np.float32))
    one, other = going(x.astype(np.float32)), Learner(LightModel(), tmp_path, seed=3, engine=engine)
    other.tell(list(one.labels), list(one.labels.values()))
    assert questions_of(other, x, 3, size=2) == questions_of(one, x, 3, size=2)


def test_a_forest_of_few_trees_is_taken_with_one_warning(x):
    few = RandomForestClassifier(10, random_state=0)
    learner = Learner(few, x, targets=x[:20], seed=3)
    learner.tell(range(30), np.arange(30) % 5)
    with pytest.warns(UserWarning, match=r"the EPIG scores are 1\.\d\d times .* as many trees"):
        learner.ask()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.tell(learner.ask(2), [0, 1])
        for model, score in [(few, "bald"), (askwell.as_model(few), "epig"), (LightModel(), "epig")]:
            silent = Learner(model, x, targets=x[:20], seed=3, score=score)
            silent.tell(range(30), np.arange(30) % 5)
            silent.ask()


def test_signal_is_that_of_the_present_posterior(x):
    learner = going(x, targets=x[:20] + 0.1)
    rest = [item for item in range(80) if item not in learner.labels]
    probs, targets = learner.posterior.predict(x[rest]), learner.posterior.predict(x[:20] + 0.1)
    assert learner.signal(warn=False) == askwell.signal(probs, targets, warn=False)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda learner: learner.ask(0), "size must be a whole number"),
        (lambda learner: learner.tell([999], ["low"]), "999 is none of them"),
        (lambda learner: learner.tell([3], [None]), "one is None"),
        (lambda learner: learner.tell([3], [float("nan")]), "one is nan"),
        (lambda learner: learner.tell([3], [7]), "not like 'high'"),
        (lambda learner: learner.tell([3, 4], ["low", 7]), "7 is not like 'high'"),
        (lambda learner: learner.tell([3, 4], ["low"]), "equally many"),
        (lambda learner: learner.tell([3, 3], ["low", "high"]), "3 occurs more than once"),
        (lambda learner: learner.tell(3, "low"), r"ids must be a list, but it is 3. Try \[3\]"),
        (lambda learner: learner.withdraw([999]), "none of them"),
        (lambda learner: learner.explain("a"), "none of them"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(x, act, words):
    learner = going(x)
    before = learner.labels
    with pytest.raises(ValueError, match=words):
        act(learner)
    assert learner.labels == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"score": "epigg"}, "epig"),
        ({"batch": "tops"}, "top"),
        ({"classes": ["a"]}, "two or more"),
        ({"classes": ["a", "a"]}, "two or more"),
        ({"targets": 3}, "targets"),
        ({"class_weights": {"hgh": 2}, "classes": ["high", "low"]}, "'hgh' is none of them. Did you mean 'high'"),
        ({"class_weights": {1: 2}, "classes": [True, False]}, "must be for the classes True, False, but 1 is none"),
        ({"class_weights": {"high": -2}}, "numbers from 0"),
        ({"class_weights": {"high": float("nan")}}, "numbers from 0"),
        ({"class_weights": {"high": 0, "low": 0}}, "must not all be 0"),
        ({"class_weights": {"high": 2}, "score": "entropy"}, "heeds them"),
        ({"store": "mysql://x"}, "sqlite"),
    ],
)
def test_wrong_options_are_refused(x, options, words):
    with pytest.raises(ValueError, match=words):
        Learner(LightModel(), x, **options)


def test_labels_outside_the_classes_are_refused(x):
    learner = Learner(LightModel(), x, classes=[0, 1])
    with pytest.raises(ValueError, match=r"among the classes \[0, 1\], but one is 2"):
        learner.tell([0], [2])
    with pytest.raises(ValueError, match="one is True"):
        learner.tell([0], [True])


def test_no_model_without_labels(x):
    with pytest.raises(ValueError, match="Tell a few labels first"):
        Learner(LightModel(), x).predict_proba(x)


@pytest.mark.parametrize("change", [{"seed": 4}, {"ids": list(range(1, 81))}, {"classes": ["high", "low"]}])
def test_a_run_is_opened_as_it_was_begun(x, tmp_path, change):
    url = f"sqlite:///{tmp_path / 'labels.db'}"
    going(x, store=url).close()
    with pytest.raises(ValueError, match="begun with other"):
        Learner(LightModel(), x, **{"seed": 3, "store": url, **change})
    with Learner(LightModel(), x, **{"seed": 3, "store": url, "run": "another", **change}) as learner:
        assert learner.labels == {}


# ---- what labels may be --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "labels", "classes", "words"),
    [
        ([], [0.25, 0.5], None, "labels must hold classes, but one is 0.25, a fraction. To predict numbers"),
        ([], [1.0, np.float32(2.5)], None, "2.5, a fraction"),
        ([True, False], [1], None, "1 is a number and True is a truth value"),
        ([1, 0], [True], None, "1 is a number and True is a truth value"),
        ([], [True, 2], None, "2 is a number and True is a truth value"),
        ([], [np.bool_(True), 0], None, "0 is a number and True is a truth value"),
        ([], [1], [True, False], "must be among the classes"),
    ],
)
def test_labels_that_are_no_classes_are_refused_before_they_are_kept(x, before, labels, classes, words):
    learner = Learner(LightModel(), x, classes=classes)
    learner.tell(range(len(before)), before)
    with pytest.raises(ValueError, match=words):
        learner.tell(range(10, 10 + len(labels)), labels)
    assert list(learner.labels.values()) == before


@pytest.mark.parametrize(
    ("classes", "words"), [([True, 2], "one kind"), ([True, 1], "one kind"), ([0.5, 1.5], "a fraction")]
)
def test_classes_that_are_none_are_refused(x, classes, words):
    with pytest.raises(ValueError, match=words):
        Learner(LightModel(), x, classes=classes)


def test_whole_floats_are_classes(x):
    learner = Learner(LightModel(), x)
    learner.tell([0, 1, 2], [1.0, 2.0, 1])
    assert learner.classes == [1.0, 2.0]
    assert len(learner.ask(2)) == 2


# ---- a dict of arrays ----------------------------------------------------------------------------------------------


class ByName:
    """A model of inputs with two parts, taken by name."""

    def fit(self, x, y, *, rng):
        return ByNamePosterior(LightModel().fit(self.joined(x), y, rng=rng))

    @staticmethod
    def joined(x):
        return np.hstack([np.asarray(x["ids"], float), np.asarray(x["mask"], float)])


class ByNamePosterior:
    def __init__(self, inner):
        self.inner, self.classes = inner, inner.classes

    def predict(self, x):
        return self.inner.predict(ByName.joined(x))


@pytest.mark.parametrize("engine", [None, "local:2"])
def test_a_dict_of_arrays_is_a_pool(x, engine):
    parts = {"ids": x[:, :1], "mask": x[:, 1:]}
    options = {"seed": 3, "evaluation": 0}  # inputs that are no vectors are drawn from the pool
    whole = Learner(LightModel(), x, targets=x[:20], **options)
    named = Learner(
        ByName(), parts, targets={name: part[:20] for name, part in parts.items()}, engine=engine, **options
    )
    for learner in (whole, named):
        learner.tell([0, 1, 2, 3, 4, 5], truth(x)[:6])
    assert named.ask(3) == whole.ask(3)
    np.testing.assert_array_equal(named.predict_proba(parts), whole.predict_proba(x))
    assert named.explain(7).score == whole.explain(7).score
    assert len(Learner(ByName(), parts).ask(4)) == 4  # before there is a model


def test_a_dict_of_arrays_can_be_simulated(x):
    parts, options = (
        {"ids": x[:, :1], "mask": x[:, 1:]},
        {"scores": ["epig"], "budget": 8, "seeds": [0], "processes": 1},
    )
    named = askwell.simulate(ByName(), parts, truth(x), test=(parts, truth(x)), targets=parts, **options)
    whole = askwell.simulate(LightModel(), x, truth(x), test=(x, truth(x)), targets=x, **options)
    assert named.traces[0].questions == whole.traces[0].questions
    assert named.settings["data"] != whole.settings["data"]


def test_a_net_of_tokens_learns_in_the_loop():
    torch = pytest.importorskip("torch")
    from askwell.models.dropout import DropoutModel
    from askwell.models.training import ModernTraining

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.drop, self.out = torch.nn.Embedding(20, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2)

        def forward(self, input_ids, attention_mask):
            words = self.words(input_ids) * attention_mask[..., None]
            return self.out(self.drop(words.sum(1) / attention_mask.sum(1, keepdim=True)))

    ids = rng_for(0, 0, "tokens").integers(20, size=(60, 5))
    pool = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    model = DropoutModel(Net(), draws=10, training=ModernTraining(steps=30))
    learner = Learner(model, pool, targets={name: part[40:] for name, part in pool.items()})
    learner.tell(range(20), (ids[:20, 0] > 9).astype(int))
    asked = learner.ask(3)
    assert len({*asked}) == 3
    assert learner.predict_proba({name: part[:4] for name, part in pool.items()}).shape == (4, 2)
    assert len(learner.explain(asked[0]).informs) == 5


def test_arrays_of_a_dict_must_be_equally_long(x):
    with pytest.raises(ValueError, match=r"equally many rows, but they have \{'a': 80, 'b': 79\}"):
        Learner(ByName(), {"a": x, "b": x[1:]})
    with pytest.raises(ValueError, match="at least one input"):
        Learner(ByName(), {})


# ---- what a model gives --------------------------------------------------------------------------------------------


def test_a_posterior_may_give_tensors_with_a_graph(x):
    torch = pytest.importorskip("torch")

    class Graph:
        def fit(self, x, y, *, rng):
            return GraphPosterior(LightModel().fit(x, y, rng=rng))

    class GraphPosterior:
        def __init__(self, inner):
            self.inner, self.classes = inner, inner.classes

        def predict(self, x):
            return torch.tensor(self.inner.predict(x), requires_grad=True) * 1.0

    learner = Learner(Graph(), x, targets=x[:20])
    learner.tell(range(6), truth(x)[:6])
    assert len(learner.ask(3)) == 3
    assert learner.predict_proba(x[:4]).shape == (4, 2)
    askwell.testing.check_model(Graph(), processes=False)


def test_questions_of_learners_before_are_ours_and_those_of_others_are_not(x, tmp_path):
    """Of one that died, as far as anybody can tell: whoever opens the run later takes them over."""
    url = f"sqlite:///{tmp_path / 'labels.db'}"
    dead = going(x, store=url)
    first = dead.ask(2)
    with Learner(LightModel(), x, seed=3, store=url) as one, Learner(LightModel(), x, seed=3, store=url) as two:
        assert one.ask(2) == first  # two might have, too; who asks first has them
        others = two.ask(2)
        assert not {*first} & {*others}
        assert one.ask(4)[:2] == first
        assert not {*one.ask(4)} & {*others}
        assert not {*dead.ask(2)} & {*first, *others}  # it was alive: it finds others
    dead.close()


# ---- killed, and side by side ----------------------------------------------------------------------------------------

HERE = Path(__file__).parent
KILLS, LABELS = 50, 150


def questions_in(records):
    return [record.item for record in records if record.kind == "question" and not record.body.get("again")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('undisturbed') / 'labels.db'}"
    live(url, LABELS, lambda event: None)
    with open_store(url) as store:
        return questions_in(store.read("main"))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'labels.db'}"
    return request.getfixturevalue("postgres_url")


def test_a_learner_killed_fifty_times_loses_and_repeats_nothing(url, undisturbed):
    run = subprocess.run(
        [sys.executable, str(HERE / "killed.py"), url, str(KILLS), str(LABELS), "1"],
        capture_output=True, text=True, cwd=HERE, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["killed"] == KILLS
    with open_store(url) as store:
        records = store.read("main")
    told = [record.item for record in records if record.kind == "label"]
    assert {str(event["told"]) for event in found["heard"] if "told" in event} <= set(told)  # none lost
    assert len(told) == len(set(told)) == LABELS  # none twice
    assert all(record.body["label"] == TRUTH[int(record.item)] for record in records if record.kind == "label")
    assert questions_in(records) == undisturbed


def test_two_learners_in_two_processes_never_ask_the_same(url):
    script = (
        "import sys; from killed import *; learner = Learner(LightModel(), POOL, store=sys.argv[1], **OPTIONS)\n"
        "learner.tell([0, 1], ['high', 'low']); print('open', flush=True); sys.stdin.readline()\n"
        "for _ in range(20):\n"
        "    ids = learner.ask(3); print(*ids, flush=True); learner.tell(ids, [TRUTH[item] for item in ids])\n"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", script, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout.readline() == "open\n"
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    asked = [[int(item) for item in process.communicate()[0].split()] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [len(items) for items in asked] == [60, 60]
    assert not set(asked[0]) & set(asked[1])
    with Learner(LightModel(), POOL, store=url, **OPTIONS) as learner:
        assert len(learner.labels) == 122


# ---- how good the model is, what is wrong with its labels ------------------------------------------------------------


def test_a_learner_says_how_good_its_model_is_and_what_it_would_take(x):
    learner = Learner(LightModel(), x, classes=["high", "low"], evaluation=0.3, seed=1)
    assert (learner.estimate(), learner.forecast(), learner.labels_needed(0.99)) == (None, None, (None, None))
    assert not learner.advice().stop
    while len(learner.labels) < 50:
        items = learner.ask(5)
        learner.tell(items, truth(x)[items])
    found = learner.estimate()
    assert (found.how, found.of, found.labels >= 15) == ("drawn", "pool", True)
    assert found.low < found.value <= found.high
    ahead = learner.forecast(20)
    assert (ahead.labels, ahead.low <= ahead.gain <= ahead.high) == (20, True)
    assert learner.labels_needed(found.value / 2) == (0, 0)
    assert "of 50 labels improved" in learner.advice().why


def test_a_drawn_question_that_is_withdrawn_skipped_or_corrected(x):
    learner = Learner(LightModel(), x, classes=["high", "low"], evaluation=0.5, seed=1)
    order = learner._strategy.drawn.positions.tolist()
    told = [*order[:12], *order[-12:]]
    learner.tell(told, truth(x)[told])
    assert learner.estimate().labels == 12
    learner.withdraw([order[10]])
    assert learner.estimate().labels == 10  # the eleventh is to be asked again
    assert learner.ask() == [order[10]]
    learner.skip([order[10]])
    assert learner.estimate().labels == 11
    assert learner.ask() == [order[12]]
    before = learner.estimate().value
    learner.tell(order[:1], ["low" if truth(x)[order[0]] == "high" else "high"])
    assert (learner.estimate().labels, learner.estimate().value < before) == (11, True)


def test_label_issues_are_corrected_or_confirmed(x, tmp_path):
    options = {"store": f"sqlite:///{tmp_path}/run.db", "classes": ["high", "low"], "seed": 2}
    right = truth(x)
    clear = [int(each) for each in np.argsort(-np.abs(x.sum(axis=1)))]
    wrong = clear[4:6]
    labels = right.copy()
    labels[wrong] = np.where(right[wrong] == "high", "low", "high")
    with Learner(LightModel(), x, **options) as learner:
        learner.tell(range(80), right)
        learner.tell(wrong, labels[wrong])
        assert not {*wrong} & {each.item for each in learner.label_issues()}  # a correction has had its second look
        learner.withdraw(wrong)
        learner.tell(wrong, labels[wrong])
        assert {*wrong} <= {each.item for each in learner.label_issues()}
        learner.confirm(wrong[:1])
        learner.tell(wrong[1:], right[wrong[1:]])
        assert learner.labels[wrong[0]] == labels[wrong[0]]
    with Learner(LightModel(), x, **options) as learner:
        assert not {*wrong} & {each.item for each in learner.label_issues()}
        learner.withdraw(wrong)
        learner.confirm(wrong)  # there is no label to confirm
        assert len(learner.labels) == 78


# ---- habits of notebooks ---------------------------------------------------------------------------------------------


def told_learner(**options):
    x = rng_for(0, 0, "habits").normal(size=(60, 2))
    learner = Learner(RandomForestClassifier(20), x, score="bald", evaluation=0, **options)
    learner.tell(range(10), np.where(x[:10, 0] > 0, "<b>", "no"))
    return learner


def test_a_learner_in_a_line_and_in_a_notebook():
    learner = told_learner()
    assert repr(learner).startswith("Learner(model: RandomForestClassifier, pool: 60 items, labels: 10 (")
    assert "Next: ask()" in learner._repr_html_()
    (item,) = learner.ask()
    assert f"Asked and not answered: {item}. Next: tell([{item}], [label])." in learner._repr_html_()
    assert "<b>" not in learner._repr_html_()
    assert "&lt;b&gt;" in learner._repr_html_()
    assert len(repr(learner.posterior)) < 200
    empty = Learner(RandomForestClassifier(20), np.zeros((5, 2)))
    assert "labels: none" in repr(empty)


def test_scores_of_all_items_agree_with_what_is_asked():
    learner = told_learner()
    scores = learner.scores()
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert {*scores} == {*range(10, 60)}
    asked = learner.ask(3)
    assert asked == list(scores)[:3]
    learner.skip([list(scores)[3]])
    assert {*scores} - {*learner.scores()} == {*list(scores)[:4]}


def test_a_learner_cannot_be_pickled_and_says_what_to_do():
    learner = told_learner()
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="What it knows is in the store"):
            attempt(learner)
    again = pickle.loads(pickle.dumps(learner.posterior))
    np.testing.assert_array_equal(again.predict(np.zeros((3, 2))), learner.posterior.predict(np.zeros((3, 2))))


def test_several_are_asked_through_one_learner(tmp_path):
    learner = told_learner(store=f"sqlite:///{tmp_path}/labels.db")
    ann, ben, own = learner.ask(2, session="ann"), learner.ask(2, session="ben"), learner.ask(2)
    assert len({*ann, *ben, *own}) == 6
    assert learner.ask(2, session="ann") == ann
    assert learner.ask(1, session="ben") == ben[:1]
    learner.tell(ann[:1], ["no"])
    assert learner.ask(1, session="ann") == ann[1:]
    learner.close()
    with told_learner(store=f"sqlite:///{tmp_path}/labels.db") as reopened:
        assert reopened.ask(2, session="ben") == ben
    for session in ("", 3):
        with pytest.raises(ValueError, match="session must be the name"):
            told_learner().ask(session=session)


def in_polars(x):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(x, schema=["a", "b"])


def in_pandas(x):
    return pytest.importorskip("pandas").DataFrame(x, columns=["a", "b"])


@pytest.mark.parametrize("held", [in_pandas, in_polars, csr_matrix, np.ndarray.tolist], ids=lambda held: held.__name__)
def test_questions_do_not_depend_on_what_holds_the_numbers(held):
    x = rng_for(0, 0, "frames").normal(size=(60, 2))
    labels = np.where(x[:12, 0] > 0, "yes", "no")

    def asked(of):
        model = askwell.as_model(LogisticRegression(), draws=5)
        learner = Learner(model, of(x), targets=of(x[40:]), score="epig", evaluation=0)
        learner.tell(range(12), labels)
        return learner.ask(3), learner.predict_proba(of(x[:5]))

    (wanted, probs), (questions, predicted) = asked(np.asarray), asked(held)
    assert questions == wanted
    np.testing.assert_allclose(predicted, probs, atol=1e-5)
