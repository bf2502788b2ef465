"""The JSON routes on a real SQLite file; hostile paths (R14), generated requests (R10), a store that fails (R7)."""

import asyncio
import itertools
import os
import uuid

import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from PIL import Image
from schemathesis.specs.openapi.checks import negative_data_rejection

from askwell.data import Items, open_items
from askwell.session import Candidate, Session
from askwell.store import open_store
from askwell.web import api, create_app
from askwell.web.api import changed_rules

CASES = int(os.environ.get("ASKWELL_API_CASES", "44"))  # requests generated for each operation; a soak asks for more
SECRET = b"the secret beside the folder"


def key():
    return str(uuid.uuid4())


def label(client, item, name, **more):
    return client.post("/api/answers", json={"key": key(), "item": item, "label": name, **more})


# ---- labelling ----


def test_a_person_labels(ada, session):
    (task,) = ada.post("/api/next", json={}).json()["tasks"]
    assert task["card"]["text"]
    assert task["score"] is None
    answer = {"key": key(), "item": task["item"], "label": "ham", "token": task["token"], "seconds": 1.5}
    assert ada.post("/api/answers", json=answer).json()["kept"] == "counted"
    assert ada.post("/api/answers", json=answer).json()["kept"] == "again"  # sent twice, stored once
    assert {item: said.label for item, said in session.labels().items()} == {task["item"]: "ham"}
    (said,) = session.answers()
    assert (said.who, said.seconds) == ("ada", 1.5)
    assert ada.post("/api/answers", json=answer | {"label": "spam"}).status_code == 409  # the key is another answer's


def test_two_people_have_different_items_and_a_late_answer_is_kept(app, ada, client_of, session):
    bob = client_of(app, who="bob")
    hers, his = (client.post("/api/next", json={"size": 3}).json()["tasks"] for client in (ada, bob))
    assert not {task["item"] for task in hers} & {task["item"] for task in his}
    assert [task["token"] for task in ada.post("/api/next", json={"size": 3}).json()["tasks"]] == [
        task["token"] for task in hers
    ]
    tokens = [task["token"] for task in hers]
    assert ada.post("/api/renew", json={"tokens": [*tokens, "unknown"]}).json()["held"] == tokens
    assert bob.post("/api/renew", json={"tokens": tokens}).json()["held"] == []  # not his
    assert ada.post("/api/release", json={"tokens": tokens[1:]}).status_code == 204
    assert ada.post("/api/renew", json={"tokens": tokens}).json()["held"] == tokens[:1]
    assert label(bob, hers[0]["item"], "spam").json()["kept"] in ("counted", "extra", "late")
    assert label(ada, hers[0]["item"], "ham", token=tokens[0]).status_code == 200
    assert len(session.labels()[hers[0]["item"]].votes) == 2


def test_skip_and_undo(ada, session):
    (task,) = ada.post("/api/next", json={}).json()["tasks"]
    skip = {"key": key(), "item": task["item"], "reason": "unclear", "token": task["token"]}
    assert ada.post("/api/skips", json=skip).status_code == 200
    assert session.progress().people[0].skips == 1
    undone = ada.post("/api/undo", json={"key": key()}).json()
    assert undone["undone"] == {"item": task["item"], "kind": "skip", "label": None, "reason": "unclear"}
    assert undone["task"]["item"] == task["item"]
    label(ada, task["item"], "ham", token=undone["task"]["token"])
    sent = {"key": key()}
    first, again = (ada.post("/api/undo", json=sent).json() for _ in range(2))
    assert first == again  # the same request is the same withdrawal
    assert first["undone"]["label"] == "ham"
    assert not session.labels()
    assert ada.post("/api/undo", json={"key": key()}).json() == {"undone": None, "task": None}


def test_why_an_item_was_asked(ada, session, mail):
    session.put_queue(1, [Candidate("c", 0.25, (("a", 0.5), ("gone", 0.125)))])
    (task,) = ada.post("/api/next", json={}).json()["tasks"]
    assert (task["item"], task["score"]) == ("c", 0.25)
    assert task["why"] == [
        {"target": "a", "nats": 0.5, "text": "Win a prize now", "picture": None},
        {"target": "gone", "nats": 0.125, "text": "", "picture": None},
    ]


def test_the_budget_ends_it_in_words(ada, session):
    session.set_rules("start", budget=1)
    (task,) = ada.post("/api/next", json={}).json()["tasks"]
    label(ada, task["item"], "ham", token=task["token"])
    given = ada.post("/api/next", json={}).json()
    assert given["tasks"] == []
    assert "budget" in given["closed"]


def test_classes_are_added_and_renamed(ada, session):
    label(ada, "a", "ham")
    changed = ada.patch("/api/rules", json={"add": ["eggs"], "rename": [{"old": "ham", "new": "good"}]})
    assert changed.json()["classes"] == ["good", "spam", "eggs"]
    assert ada.get("/api/rules").json() == changed.json()
    assert session.labels()["a"].label == "good"
    assert label(ada, "b", "ham").status_code == 200  # it had waited in a browser since before
    assert session.labels()["b"].label == "good"
    assert label(ada, "c", "bacon").status_code == 409
    for old, new in (("good", "spam"), ("bacon", "x")):
        refused = ada.patch("/api/rules", json={"rename": [{"old": old, "new": new}]})
        assert refused.status_code == 409
        assert refused.json()["detail"]
    with pytest.raises(ValueError, match="at most 500"):
        changed_rules(session, "ada", {"added": [f"c{n}" for n in range(500)]})


def test_budget_labels_per_item_and_classes_are_changed(ada, session):
    label(ada, "a", "ham")
    changed = ada.patch("/api/rules", json={"budget": 80, "labels_per_item": 2}).json()
    assert (changed["budget"], changed["labels_per_item"], changed["most_labels"]) == (80, 2, 3)
    assert changed["classes"] == ["ham", "spam"]  # what is not named stays
    assert ada.patch("/api/rules", json={"budget": None}).json()["budget"] is None
    assert ada.patch("/api/rules", json={}).json() == ada.get("/api/rules").json()
    assert ada.patch("/api/rules", json={"add": ["eggs", "bacon"], "remove": ["spam"]}).json()["classes"] == [
        *("ham", "eggs", "bacon"),
    ]
    assert ada.patch("/api/rules", json={"classes": ["bacon", "ham"]}).json()["classes"] == ["bacon", "ham"]
    for wrong, status in (
        ({"remove": ["ham"]}, 409),  # it has a label
        ({"remove": ["nothing"]}, 409),
        ({"classes": ["bacon", "eggs"]}, 409),
        ({"budget": 0}, 422),
        ({"labels_per_item": None}, 422),
        ({"lease_seconds": 1}, 422),
    ):
        refused = ada.patch("/api/rules", json=wrong)
        assert (refused.status_code, bool(refused.json()["detail"])) == (status, True), wrong
    assert session.rules.classes == ("bacon", "ham")
    assert session.labels()["a"].label == "ham"


def test_an_answer_under_older_rules(ada, session):
    """Attack D11: swapped names, and a name that another class has by now."""
    seen = ada.get("/api/rules").json()["version"]
    swap = [{"old": "ham", "new": "spam"}, {"old": "spam", "new": "ham"}]
    version = ada.patch("/api/rules", json={"rename": swap}).json()["version"]
    assert version > seen
    assert label(ada, "a", "ham", rules=seen).status_code == 200
    assert session.labels()["a"].label == "spam"
    ada.patch("/api/rules", json={"rename": [{"old": "ham", "new": "good"}]})
    ada.patch("/api/rules", json={"add": ["ham", "eggs"]})
    label(ada, "b", "ham", rules=version)
    label(ada, "c", "ham", rules=ada.get("/api/rules").json()["version"])
    assert [session.labels()[item].label for item in "bc"] == ["good", "ham"]
    with_eggs = ada.get("/api/rules").json()["version"]
    ada.patch("/api/rules", json={"remove": ["eggs"]})
    refused = label(ada, "d", "eggs", rules=with_eggs)
    assert refused.status_code == 409
    assert "removed since" in refused.json()["detail"]


def test_a_second_answer_says_that_it_corrects_the_first(ada):
    assert label(ada, "a", "ham").json()["corrects"] is None
    assert label(ada, "a", "spam").json()["corrects"] == "ham"


def test_labels_that_deserve_a_second_look_are_ones_own_until_they_are_given_again(ada, app, client_of, session):
    issues = [{"item": item, "label": "ham", "probability": 0.01, "suggested": "spam"} for item in "abz"]
    for item in "abc":
        label(ada, item, "ham")
    session.put_round({"round": 1, "labels": 3, "label_issues": issues})
    found = ada.get("/api/second-look").json()
    assert [each["item"] for each in found["answers"]] == ["a", "b"]
    assert "spam" not in str(found)  # what the model would say is not told
    assert client_of(app, who="bob").get("/api/second-look").json()["answers"] == []
    assert "2 of your labels deserve one" in ada.get("/panel").text
    assert label(ada, "a", "ham", key="again-and-again").json()["corrects"] == "ham"
    assert [each["item"] for each in ada.get("/api/second-look").json()["answers"]] == ["b"]
    assert "1 of your labels deserves one" in ada.get("/panel").text
    label(ada, "b", "spam", key="not-ham-at-all")
    assert "deserve" not in ada.get("/panel").text


def test_progress(ada, session):
    label(ada, "a", "ham")
    session.put_round({"round": 1, "labels": 1, "model": "forest", "estimate": None})
    progress = ada.get("/api/progress").json()
    assert (progress["labels"], progress["budget"], progress["left"]) == (1, 50, 49)
    assert progress["classes"] == {"ham": 1, "spam": 0}
    assert progress["people"][0]["name"] == "ada"
    assert progress["rounds"][0]["model"] == "forest"
    assert progress["status"] == {}


def test_unknown_items_are_not_found(ada, store):
    before = store.read("main")
    assert label(ada, "z", "ham").status_code == 404
    assert ada.post("/api/skips", json={"key": key(), "item": "z", "reason": "x"}).status_code == 404
    assert store.read("main") == before


@pytest.mark.parametrize(
    "wrong",
    [{"key": "short"}, {"key": "../../etc/passwd"}, {"item": ""}, {"item": "x" * 501}, {"item": "a\0"}, {"item": 7},
     {"label": ""}, {"label": " ham"}, {"label": "x" * 101}, {"label": "a\nb"}, {"label": None}, {"label": ["ham"]},
     {"token": "x" * 201}, {"token": ""}, {"seconds": -1}, {"seconds": 1e9}, {"seconds": "1"}, {"more": 1}],
)  # fmt: skip
def test_bodies_are_checked(ada, store, wrong):
    before = store.read("main")
    good = {"key": key(), "item": "a", "label": "ham", "token": "t", "seconds": 1.0}
    response = ada.post("/api/answers", json=good | wrong)
    assert response.status_code == 422
    assert next(iter(wrong)) in response.json()["detail"]
    assert store.read("main") == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"key": NaN}',
        b'{"size": 1e999}',
        b'{"size": "\\ud800"}',
        b"[" * 50_000,
    ],
)
def test_what_is_no_json_is_refused(ada, body):
    response = ada.post("/api/next", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)
    assert isinstance(response.json()["detail"], str)


# ---- a store that fails (R7) ----


def test_nothing_is_acknowledged_when_the_store_fails(tmp_path, mail, client_of):
    path = tmp_path / "labels.db"
    with open_store(f"sqlite:///{path}") as store:
        session = Session(store, mail.ids)
        session.set_rules("start", classes=["ham", "spam"])
        ada = client_of(create_app(session, mail, title="Mail"), who="ada")
        sent = {"key": key(), "item": "a", "label": "ham"}
        path.rename(tmp_path / "elsewhere.db")
        response = ada.post("/api/answers", json=sent)
        assert response.status_code == 503
        assert "Nothing was stored" in response.json()["detail"]
        assert int(response.headers["retry-after"]) > 0
        assert ada.post("/api/next", json={}).status_code == 503
        (tmp_path / "elsewhere.db").rename(path)
        assert ada.post("/api/answers", json=sent).json()["kept"] == "counted"  # the same request, later
    with open_store(f"sqlite:///{path}") as store:
        assert [record.key for record in store.read("main") if record.kind == "label"] == [sent["key"]]


def test_a_closed_store_is_said_on_every_route(app, ada, store):
    store.close()
    for path in ("/api/rules", "/api/progress", "/classes"):
        response = ada.get(path)
        assert response.status_code == 503
        assert "closed" in response.json()["detail"]


# ---- pictures and paths (R14) ----


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    (folder / "deep").mkdir(parents=True)
    for place, name in enumerate(["a.png", "deep/b.png", "swapped.png"]):
        Image.fromarray(np.full((4, 4, 3), 40 * place, np.uint8)).save(folder / name)
    (tmp_path / "secret.png").write_bytes(SECRET)
    (folder / "notes.txt").write_bytes(SECRET)
    return folder


@pytest.fixture
def gallery(pictures, store, client_of):
    items = open_items(pictures)
    session = Session(store, items.ids)
    session.set_rules("start", classes=["dark", "light"])
    return client_of(create_app(session, items, title="Pictures", targets=items), who="ada")


def test_a_picture_of_a_huge_file_is_refused_in_words(pictures, store, client_of):
    with (pictures / "a.png").open("r+b") as file:  # a small picture, and a long nothing behind it
        file.truncate(1_500_000_000)
    items = open_items(pictures)
    assert "a.png" not in items
    assert "more than 50 million bytes" in str(items.left_out)


def test_a_picture_that_grew_is_sent_no_more(gallery, pictures):
    with (pictures / "a.png").open("r+b") as file:
        file.truncate(1_500_000_000)
    assert gallery.get("/api/picture", params={"item": "a.png"}).status_code == 404
    cards = [task["card"] for task in gallery.post("/api/next", json={"size": 20}).json()["tasks"]]
    assert [card for card in cards if "more than 50 million bytes" in card.get("why", "")]


def test_pictures_are_sent_in_pieces(gallery, pictures):
    with (pictures / "a.png").open("r+b") as file:
        file.truncate(40_000_000)
    response = gallery.get("/api/picture", params={"item": "a.png"})
    assert response.headers["content-length"] == "40000000"
    assert response.content == (pictures / "a.png").read_bytes()
    pieces = [len(piece) for piece in api._chunks((pictures / "a.png").open("rb"), 200_000)]
    assert pieces == [api.CHUNK] * 3 + [200_000 - 3 * api.CHUNK]


def test_pictures_by_item(gallery, pictures):
    for item in ("a.png", "deep/b.png"):
        response = gallery.get("/api/picture", params={"item": item})
        assert response.headers["content-type"] == "image/png"
        assert response.content == (pictures / item).read_bytes()
    assert gallery.get("/api/picture", params={"item": "a.png", "of": "targets"}).status_code == 200
    assert gallery.get("/api/picture", params={"item": "a.png", "of": "else"}).status_code == 422
    (task, *_) = gallery.post("/api/next", json={"size": 3}).json()["tasks"]
    assert gallery.get(task["card"]["source"]).status_code == 200


def test_a_picture_that_becomes_a_link_out_is_not_served(gallery, pictures):
    (pictures / "swapped.png").unlink()
    (pictures / "swapped.png").symlink_to(pictures.parent / "secret.png")
    assert gallery.get("/api/picture", params={"item": "swapped.png"}).status_code == 404
    cards = [task["card"] for task in gallery.post("/api/next", json={"size": 3}).json()["tasks"]]
    assert sorted(card["kind"] for card in cards) == ["broken", "picture", "picture"]


def test_a_picture_that_becomes_svg_is_not_served(gallery, pictures):
    (pictures / "a.png").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    assert gallery.get("/api/picture", params={"item": "a.png"}).status_code == 404


UPS = ["..", "%2e%2e", "..%00", "%252e%252e", "..\\", "..%5c", "....//..", "%c0%ae%c0%ae", "..;", ".", "~", "a.png/.."]
ENDS = ["secret.png", "etc/passwd", "secret.png%00.png", "notes.txt", "labels.db", "../secret.png"]
STARTS = ["", "/", "//", "file://", "\\\\server\\share\\", "C:\\", "/static/", "/static/vendor/", "/api/", "deep/"]


def hostile_paths():
    for start, up, end, times in itertools.product(STARTS, UPS, ENDS, (1, 2, 4)):
        for join in ("/", "\\", "%2f"):
            yield start + join.join([*[up] * times, end])


async def raw(app, path, cookie):
    """One request whose path nobody tidies up on the way."""
    body = []
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode("utf-8", "replace"), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"localhost:8765"), (b"cookie", cookie)],
        "client": ("127.0.0.1", 1), "server": ("localhost", 8765),
    }  # fmt: skip

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        body.append(message)

    await app(scope, receive, send)
    return body[0]["status"], b"".join(message.get("body", b"") for message in body[1:])


def test_hostile_paths_lead_nowhere(gallery, pictures):
    paths = list(hostile_paths())[::3]
    assert len(paths) > 2000
    cookie = "; ".join(f"{name}={value}" for name, value in gallery.cookies.items()).encode()

    async def all_of_them():
        return [await raw(gallery.app, path, cookie) for path in paths]

    for path, (status, body) in zip(paths, asyncio.run(all_of_them()), strict=True):
        assert status in (200, 404, 405), path
        assert SECRET not in body
        assert b"root:" not in body
    for path in paths[::10]:
        response = gallery.get("/api/picture", params={"item": path})
        assert response.status_code in (404, 422)
        assert SECRET not in response.content


@given(item=st.text(max_size=60))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_no_picture(gallery, item):
    response = gallery.get("/api/picture", params={"item": item})
    assert response.status_code in (404, 422) or item in ("a.png", "deep/b.png", "swapped.png")


# ---- generated requests (R10) ----


@pytest.fixture
def documented(tmp_path, client_of):
    """The app by its own documentation; its items are single letters, so that some requests find one."""
    items = Items("letters", "text", tuple("xyzabc0123456789"), [f"text {n}" for n in range(16)])
    with open_store(f"sqlite:///{tmp_path}/generated.db") as store:
        session = Session(store, items.ids)
        session.set_rules("start", classes=["0", "1"])
        app = create_app(session, items, title="Letters", targets=items)
        ada = client_of(app, who="ada")
        yield schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=headers_of(ada)), headers_of(ada)


def headers_of(client):
    return {"host": "localhost:8765", "cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items())}


def test_every_answer_is_documented(documented):
    """No 5xx, no status and no body that the documentation does not have, for good requests and bad ones."""
    schema, headers = documented
    sent = []
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 15
    for operation, mode in itertools.product(operations, schemathesis.GenerationMode):

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=CASES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        def requests(case):
            response = case.call(headers=headers)
            # A bad request that is too large is refused as that, which Schemathesis does not count among refusals.
            excluded = [negative_data_rejection] if response.status_code == 413 else []
            case.validate_response(response, headers=headers, excluded_checks=excluded)
            sent.append(response.status_code)

        try:
            requests()
        except Unsatisfiable:  # an operation without parameters has no bad request
            assert mode.is_negative
    assert len(sent) >= 20 * CASES
    assert {200, 204, 303, 404, 409, 422} <= set(sent)  # good ones and bad ones
