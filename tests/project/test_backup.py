"""A project in one file and back: nothing lost, nothing overwritten in silence, an exact prefix while people label."""

import dataclasses
import json
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from mails import write_mails
from PIL import Image

from askwell.project import backup as room
from askwell.project import init_project, open_project
from askwell.project.backup import backup_project, restore_project
from askwell.project.exchange import export_labels
from askwell.store import open_store
from askwell.store.records import Record

WANTED = {"classes": ["ham", "spam"], "show": "text", "id": "key"}


def bare(records):
    """Records without their place in a store."""
    return [dataclasses.replace(record, seq=0) for record in records]


def records_of(folder):
    with open_project(folder) as project:
        return project.store().read(project.settings.run)


@pytest.fixture
def place(tmp_path):
    """A project p beside its data, with a history: corrections, skips, undos, renamed classes, rounds."""
    truth = write_mails(tmp_path / "pool.csv", 30)
    write_mails(tmp_path / "traffic.csv", 10, seed=1, truth=False)
    with init_project(
        tmp_path / "p", pool=tmp_path / "p" / ".." / "pool.csv", targets=tmp_path / "traffic.csv", **WANTED
    ) as project:
        session = project.session()
        for item in list(truth)[:8]:
            session.answer("ada", item, truth[item], key=f"a {item}", seconds=1.5)
        session.answer("bob", "m0", "spam", key="b")
        session.set_rules("ada", renamed={"ham": "good", "spam": "bad"}, budget=20)
        session.skip("bob", "m9", "no\nidea 🦉", key="s")
        session.undo("ada", key="u")
        session.next("ada")
        session.put_round({"round": 1, "failed": "no two classes"})
        project.store().append([Record("turn", "main: training", "turn", None, {"session": "x"})])
        project.store().append([Record("other", "mainly another run", "note", None, {})])
    return tmp_path


# ---- there and back ----


def test_a_restored_project_is_the_same(place):
    with open_project(place / "p") as project:
        found = backup_project(project, path=place / "b.zip")
        export_labels(project, place / "1.jsonl")
        others = project.store().read("main: training")
    assert (found.labels, found.skips, found.people, found.notes) == (8, 1, 2, ())
    back = restore_project(place / "b.zip", place / "elsewhere" / "q")
    assert (back.records, back.labels, back.skips, back.people, back.notes) == (found.records, 8, 1, 2, ())
    assert back.data == ("data/pool/pool.csv", "data/targets/traffic.csv")
    for name in ("pool.csv", "traffic.csv", "p"):  # gone with the old machine
        path = place / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with open_project(place / "elsewhere" / "q") as project:
        assert len(project.items) == 30
        assert project.session().rules.classes == ("good", "bad")
        assert project.session().next("ada")
        export_labels(project, place / "2.jsonl")
        assert project.store().read("main: training") == others
        assert project.store().runs() == ["main", "main: training"]
    assert (place / "1.jsonl").read_bytes() == (place / "2.jsonl").read_bytes()


def test_records_come_back_to_the_last_digit(place):
    before = records_of(place / "p")
    with open_project(place / "p") as project:
        backup_project(project, path=place / "b.zip")
    restore_project(place / "b.zip", place / "q")
    assert records_of(place / "q") == before  # also at and seq


def test_the_settings_stay_as_they_were_written(place):
    """Comments of one's own too; only paths to data that was outside are others."""
    file = place / "p" / "askwell.toml"
    file.write_text(file.read_text() + "# a note of mine\n")
    with open_project(place / "p") as project:
        backup_project(project, path=place / "b.zip", data=False)
        backup_project(project, path=place / "c.zip")
    restore_project(place / "b.zip", place / "q")
    assert (place / "q" / "askwell.toml").read_text() == file.read_text()
    restore_project(place / "c.zip", place / "r")
    lines = [
        (a, b)
        for a, b in zip(
            file.read_text().splitlines(), (place / "r" / "askwell.toml").read_text().splitlines(), strict=True
        )
        if a != b
    ]
    assert [b.split(" =")[0] for _, b in lines] == ["pool", "targets"]


def test_folders_of_pictures_embeddings_and_code(tmp_path):
    home = tmp_path / "p"
    (home / "shots" / "deep").mkdir(parents=True)
    for n in range(6):
        Image.new("L", (8, 8), 40 * n).save(home / "shots" / ("deep" if n % 2 else ".") / f"{n}.png")
    np.save(tmp_path / "e.npy", np.eye(6, 3))
    (home / "model_of_a_backup.py").write_text(
        "def model():\n    from sklearn.ensemble import RandomForestClassifier\n    return RandomForestClassifier(20)\n"
    )
    (home / "card.html").write_text("{{ item }}")
    wanted = {"classes": ["a", "b"], "features": f"embeddings:{tmp_path / 'e.npy'}", "model": "model_of_a_backup:model"}
    with init_project(home, pool=home / "shots", template=home / "card.html", **wanted) as project:
        backup_project(project, path=tmp_path / "b.zip")
        x = project.features()[0]
    shutil.rmtree(home)
    (tmp_path / "e.npy").unlink()
    assert restore_project(tmp_path / "b.zip", tmp_path / "q").notes == ()
    with open_project(tmp_path / "q") as project:
        assert sorted(project.items.ids) == sorted(
            ["0.png", "2.png", "4.png", "deep/1.png", "deep/3.png", "deep/5.png"]
        )
        np.testing.assert_array_equal(project.features()[0], x)
        assert project.model() is not None
        assert project.path(project.settings.template).is_file()


def test_pictures_that_a_table_names(tmp_path):
    (tmp_path / "shots").mkdir()
    for n in range(3):
        Image.new("L", (8, 8), 40 * n).save(tmp_path / "shots" / f"{n}.png")
    Image.new("L", (8, 8)).save(tmp_path / "unrelated.png")
    (tmp_path / "pool.csv").write_text("key,file\n" + "".join(f"k{n},shots/{n}.png\n" for n in range(3)))
    with init_project(tmp_path / "p", pool=tmp_path / "pool.csv", id="key", classes=["a", "b"]) as project:
        backup_project(project, path=tmp_path / "b.zip")
    assert not [name for name in zipfile.ZipFile(tmp_path / "b.zip").namelist() if "unrelated" in name]
    shutil.rmtree(tmp_path / "shots")
    restore_project(tmp_path / "b.zip", tmp_path / "q")
    with open_project(tmp_path / "q") as project:
        assert project.items.show("k1").path.is_file()


def test_big_data_and_data_that_is_gone_are_spoken_of(place, monkeypatch):
    monkeypatch.setattr(room, "SMALL", 100)
    with open_project(place / "p") as project:
        found = backup_project(project, path=place / "b.zip")
        assert found.data == ()
        assert "--with-data takes it in" in found.notes[0]
        assert len(backup_project(project, path=place / "c.zip", data=True).data) == 2
    (place / "pool.csv").unlink()
    with open_project(place / "p") as project:  # labels are in the store: they can be saved without the pool
        assert "'../pool.csv' is not there" in backup_project(project, path=place / "d.zip", data=True).notes[0]
    back = restore_project(place / "d.zip", place / "x" / "q")
    assert back.labels == 8
    assert any("the pool '../pool.csv' is neither in the backup nor there" in note for note in back.notes)


# ---- while people label ----

CLIENT = """
import sys, time, uuid
from askwell.project import open_project
with open_project(sys.argv[1]) as project:
    session, who = project.session(), sys.argv[2]
    print("ready", flush=True)
    for _ in range(400):
        for task in session.next(who, size=2):
            session.answer(who, task.item, "ham", key=uuid.uuid4().hex, token=task.token)
            print(task.item, flush=True)
"""


def test_a_backup_under_load_is_an_exact_prefix(tmp_path):
    """Four processes label meanwhile: each backup has what was stored when it began, in order, and nothing half."""
    write_mails(tmp_path / "pool.csv", 2000)
    init_project(tmp_path / "p", pool=tmp_path / "pool.csv", **WANTED).close()
    people = [
        subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(tmp_path / "p"), f"person {n}"], stdout=subprocess.PIPE, text=True
        )
        for n in range(4)
    ]
    try:
        for person in people:
            assert person.stdout.readline() == "ready\n"
        told = [person.stdout.readline() for person in people for _ in range(3)]
        taken = []
        for n in range(4):
            with open_project(tmp_path / "p") as project:
                taken.append(backup_project(project, path=tmp_path / f"{n}.zip"))
            told += [person.stdout.readline() for person in people]
    finally:
        for person in people:
            person.kill()
            person.wait()
            person.stdout.close()
    assert all(item.startswith("m") for item in told)
    whole = records_of(tmp_path / "p")
    assert 12 < taken[0].records < taken[-1].records
    assert taken[0].labels >= 12  # what was acknowledged before is in it
    for n in range(4):
        restore_project(tmp_path / f"{n}.zip", tmp_path / f"q{n}")
        assert records_of(tmp_path / f"q{n}") == whole[: taken[n].records]
        assert sqlite3.connect(tmp_path / f"q{n}" / "labels.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)


# ---- over another project ----


def test_a_project_is_not_overwritten_unless_asked_and_then_kept(place):
    with open_project(place / "p") as project:
        backup_project(project, path=place / "b.zip")
        project.session().answer("ada", "m20", "bad", key="later")
    later = records_of(place / "p")
    with pytest.raises(ValueError, match="is a project already, and nothing was changed"):
        restore_project(place / "b.zip", place / "p")
    assert records_of(place / "p") == later
    back = restore_project(place / "b.zip", place / "p", overwrite=True)
    assert len(records_of(place / "p")) == len(later) - 1
    (aside,) = (place / "p").glob("replaced-*")
    assert f"what was replaced is in {aside.name}" in back.notes[0]
    assert sorted(path.name for path in aside.iterdir()) == ["askwell.toml", "labels.db"]
    (place / "old").mkdir()
    shutil.copytree(aside, place / "old", dirs_exist_ok=True)
    assert records_of(place / "old") == later


def test_a_damaged_project_can_be_replaced(place):
    with open_project(place / "p") as project:
        backup_project(project, path=place / "b.zip")
    before = records_of(place / "p")
    (place / "p" / "labels.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    (place / "p" / "askwell.toml").write_text("pool = = 3")
    restore_project(place / "b.zip", place / "p", overwrite=True)
    assert records_of(place / "p") == before


def test_a_project_that_somebody_has_open_is_not_replaced(place):
    with open_project(place / "p") as project:
        backup_project(project, path=place / "b.zip")
        before = project.store().read("main")
        with pytest.raises(ValueError, match=r"is in use, and nothing was changed\. Stop askwell serve"):
            restore_project(place / "b.zip", place / "p", overwrite=True)
        assert project.store().read("main") == before
        assert project.session().answer("ada", "m20", "bad", key="later").kept
    assert sorted(path.name for path in place.iterdir()) == ["b.zip", "p", "pool.csv", "traffic.csv"]


def test_files_of_a_folder_that_is_no_project_stay(place):
    with open_project(place / "p") as project:
        backup_project(project, path=place / "b.zip")
    (place / "q" / "data" / "pool").mkdir(parents=True)
    (place / "q" / "notes.txt").write_text("mine")
    (place / "q" / "data" / "pool" / "pool.csv").write_text("something else")
    with pytest.raises(ValueError, match=r"has data/pool/pool\.csv already, and nothing was changed"):
        restore_project(place / "b.zip", place / "q")
    assert (place / "q" / "data" / "pool" / "pool.csv").read_text() == "something else"
    (place / "q" / "data" / "pool" / "pool.csv").unlink()
    restore_project(place / "b.zip", place / "q")
    assert (place / "q" / "notes.txt").read_text() == "mine"
    assert len(records_of(place / "q")) > 8


# ---- what is no backup ----


def rewritten(source, target, change):
    """The archive with some members changed: `change(name, content)` gives the new content, or None."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
    return target


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda name, data: data.replace(b"spam", b"ham!") if name == "records.jsonl" else data,
            "records.jsonl is not as",
        ),
        (lambda name, data: None if name == "records.jsonl" else data, "its files are not those of its manifest.json"),
        (lambda name, data: None if name == "manifest.json" else data, "not a whole backup"),
        (lambda name, data: b"{" if name == "manifest.json" else data, "not a whole backup"),
        (
            lambda name, data: (
                json.dumps(json.loads(data) | {"format": 99}).encode() if name == "manifest.json" else data
            ),
            "written by a newer askwell",
        ),
        (
            lambda name, data: (
                json.dumps(json.loads(data) | {"records": 3}).encode() if name == "manifest.json" else data
            ),
            "should have 3 records",
        ),
    ],
)
def test_what_is_not_as_it_was_written_is_refused_and_leaves_nothing(place, change, said):
    with open_project(place / "p") as project:
        backup_project(project, path=place / "b.zip")
    rewritten(place / "b.zip", place / "bad.zip", change)
    with pytest.raises(ValueError, match=said):
        restore_project(place / "bad.zip", place / "q")
    assert sorted(path.name for path in place.iterdir()) == ["b.zip", "bad.zip", "p", "pool.csv", "traffic.csv"]


def test_a_file_that_is_cut_or_damaged_at_any_place_is_refused(place):
    with open_project(place / "p") as project:
        backup_project(project, path=place / "b.zip")
    whole = (place / "b.zip").read_bytes()
    for cut in range(0, len(whole), max(1, len(whole) // 40)):
        (place / "cut.zip").write_bytes(whole[:cut])
        with pytest.raises(ValueError, match="not a whole backup"):
            restore_project(place / "cut.zip", place / "q")
    with zipfile.ZipFile(place / "b.zip") as archive:
        starts = [info.header_offset + 30 + len(info.filename) for info in archive.infolist()]
    for start in starts:  # a letter of the content of each member
        broken = bytearray(whole)
        broken[start + 20] ^= 0x55
        (place / "cut.zip").write_bytes(broken)
        with pytest.raises(ValueError, match="not a whole backup"):
            restore_project(place / "cut.zip", place / "q")
    assert not (place / "q").exists()


def test_no_file_lands_outside_the_folder(place):
    """A backup of a stranger."""
    with open_project(place / "p") as project:
        backup_project(project, path=place / "b.zip")
    import hashlib

    for name in ("files/../../evil.txt", "/evil.txt", "files/..\\evil.txt"):
        with zipfile.ZipFile(place / "b.zip") as old, zipfile.ZipFile(place / "evil.zip", "w") as new:
            manifest = json.loads(old.read("manifest.json"))
            for member in old.namelist():
                if member != "manifest.json":
                    new.writestr(member, old.read(member))
            new.writestr(name, b"evil")
            manifest["files"][name] = {"bytes": 4, "sha256": hashlib.sha256(b"evil").hexdigest()}
            new.writestr("manifest.json", json.dumps(manifest))
        with pytest.raises(ValueError, match=r"outside the project|not those of its"):
            restore_project(place / "evil.zip", place / "q")
    assert not [*place.rglob("evil.txt")]
    assert not (place / "q").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("b.tar", "must be a .zip file"),
        ("b.zip", "already, and backups are not written over"),
        ("no/b.zip", "no folder"),
    ],
)
def test_where_a_backup_cannot_go(place, name, said):
    (place / "b.zip").write_text("an old one")
    with open_project(place / "p") as project, pytest.raises(ValueError, match=said):
        backup_project(project, path=place / name)
    assert (place / "b.zip").read_text() == "an old one"


def test_a_name_with_the_time(place):
    (place / "safe").mkdir()
    with open_project(place / "p") as project:
        found = backup_project(project, path=place / "safe")
    assert found.path.parent == place / "safe"
    assert found.path.match("p-2*Z.zip")


# ---- another kind of store ----


def test_from_a_file_to_a_database_and_back(place, postgres_url):
    before = records_of(place / "p")
    with open_project(place / "p") as project:
        backup_project(project, path=place / "b.zip")
    with open_store(postgres_url) as other:  # another project has been there before
        other.append([Record(f"x{n}", "another project", "note", None, {}) for n in range(7)])
    restore_project(place / "b.zip", place / "q", store=postgres_url)
    assert bare(records_of(place / "q")) == bare(before)
    again = restore_project(place / "b.zip", place / "r", store=postgres_url)
    assert "the store has all of these records already" in again.notes[0]
    with open_project(place / "q") as project:
        project.session().answer("cy", "m20", "bad", key="later")
        backup_project(project, path=place / "c.zip")
    assert ", and 1 newer ones" in restore_project(place / "b.zip", place / "s", store=postgres_url).notes[0]
    restore_project(place / "c.zip", place / "t", store="sqlite:///labels.db")
    assert bare(records_of(place / "t"))[:-1] == bare(before)
    with open_project(place / "p") as project:  # which went another way
        project.session().answer("dee", "m21", "bad", key="elsewhere")
        backup_project(project, path=place / "d.zip")
    with pytest.raises(ValueError, match="other records of the run 'main' already"):
        restore_project(place / "d.zip", place / "u", store=postgres_url)
    assert not (place / "u").exists()


def test_a_store_outside_the_folder_comes_into_it(tmp_path):
    write_mails(tmp_path / "pool.csv", 30)
    with init_project(
        tmp_path / "p", pool=tmp_path / "pool.csv", store=f"sqlite:///{tmp_path / 'far.db'}", **WANTED
    ) as project:
        backup_project(project, path=tmp_path / "b.zip")
    restore_project(tmp_path / "b.zip", tmp_path / "q")
    assert (tmp_path / "q" / "labels.db").is_file()
    assert Path(tmp_path / "q" / "askwell.toml").read_text().count('store = "sqlite:///labels.db"') == 1
