"""`python -m soak [R1 R3 ...] [--share 0.01]`: one line for each property, and exit code 1 if anything went wrong."""

import argparse
import importlib
import sys
import time
import traceback

PROPERTIES = {
    "R1": ("kill -9 of the server", "kills", "run"),
    "R2": ("journals cut, databases copied", "cuts", "run"),
    "R3": ("double issue", "sessions", "issue"),
    "R4": ("requests repeated", "sessions", "repeat"),
    "R5": ("lost leases", "late", "run"),
    "R6": ("32 people at once", "load", "run"),
    "R7": ("disk full, read-only", "full", "run"),
    "R8": ("damaged databases", "damage", "run"),
    "R9": ("upgrades", "upgrades", "run"),
    "R10": ("generated requests", "inputs", "requests"),
    "R11": ("malformed files", "inputs", "files"),
}


def main():
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("properties", nargs="*", metavar="R", help=", ".join(PROPERTIES))
    parser.add_argument("--share", type=float, default=1.0, help="of the full size, which takes hours")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if strange := [name for name in given.properties if name not in PROPERTIES]:
        parser.error(f"there is no {strange[0]}; there are {', '.join(PROPERTIES)}")
    bad = False
    for name in given.properties or PROPERTIES:
        words, module, function = PROPERTIES[name]
        begin = time.monotonic()
        try:
            found = getattr(importlib.import_module(f"soak.{module}"), function)(given.share, seed=given.seed)
            line, failed = str(found), bool(found.faults)
        except Exception:  # the others are still worth trying
            line, failed = traceback.format_exc(), True
        bad |= failed
        outcome = "FAILED" if failed else "ok"
        print(f"{name} {words}: {outcome} in {time.monotonic() - begin:.0f} s: {line}", flush=True)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
