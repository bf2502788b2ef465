"""One file, one table: the same ids, columns, missing values and refusals through every door."""

import csv
import dataclasses
import json
from datetime import datetime
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient
from pyarrow import parquet

from askwell import Learner
from askwell.cli import main
from askwell.data import BadRows, encoded, labelled, open_items, open_rows, read_table
from askwell.data.dataset import open_dataset
from askwell.data.pool import as_pool
from askwell.models.forest import forest
from askwell.project import open_project
from askwell.seeds import rng_for
from askwell.web import create_app

# A mark, semicolons with decimal commas, quoted line breaks, empty lines, codes, blanks, and words that may be gaps.
HEADER = 'key;"x; or y";size;code;town;gap;kind'
TOWNS = ('"Oslo\n\n(N)"', "None", "NA", '"say ""hi"""', "Bern ")
N = 40


def awkward(path, *, key=str, spoil=None, gaps=True):
    lines = [HEADER]
    for row in range(N):
        gap = ("?" if row % 3 else "2,5") if gaps else "2"
        lines.append(f"{key(row)};{row},5;{row * row};{row:03};{TOWNS[row % 5]};{gap};{'yes' if row % 7 < 3 else 'no'}")
        if row in (4, 11):
            lines.append("")
    if spoil is not None:
        lines[20] = spoil
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape"))
    return path


def run(*words):
    return CliRunner().invoke(main, [*map(str, words)])


def doors(path):
    """One file as a path, as its folder, and as a glob."""
    folder = path.parent / f"{path.stem} alone"
    folder.mkdir(exist_ok=True)
    copy = folder / path.name
    copy.write_bytes(path.read_bytes())
    return path, folder, folder / "*.csv"


def project(folder, path, *more, targets=None):
    done = run("init", folder, "--pool", path, "--targets", targets or path, "--label", "kind", *more)
    assert done.exit_code == 0, done.output
    return open_project(folder)


def simulated(folder, path, *more):
    """The ids that a simulation asks about."""
    words = ("simulate", path, "--label", "kind", "--budget", 12, "--seeds", 1, "--scores", "random", "--out", folder)
    done = run(*words, *more)
    assert done.exit_code == 0, done.output
    with (folder / "questions.csv").open() as file:
        return {row["row" if "row" in row else "id"] for row in csv.DictReader(file)}


@pytest.mark.parametrize("id", [None, "key"])
def test_ids(tmp_path, id):
    path = awkward(tmp_path / "a.csv", key=lambda row: f" k{row}", gaps=False)
    options = [] if id is None else ["--id", id]
    found = [*range(2, 7), *range(8, 15), *range(16, N + 4)] if id is None else [f" k{row}" for row in range(N)]
    texts = [*map(str, found)]
    table = read_table(path, id=id)
    assert [*(table.ids or table.numbers)] == found
    if id is None:
        for door in doors(path):
            assert [*as_pool(door).ids] == found, door
            assert as_pool(door).position(16) == 12
            assert {*Learner(forest(trees=10), door).ask(5)} <= {*found}
    rows = open_rows(path, id=id, columns=["x; or y", "size"], rows=6)
    assert rows.ids(np.arange(N)) == found
    with project(tmp_path / "p", path, *options) as opened:
        assert [*opened.items.ids] == texts
        assert [*opened.target_items.ids] == texts
    for number, door in enumerate(doors(path)[1:]):
        with project(tmp_path / f"in files {number}", door, *options, targets=door) as opened:
            assert opened.items.in_files
            assert [*opened.items.ids] == texts
            assert [*opened.target_items.ids] == texts
    task = labelled(path, label="kind", id=id, rng=rng_for(0, 0, "test rows"))
    assert {*task.ids} < {*found}
    assert {*simulated(tmp_path / "s", path, *options)} < {*texts}
    done = run("score", path, "--labelled", path, "--label", "kind", "--columns", "x; or y,size", "--size", N, *options)
    assert done.exit_code == 0, done.output
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == {*texts}


def test_columns_types_and_missing_values(tmp_path):
    path = awkward(tmp_path / "a.csv")
    table = read_table(path)
    kinds = {name: "text" if isinstance(values, list) else values.dtype.kind for name, values in table.columns.items()}
    assert kinds == {
        "key": "i", "x; or y": "f", "size": "i", "code": "text", "town": "text", "gap": "f", "kind": "text",
    }  # fmt: skip
    assert table.columns["town"][:5] == ["Oslo\n\n(N)", "None", None, 'say "hi"', "Bern"]
    assert np.isnan(table.columns["gap"]).tolist() == [row % 3 > 0 for row in range(N)]
    items = open_items(path)
    for name in table.columns:
        np.testing.assert_array_equal(items.table.columns[name], table.columns[name])
        assert items.table.texts(name) == table.texts(name)
    for door in doors(path)[1:]:
        in_files = open_items(door)
        assert (in_files.kind, in_files.columns, in_files.shown) == (items.kind, items.columns, items.shown)
        for name in table.columns:
            np.testing.assert_array_equal(in_files.table.column(name), table.columns[name])
            assert in_files.table.texts(name) == table.texts(name)
        assert [in_files.show(item) for item in in_files.ids] == [items.show(item) for item in items.ids]
        with pytest.raises(ValueError, match=r"has no column 'twon'. Did you mean 'town'\?"):
            in_files.table.column("twon")
    np.testing.assert_array_equal(as_pool(path).x, encoded(table).x)
    numeric = [name for name, kind in kinds.items() if kind != "text"]
    assert [name for name in numeric if name != "key"] == ["x; or y", "size", "gap"]
    for door in [*doors(path), [path]]:
        for rows in (6, 100):
            opened = open_rows(door, rows=rows)
            assert opened.numbers == table.numbers
            assert [*opened.features] == [*encoded(table).features]
            np.testing.assert_array_equal(opened[:], encoded(table).x)
            np.testing.assert_array_equal(opened.encode(table), encoded(table).x)
    for door in doors(path):
        np.testing.assert_array_equal(as_pool(door).x[:], encoded(table).x)
    rows = open_rows(path, columns=["x; or y", "size"], rows=6)
    np.testing.assert_array_equal(rows[:], np.stack([table.columns["x; or y"], table.columns["size"]], 1))
    with pytest.raises(BadRows, match=r"row 1 of the pool has no finite number in 'gap' \(a\.csv:3\)"):
        open_rows(path, columns=["gap"])[:]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("1;2", "a.csv:21: this row has 2 values and the header names 7 columns"),
        ('1;"2"3;4;5;6;7;yes', "a.csv:21: this row cannot be read"),
        ("1;2;3;4;\udcfc;6;yes", "a.csv:21: this is not utf-8 text (byte 0xfc)"),
    ],
)
def test_refusals(tmp_path, spoil, said):
    path = awkward(tmp_path / "a.csv", spoil=spoil)
    good = awkward(tmp_path / "good.csv")
    openers = [
        lambda: read_table(path),
        *(partial(open_items, door) for door in doors(path)),
        *(partial(as_pool, door) for door in doors(path)),
        *(partial(Learner, forest(trees=10), door) for door in doors(path)),
        *(partial(open_rows, door) for door in doors(path)),
        lambda: labelled(path, label="kind", rng=rng_for(0, 0, "test rows")),
        lambda: open_rows(path, columns=["size"])[:],
    ]
    for opener in openers:
        with pytest.raises(ValueError, match=r"a\.csv:21") as refusal:
            opener()
        assert said in str(refusal.value)
    for words in [
        ("init", tmp_path / "p", "--pool", path, "--label", "kind"),
        *(("init", tmp_path / "p", "--pool", door, "--label", "kind") for door in doors(path)),
        ("init", tmp_path / "p", "--pool", good, "--targets", path, "--label", "kind"),
        ("simulate", path, "--label", "kind", "--out", tmp_path / "s"),
        ("score", path, "--labelled", good, "--label", "kind", "--columns", "size"),
        ("score", good, "--labelled", path, "--label", "kind", "--columns", "size"),
        ("score", good, "--labelled", good, "--targets", path, "--label", "kind", "--columns", "size"),
    ]:
        done = run(*words)
        assert done.exit_code == 2, done.output
        assert said in done.output.replace("\n", " ").replace("  ", " "), words


def test_files_in_a_folder_are_counted_through(tmp_path):
    for name in ("a.csv", "b.csv"):
        awkward(tmp_path / name)
    rows = open_rows(tmp_path, columns=["size"])
    assert rows.numbers == range(2 * N)
    assert json.dumps(rows.ids([0, N])) == f"[0, {N}]"


def test_parquet_is_shown_the_same_from_memory_and_from_files(tmp_path):
    """Also where only a later chunk tells what a column is: 3.0 beside 2.5, a whole number beside a gap."""
    columns = {
        "key": [f" k{row}" for row in range(N)],
        "whole": np.arange(N) * 1.0,
        "half": [3.0] * (N - 1) + [2.5],
        "gap": [None, *range(1, N)],
        "short": np.float32([0.1] * (N - 1) + [2.0]),
        "on": [None if row == 7 else row % 2 == 0 for row in range(N)],
        "big": pa.array([2**63 + row for row in range(N)], pa.uint64()),
        "cost": [Decimal("1.10")] * N,
        "at": [datetime(2026, 1, 31, 12, row) for row in range(N)],
        "town": ["Oslo", " Rome"] * (N // 2),
    }
    whole = tmp_path / "a.parquet"
    parquet.write_table(pa.table(columns), whole, row_group_size=7)
    memory = open_items(whole, id="key", kind="table")
    table = read_table(whole, id="key")
    files = open_items(tmp_path / "*.parquet", id="key", kind="table")
    for rows in (files, dataclasses.replace(files, table=open_dataset(whole, id="key", rows=10))):
        assert rows.ids == memory.ids
        assert [rows.show(item) for item in rows.ids] == [memory.show(item) for item in memory.ids]
        for name in table.columns:
            np.testing.assert_array_equal(rows.table.column(name), table.columns[name])


def test_the_same_questions_from_memory_and_from_files(tmp_path):
    """A project whose pool stays in its files asks what one asks that has read it."""
    lines = [
        f"k{row},{row % 17},{row * 7 % 101 / 8},{'abc'[row % 3]},{'yes' if row % 17 < 8 else 'no'}"
        for row in range(300)
    ]
    (tmp_path / "a.csv").write_text("\n".join(["key,x,z,town,kind", *lines]))
    (tmp_path / "labels.csv").write_text(
        "id,label\n" + "".join(f"k{row},{'yes' if row % 17 < 8 else 'no'}\n" for row in range(12))
    )
    asked = []
    for number, door in enumerate([tmp_path / "a.csv", tmp_path / "[a].csv"]):
        folder = tmp_path / f"p{number}"
        words = ("--id", "key", "--classes", "yes,no", "--features", "x,z,town", "--targets", tmp_path / "a.csv")
        assert run("init", folder, "--pool", door, *words).exit_code == 0
        first = [json.loads(line)["item"] for line in run("ask", folder, "--json", "--size", 5).stdout.splitlines()]
        assert run("tell", folder, "--from", tmp_path / "labels.csv").exit_code == 0
        later = [
            json.loads(line) for line in run("ask", folder, "--json", "--size", 5, "--who", "b").stdout.splitlines()
        ]
        asked.append((first, [(task["item"], task["score"], task["why"], task["shown"]) for task in later]))
    assert asked[0] == asked[1]
    assert len(asked[0][1]) == 5
    scores = [score for _, score, *_ in asked[0][1]]
    assert 0 < scores.count(None) < 5, "some are drawn to evaluate the model: these have no score"
    assert all(score > 0 for score in scores if score is not None)


def test_the_page_shows_a_pool_that_stays_in_its_files(tmp_path):
    path = awkward(tmp_path / "a.csv", key=lambda row: f"k{row}", gaps=False)
    _, folder, _ = doors(path)
    with project(tmp_path / "p", folder, "--id", "key", "--classes", "yes,no", "--show", "town,size") as opened:
        client = TestClient(create_app(opened.session(), opened.items, title="p"), base_url="http://localhost")
        client.post("/api/sign-in", json={"name": "ada"})
        item = {"item": "k11"}
        shown = client.get("/api/item", params=item).json()["card"]
        assert shown["cells"] == [["town", "None"], ["size", "121"]]
        rules = client.get("/api/rules").json()["version"]
        answer = item | {"key": "5f0c8a5e-41d7", "label": "no", "rules": rules}
        assert client.post("/api/answers", json=answer).json()["kept"] == "extra"  # it has its label of the column
