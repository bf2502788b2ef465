"""The desk: who is asked what, and what they answered. All of it in the records of one run, shared by all processes."""

from askwell.desk.agreement import Agreement, Pair
from askwell.desk.desk import Desk
from askwell.desk.progress import Person, Progress
from askwell.desk.rules import Rules
from askwell.desk.tasks import Answer, Consensus, Receipt, Suggested, Task, Undone

__all__ = [
    "Agreement",
    "Answer",
    "Consensus",
    "Desk",
    "Pair",
    "Person",
    "Progress",
    "Receipt",
    "Rules",
    "Suggested",
    "Task",
    "Undone",
]
