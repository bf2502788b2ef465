"""What the routes share."""

import pytest
from fastapi import HTTPException
from pydantic import TypeAdapter, ValidationError

from askwell.web.service import WORDS, Name, conflicts, refusals


@pytest.mark.parametrize("name", ["ada", "Ada Lovelace", "艾达", "o'neill", "a" * 80, "<b>"])
def test_names(name):
    assert TypeAdapter(Name).validate_python(name) == name


@pytest.mark.parametrize("name", ["", " ", " ada", "\u2003", "\u3000x", "a\nb", "a\0", "a" * 81, "\x85", "\ud800"])
def test_what_is_no_name(name):
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(name)


@pytest.mark.parametrize("character", [chr(code) for code in range(0x3100) if not chr(code).strip()])
def test_no_name_is_blank_to_the_session(character):
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(character)


def test_conflicts_keep_the_words():
    with pytest.raises(HTTPException) as refused, conflicts():
        raise ValueError("because")
    assert (refused.value.status_code, refused.value.detail) == (409, "because")


def test_refusals_are_documented():
    assert {403, 404, 408, 413} == set(refusals(404))
    assert refusals(401, drawn={401})[401]["content"] == {"text/html": {}}
    assert all(WORDS.values())
