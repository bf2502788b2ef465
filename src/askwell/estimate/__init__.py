"""How good the model is, what more labels would bring, when to stop, and which labels deserve a second look."""

from askwell.estimate import accuracy, label_issues, rmse, stopping

__all__ = ["accuracy", "label_issues", "rmse", "stopping"]
