import numpy as np
import pytest

from askwell.checks import count, fingerprint, write_file


@pytest.mark.parametrize("value", [True, 0, -1, 1.0, "1", None, np.bool_(True)])
def test_what_is_no_count(value):
    with pytest.raises(ValueError, match=r"^size must be a whole number from 1, or None, but it is"):
        count("size", value, also=", or None")


def test_counts():
    assert [count("n", value, least=0) for value in (0, np.int8(3), 10**20)] == [0, 3, 10**20]
    assert type(count("n", np.uint16(3))) is int


def test_fingerprints_differ_where_the_data_do_and_nowhere_else():
    x = np.arange(12.0).reshape(3, 4)
    assert fingerprint([x]) == fingerprint([x[:1], x[1:].tobytes()]) == fingerprint([np.asfortranarray(x)])
    other = x.copy()
    other[2, 3] += 1e-9
    found = [fingerprint([part]) for part in (x, other, "a", "b", ["a"], None, np.array(["a", None], object))]
    assert len({*found}) == len(found)
    assert all(len(each) == 16 for each in found)


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "a.txt"
    write_file(path, "ä")
    write_file(path, b"second", safe=True)
    assert path.read_bytes() == b"second"

    def breaks(part):
        part.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(path, breaks)
    seen = []
    write_file(path, lambda part: seen.append(part.suffix) or part.write_text("third"))
    assert (path.read_text(), seen, [each.name for each in tmp_path.iterdir()]) == ("third", [".txt"], ["a.txt"])
    with pytest.raises(OSError, match="nowhere"):
        write_file(tmp_path / "nowhere" / "a.txt", "x")
