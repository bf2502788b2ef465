import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from askwell.data import BadRows, open_rows
from askwell.data.files import files_of, opened
from askwell.seeds import rng_for

X = rng_for(0, 0, "places").normal(size=(64, 3)).astype(np.float32)


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


# ---- a real server ----


class Ranges(SimpleHTTPRequestHandler):
    """Python's server, which can also send a part of a file."""

    def do_GET(self):
        asked = self.headers.get("Range")
        if asked is None:
            super().do_GET()
            return
        with open(self.translate_path(self.path), "rb") as file:
            data = file.read()
        first, last = (int(each) for each in asked.removeprefix("bytes=").split("-"))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{min(last, len(data) - 1)}/{len(data)}")
        self.send_header("Content-Length", str(len(data[first : last + 1])))
        self.end_headers()
        self.wfile.write(data[first : last + 1])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("aiohttp")
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {f"x{column}": X[:, column] for column in range(3)}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=16)
    (tmp_path / "b.csv").write_text("x0,x1,x2\n" + "\n".join(",".join(map(str, row)) for row in X) + "\n")
    found = ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


@pytest.mark.parametrize("name", ["a.parquet", "b.csv"])
def test_rows_come_from_a_url_and_who_is_gone_is_named(server, name):
    url = f"http://127.0.0.1:{server.server_port}/{name}"
    rows = open_rows(url, columns=["x0", "x1", "x2"], rows=16)
    np.testing.assert_allclose(rows[:16], X[:16], rtol=1e-6)
    server.shutdown()
    server.server_close()
    with pytest.raises(BadRows, match=name):
        rows[40:48]
    with pytest.raises(ValueError, match=rf"{name}' cannot be looked at: .*connect"):
        open_rows(url)


def test_no_such_file_at_a_url(server):
    with pytest.raises(BadRows, match=r"nowhere\.parquet"):
        open_rows(f"http://127.0.0.1:{server.server_port}/nowhere.parquet")
