"""Records as rows, and the rule of appending as a pure function."""

import json
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askwell.store import open_store
from askwell.store.records import Conflict, Record, contents, fresh, kept

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def row(key, body="{}", run="run"):
    return (key, run, "label", "17", body, "")


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_any_json_object_is_kept_exactly(body):
    (content,) = contents([Record("a", "run", "label", None, body)])
    assert content[4].isascii()
    found = kept(content, 3, 4.5)
    assert (found.seq, found.at, found.item) == (3, 4.5, None)
    assert json.dumps(found.body, sort_keys=True) == json.dumps(body, sort_keys=True)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.dictionaries(st.text(), JSON, min_size=2, max_size=4))
def test_the_order_of_names_is_no_difference(body):
    backwards = dict(reversed(body.items()))
    assert contents([Record("a", "run", "label", "1", body)]) == contents([Record("a", "run", "label", "1", backwards)])


def test_mappings_and_tuples_are_kept_as_objects_and_lists():
    body = MappingProxyType({"pair": (1, MappingProxyType({"x": 2}))})
    assert contents([Record("a", "run", "label", "1", body)])[0][4] == '{"pair":[1,{"x":2}]}'
    assert body == {"pair": (1, {"x": 2})}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"a": {"b": [0, float("nan")]}}, r"body\['a'\]\['b'\]\[1\] is nan"),
        ({"a": {3: 4}}, r"body\['a'\] has the key 3"),
        ({"a": b"bytes"}, r"body\['a'\] is b'bytes' of type bytes"),
        ("text", "body must be a JSON object"),
    ],
)
def test_a_body_that_is_no_json_is_refused_with_its_place(body, message):
    with pytest.raises(ValueError, match=message):
        contents([Record("a", "run", "label", "1", body)])


def test_a_body_without_end_is_refused():
    body = {}
    body["self"] = body
    with pytest.raises(ValueError, match="nested too deeply"):
        contents([Record("a", "run", "label", "1", body)])


# ---- the rule ------------------------------------------------------------------------------------------------------


def test_what_is_new_is_stored_and_what_is_known_is_not():
    assert fresh([row("a"), row("b"), row("a")], {}, last=0, after=None) == [row("a"), row("b")]
    assert fresh([row("a"), row("b")], {"a": row("a")}, last=7, after=7) == [row("b")]


def test_a_retry_needs_no_place():
    assert fresh([row("a")], {"a": row("a")}, last=9, after=0) == []


def test_a_conflict_goes_before_a_clash():
    with pytest.raises(Conflict, match="'run' has records up to 9, later than 8"):
        fresh([row("a", '{"n":1}')], {"a": row("a")}, last=9, after=8)
    with pytest.raises(ValueError, match="key 'a' is stored already with another body"):
        fresh([row("a", '{"n":1}')], {"a": row("a")}, last=9, after=9)
    with pytest.raises(ValueError, match="another run and body"):
        fresh([row("a", '{"n":1}', "other")], {"a": row("a")}, last=0, after=None)


# ---- addresses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "labels.db",
        "",
        "sqlite://labels.db",
        "sqlite:///",
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://ada:secret@host/x",
        7,
    ],
)
def test_addresses_of_nothing_are_refused_with_examples(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="store must be one of None") as caught:
        open_store(url)
    assert "secret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_three_slashes_are_relative_and_four_are_not(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    open_store("sqlite:///one #1?.db").close()
    open_store(f"sqlite:///{tmp_path}/two %20.db").close()
    assert (tmp_path / "here" / "one #1?.db").exists()
    assert (tmp_path / "two %20.db").exists()
