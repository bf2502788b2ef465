import pytest

from askwell.bridge.bookkeeping import Books
from askwell.store import open_store


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'labels.db'}"


def test_one_bridge_at_a_time(url):
    first, second = open_store(url), open_store(url)
    Books(first, "main").take_turn()
    Books(first, "main").take_turn()
    with pytest.raises(ValueError, match="another bridge to Label Studio is running"):
        Books(second, "main").take_turn()
    Books(second, "other").take_turn()
    Books(first, "main").end_turn()
    Books(second, "main").take_turn()
    first.close()
    second.close()


def test_the_mark_lasts_until_a_new_one_is_wanted(url):
    with open_store(url) as store:
        mark = Books(store, "main").mark()
    with open_store(url) as store:
        books = Books(store, "main")
        assert books.mark() == mark
        books.saw_project(mark, 7, "http://a")
        books.saw_project(mark, 7, "http://a")
        assert books.project(mark) == (7, "http://a")
        other = books.mark(new=True)
        assert other != mark
        assert books.mark() == other
        assert books.project(other) is None
        assert len(store.read("main: label studio")) == 3


def test_an_import_is_open_until_its_end_is_known(url):
    with open_store(url) as store:
        books = Books(store, "main", clock=lambda: 5.0)
        done = books.begin(["a"])
        books.end(done)
        books.begin(["b", "c"])
    with open_store(url) as store:
        books = Books(store, "main")
        sent = books.importing()
        assert (sent.items, sent.at) == (("b", "c"), 5.0)
        books.end(sent)
        assert books.importing() is None
        assert store.read("main") == []  # the project's own records are not touched
