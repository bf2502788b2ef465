"""A project in one file, and back: the records, the settings and, where they are small or wanted, the data.

A backup is a ZIP: `askwell.toml`, `records.jsonl` (every record as it was stored, in order, whatever kind of store it
came from), `files/`, and `manifest.json` with the counts and checksums that restoring proves everything by. Taking one
is reading, so people may label meanwhile: it holds what was stored when it began.
"""

import filecmp
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatch
from glob import glob, has_magic
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, final

from askwell.checks import write_file
from askwell.data.files import is_pattern, is_url
from askwell.project.exchange import iso_time
from askwell.project.features import EMBEDDINGS, is_file
from askwell.project.project import Project, store_url
from askwell.project.settings import FILE, Settings, read_settings, settings_text
from askwell.session.state import State
from askwell.store import open_store
from askwell.store.records import Record, Store, StoreError
from askwell.store.sqlite import nobody_has

__all__ = ["SMALL", "Backup", "backup_project", "restore_project"]

FORMAT = 1
SMALL = 100_000_000  # bytes of data that are backed up unless somebody says otherwise
RECORDS, MANIFEST, DATA = "records.jsonl", "manifest.json", "files/"
AT_ONCE = 500  # records stored together
SQLITE = "sqlite:///"
STORE_ENDINGS = ("", "-journal", "-wal", "-shm")  # the last two are of an older askwell


@final
@dataclass(frozen=True)
class Backup:
    """What a backup holds, or what was restored from one."""

    path: Path
    at: str  # when it was taken, ISO 8601
    records: int
    labels: int  # in force
    skips: int
    people: int
    data: tuple[str, ...]  # files and folders of the settings that are in it
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = ((self.labels, "label"), (self.skips, "skip"))
        answers = " and ".join(f"{count:,} {thing}{'' if count == 1 else 's'}" for count, thing in counts)
        answers += f" of {self.people:,} {'person' if self.people == 1 else 'people'}"
        data = f"; data: {', '.join(self.data)}" if self.data else "; no data"
        return f"{self.records:,} records ({answers}), settings{data}"


# ---- out -----------------------------------------------------------------------------------------------------------


def backup_project(project: Project, *, path: str | Path | None = None, data: bool | None = None) -> Backup:
    """Write a project to a new ZIP file at `path`, or in that folder, under a name with the time if none is given.

    `data` says whether pool, targets and the other files that the settings name are in it; by default they are if they
    have no more than 100 MB together. The project may be in use.
    """
    now = time.time()
    file = _new_file(project, path, now)
    records = _records(project.store(), project.settings.run)
    files, notes = _data_files(project, data)
    about = {"format": FORMAT, "project": project.folder.name, "at": iso_time(now), "run": project.settings.run}
    digests: dict[str, dict[str, Any]] = {}

    def write(part: Path) -> None:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            lines = b"".join(json.dumps(asdict(record)).encode() + b"\n" for record in records)
            digests[FILE] = _add(archive, FILE, io.BytesIO((project.folder / FILE).read_bytes()))
            digests[RECORDS] = _add(archive, RECORDS, io.BytesIO(lines))
            for member, source in files.items():
                with source.open("rb") as content:
                    digests[member] = _add(archive, member, content)
            archive.writestr(MANIFEST, json.dumps(about | {"records": len(records), "files": digests}, indent=1))

    try:
        write_file(file, write, safe=True)
    except OSError as error:
        raise ValueError(f"the backup {str(file)!r} cannot be written: {error.strerror or error}.") from None
    return _described(file, iso_time(now), records, project.settings, [*digests], notes)


def _new_file(project: Project, path: str | Path | None, now: float) -> Path:
    stamp = re.sub("[-:]|[.].*", "", iso_time(now)) + "Z"
    name = f"{project.folder.name}-{stamp}.zip"
    file = Path(name) if path is None else Path(path) / name if Path(path).is_dir() else Path(path)
    if file.suffix.lower() != ".zip":
        raise ValueError(
            f"a backup must be a .zip file or go into a folder that is there, but {str(file)!r} is neither."
        )
    if file.exists():
        raise ValueError(f"there is a file {str(file)!r} already, and backups are not written over. Name another.")
    if not file.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {str(file.parent)!r} to write the backup to. Make it first.")
    return file


def _records(store: Store, run: str) -> list[Record]:
    """The records of a project, in order: its run's, and those of the runs that belong to it."""
    own = [name for name in store.runs() if name == run or name.startswith(f"{run}: ")]
    return sorted((record for name in own for record in store.read(name)), key=lambda record: record.seq)


def _add(archive: zipfile.ZipFile, member: str, content: BinaryIO) -> dict[str, Any]:
    """Write a file of the archive; what the manifest says of it."""
    digest, size = hashlib.sha256(), 0
    with archive.open(member, "w", force_zip64=True) as out:
        while part := content.read(1 << 20):
            digest.update(part)
            size += len(part)
            out.write(part)
    return {"bytes": size, "sha256": digest.hexdigest()}


# ---- the data ------------------------------------------------------------------------------------------------------


def _named_files(settings: Settings) -> dict[str, str]:
    """What the settings name beside the store -> its path there: pool, targets, template, embeddings."""
    found = {name: getattr(settings, name) for name in ("pool", "targets", "template")}
    features = settings.features
    names = features.removeprefix(EMBEDDINGS).split(",") if isinstance(features, str) else []
    if str(features).startswith(EMBEDDINGS) and all(is_file(name.strip()) for name in names):
        found |= {f"embeddings {place}": name.strip() for place, name in enumerate(names)}
    if ":" in settings.model:
        found["model"] = f"{settings.model.partition(':')[0].replace('.', '/')}.py"
    return {name: path for name, path in found.items() if path is not None}


def _place_of(setting: str, path: str) -> PurePosixPath:
    """Where a thing stands in a restored folder: where it was if that is inside, else below `data/`."""
    inside = PurePosixPath(os.path.normpath(path).replace(os.sep, "/"))
    if not inside.is_absolute() and ".." not in inside.parts and not Path(path).is_absolute():
        return inside
    return PurePosixPath("data", setting.replace(" ", "-"), *Path(path).parts[len(_folder(path).parts) :])


def _folder(path: str | Path) -> Path:
    """The folder of a file, or of the files of a glob: the part before the first wildcard."""
    parts = Path(path).parts
    return Path(*parts[: next((number for number, part in enumerate(parts) if has_magic(part)), len(parts) - 1)])


def _data_files(project: Project, wanted: bool | None) -> tuple[dict[str, Path], list[str]]:
    """(member of the archive -> file, what to say about those that are not in it)."""
    found: dict[str, Path] = {}
    notes = []
    for setting, path in _named_files(project.settings).items():
        if is_url(path):
            notes.append(f"the {setting} {path!r} stays where it is, and is not in the backup.")
            continue
        source, place = project.path(path), _place_of(setting, path)
        if is_pattern(source) and (each_file := glob(str(source), recursive=True)):
            target = _folder(str(place)).as_posix()
            found |= {
                f"{DATA}{target}/{Path(each).relative_to(_folder(source)).as_posix()}": Path(each) for each in each_file
            }
        elif source.is_dir():
            below = sorted(each for each in source.rglob("*") if each.is_file())
            found |= {f"{DATA}{place / each.relative_to(source).as_posix()}": each for each in below}
        elif source.is_file():
            found[f"{DATA}{place}"] = source
            found |= _pictures(project, setting, source, place)
        elif setting != "model":  # which may be installed
            notes.append(f"the {setting} {path!r} is not there, so it is not in the backup.")
    size = sum(source.stat().st_size for source in found.values())
    if wanted is False or (wanted is None and size > SMALL):
        why = "" if wanted is False else f" because it has {size / 1e6:,.0f} MB; --with-data takes it in"
        return {}, [*notes, f"the data is not in the backup{why}: keep it yourself."]
    return found, notes


def _pictures(project: Project, setting: str, source: Path, place: PurePosixPath) -> dict[str, Path]:
    """The pictures that a table names; they lie below its folder."""
    if project.settings.kind != "image" or setting not in ("pool", "targets"):
        return {}
    items = project.items if setting == "pool" else project.target_items
    if items is None:
        return {}
    return {f"{DATA}{place.parent / str(name)}": source.parent / str(name) for name in items.contents}


# ---- back ----------------------------------------------------------------------------------------------------------


def restore_project(
    backup: str | Path, folder: str | Path, *, store: str | None = None, overwrite: bool = False
) -> Backup:
    """Make the project of a backup again in `folder`; what it holds is proved by its checksums first.

    `store` is a URL to put the records into, by default the one of the settings; a file of SQLite that lay outside the
    project's folder becomes labels.db in it. A folder that has a project is refused, or with `overwrite` its settings,
    store and data that differ are moved to a folder `replaced-...` in it. Nobody may have that project open.
    """
    file, place = Path(backup), Path(folder).absolute()
    with _opened(file) as archive:
        manifest, records = _proved(archive, file)
        if place.exists() and not place.is_dir():
            raise ValueError(f"{str(folder)!r} is a file. Name a folder to restore to.")
        if (place / FILE).exists() and not overwrite:
            raise ValueError(
                f"{str(folder)!r} is a project already, and nothing was changed. Name another folder, or give "
                "overwrite=True, which moves what it replaces to a folder in it."
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{place.name}-restoring-", dir=place.parent))
        try:
            settings = _unpacked(archive, manifest, staging, store)
            notes = _filled(staging, settings, records)
            notes += _installed(staging, place, settings, overwrite)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    notes += _missing(place, settings)
    return _described(place, manifest["at"], records, settings, [*manifest["files"]], notes)


def _opened(file: Path) -> zipfile.ZipFile:
    if file.is_dir():
        raise ValueError(f"{str(file)!r} is a folder, and a backup is a .zip file.")
    try:
        return zipfile.ZipFile(file)
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(file)!r}.") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{file.name} is not a whole backup: {error}. Take another one.") from None


def _proved(archive: zipfile.ZipFile, file: Path) -> tuple[dict[str, Any], list[Record]]:
    """(the manifest, the records), or a ValueError if anything in the archive is not as it was written."""
    damaged = f"{file.name} is not a whole backup of askwell"
    try:
        manifest = json.loads(archive.read(MANIFEST))
        if manifest["format"] > FORMAT:
            raise ValueError(f"{file.name} was written by a newer askwell. Upgrade this one: pip install -U askwell.")
        listed = {MANIFEST, *manifest["files"]}
        if {*archive.namelist()} != listed or not {FILE, RECORDS} <= listed:
            raise ValueError(f"{damaged}: its files are not those of its {MANIFEST}.")
        for name, known in manifest["files"].items():
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name:
                raise ValueError(f"{damaged}: {name!r} would lie outside the project.")
            if _digest(archive, name) != known["sha256"]:
                raise ValueError(f"{damaged}: {name} is not as it was written.")
        records = [Record(**json.loads(line)) for line in archive.read(RECORDS).splitlines()]
    except (KeyError, TypeError, json.JSONDecodeError, zipfile.BadZipFile, zipfile.LargeZipFile, EOFError) as error:
        raise ValueError(f"{damaged}: {error}. Take another one.") from None
    except Exception as error:
        if type(error).__name__ == "error":  # zlib's, of a damaged stream
            raise ValueError(f"{damaged}: {error}. Take another one.") from None
        raise
    if len(records) != manifest["records"]:
        raise ValueError(f"{damaged}: it should have {manifest['records']:,} records, but it has {len(records):,}.")
    return manifest, records


def _digest(archive: zipfile.ZipFile, name: str) -> str:
    digest = hashlib.sha256()
    with archive.open(name) as member:
        while part := member.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _unpacked(archive: zipfile.ZipFile, manifest: Mapping[str, Any], staging: Path, store: str | None) -> Settings:
    """Settings and data into the folder; the settings, with paths to where the data is now."""
    text = archive.read(FILE).decode("utf-8-sig")
    (staging / FILE).write_text(text, "utf-8")
    before = read_settings(staging / FILE)
    members = [name for name in manifest["files"] if name.startswith(DATA)]
    for name in members:
        target = staging / name.removeprefix(DATA)
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(name) as source, target.open("wb") as out:
            shutil.copyfileobj(source, out)
    changes: dict[str, Any] = {}
    moved = {
        setting: str(_place_of(setting, path))
        for setting, path in _named_files(before).items()
        if _is_in(_place_of(setting, path), [name.removeprefix(DATA) for name in members])
    }
    changes |= {name: path for name, path in moved.items() if name in ("pool", "targets", "template")}
    parts = [path for name, path in moved.items() if name.startswith("embeddings ")]
    if parts:
        changes["features"] = EMBEDDINGS + ",".join(parts)
    url = store if store is not None else before.store
    if store is None and url.startswith(SQLITE) and not _is_inside(url):
        url = f"{SQLITE}labels.db"
    after = replace(before, **changes, store=url)
    (staging / FILE).write_text(_edited(text, before, after), "utf-8")
    if read_settings(staging / FILE) != after:  # somebody wrote it in a way of their own
        (staging / FILE).write_text(settings_text(after), "utf-8")
    return after


def _is_inside(url: str) -> bool:
    path = PurePosixPath(os.path.normpath(url.removeprefix(SQLITE)))
    return not path.is_absolute() and ".." not in path.parts


def _edited(text: str, before: Settings, after: Settings) -> str:
    """The file with the values that have changed, and all else, comments too, as it is."""
    for field in fields(Settings):
        value = getattr(after, field.name)
        if value != getattr(before, field.name) and isinstance(value, str):
            written = re.compile(rf"""^(\s*{field.name}\s*=\s*)("(?:[^"\\]|\\.)*"|'[^']*')""", re.MULTILINE)
            text = written.sub(lambda found, value=value: f"{found[1]}{json.dumps(value)}", text, count=1)  # type: ignore[misc]
    return text


def _filled(staging: Path, settings: Settings, records: Sequence[Record]) -> list[str]:
    """The records in their store; what there is to say about it."""
    with open_store(store_url(settings.store, staging)) as store:
        same, wanted = _contents(_records(store, settings.run)), _contents(records)
        if same[: len(wanted)] == wanted:
            new = len(same) - len(wanted)
            return [f"the store has all of these records already{f', and {new:,} newer ones' if new else ''}."]
        if same != wanted[: len(same)]:
            raise ValueError(
                f"the store has other records of the run {settings.run!r} already, and nothing was changed. Give "
                "another store: --store sqlite:///labels.db for a file in the project's folder, or an empty database."
            )
        for _, group in groupby(records[len(same) :], key=lambda record: record.run):
            batch = list(group)
            for start in range(0, len(batch), AT_ONCE):
                store.append(batch[start : start + AT_ONCE])
        if _contents(_records(store, settings.run)) != wanted:
            raise StoreError(
                f"the records of {settings.run!r} are not the same after they were put back. Nothing was changed."
            )
    return []


def _contents(records: Iterable[Record]) -> list[Record]:
    """Records without their numbers in the store, which are others in each."""
    return [replace(record, seq=0) for record in records]


def _installed(staging: Path, place: Path, settings: Settings, overwrite: bool) -> list[str]:
    """The finished folder at its place: in one step if there is none yet."""
    for left in staging.glob("*-lock"):
        left.unlink()
    if not place.exists():
        os.rename(staging, place)
        return []
    old = settings
    with suppress(ValueError):  # none there, or damaged: a reason to restore
        old = read_settings(place / FILE)
    with _nobody_has(store_url(old.store, place)):
        pieces = [each for each in sorted(staging.rglob("*")) if each.is_file()]
        in_the_way = [each for each in _store_files(old, place) if each.exists()]
        for each in pieces:
            there = place / each.relative_to(staging)
            if there.exists() and not filecmp.cmp(there, each, shallow=False) and there not in in_the_way:
                in_the_way.append(there)
        if in_the_way and not overwrite:
            names = ", ".join(str(each.relative_to(place)) for each in in_the_way[:5])
            raise ValueError(
                f"{str(place)!r} has {names} already, and nothing was changed. Name another folder, or give "
                "overwrite=True, which moves what it replaces to a folder in it."
            )
        aside = place / f"replaced-{re.sub('[-:]|[.].*', '', iso_time(time.time()))}Z"
        for each in in_the_way:
            target = aside / each.relative_to(place)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(each, target)
        for each in sorted(pieces, key=lambda piece: piece.name == FILE):  # the settings last
            target = place / each.relative_to(staging)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(each, target)
    return [f"what was replaced is in {aside.name}."] if in_the_way else []


def _store_files(settings: Settings, place: Path) -> Iterator[Path]:
    """The files of a store that lies in the folder; those of others are not ours to move."""
    yield place / FILE
    if settings.store.startswith(SQLITE) and _is_inside(settings.store):
        path = place / settings.store.removeprefix(SQLITE)
        yield from (path.with_name(path.name + ending) for ending in STORE_ENDINGS)


@contextmanager
def _nobody_has(url: str) -> Iterator[None]:
    """Be sure that nobody has a SQLite store open, nor opens it meanwhile."""
    path = Path(url.removeprefix(SQLITE))
    if not url.startswith(SQLITE) or not path.exists():
        yield
        return
    with nobody_has(path) as alone:
        if not alone:
            raise ValueError(
                f"{str(path)!r} is in use, and nothing was changed. Stop askwell serve, and whatever else has the "
                "project open, then do this again."
            )
        yield


def _missing(place: Path, settings: Settings) -> list[str]:
    """What the settings name and is not there."""
    project = Project(place, settings)
    return [
        f"the {setting} {path!r} is neither in the backup nor there: bring it, or correct [data] in {FILE}."
        for setting, path in _named_files(settings).items()
        if setting != "model"
        and not is_url(path)
        and not glob(str(project.path(path)))
        and not project.path(path).exists()
    ]


def _described(
    path: Path, at: str, records: Sequence[Record], settings: Settings, members: Sequence[str], notes: Sequence[str]
) -> Backup:
    state = State()
    for record in records:
        if record.run == settings.run:
            state.add(record)
    skips = sum(answer.kind == "skip" for item in state.answered() for answer in state.answers(item).values())
    inside = [name.removeprefix(DATA) for name in members if name.startswith(DATA)]
    data = [path for name, path in _named_files(settings).items() if _is_in(_place_of(name, path), inside)]
    people = sum(bool(work.labels or work.skips) for work in state.people.values())
    return Backup(path, at, len(records), state.labels, skips, people, tuple(data), tuple(notes))


def _is_in(place: PurePosixPath, members: Sequence[str]) -> bool:
    return any(PurePosixPath(member).is_relative_to(place) or fnmatch(member, str(place)) for member in members)
