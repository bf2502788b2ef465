"""Letters that look like mail, with their truth, and a file of them: the same for the same seed."""

import csv

from askwell.seeds import rng_for

HAM = ("meeting", "project", "report", "tomorrow", "lunch", "thanks", "team", "review", "draft", "schedule", "weekend")
SPAM = ("winner", "prize", "free", "click", "offer", "cash", "urgent", "claim", "bonus", "loan", "cheap", "casino")
EITHER = (
    "the",
    "a",
    "to",
    "you",
    "we",
    "for",
    "and",
    "is",
    "on",
    "this",
    "with",
    "please",
    "account",
    "invoice",
    "call",
)


def mails(n, *, seed=0, spam=0.5):
    """(key, text, truth) of n letters; some words of a kind are in the other one too."""
    rng = rng_for(seed, 0, "mails")
    found = []
    for place in range(n):
        truth = "spam" if rng.random() < spam else "ham"
        own, other = (SPAM, HAM) if truth == "spam" else (HAM, SPAM)
        words = [
            str(rng.choice(EITHER if rng.random() < 0.4 else own if rng.random() < 0.85 else other))
            for _ in range(rng.integers(6, 16))
        ]
        found.append((f"m{place}", " ".join(words), truth))
    return found


def write_mails(path, n, *, truth=True, **options):
    """A CSV of them with the columns key, text and, if wanted, truth; and key -> truth."""
    found = mails(n, **options)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["key", "text", "truth"] if truth else ["key", "text"])
        rows.writerows(found if truth else [row[:2] for row in found])
    return {key: said for key, _, said in found}
