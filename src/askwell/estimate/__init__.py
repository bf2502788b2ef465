"""How good the model is, what more labels would bring, and when to stop."""

from askwell.estimate import accuracy, rmse, stopping

__all__ = ["accuracy", "rmse", "stopping"]
