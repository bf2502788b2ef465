"""What the labelling project promises, tried at length on the real thing: real servers, real disks, real kills.

`python -m soak [R1 R3 ...] [--share 0.01]`, from this folder's parent, prints one line for each property. A share of 1
is the full size; the tests ask for a small one. docs/reliability.md has what was found.
"""

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Found:
    """What a trial measured, and what went wrong in it."""

    figures: dict = field(default_factory=dict)
    faults: list = field(default_factory=list)

    def __str__(self):
        words = ", ".join(f"{name} {value}" for name, value in self.figures.items())
        return f"{words}; {len(self.faults)} faults" + "".join(f"\n    {fault}" for fault in self.faults[:10])


@contextmanager
def folder():
    """A new folder that others may enter, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="soak") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def spread(seconds, *, shares=(50, 95, 99)):
    """Percentiles in milliseconds, by rank."""
    ordered = sorted(seconds)
    return {
        f"p{share}": round(1000 * ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 1) for share in shares
    }
