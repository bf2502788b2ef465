"""The app as a whole."""

import pytest

from askwell.web import create_app


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
