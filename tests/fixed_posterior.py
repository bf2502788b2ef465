"""A posterior that is known by heart."""

import numpy as np

from askwell.seeds import rng_for


class Fixed:
    """A posterior that knows its inputs by number."""

    classes = ("a", "b", "c")

    def __init__(self, n, k=20):
        self.probs = rng_for(n, 0, "fixed posterior").dirichlet([0.5] * 3, (n, k))

    def predict(self, x):
        return self.probs[np.asarray(x)[:, 0].astype(int)]
