import numpy as np
import pytest

from askwell.models.gp import GPClassifier, Kernel
from askwell.models.gp_top import rough_covariance, top_epig
from askwell.seeds import rng_for


def fitted(labels, features, *, seed=0, kernel=None, spread=2.0, offset=0.0):
    rng = rng_for(seed, 0, "gp")
    x = offset + spread * rng.standard_normal((labels + 400 + 70, features))
    y = (x[:labels].sum(axis=1) > features * offset).astype(int)
    model = GPClassifier(kernel=kernel or Kernel(scale=10.0))
    posterior = model.fit(x[:labels], y, rng=rng, classes=[0, 1])
    return posterior, x[labels : labels + 400], x[labels + 400 :]


@pytest.mark.parametrize("features", [1, 2, 5, 12])
@pytest.mark.parametrize("kernel", [Kernel(scale=10.0), Kernel(scale=0.3, length=2.5)])
def test_the_best_are_those_of_sorting(features, kernel):
    posterior, x, targets = fitted(25, features, kernel=kernel)
    weights = rng_for(1, 0, "weights").random(len(targets))
    scores = posterior.epig(x, targets, weights=weights)
    index, best = top_epig(posterior.process, x, targets, 20, weights=weights)
    assert index.tolist() == np.argsort(-scores, kind="stable")[:20].tolist()
    np.testing.assert_allclose(best, scores[index], rtol=1e-9)


@pytest.mark.parametrize("features", [1, 2, 5, 12])
@pytest.mark.parametrize("spread", [0.01, 2.0, 300.0])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_rough_covariances_are_as_wrong_as_they_say_at_most(features, spread, offset):
    lengths = tuple(np.linspace(0.5, 2.0, features)) if features > 1 else 1.0
    posterior, x, targets = fitted(40, features, kernel=Kernel(10.0, lengths), spread=spread, offset=offset)
    rough, error = rough_covariance(posterior.process, x, targets)
    for rows in (slice(0, 400), np.array([3, 399, 7])):
        found = rough(rows)
        assert found.dtype == np.float32
        assert np.abs(found - posterior.covariance(x[rows], targets)).max() <= error
    assert error < 1e-3 or spread == 300.0


def test_inputs_of_another_width_are_refused():
    posterior, x, targets = fitted(10, 2)
    with pytest.raises(ValueError, match="features"):
        top_epig(posterior.process, x[:, :1], targets, 1)
