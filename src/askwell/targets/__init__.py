"""Where x* comes from: inputs that stand for what the model will meet, with weights.

`given(x)` has samples of p*(x*); `from_pool(m)` takes the pool for one; `class_prior(p)` weighs the pool until its
classes are as frequent as in use. Each of them is a `Targets`: something that gives a `Sample` at every step.
"""

from askwell.targets.drawing import Drawn, Of, draw, is_turn
from askwell.targets.prior import class_weights, effective_size, estimate_prior
from askwell.targets.sampling import (
    Inputs,
    Sample,
    Targets,
    as_targets,
    class_prior,
    from_pool,
    given,
    given_inputs,
    representatives,
)

__all__ = [
    "Drawn",
    "Inputs",
    "Of",
    "Sample",
    "Targets",
    "as_targets",
    "class_prior",
    "class_weights",
    "draw",
    "effective_size",
    "estimate_prior",
    "from_pool",
    "given",
    "given_inputs",
    "is_turn",
    "representatives",
]
