import numpy as np
import pytest

from askwell.rows.places import files_of, opened


@pytest.fixture
def folder(tmp_path):
    for name in ("b.parquet", "a.parquet", "c.csv", ".hidden.parquet", "_SUCCESS", "README.md"):
        (tmp_path / name).write_text("x")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "d.parquet").write_text("x")
    return tmp_path


def names(files):
    return [file.rsplit("/", 1)[-1] for file in files]


def test_a_folder_is_its_parquet_files_in_order(folder):
    assert names(files_of(folder)) == ["a.parquet", "b.parquet"]


def test_globs_and_lists(folder):
    assert names(files_of(str(folder / "**" / "*.parquet"))) == ["a.parquet", "b.parquet", "d.parquet"]
    assert names(files_of([folder / "c.csv", folder / "a.parquet"])) == ["c.csv", "a.parquet"]


def test_nothing_there(folder):
    with pytest.raises(ValueError, match=r"does not exist"):
        files_of(folder / "nowhere.csv")
    with pytest.raises(ValueError, match=r"there are none at .*zzz"):
        files_of(str(folder / "zzz*.csv"))


def test_urls():
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name in ("a.npy", "b.npy"):
        with memory.open(f"/askwell-places/{name}", "wb") as file:
            np.save(file, np.zeros((2, 2)))
    assert names(files_of("memory://askwell-places")) == ["a.npy", "b.npy"]
    assert names(files_of("memory://askwell-places/b*")) == ["b.npy"]
    with opened("memory://askwell-places/a.npy") as file:
        assert file.read(6) == b"\x93NUMPY"
