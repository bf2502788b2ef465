"""What a label would tell: information measures as pure functions from arrays to arrays, in nats."""

from askwell.information import bounds, categorical, draws, gaussian, moments, nested, probit, variational

__all__ = ["bounds", "categorical", "draws", "gaussian", "moments", "nested", "probit", "variational"]
