"""The page in a real browser: two people label by keyboard while the server is killed and comes back (E1)."""

import json
import re
from pathlib import Path

import pytest
from labelling_server import CLASSES, ITEMS, PAIRS, TRUTH

from askwell.session import Candidate, Session
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
        return Session(store, ITEMS.ids).labels()


def put_round(url, number, value):
    """What a trainer does: a report with an estimate, and a queue."""
    with open_store(url) as store:
        session = Session(store, ITEMS.ids)
        labels = session.progress().labels
        estimate = {
            "metric": "accuracy",
            "how": "cross-validated",
            "value": value,
            "low": value - 0.1,
            "high": value + 0.1,
        }
        advice = {"stop": number > 2, "rule": "The curve is flat.", "why": "It rose."}
        waiting = [item for item in ITEMS.ids if item not in session.labels()]
        session.put_round(
            {"round": number, "labels": labels, "model": "linear", "estimate": estimate, "advice": advice},
            queue=[Candidate(item, 0.1, ((ITEMS.ids[0], 0.2), (ITEMS.ids[1], 0.1))) for item in waiting[:40]],
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
    assert "Continue" in ada.inner_text(".advice")

    # A wrong key, and U.
    item = shown(ada)
    press(ada, "1" if right_key(ada) != "1" else "2")
    wait_for_saved(ada, "All saved")
    ada.keyboard.press("u")
    ada.wait_for_function("item => document.getElementById('item-id').textContent === item", arg=item)
    assert "Undone" in ada.inner_text("#note")
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
    page.wait_for_function("() => document.getElementById('note').textContent.includes('once everything is saved')")
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
        Session(store, ITEMS.ids).set_rules("start", classes=CLASSES[:2])
    server.start()
    wait_for_saved(page, "1 refused")
    page.reload()
    wait_for_saved(page, "1 refused")
    page.click("#refused-button")
    assert "removed since" in page.inner_text("#refused-list")
    with open_store(url) as store:
        Session(store, ITEMS.ids).set_rules("start", classes=CLASSES)
    page.click("#refused-form .main")
    wait_for_saved(page, "All saved")
    assert labels_of(url)[first].label == CLASSES[2]


# ---- answers that wait while the project changes (attack D1, D10, D11) ----


def offline_answers(page, server, count):
    """Answers given while the server is away: item -> class."""
    server.kill()
    given = {}
    for n in range(count):
        given[shown(page)] = CLASSES[n % 3]
        press(page, str(1 + n % 3))
    wait_for_saved(page, f"{count} not saved yet")
    return given


def stored(url):
    return {item: said.label for item, said in labels_of(url).items()}


def reopened(page, server):
    page.goto("about:blank")
    server.start()
    signed_in(page, server)


def signed_in(page, server):
    page.goto(server.address)  # the key of sessions is the project's, so a new server knows who this is
    page.wait_for_selector("body[data-ready=yes]")


def test_answers_survive_a_changed_pool_a_renamed_folder_and_a_restart(url, server_of, window):
    """Attack D1: one row more, and everything that waited was never sent and never shown."""
    server = server_of(url)
    page = enter(window(), server, "ada")
    given = offline_answers(page, server, 3)
    server.change("text-new", title="Another name")
    reopened(page, server)
    wait_for_saved(page, "All saved")
    assert stored(url) == given


def test_answers_for_items_that_left_the_pool_are_shown(url, server_of, window, tmp_path):
    server = server_of(url)
    page = enter(window(), server, "ada")
    given = offline_answers(page, server, 3)
    gone = list(given)[1]
    server.change(gone)
    reopened(page, server)
    wait_for_saved(page, "1 refused")
    assert stored(url) == {item: label for item, label in given.items() if item != gone}
    page.reload()
    wait_for_saved(page, "1 refused")
    page.click("#refused-button")
    assert "1 answer waits for an item that is no longer in the pool" in page.inner_text("#refused-why")
    assert gone in page.inner_text("#refused-list")
    with page.expect_download() as download:
        page.click("#refused-save")
    download.value.save_as(tmp_path / "answers.jsonl")
    (line,) = (tmp_path / "answers.jsonl").read_text("utf-8").splitlines()
    kept = json.loads(line)
    assert (kept["id"], kept["label"], kept["who"]) == (gone, given[gone], "ada")
    page.click("#refused-form [value=discard]")
    wait_for_saved(page, "All saved")


def test_answers_under_an_old_mark_are_sent_and_those_of_another_project_are_not(url, server_of, window, tmp_path):
    """Browsers hold answers from before projects had names of their own; and of whatever was at this address."""
    server = server_of(url)
    page = enter(window(), server, "ada")
    given = offline_answers(page, server, 2)
    page.goto("about:blank")
    server.start()
    page.goto(f"{server.address}/static/mark.svg")  # the same origin, and no page that sends
    page.evaluate(
        """() => new Promise((resolve, reject) => {
          const opening = indexedDB.open("askwell", 1);
          opening.onsuccess = () => {
            const change = opening.result.transaction("outbox", "readwrite");
            const all = change.objectStore("outbox").getAll();
            all.onsuccess = () => {
              for (const entry of all.result) {
                entry.project = "803d5f6a12bc9e07";
                delete entry.body.rules;
                change.objectStore("outbox").put(entry);
              }
              const [first] = all.result;
              const body = { ...first.body, token: "theirs" };
              change.objectStore("outbox").put({ ...first, key: "another-project-1", body });
            };
            change.oncomplete = () => { opening.result.close(); resolve(); };
            change.onerror = () => reject(change.error);
          };
        })"""
    )
    signed_in(page, server)
    wait_for_saved(page, "1 of another project")
    assert stored(url) == given
    page.click("#refused-button")
    assert "another project" in page.inner_text("#refused-why")
    page.click("#refused-form [value=discard]")
    wait_for_saved(page, "All saved")
    assert len(labels_of(url)) == 2


def withdrawals(url):
    with open_store(url) as store:
        return [record.body["of"] for record in store.read("main") if record.kind == "withdrawal"]


@pytest.mark.parametrize("reload", [False, True])
def test_an_undo_whose_answer_is_lost_takes_back_one_label(url, server_of, window, reload):
    """Attack D10: the server had done it, the page did not hear, and U again took back another label."""
    server = server_of(url)
    page = enter(window(), server, "ada")
    items = []
    for key in "123":
        items.append(shown(page))
        press(page, key)
    wait_for_saved(page, "All saved")
    keys = []

    def lose(route):
        keys.append(route.request.post_data_json["key"])
        route.fetch()  # the server answers
        route.abort()  # and nobody hears it

    page.route("**/api/undo", lose)
    page.keyboard.press("u")
    page.wait_for_function("() => document.getElementById('note').textContent.includes('Press U to try again')")
    wait_for_saved(page, "Undo not confirmed yet")
    page.unroute("**/api/undo")
    if reload:
        page.reload()
        page.wait_for_selector("body[data-ready=yes]")
        assert "was not confirmed" in page.inner_text("#note")
    page.keyboard.press("u")
    page.wait_for_function("item => document.getElementById('item-id').textContent === item", arg=items[-1])
    wait_for_saved(page, "All saved")
    assert len(withdrawals(url)) == len(keys) == 1
    assert set(stored(url)) == set(items[:2])
    page.keyboard.press("u")  # another one
    page.wait_for_function("item => document.getElementById('item-id').textContent === item", arg=items[1])
    assert set(stored(url)) == set(items[:1])


def test_an_undo_that_was_not_answered_goes_before_what_is_answered_after_it(url, server_of, window):
    server = server_of(url)
    page = enter(window(), server, "ada")
    first = shown(page)
    press(page, "1")
    wait_for_saved(page, "All saved")
    page.route("**/api/undo", lambda route: route.abort())  # it never arrives
    page.keyboard.press("u")
    wait_for_saved(page, "Undo not confirmed yet")
    second = shown(page)
    press(page, "2")
    third = shown(page)
    page.unroute("**/api/undo")
    wait_for_saved(page, "All saved")
    assert stored(url) == {second: CLASSES[1]}
    assert shown(page) == third  # what is looked at stays
    press(page, "3")
    assert shown(page) == first  # and the item comes next
    wait_for_saved(page, "All saved")
    assert stored(url) == {second: CLASSES[1], third: CLASSES[2]}


def test_classes_that_change_their_names_while_answers_wait(url, server_of, window):
    """Attack D11: swapped names, and a name that was given to a new class."""
    server = server_of(url)
    page = enter(window(), server, "ada")
    given = offline_answers(page, server, 3)
    one, two, three = CLASSES
    with open_store(url) as store:
        session = Session(store, ITEMS.ids)
        session.set_rules("owner", renamed={one: two, two: one})
        session.set_rules("owner", renamed={three: "something else"})
        session.set_rules("owner", added=[three])
    server.start()
    wait_for_saved(page, "All saved")
    now = {one: two, two: one, three: "something else"}
    assert stored(url) == {item: now[label] for item, label in given.items()}


def test_an_answer_for_a_class_that_is_gone_is_asked_again(url, server_of, window):
    server = server_of(url)
    page = enter(window(), server, "ada")
    given = offline_answers(page, server, 3)
    with open_store(url) as store:
        session = Session(store, ITEMS.ids)
        session.set_rules("owner", removed=[CLASSES[2]])
        session.set_rules("owner", added=[CLASSES[2]])  # by that name, and not the same
    server.start()
    wait_for_saved(page, "1 refused")
    item = list(given)[2]
    page.click("#refused-button")
    assert "removed since" in page.inner_text("#refused-list")
    page.click("#refused-list button")
    page.wait_for_function("item => document.getElementById('item-id').textContent === item", arg=item)
    press(page, "1")
    wait_for_saved(page, "All saved")
    assert stored(url) == given | {item: CLASSES[0]}


# ---- one's own answers ----


def test_older_answers_are_listed_and_corrected_by_keyboard(url, server_of, window):
    server = server_of(url)
    page = enter(window(), server, "ada")
    items = []
    for key in "123":
        items.append(shown(page))
        press(page, key)
    wait_for_saved(page, "All saved")
    looked_at = shown(page)
    page.keyboard.press("l")
    page.wait_for_selector("#mine-list .answer")
    lines = page.locator("#mine-list .answer").all_inner_texts()
    assert [CLASSES[2 - n] in line for n, line in enumerate(lines)] == [True] * 3  # newest first
    page.wait_for_function("() => document.activeElement.matches('#mine-list .answer')")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function("item => document.getElementById('item-id').textContent === item", arg=items[0])
    assert page.get_attribute("#classes .was", "data-name") == CLASSES[0]
    press(page, "2")
    assert shown(page) == looked_at
    page.wait_for_function("() => document.getElementById('note').textContent.includes('replaces your earlier answer')")
    wait_for_saved(page, "All saved")
    assert stored(url) == dict(zip(items, (CLASSES[1], CLASSES[1], CLASSES[2]), strict=True))
    page.keyboard.press("l")
    page.wait_for_selector("#mine-list .answer")
    page.keyboard.press("Enter")
    page.wait_for_function("item => document.getElementById('item-id').textContent === item", arg=items[0])
    page.keyboard.press("Escape")  # not after all
    page.wait_for_function("item => document.getElementById('item-id').textContent === item", arg=looked_at)
    assert len(stored(url)) == 3


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 800}, {"width": 390, "height": 844}])
def test_labels_that_deserve_a_second_look_are_confirmed_or_corrected_by_keyboard(url, server_of, window, viewport):
    server = server_of(url)
    page = enter(window(viewport=viewport), server, "ada")
    items = []
    for key in "112":
        items.append(shown(page))
        press(page, key)
    wait_for_saved(page, "All saved")
    issues = [{"item": item, "label": "?", "probability": 0.01, "suggested": CLASSES[2]} for item in items[:2]]
    with open_store(url) as store:
        Session(store, ITEMS.ids).put_round({"round": 1, "labels": 3, "label_issues": issues})
    page.wait_for_selector("[data-open=mine]")
    assert "2 of your labels deserve one" in page.inner_text("[data-open=mine]")
    page.click("[data-open=mine]")
    page.wait_for_function("() => document.activeElement.matches('#mine-look-list .answer')")
    assert page.locator("#mine-look-list .answer").count() == 2
    assert CLASSES[2] not in page.inner_text("#mine-looks")
    box = page.locator("#mine").bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= viewport["height"]
    page.keyboard.press("Enter")
    page.wait_for_function("item => document.getElementById('item-id').textContent === item", arg=items[0])
    press(page, "1")  # it was right
    page.wait_for_function("() => document.getElementById('note').textContent.includes('as before')")
    page.keyboard.press("l")
    page.wait_for_function("() => document.querySelectorAll('#mine-look-list .answer').length === 1")
    page.keyboard.press("ArrowDown")  # on to one's own answers, and back
    page.wait_for_function("() => document.activeElement.matches('#mine-list .answer')")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_function("item => document.getElementById('item-id').textContent === item", arg=items[1])
    press(page, "3")
    wait_for_saved(page, "All saved")
    page.wait_for_selector("[data-open=mine]", state="detached")
    page.keyboard.press("l")
    page.wait_for_selector("#mine-list .answer")
    assert page.is_hidden("#mine-looks")
    assert stored(url) == dict(zip(items, (CLASSES[0], CLASSES[2], CLASSES[1]), strict=True))


def test_two_tabs_of_one_person(url, server_of, window):
    """Attack D15: the second answer to the item that both show says that it corrects the first."""
    server = server_of(url)
    page = enter(window(), server, "ada")
    other = page.context.new_page()
    other.goto(server.address)
    other.wait_for_selector("#item .text")
    item = shown(page)
    assert shown(other) == item
    press(page, "1")
    wait_for_saved(page, "All saved")
    press(other, "2")
    other.wait_for_function(
        "() => document.getElementById('note').textContent.includes('replaces your earlier answer')"
    )
    assert CLASSES[0] in other.inner_text("#note")
    wait_for_saved(other, "All saved")
    assert stored(url) == {item: CLASSES[1]}


# ---- a new model ----


def test_after_a_new_ranking_the_next_question_is_from_it(url, server_of, window):
    """Newcomer: four items from before the model were held ahead; only the one that is looked at stays."""
    server = server_of(url)
    page = enter(window(), server, "ada")
    looked_at = shown(page)
    with open_store(url) as store:
        session = Session(store, ITEMS.ids)
        held = {lease.item for lease in session.next("ada", size=4)}
        best = [item for item in ITEMS.ids if item not in held][:10]
        session.put_round({"round": 1, "labels": 0, "model": "linear"}, queue=[Candidate(item, 0.1) for item in best])
    page.wait_for_function("() => document.getElementById('round')?.value === '1'")
    page.wait_for_timeout(500)
    assert shown(page) == looked_at
    press(page, "1")
    assert shown(page) == best[0]
    press(page, "1")
    wait_for_saved(page, "All saved")
    with open_store(url) as store:  # and without waiting for the panel: the answer's receipt says it
        session = Session(store, ITEMS.ids)
        last = best[-1]
        session.put_round({"round": 2, "labels": 2, "model": "linear"}, queue=[Candidate(last, 0.1)])
    press(page, "1")
    wait_for_saved(page, "All saved")
    page.wait_for_timeout(300)
    press(page, "1")
    assert shown(page) == last
    with open_store(url) as store:
        assert len(Session(store, ITEMS.ids).next("ada", size=9)) == 4 + 5  # nothing else is held for her


# ---- long texts, rules ----


def test_a_long_text_says_that_there_is_more(url, server_of, window):
    server = server_of(url)
    page = enter(window(viewport={"width": 390, "height": 844}), server, "ada")
    page.evaluate("() => { document.querySelector('#item .text').textContent = 'A long story. '.repeat(400); }")
    page.wait_for_selector("#more:not([hidden])")
    page.set_viewport_size({"width": 1000, "height": 800})
    page.wait_for_selector("#more:not([hidden])")
    for _ in range(40):
        page.keyboard.press("PageDown")
    page.wait_for_selector("#more[hidden]", state="attached")
    page.reload()
    page.wait_for_selector("#item .text")
    assert page.is_hidden("#more")


def test_budget_and_labels_per_item_are_changed_on_the_page(url, server_of, window):
    server = server_of(url)
    page = enter(window(), server, "ada")
    page.keyboard.press("e")
    page.fill("#budget", "7")
    page.fill("#per-item", "2")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.getElementById('labels-now').textContent.includes('of 7')")
    page.click("#class-list [name=remove] >> nth=0")
    page.wait_for_function("() => document.querySelectorAll('#classes .class').length === 2")
    with open_store(url) as store:
        rules = Session(store, ITEMS.ids).rules
    assert (rules.budget, rules.labels_per_item, rules.classes) == (7, 2, CLASSES[1:])


def test_done_is_said_when_all_is_done(url, server_of, window):
    """It was said of the last labels of a budget too, while somebody else had them."""
    server = server_of(url)
    with open_store(url) as store:
        session = Session(store, ITEMS.ids)
        session.set_rules("start", budget=2)
        (task,) = session.next("bob")
        page = enter(window(), server, "ada")
        page.keyboard.press("1")
        page.wait_for_selector("#item .empty:has-text('with other people now')")
        assert page.inner_text("#item h2") == "Nothing for you right now"
        session.answer("bob", task.item, CLASSES[0], key="k" * 8, token=task.token)
    page.wait_for_selector("#item .empty:has-text('is used up')")
    assert page.inner_text("#item h2") == "Done"


def test_everything_by_keyboard(url, server_of, window):
    server = server_of(url)
    page = enter(window(reduced_motion="reduce", color_scheme="dark"), server, "ada")
    first = shown(page)
    page.keyboard.press("w")
    assert "not chosen by a model" in page.inner_text("#why")
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
        (answer,) = Session(store, ITEMS.ids).answers()
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
        Session(store, ITEMS.ids).set_rules("start", classes=[*_classes(store), *(f"class {n}" for n in range(40))])
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
    return Session(store, ITEMS.ids).rules.classes


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
