import numpy as np
import pytest
from fixed_posterior import Fixed

from askwell.scoring import Search


@pytest.fixture
def search():
    numbers = np.arange(130.0)[:, None]
    return Search(Fixed(130), numbers[:100], targets=numbers[100:])
