"""A name is one model, through whichever door."""

import numpy as np
import pytest

from askwell.models import MODELS, model_named
from askwell.models.gp import GPClassifier
from askwell.models.linear import LinearModel
from askwell.project.settings import MODELS as OF_PROJECTS
from askwell.seeds import rng_for


def test_forest_and_linear_have_the_sizes_that_epig_needs() -> None:
    x = rng_for(0, 0, "x").normal(size=(30, 3))
    assert model_named("forest", x).trees == 500
    assert model_named("linear", x).draws == LinearModel().draws == 500


def test_features_count_by_their_spread_unless_they_are_alike() -> None:
    x = rng_for(0, 0, "x").normal(size=(50, 2)) * [1.0, 100.0]
    apart, alike = model_named("linear", x), model_named("linear", x, alike=True)
    assert apart.standardise
    assert not alike.standardise
    gp = model_named("gp", x)
    assert isinstance(gp, GPClassifier)
    np.testing.assert_allclose(gp.kernel.length[1] / gp.kernel.length[0], x[:, 1].std() / x[:, 0].std())


def test_projects_know_the_same_names() -> None:
    assert OF_PROJECTS is MODELS


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="forest, linear, gp"):
        model_named("florest", np.zeros((2, 2)))
