import numpy as np
import pytest

from askwell.data import open_rows
from askwell.models.linear import LinearModel
from askwell.scoring import Search
from askwell.scoring import search as asking
from askwell.scoring.search import Clock
from askwell.seeds import rng_for


def test_pieces_and_chunks_are_all_that_is_asked_in_order(monkeypatch, search):
    monkeypatch.setattr(asking, "PIECE", 30)
    monkeypatch.setattr(asking, "CHUNK_BYTES", 17 * 20 * 3 * 8)
    assert [(piece.start, piece.stop) for piece in search.pieces()] == [(0, 30), (30, 60), (60, 90), (90, 100)]
    clock, seen = Clock(), []
    for piece in search.pieces():
        for span, probs in search.chunks(piece=piece, clock=clock):
            assert span.stop - span.start <= 17
            np.testing.assert_array_equal(probs, search.posterior.probs[span])
            seen += range(span.start, span.stop)
    assert seen == list(range(100))
    assert {*clock.seconds} == {"read", "predict"}


def test_pieces_of_files_hold_what_is_asked_of_each(tmp_path, search):
    np.save(tmp_path / "a.npy", np.arange(60.0)[:, None])
    asked = np.array([5, 6, 44, 59])
    found = Search(search.posterior, open_rows(tmp_path / "a.npy", rows=20), positions=asked).pieces()
    assert [(piece.start, piece.stop) for piece in found] == [(0, 2), (2, 4)]


@pytest.mark.parametrize("shift", [2, 4, 5])  # to as many rows as a block of its own has
def test_a_linear_model_says_the_same_to_the_bit_in_any_chunk(monkeypatch, shift):
    """Its products are by BLAS, which rounds by a row's place in the block that it is given."""
    x = rng_for(0, 0, "rows").normal(size=(9000, 20)).astype(np.float32)
    posterior = LinearModel(draws=50).fit(x[:40], (x[:40, 0] > 0).tolist(), rng=rng_for(0, 0, "fit"))
    search = Search(posterior, x, x[:5])
    whole = np.concatenate([probs for _, probs in search.chunks()])
    monkeypatch.setattr(asking, "CHUNK_BYTES", asking.CHUNK_BYTES >> shift)
    np.testing.assert_array_equal(np.concatenate([probs for _, probs in search.chunks()]), whole)
