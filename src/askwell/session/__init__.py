"""A session: who is asked what, and what they answered, in the records of one run that all processes share."""

from askwell.session.agreement import Agreement, Pair
from askwell.session.events import Candidate
from askwell.session.progress import Person, Progress
from askwell.session.rules import Rules
from askwell.session.session import Session
from askwell.session.tasks import Answer, Consensus, Receipt, Task, Undone

__all__ = [
    "Agreement",
    "Answer",
    "Candidate",
    "Consensus",
    "Pair",
    "Person",
    "Progress",
    "Receipt",
    "Rules",
    "Session",
    "Task",
    "Undone",
]
