"""The page of a project whose labels are numbers, in a real browser: keyboard entry, the range, undo, the curve."""

import pytest
from labelling_server import ITEMS
from test_static import enter, shown, wait_for_saved

from askwell.session import Session
from askwell.session.events import RulesChanged
from askwell.session.rules import Rules
from askwell.store import open_store


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path}/labels.db"
    with open_store(url) as store:
        rules = Rules(lease_seconds=30, budget=500, label_range=(0, 100)).body({})
        Session(store, ITEMS.ids).change(lambda state: [RulesChanged(rules)], who="start")
    return url


def labels_of(url):
    with open_store(url) as store:
        return {item: each.label for item, each in Session(store, ITEMS.ids).labels().items()}


def test_numbers_are_typed_checked_and_undone(url, server_of, window):
    page = enter(window(), server_of(url), "ada")
    page.wait_for_selector("#number:not([hidden])")
    given = {}

    def answer(text):
        before = shown(page)
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        page.wait_for_function("before => document.getElementById('item-id').textContent !== before", arg=before)
        given[before] = float(text.replace(",", "."))
        return before

    answer("12.5")
    answer("7,25")
    for text, words in (("101", "highest label is 100"), ("-3", "lowest label is 0"), ("--", "Type a number")):
        item = shown(page)
        page.fill("#value", text)
        page.keyboard.press("Enter")
        page.wait_for_function("words => document.getElementById('note').textContent.includes(words)", arg=words)
        assert shown(page) == item
    page.fill("#value", "")
    last = answer("1e1")
    wait_for_saved(page, "All saved")
    assert labels_of(url) == given
    page.keyboard.press("u")  # a command also while the field has the focus
    page.wait_for_function("item => document.getElementById('item-id').textContent === item", arg=last)
    assert page.input_value("#value") == "10"
    page.fill("#value", "")
    answer("99")
    wait_for_saved(page, "All saved")
    assert labels_of(url) == given
    assert page.locator("#classes button").count() == 0


def test_the_curve_is_in_rmse(url, server_of, window):
    with open_store(url) as store:
        session = Session(store, ITEMS.ids)
        for number, value in ((1, 812.0), (2, 700.0)):
            estimate = {"metric": "rmse", "how": "cross-validated", "of": "chosen", "about": "cross-validated"}
            estimate |= {"value": value, "low": value - 90, "high": value + 90}
            advice = {"stop": False, "rule": "The rule.", "why": "The RMSE fell."}
            session.put_round(
                {"round": number, "labels": 10 * number, "model": "linear", "estimate": estimate, "advice": advice}
            )
    page = enter(window(), server_of(url), "ada")
    page.wait_for_function("() => document.querySelectorAll('#curve canvas').length === 1")
    text = page.inner_text("[aria-label='Learning curve']")
    assert "RMSE, an upper bound" in text
    assert "700.00" in text
    assert "two classes" not in page.inner_text("[aria-label='Model']")
