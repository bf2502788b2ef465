"""Malformed data files by the thousand: what is written is known, so that what is read can be judged (R11).

`judged(case, folder)` writes a file, opens it, and says what became of it; `soak(5_000)` does so often.
"""

import csv
import io
import json
import random
import struct
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from askwell.data import ShownText, open_items

WORDS = [
    "offer",
    "prize",
    "lunch",
    "Straße",
    "数据",
    "👍",
    ",",
    ";",
    "|",
    "\t",
    "'",
    "=",
    "-1",
    "007",
    "1e5",
    "true",
    "#",
]
GAPS = ("", " ", "NA", "?", "null", "nan")  # what counts as no text in a CSV
HUGE = 200_000  # letters


@dataclass(frozen=True)
class Case:
    """A file, and what is known about it."""

    name: str
    data: bytes
    id: str | None = "key"
    rows: int | None = None  # that it holds; None: nobody can say
    texts: dict[str, str | None] = field(default_factory=dict)  # id -> what must be shown; None: reported
    refused: str | None = None  # what a refusal must say; None: it must be read


def cases(number, *, seed=0):
    """The first `number` cases, the same for the same seed: every fault in every format in turn."""
    for turn in range(number):
        fault, form = MAKERS[turn % len(MAKERS)]
        rng = random.Random(f"{seed} {turn}")
        yield fault, FAULTS[fault][0](rng, form)


def judged(case, folder):
    """How a case was taken, "read" or "refused"; an AssertionError if rows were lost or the refusal does not teach."""
    path = Path(folder) / case.name
    path.write_bytes(case.data)
    try:
        items = open_items(path, id=case.id, show="text", kind="text")
    except ValueError as fault:
        said = str(fault)
        assert case.name in said, f"the file is not named: {said}"
        assert case.refused is not None or case.rows is None, f"should have been read: {said}"
        assert case.refused is None or case.refused in said, f"{case.refused!r} is not in: {said}"
        assert len(said) < 1000, "one message, not the file"
        return "refused"
    assert case.refused is None, f"should have been refused: {case.refused}"
    places = [each.place for each in items.left_out]
    assert len({*items.ids}) == len(items.ids)
    assert len({*places}) == len(places)
    assert all(place.startswith(f"{case.name}:") for place in places)
    if case.rows is not None:
        assert len(items) + len(places) == case.rows, "rows in = rows out + rows reported"
    for item in items.ids:
        shown = items.show(item, whole=True)
        assert isinstance(shown, ShownText)
        assert shown.text.encode()  # can be sent
        if case.texts:
            assert shown.text == case.texts[item]
    if case.texts:
        assert {item for item, text in case.texts.items() if text is not None} == {*items.ids}
    return "read"


def soak(number, *, seed=0):
    """Judge that many cases; (fault, outcome) -> how often."""
    found = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for fault, case in cases(number, seed=seed):
            found[fault, judged(case, folder)] += 1
    return found


# ---- what is written -----------------------------------------------------------------------------------------------


def _text(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 8))).strip() or "word"


def _rows(rng, *, least=1):
    return [(f"k{place}", f"a{place} {_text(rng)}") for place in range(rng.randint(least, 12))]


def _table(rows, form, *, names=("key", "text"), ending="\n"):
    if form == "csv":
        file = io.StringIO()
        csv.writer(file, lineterminator=ending).writerows([names, *rows])
        return file.getvalue().encode()
    if form == "jsonl":
        return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows).encode()
    return _arrow({name: pa.array([row[place] for row in rows]) for place, name in enumerate(names)})


def _arrow(columns):
    file = io.BytesIO()
    parquet.write_table(pa.table(columns), file)
    return file.getvalue()


def _first_row(form):
    return 2 if form == "csv" else 1


def _shown(rows, form):
    gaps = {gap.strip() for gap in GAPS} if form == "csv" else {""}
    return {key: None if text.strip() in gaps else text for key, text in rows}


def whole(rng, form):
    rows = _rows(rng)
    if rng.random() < 0.5:
        rows.append(("gap", rng.choice(GAPS)))
    texts = _shown(rows, form)
    return Case(f"a.{form}", _table(rows, form), rows=len(rows), texts=texts)


def other_marks(rng, form):
    rows = _rows(rng)
    data = _table(rows, form, ending=rng.choice(["\r\n", "\n", "\r"]) if form == "csv" else "\n")
    mark = b"\xef\xbb\xbf"
    if form == "csv" and rng.random() < 0.3:
        return Case("a.csv", data.decode().encode("utf-16"), rows=len(rows), texts=_shown(rows, form))
    return Case(f"a.{form}", mark + data, rows=len(rows), texts=_shown(rows, form))


def blank_lines(rng, form):
    rows = _rows(rng)
    lines = _table(rows, form).split(b"\n")
    for _ in range(rng.randint(1, 4)):
        lines.insert(rng.randint(1, len(lines)), b"")
    return Case(f"a.{form}", b"\n".join(lines), rows=len(rows), texts=_shown(rows, form))


def no_ids(rng, form):
    rows = [(text,) for _, text in _rows(rng)]
    first = _first_row(form)
    texts = {str(first + place): text.strip() for place, (text,) in enumerate(rows)}
    return Case(f"a.{form}", _table(rows, form, names=("text",)), None, len(rows), texts)


def twice(rng, form):
    rows = _rows(rng, least=2)
    place = rng.randrange(1, len(rows))
    rows[place] = (rows[rng.randrange(place)][0], rows[place][1])
    return Case(f"a.{form}", _table(rows, form), rows=len(rows), refused=f"a.{form}:{_first_row(form) + place}: ids")


def no_id_here(rng, form):
    rows = _rows(rng)
    place = rng.randrange(len(rows))
    rows[place] = ("" if form == "csv" else None, rows[place][1])
    return Case(f"a.{form}", _table(rows, form), rows=len(rows), refused=f"a.{form}:{_first_row(form) + place}: ")


def strange_id(rng, form):
    rows = _rows(rng)
    place = rng.randrange(len(rows))
    strange = rng.choice(["a\x07b", "a\x7fb", "x" * 501])
    rows[place] = (strange, rows[place][1])
    return Case(f"a.{form}", _table(rows, form), rows=len(rows), refused=f"a.{form}:{_first_row(form) + place}: ")


def ragged(rng, form):
    rows = [[*row] for row in _rows(rng)]
    place = rng.randrange(len(rows))
    rows[place] = rows[place][:1] if rng.random() < 0.5 else [*rows[place], "more"]
    # A first row that is cut leaves nothing for the delimiter to be found by; comma is then the first guess.
    return Case("a.csv", _table(rows, form), rows=len(rows), refused="a.csv:")


def not_an_object(rng, form):
    rows = _rows(rng)
    lines = _table(rows, form).splitlines()
    place = rng.randrange(len(lines))
    bad = [b"[1, 2]", b"17", b'{"key": ', b"{'key': 1}", b"{" * 5000, b'{"key": 1' + b"0" * 5000 + b"}", b'"text"']
    lines[place] = rng.choice(bad)
    return Case("a.jsonl", b"\n".join(lines), refused="a.jsonl")


def bad_letters(rng, form):
    rows = _rows(rng)
    lines = _table([(key, text.replace("\n", " ")) for key, text in rows], form).split(b"\n")
    place = rng.randrange(_first_row(form) - 1, len(rows) + _first_row(form) - 1)
    lines[place] = lines[place].replace(b"a", rng.choice([b"\xff", b"\xc3\x28", b"\xe9 "]), 1)
    return Case(f"a.{form}", b"\n".join(lines), refused=f"a.{form}:{place + 1}: ")


def nul(rng, form):
    rows = _rows(rng)
    place = rng.randrange(len(rows))
    lines = _table(rows, form).split(b"\n")
    lines[place + 1] = lines[place + 1].replace(b"a", b"\0", 1)
    return Case("a.csv", b"\n".join(lines), refused="a.csv")


def half_letters(rng, form):
    rows = _rows(rng)
    data = _table(rows, form) + b'{"key": "half", "text": "half a \\ud83d letter"}\n'
    texts = _shown(rows, form) | {"half": None}
    return Case("a.jsonl", data, rows=len(rows) + 1, texts=texts)


def huge(rng, form):
    rows = [*_rows(rng), ("huge", "word " * (HUGE // 5))]
    return Case(f"a.{form}", _table(rows, form), rows=len(rows), texts=_shown(rows, form))


def unclosed(rng, form):
    rows = _rows(rng)
    data = _table(rows, form) + b'open,"a quotation mark that is never closed\n' + b"k,l\n" * rng.randint(0, 3)
    return Case("a.csv", data, refused="a.csv:")


def mixed(rng, form):
    """Values of all kinds in one column: a text is made of each."""
    values = [rng.choice([1, 2.5, True, None, "word", [1, 2], {"a": 1}, -0.0, 10**30, ""]) for _ in range(8)]
    if form == "parquet":
        kinds = [pa.array([1, None, 3]), pa.array([b"\xff", b"b", None]), pa.array([["a"], None, []]), pa.nulls(3),
                 pa.array([1.5, float("nan"), None]), pa.array(["a", "", "b"]).dictionary_encode()]  # fmt: skip
        column = rng.choice(kinds)
        gone = pa.types.is_null(column.type)
        return Case("a.parquet", _arrow({"key": pa.array(["a", "b", "c"]), "text": column}), rows=3,
                    refused="a.parquet" if gone else None)  # fmt: skip
    rows = [(f"k{place}", value) for place, value in enumerate([*values, "word"])]
    return Case("a.jsonl", _table(rows, form), rows=len(rows))


def out_of_range(rng, form):
    places = pa.py_buffer(struct.pack("<ii", 0, 1))
    no_letter = pa.Array.from_buffers(pa.string(), 1, [None, places, pa.py_buffer(b"\xff")])
    kinds = [pa.array([2**55], pa.timestamp("ms")), pa.array([2**31 - 1], pa.date32()), no_letter, pa.nulls(1)]
    return Case("a.parquet", _arrow({"key": pa.array(["a"]), "text": rng.choice(kinds)}))


def names(rng, form):
    rows = _rows(rng)
    header = rng.choice([("key", "key"), ("text", "text"), ("", ""), ("1.5", "2.5"), ("Key", "Text")])
    if form == "csv":
        return Case("a.csv", _table(rows, form, names=header), refused="a.csv")
    return Case("a.jsonl", _table(rows, form, names=header), refused="a.jsonl")


def nothing(rng, form):
    data = rng.choice([b"", b"\n", b"  \n\n", _table([], form), b"\xef\xbb\xbf"])
    return Case(f"a.{form}", data, refused=f"a.{form}")


def all_gaps(rng, form):
    rows = [(f"k{place}", rng.choice(("", " "))) for place in range(rng.randint(1, 5))]
    return Case(f"a.{form}", _table(rows, form), rows=len(rows), refused=f"a.{form}")


def cut(rng, form):
    data = _table(_rows(rng), form)
    data = data[: rng.randrange(len(data))]
    return Case(f"a.{form}", data, refused="a.parquet" if form == "parquet" else None)


def noise(rng, form):
    data = bytearray(_table(_rows(rng), "csv" if form == "parquet" else form))
    for _ in range(rng.randint(1, 6)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return Case(f"a.{form}", bytes(data), refused="a.parquet" if form == "parquet" else None)


LINES, ALL = ("csv", "jsonl"), ("csv", "jsonl", "parquet")
FAULTS = {
    "none": (whole, ALL),
    "marks and line ends": (other_marks, LINES),
    "blank lines": (blank_lines, LINES),
    "one column": (no_ids, ALL),
    "an id twice": (twice, ALL),
    "an id missing": (no_id_here, ALL),
    "a strange id": (strange_id, ALL),
    "ragged": (ragged, ("csv",)),
    "no object": (not_an_object, ("jsonl",)),
    "bad UTF-8": (bad_letters, LINES),
    "NUL": (nul, ("csv",)),
    "half a letter": (half_letters, ("jsonl",)),
    "a huge cell": (huge, ALL),
    "an open quotation mark": (unclosed, ("csv",)),
    "mixed types": (mixed, ("jsonl", "parquet")),
    "out of range": (out_of_range, ("parquet",)),
    "strange columns": (names, LINES),
    "empty": (nothing, ALL),
    "nothing to show": (all_gaps, ALL),
    "cut": (cut, ALL),
    "noise": (noise, ALL),
}
MAKERS = [(fault, form) for fault in FAULTS for form in FAULTS[fault][1]]
