import math

import numpy as np
import pytest

from experiments.example_gp import FIGURE, SETTING
from experiments.figure import Terms
from experiments.results import Job, Results


def values(score, past=()):
    return [row["nats"] for row in FIGURE.run(Job(SETTING, score, 0), Terms(), past)]


def test_one_label_by_hand():
    """M = 1: one label at x = 1, so BALD = ½ log 2 and I(y; f(x*)) = -½ log(1 - k(x*, 1)² / 2)."""
    assert values("bald")[0] == pytest.approx(math.log(2) / 2)
    told = [-0.5 * math.log(1 - math.exp(-2 * (place - 1) ** 2) / 2) for place in np.linspace(0, 1, 101)]
    assert values("eig")[0] == pytest.approx(float(np.mean(told)))


def test_three_labels_by_determinants():
    """As in the proof: BALD = ½ log det(I + K), EIG = ½ (log det Σ_y + log k(x*, x*) - log det of both together)."""
    x = np.array([3.0, 6.0, 9.0])
    kernel = np.exp(-((x[:, None] - x) ** 2))
    assert values("bald")[2] == pytest.approx(0.5 * math.log(np.linalg.det(np.eye(3) + kernel)))
    total = 0.0
    for place in np.linspace(0, 1, 101):
        joint = np.eye(4)
        joint[1:, 1:] += kernel
        joint[0, 1:] = joint[1:, 0] = np.exp(-((x - place) ** 2))
        total += 0.5 * math.log(np.linalg.det(np.eye(3) + kernel) / np.linalg.det(joint)) / 101
    assert values("eig")[2] == pytest.approx(total, rel=1e-6)


def test_both_go_where_the_example_says_and_it_is_drawn():
    rows = [(SETTING, score, 0, m + 1, nats) for score in ("bald", "eig") for m, nats in enumerate(values(score))]
    results = Results.of(("setting", "score", "seed", "labels", "nats"), rows)
    assert FIGURE.verdict(results).count("holds in Example 1") == 2
    assert len(FIGURE.draw(results).axes) == 2
    turned = Results({**results.columns, "nats": results["nats"][::-1]})
    assert FIGURE.verdict(turned).count("does not hold in Example 1") == 2


def test_it_goes_on_where_it_was():
    assert values("eig", past=[{}] * 5) == values("eig")[5:]
