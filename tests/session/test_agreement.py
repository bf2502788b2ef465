"""Agreement against Cohen's formula, written with loops."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askwell.session.agreement import agreement

PEOPLE = ["ada", "bob", "cyd"]
votes = st.lists(st.dictionaries(st.sampled_from(PEOPLE), st.sampled_from(["x", "y", "z"])), max_size=12)


def kappa(pairs):
    """(observed - by chance) / (1 - by chance), or None where chance is sure."""
    n = len(pairs)
    labels = {label for pair in pairs for label in pair}
    observed = sum(a == b for a, b in pairs) / n
    chance = sum(sum(a == c for a, _ in pairs) * sum(b == c for _, b in pairs) for c in labels) / n**2
    return None if len(labels) < 2 else (observed - chance) / (1 - chance)


def mean(values):
    known = [(value, weight) for value, weight in values if value is not None]
    return sum(v * w for v, w in known) / sum(w for _, w in known) if known else None


@given(votes)
@settings(max_examples=30)
def test_it_is_cohens_kappa(items):
    found = agreement(items)
    several = [item for item in items if len(item) > 1]
    assert (found is None) == (not several)
    if found is None:
        return
    shared = {
        (a, b): [(item[a], item[b]) for item in several if a in item and b in item]
        for a, b in [("ada", "bob"), ("ada", "cyd"), ("bob", "cyd")]
    }
    shared = {people: pairs for people, pairs in shared.items() if pairs}
    assert [pair.people for pair in found.pairs] == list(shared)
    for pair in found.pairs:
        pairs = shared[pair.people]
        assert pair.items == len(pairs)
        assert pair.share == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
        assert pair.kappa == (None if kappa(pairs) is None else pytest.approx(kappa(pairs)))
    overall = mean([(kappa(pairs), len(pairs)) for pairs in shared.values()])
    assert found.kappa == (None if overall is None else pytest.approx(overall))
    assert found.items == len(several)
    assert found.share == pytest.approx(sum(len(set(item.values())) == 1 for item in several) / len(several))
    for label, value in found.classes.items():
        against = [([(a == label, b == label) for a, b in pairs], len(pairs)) for pairs in shared.values()]
        expected = mean([(kappa(pairs), n) for pairs, n in against])
        assert value == (None if expected is None else pytest.approx(expected))
    assert set(found.classes) == {label for pairs in shared.values() for pair in pairs for label in pair}


def test_where_chance_is_sure_there_is_no_kappa():
    found = agreement([{"ada": "x", "bob": "x"}] * 3)
    assert (found.share, found.kappa, found.classes) == (1.0, None, {"x": None})


def test_labels_of_several_kinds_are_told_apart():
    found = agreement([{"ada": "1", "bob": "1"}, {"ada": 1, "bob": 1}, {"ada": "1", "bob": 1}])
    assert found.share == pytest.approx(2 / 3)
    assert 0 < found.kappa < 1
