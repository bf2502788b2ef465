"""The paper's data sets: the exact original files, from a folder or from their public origin, checked by checksum.

A file is looked for in the folder given, else in the one that the environment variable `ASKWELL_DATA` names, else in
the cache (`~/.cache/askwell`), where it is downloaded to if it is missing. A file whose checksum differs is refused.
"""

import gzip
import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

__all__ = ["FILES", "Split", "magic", "mnist", "satellite", "the_file", "vowel"]

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
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


def the_file(name: str, folder: str | Path | None = None) -> Path:
    """The path of one of `FILES`, downloaded if it is nowhere yet; what is there has the right checksum."""
    given = folder or os.environ.get("ASKWELL_DATA")
    place = Path(given).expanduser() if given else Path.home() / ".cache" / "askwell"
    path = place / name
    if not path.exists():
        if given:
            raise ValueError(
                f"data must be a folder with the original files, but there is no {name} in it. "
                "Leave it out (and unset ASKWELL_DATA) to have the files downloaded."
            )
        _download(FILES[name], path)
    _check(FILES[name], path)
    return path


def _check(origin: Origin, path: Path) -> None:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
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
