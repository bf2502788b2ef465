"""R10: requests that nobody thought of. R11: files that nobody should write."""

import os
import subprocess
import sys

from malformed import soak as judge

from soak import Found
from soak.lives import TESTS

REQUESTS = 10_000
FILES = 5_000
PER_CASE = 19  # requests at least for each case that tests/web/test_api.py is asked for


def requests(share, *, seed=0):
    """R10: the test of the documented answers, with more cases."""
    cases = max(2, -(-round(REQUESTS * share) // PER_CASE))
    test = "web/test_api.py::test_every_answer_is_documented"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test], cwd=TESTS, text=True,
        env={**os.environ, "ASKWELL_API_CASES": str(cases)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False,
    )  # fmt: skip
    found = Found({"requests at least": PER_CASE * cases})
    if done.returncode:
        found.faults.append(done.stdout[-3000:])
    return found


def files(share, *, seed=0):
    """R11: every row is read or reported; anything else is an AssertionError of `malformed`."""
    number = max(100, round(FILES * share))
    try:
        outcomes = judge(number, seed=seed)
    except Exception as fault:  # whatever it is, a user would see it
        return Found({"files": number}, [f"{type(fault).__name__}: {fault}"])
    kinds = {kind for kind, _ in outcomes}
    read = sum(count for (_, outcome), count in outcomes.items() if outcome == "read")
    return Found(
        {"files": outcomes.total(), "kinds of fault": len(kinds), "read": read, "rest": outcomes.total() - read}
    )
