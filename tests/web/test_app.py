"""The app as a whole: the sign-in form, the page, and its two parts that change."""

import json
import re

import pytest

from askwell.web import create_app
from askwell.web.service import FRESH


def test_other_machines_need_a_token(session, mail):
    for hosts in (["0.0.0.0"], ["localhost", "lab.example"], ["*"]):
        with pytest.raises(ValueError, match="needs a token"):
            create_app(session, mail, title="Mail", hosts=hosts)
        assert create_app(session, mail, title="Mail", hosts=hosts, token="correct horse").title == "Mail"


def test_two_apps_do_not_share_people(session, mail, client_of):
    one, two = (create_app(session, mail, title="Mail") for _ in range(2))
    ada = client_of(one, who="ada")
    stranger = client_of(two)
    stranger.cookies.update(ada.cookies)
    assert ada.get("/api/rules").status_code == 200
    assert stranger.get("/api/rules").status_code == 401


def test_the_documentation_is_for_those_who_are_signed_in(app, ada, client_of):
    assert client_of(app).get("/api/openapi.json").status_code == 401
    paths = ada.get("/api/openapi.json").json()["paths"]
    assert {"200", "401", "403", "404", "409", "413", "422", "503"} <= set(paths["/api/answers"]["post"]["responses"])
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert ada.get(path).status_code == 404


def test_what_was_sent_is_not_sent_back(ada):
    response = ada.post("/api/sign-in", json={"name": "x" * 81, "token": "my secret"})
    assert response.status_code == 422
    assert "name" in response.json()["detail"]
    assert "my secret" not in response.text


TOKEN = "correct horse battery"


def test_the_door_and_the_page(app, client_of):
    client = client_of(app)
    door = client.get("/")
    assert door.status_code == 401
    assert 'name="name"' in door.text
    assert 'name="token"' not in door.text
    entered = client.post("/sign-in", data={"name": "ada"})
    assert entered.url.path == "/"
    assert 'data-who="ada"' in entered.text
    left = client.post("/sign-out")
    assert left.status_code == 401
    assert 'name="name"' in left.text


def test_the_door_asks_for_the_token(session, mail, client_of):
    client = client_of(create_app(session, mail, title="Mail", token=TOKEN))
    assert 'name="token"' in client.get("/").text
    wrong = client.post("/sign-in", data={"name": "ada", "token": "no"})
    assert wrong.status_code == 401
    assert "not the token" in wrong.text
    assert 'value="ada"' in wrong.text
    assert TOKEN not in wrong.text
    assert client.post("/sign-in", data={"name": "ada", "token": TOKEN}).status_code == 200
    assert client.post("/sign-in", data={"name": " "}).status_code == 422


def test_the_panel_is_sent_when_it_changed(ada, session, monkeypatch):
    first = ada.get("/panel")
    seen = re.search(r'name="seen" value="(\w+)"', first.text)[1]
    assert ada.get("/panel", params={"seen": seen}).status_code == 204
    estimate = {"metric": "accuracy", "how": "held-out", "value": 0.75, "low": 0.7, "high": 0.8}
    session.put_round({"round": 1, "labels": 20, "model": "forest", "estimate": estimate})
    monkeypatch.setattr("askwell.web.service.FRESH", -FRESH)
    changed = ada.get("/panel", params={"seen": seen})
    assert changed.status_code == 200
    assert "Accuracy, held-out" in changed.text
    assert "0.70 to 0.80" in changed.text
    curve = re.search(r'data-curve="([^"]*)"', changed.text)[1].replace("&#34;", '"')
    assert json.loads(curve) == {"metric": "accuracy", "points": [[20, 0.75, 0.7, 0.8]], "bound": False}
    about = {"of": "chosen", "how": "cross-validated", "about": "cross-validated on 20 chosen questions"}
    session.put_round({"round": 2, "labels": 20, "model": "forest", "estimate": estimate | about})
    text = ada.get("/panel").text
    assert "Accuracy, a lower bound" in text
    assert "Cross-validated on 20 chosen questions." in text


def test_agreement_and_people_are_shown(ada, session):
    for who, name in (("ada", "ham"), ("bob", "ham"), ("eve", "spam")):
        session.answer(who, "a", name, key=f"key-{who}")
    text = ada.get("/panel").text
    assert "of 1 item with several labels" in text
    assert all(who in text for who in ("ada", "bob", "eve"))


def test_classes_are_edited(ada, session):
    assert 'value="ham"' in ada.get("/classes").text
    assert 'value="eggs"' in ada.post("/classes", data={"new": "eggs"}).text
    assert 'value="good"' in ada.post("/classes", data={"old": "ham", "new": "good"}).text
    assert session.rules.classes == ("good", "spam", "eggs")
    wrong = ada.post("/classes", data={"old": "good", "new": "spam"})
    assert 'role="alert"' in wrong.text
    assert ada.post("/classes", data={"new": "x" * 101}).status_code == 422
    assert session.rules.classes == ("good", "spam", "eggs")


def test_unused_classes_are_removed_and_limits_are_changed(ada, session):
    ada.post("/classes", data={"new": "eggs"})
    session.answer("ada", "a", "ham", key="key-1")
    shown = ada.get("/classes").text
    assert 'name="remove" value="eggs"' in shown
    assert 'name="remove" value="ham"' not in shown  # a label uses it
    assert 'role="alert"' in ada.post("/classes", data={"remove": "ham"}).text
    assert 'value="eggs"' not in ada.post("/classes", data={"remove": "eggs", "old": "eggs", "new": "eggs"}).text
    assert session.rules.classes == ("ham", "spam")
    assert 'value="70"' in ada.post("/limits", data={"budget": "70", "labels_per_item": "2"}).text
    assert (session.rules.budget, session.rules.labels_per_item) == (70, 2)
    ada.post("/limits", data={"budget": "", "labels_per_item": "2"})
    assert session.rules.budget is None
    assert 'role="alert"' in ada.post("/limits", data={"budget": "0", "labels_per_item": "1"}).text
    assert ada.post("/limits", data={"budget": "many", "labels_per_item": "1"}).status_code == 422
    assert (session.rules.budget, session.rules.labels_per_item) == (None, 2)
