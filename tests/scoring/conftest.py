import numpy as np
import pytest
from fixed_posterior import Fixed

from askwell.scoring import Question


@pytest.fixture
def question():
    numbers = np.arange(130.0)[:, None]
    return Question(Fixed(130), numbers[:100], targets=numbers[100:])
