"""R3: no item is ever with two people. R4: a request that is sent again changes nothing."""

from session_clients import audit, lease_many, lost
from session_histories import check, check_any_order

from soak import Found, folder, spread

LEASES = 100_000
HISTORIES = 10_000


def issue(share, *, seed=0):
    """R3: 33 clients in 3 processes on one file, and an audit of all that they were given."""
    leases = max(600, round(LEASES * share))
    with folder() as place:
        heard, seconds, records = lease_many(
            f"sqlite:///{place}/labels.db", processes=3, threads=11, leases=leases, lease_seconds=5.0, seed=seed
        )
    double = audit(records, heard.tasks)
    gone = [f"lost: {key}" for key in lost(records, heard.acknowledged)]
    figures = {
        "leases": len(heard.tasks), "clients": 33, "processes": 3, "double issues": len(double), "lost": len(gone),
        "seconds": round(seconds), "next, ms": spread(heard.nexts), "answer, ms": spread(heard.answers),
    }  # fmt: skip
    return Found(figures, heard.faults + double + gone)


def repeat(share, *, seed=0):
    """R4: histories sent once, and sent again and again; and in any order."""
    histories, faults = max(50, round(HISTORIES * share)), []
    for number in range(seed, seed + histories):
        for trial in (check, check_any_order):
            try:
                trial(number)
            except AssertionError as fault:
                faults.append(str(fault))
    return Found({"histories": histories, "in any order": histories}, faults)
