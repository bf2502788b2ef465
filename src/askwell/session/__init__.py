"""A session: who is asked what, and what they answered, in the records of one run that all processes share.

    what people do -> Session -> events, as records -> store
                         ^                              |
                         +---- State, their fold <------+

`events` is the vocabulary of the log, `state` its one fold, `leases` who has which item until when, `rules` what the
owner decides, `progress` what a page shows. `commit` stores what many threads want with one append.
"""

from askwell.session.events import Candidate
from askwell.session.leases import Turn
from askwell.session.progress import Agreement, Annotator, Pair, Progress
from askwell.session.rules import Rules
from askwell.session.session import Assignment, Consensus, Receipt, Session, Undone
from askwell.session.state import Answer

__all__ = [
    "Agreement",
    "Annotator",
    "Answer",
    "Assignment",
    "Candidate",
    "Consensus",
    "Pair",
    "Progress",
    "Receipt",
    "Rules",
    "Session",
    "Turn",
    "Undone",
]
