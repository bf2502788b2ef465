"""askwell: which examples to label next, so that a model predicts well on the inputs you care about.

The scores are functions from arrays to arrays: beliefs `probs [n, k, c]` (inputs x posterior draws x classes) in, one
number per candidate out, in nats. `askwell.information` has the rest: Gaussian, probit, nested and variational forms.
"""

from askwell import information, targets, testing
from askwell.information.bounds import top_epig
from askwell.information.categorical import bald, entropy, epig, least_confidence, margin, pairwise_epig
from askwell.information.draws import epig_corrected, epig_error, epig_quadratic, signal
from askwell.learner import Learner
from askwell.models import as_model
from askwell.simulation import simulate

__all__ = [
    "Learner",
    "as_model",
    "bald",
    "entropy",
    "epig",
    "epig_corrected",
    "epig_error",
    "epig_quadratic",
    "information",
    "least_confidence",
    "margin",
    "pairwise_epig",
    "signal",
    "simulate",
    "targets",
    "testing",
    "top_epig",
]

__version__ = "0.1.0"
