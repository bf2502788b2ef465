"""Where files are: paths, folders, globs, and URLs of whatever fsspec knows (s3://, gs://, https://, memory://).

And what a chunk of one of them is: some rows that are read together.
"""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, final

import numpy as np

__all__ = ["Chunk", "files_of", "is_pattern", "is_url", "opened", "saved_array"]

KINDS = (".parquet", ".pq", ".csv", ".tsv", ".npy")


@final
class Chunk(NamedTuple):
    """Some rows of a file that follow each other without an empty line between them."""

    file: str  # its path or URL
    kind: Literal["parquet", "csv", "npy"]
    first: int  # row group, byte or row
    stop: int
    start: int  # its first row, counted over all files
    rows: int
    number: int  # of its first row, as the file counts them

    @property
    def source(self) -> str:
        """The file's name."""
        return Path(self.file).name

    def numbers(self, rows: np.ndarray | None = None) -> Sequence[int]:
        """The row numbers of its rows, or of these of them, as the file counts them."""
        return range(self.number, self.number + self.rows) if rows is None else (self.number + rows).tolist()

    @property
    def name(self) -> str:
        """For messages: the file, and which part of it.

        >>> Chunk("a/b.parquet", "parquet", 2, 4, 0, 100, 1).name
        'b.parquet, row groups 2 to 3'
        """
        unit = {"parquet": "row group", "csv": "byte", "npy": "row"}[self.kind]
        part = f"{unit} {self.first}" if self.stop == self.first + 1 else f"{unit}s {self.first} to {self.stop - 1}"
        return f"{self.source}, {part}"


def is_url(path: str) -> bool:
    """Whether a path is a URL: its scheme has two letters at least, since Windows' drives have one.

    >>> is_url("s3://bucket/pool"), is_url("C:/pool.csv"), is_url("pool.csv")
    (True, False, False)
    """
    scheme, mark, _ = path.partition("://")
    return bool(mark) and len(scheme) > 1


def is_pattern(path: str | Path) -> bool:
    """Whether a path stands for files to be found: a URL, or a glob that is no file itself.

    >>> is_pattern("s3://bucket/pool"), is_pattern("big/*.parquet"), is_pattern("pool.csv")
    (True, True, False)
    """
    return is_url(str(path)) or (glob.has_magic(str(path)) and not Path(path).exists())


def files_of(source: str | Path | Sequence[str | Path]) -> list[str]:
    """The files that a path, a folder, a glob, a URL or a list of them stands for; in order of name.

    Of a folder: its Parquet files, else its CSV files, else its saved arrays; hidden ones and those in folders below
    are left out.
    """
    if not isinstance(source, str | Path):
        return [file for each in source for file in files_of(each)]
    path = str(source)
    names = _remote(path) if is_url(path) else _local(path)
    if not names:
        raise ValueError(f"source must name files, but there are none at {path!r} (of {', '.join(KINDS)}).")
    return names


def opened(path: str) -> BinaryIO:
    """The file at a path, to be read in any order."""
    if not is_url(path):
        return open(path, "rb")
    file: BinaryIO = _fsspec().open(path, "rb").open()
    return file


def saved_array(file: str | Path) -> np.ndarray:
    """The array in a .npy file, not yet in memory."""
    try:
        x = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(file)!r}.") from None
    except Exception as error:  # the header is parsed as Python, and a damaged one fails in many ways
        raise ValueError(f"{Path(file).name} is not a whole NumPy array of numbers or texts: {error}") from None
    if not isinstance(x, np.ndarray) or x.size == 0:
        raise ValueError(f"{Path(file).name} must be one array that is not empty.")
    return x


def _local(source: str) -> list[str]:
    path = Path(source)
    if path.is_dir():
        return _of_one_kind([str(file) for file in path.iterdir() if file.is_file()])
    if path.exists():
        return [source]
    if glob.has_magic(source):
        return sorted(name for name in glob.glob(source, recursive=True) if Path(name).is_file())
    raise ValueError(f"source must name files, but {source!r} does not exist.")


def _remote(source: str) -> list[str]:
    fsspec = _fsspec()
    try:
        files, path = fsspec.core.url_to_fs(source)
        return _listed(files, path, source)
    except ImportError:
        raise
    except Exception as error:  # each kind of store has its own
        raise ValueError(f"source must name files, but {source!r} cannot be looked at: {error}") from error


def _listed(files: Any, path: str, source: str) -> list[str]:
    if glob.has_magic(path):
        names = files.glob(path)
    elif files.isdir(path):
        names = [name for name in files.ls(path, detail=False) if not files.isdir(name)]
        return [files.unstrip_protocol(name) for name in _of_one_kind(names)]
    else:
        return [source]
    return sorted(files.unstrip_protocol(name) for name in names)


def _of_one_kind(names: Sequence[str]) -> list[str]:
    """Those of the first kind that there is any of: a folder of Parquet often has a README too."""
    shown = [name for name in names if not Path(name).name.startswith((".", "_"))]
    for kinds in ((".parquet", ".pq"), (".csv", ".tsv"), (".npy",)):
        if names_of_kind := sorted(name for name in shown if name.lower().endswith(kinds)):
            return names_of_kind
    return []


def _fsspec() -> Any:
    try:
        import fsspec
    except ImportError:
        raise ImportError("reading from URLs needs fsspec: pip install 'askwell[remote]'.") from None
    return fsspec
