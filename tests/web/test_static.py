"""The page in a real browser: two people label by keyboard while the server is killed and comes back (E1)."""

import re
from pathlib import Path

import pytest
from labelling_server import CLASSES, ITEMS, PAIRS, TRUTH

from askwell.desk import Desk, Suggested
from askwell.store import open_store

STATIC = Path(__file__).parents[2] / "src" / "askwell" / "web" / "static"
TEMPLATES = STATIC.with_name("templates")
ABOUT = dict(PAIRS)  # text -> class


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/labels.db"


def enter(page, server, name, *, token=None):
    page.goto(server.address)
    page.fill("#name", name)
    if token:
        page.fill("#token", token)
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-ready=yes]")
    page.wait_for_selector("#item .text")
    return page


def shown(page):
    return page.inner_text("#item-id")


def press(page, key):
    """Press a key that leads to the next item."""
    before = shown(page)
    page.keyboard.press(key)
    page.wait_for_function("before => document.getElementById('item-id').textContent !== before", arg=before)


def right_key(page):
    return str(1 + CLASSES.index(ABOUT[page.text_content("#item .text")]))


def wait_for_saved(page, words):
    page.wait_for_function("words => document.getElementById('saved').textContent.includes(words)", arg=words)


def labels_of(url):
    with open_store(url) as store:
        return Desk(store, ITEMS.ids).labels()


def put_round(url, number, value):
    """What a trainer does: a report with an estimate, and a queue."""
    with open_store(url) as store:
        desk = Desk(store, ITEMS.ids)
        labels = desk.progress().labels
        estimate = {
            "metric": "accuracy",
            "how": "cross-validated",
            "value": value,
            "low": value - 0.1,
            "high": value + 0.1,
        }
        advice = {"stop": number > 2, "rule": "The curve is flat.", "why": "It rose."}
        waiting = [item for item in ITEMS.ids if item not in desk.labels()]
        desk.put_round(
            {"round": number, "labels": labels, "model": "linear", "estimate": estimate, "advice": advice},
            queue=[Suggested(item, 0.1, ((ITEMS.ids[0], 0.2), (ITEMS.ids[1], 0.1))) for item in waiting[:40]],
        )


def test_two_people_label_and_nothing_is_lost(url, server_of, window):
    """E1: 60 items of real text by keyboard, the curve moves, undo works, the server is killed in the middle."""
    server = server_of(url)
    ada, bob = enter(window(), server, "ada"), enter(window(viewport={"width": 390, "height": 844}), server, "bob")
    people, pressed = (ada, bob), {}

    def label(page):
        key, item = right_key(page), shown(page)  # in this order: the text is waited for, where the server is slow
        pressed[item] = CLASSES[int(key) - 1]
        press(page, key)

    for n in range(20):
        label(people[n % 2])
    wait_for_saved(ada, "All saved")
    put_round(url, 1, 0.5)
    for n in range(10):
        label(people[n % 2])
    put_round(url, 2, 0.7)
    ada.wait_for_function("() => document.querySelectorAll('#curve canvas').length === 1")
    assert "cross-validated" in ada.inner_text("[aria-label='Learning curve']")
    assert "Go on" in ada.inner_text(".advice")

    # A wrong key, and U.
    item = shown(ada)
    press(ada, "1" if right_key(ada) != "1" else "2")
    wait_for_saved(ada, "All saved")
    ada.keyboard.press("u")
    ada.wait_for_function("item => document.getElementById('item-id').textContent === item", arg=item)
    assert "Taken back" in ada.inner_text("#note")
    label(ada)
    wait_for_saved(ada, "All saved")
    wait_for_saved(bob, "All saved")

    server.kill()
    for page in people:
        label(page)
        label(page)
        wait_for_saved(page, "2 not saved yet")
    assert len(labels_of(url)) == 31
    server.start()
    for page in people:
        wait_for_saved(page, "All saved")
        page.wait_for_selector("#item .text")
    while len(pressed) < 60:
        label(people[len(pressed) % 2])
    for page in people:
        wait_for_saved(page, "All saved")

    put_round(url, 3, 0.8)
    ada.wait_for_function("() => JSON.parse(document.getElementById('curve').dataset.curve).points.length === 3")
    assert "You can stop" in ada.inner_text(".advice")
    assert "60 of 500" in ada.inner_text("#labels-now")
    found = labels_of(url)
    assert {item: said.label for item, said in found.items()} == pressed
    assert all(pressed[item] == TRUTH[item] for item in pressed)
    assert {who for said in found.values() for who in said.votes} == {"ada", "bob"}
    assert all(len(said.votes) == 1 for said in found.values())


def test_answers_wait_on_the_disk_of_the_browser(url, server_of, window):
    """The server is away, the page is closed and opened again: what was answered is still sent."""
    server = server_of(url, token="correct horse battery")
    page = enter(window(), server, "ada", token="correct horse battery")
    first = shown(page)
    server.kill()
    press(page, "2")
    wait_for_saved(page, "1 not saved yet")
    page.keyboard.press("u")  # not before it is saved
    page.wait_for_function("() => document.getElementById('note').textContent.includes('when everything is saved')")
    page.goto("about:blank")
    server.start()
    page.goto(server.address)  # the session outlives the server, since the token is the same
    page.wait_for_selector("body[data-ready=yes]")
    wait_for_saved(page, "All saved")
    assert {item: said.label for item, said in labels_of(url).items()} == {first: CLASSES[1]}


def test_what_the_server_refuses_is_kept_and_shown(url, server_of, window):
    """A class goes while an answer waits: the person sees it, also after a reload, and can send it again."""
    server = server_of(url)
    page = enter(window(), server, "ada")
    first = shown(page)
    server.kill()
    press(page, "3")
    wait_for_saved(page, "1 not saved yet")
    with open_store(url) as store:
        Desk(store, ITEMS.ids).set_rules("start", classes=CLASSES[:2])
    server.start()
    wait_for_saved(page, "1 refused")
    page.reload()
    wait_for_saved(page, "1 refused")
    page.click("#refused-button")
    assert "must be one of the classes" in page.inner_text("#refused-list")
    with open_store(url) as store:
        Desk(store, ITEMS.ids).set_rules("start", classes=CLASSES)
    page.click("#refused-form .main")
    wait_for_saved(page, "All saved")
    assert labels_of(url)[first].label == CLASSES[2]


def test_everything_by_keyboard(url, server_of, window):
    server = server_of(url)
    page = enter(window(reduced_motion="reduce", color_scheme="dark"), server, "ada")
    first = shown(page)
    page.keyboard.press("w")
    assert "random order" in page.inner_text("#why")
    page.keyboard.press("w")
    assert page.is_hidden("#why")
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("1")  # a dialog is open: no label
    page.keyboard.press("Escape")
    assert shown(page) == first
    page.keyboard.press("s")
    page.keyboard.press("2")
    page.wait_for_function("first => document.getElementById('item-id').textContent !== first", arg=first)
    wait_for_saved(page, "All saved")
    with open_store(url) as store:
        (answer,) = Desk(store, ITEMS.ids).answers()
        assert (answer.kind, answer.item, answer.reason) == ("skip", first, "none of the classes")

    page.keyboard.press("e")
    page.fill("#class-new", "other things")
    page.keyboard.press("Enter")
    page.wait_for_selector("#classes [data-name='other things']")
    page.fill("#class-1", "mathematics")
    page.keyboard.press("Enter")
    page.wait_for_selector("#classes [data-name='mathematics']")
    page.keyboard.press("Escape")
    press(page, "4")
    wait_for_saved(page, "All saved")
    assert [said.label for said in labels_of(url).values()] == ["other things"]

    with open_store(url) as store:
        Desk(store, ITEMS.ids).set_rules("start", classes=[*_classes(store), *(f"class {n}" for n in range(40))])
    page.wait_for_selector("#search-row:not([hidden])")
    page.keyboard.press("/")
    page.keyboard.type("class 33")
    before = shown(page)
    page.keyboard.press("Enter")
    page.wait_for_function("before => document.getElementById('item-id').textContent !== before", arg=before)
    wait_for_saved(page, "All saved")
    assert labels_of(url)[before].label == "class 33"
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"  # it was dark


def _classes(store):
    return Desk(store, ITEMS.ids).rules.classes


def test_the_page_fits_a_phone_and_names_its_parts(url, server_of, window):
    server = server_of(url)
    for viewport in ({"width": 390, "height": 844}, {"width": 320, "height": 568}, {"width": 1280, "height": 800}):
        page = enter(window(viewport=viewport), server, "ada")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('button, input:not([type=hidden]), summary, dialog, img')]
                .filter((part) => !(part.textContent.trim() || part.ariaLabel || part.labels?.length))
                .filter((part) => !['alt', 'aria-labelledby', 'aria-hidden'].some((name) => part.hasAttribute(name)))
                .map((part) => part.outerHTML)"""
        )
        assert nameless == []


# ---- the files ----


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, two):
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_known():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "grounds"),
    [
        ("ink", ("ground", "card", "raised", "tint", "warn-tint")),
        ("soft", ("ground", "card", "raised", "warn-tint")),
        ("accent", ("ground", "card", "raised", "tint")),
        ("warn", ("ground", "raised", "warn-tint")),
        ("on-accent", ("accent",)),
    ],
)
def test_words_can_be_read(theme, ink, grounds):
    tones = dict(re.findall(r"--([\w-]+): light-dark\(([^)]+)\)", (STATIC / "page.css").read_text("utf-8")))
    tone = {name: pair.split(", ")[theme] for name, pair in tones.items()}
    for ground in grounds:
        assert contrast(tone[ink], tone[ground]) >= 4.5, (ink, ground)


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.html")), ids=lambda path: path.name)
def test_templates_have_nothing_inline_and_nothing_from_elsewhere(path):
    text = path.read_text("utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:|\|\s*safe", text)
    assert not re.search(r"(?:src|href|action|hx-\w+)=[\"'](?:https?:)?//", text)


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_scripts_put_text_in_as_text(path):
    text = path.read_text("utf-8")
    assert not re.search(
        r"https?://(?!www\.w3\.org/2000/svg)|\beval\(|new Function|document\.write|outerHTML|insertAdjacent", text
    )
    assert len(re.findall("innerHTML", text)) == (1 if path.name == "stage.js" else 0)  # the project's own template
    assert len(text.splitlines()) <= 400


def test_what_is_not_ours_says_whose_it_is():
    notes = (STATIC / "vendor" / "LICENSES.txt").read_text("utf-8")
    for path in (STATIC / "vendor").iterdir():
        assert path.name == "LICENSES.txt" or path.name in notes
    version = re.search(r'version:"([\d.]+)"', (STATIC / "vendor" / "htmx.min.js").read_text("utf-8"))[1]
    assert f"htmx {version}" in notes
