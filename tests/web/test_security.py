"""Hosts, origins, sizes, headers, sessions; and over all routes: nothing is open, and nothing changes by GET (R17)."""

import hashlib
import itertools
import json
import stat
import threading
import time
from collections import Counter

import pytest
from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.routing import Mount

from askwell.web import api, create_app
from askwell.web import app as html
from askwell.web.security import HEADERS, LARGEST_BODY, Sessions, Tries, check_hosts, refused

HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
TOKEN = "correct horse battery"


def ask(method="GET", **headers):
    named = {"host": "localhost:8000"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return refused(method, [(name.encode(), value.encode()) for name, value in named.items()], HOSTS)


# ---- hosts and origins ----


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000"])
def test_own_hosts_pass(host):
    assert ask(host=host) is None
    assert ask("POST", host=host, origin=f"http://{host}") is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "evil.example:8000", "localhost@evil.example", "localhost:x", "", "a/b",
     "127.0.0.1.evil.example", "localhost#.evil.example", "localhost?x", "[::1", "0.0.0.0"],
)  # fmt: skip
def test_foreign_hosts_are_refused(host):
    assert ask(host=host)


def test_two_hosts_are_none():
    assert refused("GET", [(b"host", b"localhost"), (b"host", b"localhost")], HOSTS)
    assert refused("GET", [], HOSTS)


@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", "http://localhost", "http://localhost:8001", "http://localhost:8000.evil", ""],
)
def test_foreign_origins_are_refused(origin):
    for method in ("GET", "POST"):
        assert ask(method, origin=origin)


def test_what_other_sites_make_a_browser_send_is_refused():
    assert ask("POST", sec_fetch_site="cross-site")
    assert ask("POST", sec_fetch_site="same-site")
    assert ask("POST", sec_fetch_site="same-origin") is None
    assert ask("GET", sec_fetch_site="cross-site") is None  # a link from elsewhere may lead here


def test_any_host_goes_with_a_token_only():
    assert check_hosts(["*"], TOKEN) == {"*"}
    assert refused("GET", [(b"host", b"lab.example:80")], frozenset({"*"})) is None
    for hosts in (["*"], ["0.0.0.0"], ["127.0.0.1", "192.168.0.7"]):
        with pytest.raises(ValueError, match="needs a token"):
            check_hosts(hosts, None)
    with pytest.raises(ValueError, match="hosts must be a list"):
        check_hosts("localhost", None)
    with pytest.raises(ValueError, match="at least 8"):
        check_hosts(["localhost"], "short")


def test_the_app_refuses_foreign_hosts(app, client_of):
    stranger = client_of(app, base="http://evil.example")
    for path in ("/", "/static/page.css", "/api/rules"):
        assert stranger.get(path).status_code == 403


# ---- sizes and headers ----


def test_large_bodies_are_refused_whatever_they_say_of_themselves(ada, store):
    before = len(store.read("main"))
    large = b"x" * (LARGEST_BODY + 1)
    assert ada.post("/api/answers", content=large).status_code == 413
    parts = itertools.repeat(b"x" * 1024, 1 + LARGEST_BODY // 1024)
    assert ada.post("/api/answers", content=parts).status_code == 413  # chunked: no length is given
    assert ada.post("/api/next", content=b"{}", headers={"content-length": "none"}).status_code == 413
    assert ada.post("/api/next", content=b"x" * LARGEST_BODY).status_code == 422  # read, and no JSON
    assert len(store.read("main")) == before


@pytest.mark.parametrize("path", ["/", "/panel", "/static/page.css", "/api/rules", "/api/picture?item=a", "/no/such"])
def test_every_response_has_the_headers(ada, client_of, app, path):
    for client in (ada, client_of(app)):
        response = client.get(path)
        for name, value in HEADERS:
            assert response.headers[name.decode()] == value.decode()
    assert "unsafe" not in response.headers["content-security-policy"]


# ---- sessions ----


def test_a_session_survives_a_restart_with_the_same_token_only(tmp_path):
    file = tmp_path / "new" / "sessions.json"
    cookie = Sessions(token=TOKEN, file=file).cookie("ada")
    assert Sessions(token=TOKEN, file=file).who(cookie) == "ada"
    assert Sessions(token=TOKEN + "!", file=file).who(cookie) is None
    assert Sessions(token=None, file=file).who(cookie) is None
    assert Sessions(token=None).who(Sessions(token=None).cookie("ada")) is None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in file.parent.iterdir()] == ["sessions.json"]


def test_a_cookie_of_one_project_is_none_of_another_with_the_same_token(tmp_path):
    one, two = (Sessions(token=TOKEN, file=tmp_path / f"{name}.json") for name in "ab")
    assert one.who(one.cookie("ada")) == "ada"
    assert two.who(one.cookie("ada")) is None
    assert Sessions(token=TOKEN).who(one.cookie("ada")) is None


def test_a_cookie_does_not_tell_the_token(tmp_path):
    """Who guesses tokens from a cookie needs the secret, and who has the secret needs the token."""
    cookie = Sessions(token=TOKEN, file=tmp_path / "a.json").cookie("ada")
    secret = bytes.fromhex(json.loads((tmp_path / "a.json").read_text())["secret"])
    for key in (hashlib.sha256(b"askwell" + TOKEN.encode()).digest(), TOKEN.encode(), secret):
        with pytest.raises(BadSignature):
            URLSafeTimedSerializer(key, salt="askwell.session").loads(cookie)


def test_signing_out_ends_the_session_everywhere_and_for_good(tmp_path):
    file = tmp_path / "sessions.json"
    here, elsewhere = (Sessions(token=TOKEN, file=file) for _ in range(2))
    cookie, other = here.cookie("ada"), here.cookie("ada")
    assert elsewhere.who(cookie) == "ada"
    here.end(cookie)
    assert here.who(cookie) is elsewhere.who(cookie) is Sessions(token=TOKEN, file=file).who(cookie) is None
    assert here.who(other) == "ada"  # another browser
    elsewhere.end(other)
    elsewhere.end("forged")
    assert here.who(other) is here.who(cookie) is None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_signing_out_by_the_page_ends_the_session(session, mail, client_of):
    app = create_app(session, mail, title="Mail", token=TOKEN)
    client = client_of(app)
    client.post("/api/sign-in", json={"name": "ada", "token": TOKEN})
    stolen = client.cookies["askwell-8765"]
    assert client.get("/api/rules").status_code == 200
    client.post("/sign-out")
    thief = client_of(app)
    assert thief.get("/api/rules", headers={"cookie": f"askwell-8765={stolen}"}).status_code == 401


@pytest.mark.parametrize("content", ["", "{}", '{"secret": "00", "ended": {}}', '{"secret": 3}', "[]"])
def test_a_file_of_sessions_that_says_nothing_is_made_anew(tmp_path, content):
    file = tmp_path / "sessions.json"
    file.write_text(content)
    cookie = Sessions(token=TOKEN, file=file).cookie("ada")
    assert Sessions(token=TOKEN, file=file).who(cookie) == "ada"


@pytest.mark.parametrize("days", [-1, 1, 29, -29])
def test_a_clock_that_was_set_signs_nobody_out(monkeypatch, days):
    sessions = Sessions(token=TOKEN)
    cookie, now = sessions.cookie("ada"), time.time()
    monkeypatch.setattr("askwell.web.security.time.time", lambda: now + days * 86_400)
    assert sessions.who(cookie) == "ada"


@pytest.mark.parametrize("cookie", [None, "", "x", "a.b.c", "é", "\ud800"])
def test_forged_cookies_are_nobody(cookie):
    assert Sessions(token=TOKEN).who(cookie) is None


def test_every_changed_letter_of_a_cookie_is_seen():
    sessions = Sessions(token=TOKEN)
    cookie = sessions.cookie("ada")
    for place, letter in enumerate(cookie):
        forged = cookie[:place] + ("A" if letter != "A" else "B") + cookie[place + 1 :]
        # The last letter of each base64 part has bits that say nothing.
        assert sessions.who(forged) in (None, "ada")
        if place + 1 < len(cookie) and cookie[place + 1] != ".":
            assert sessions.who(forged) is None, place


def test_old_cookies_are_nobody(monkeypatch):
    sessions = Sessions(token=TOKEN)
    cookie = sessions.cookie("ada")
    monkeypatch.setattr("askwell.web.security.SESSION", -1)
    assert sessions.who(cookie) is None


def test_the_cookie_is_kept_from_scripts_and_other_sites(app, client_of):
    response = client_of(app).post("/api/sign-in", json={"name": "ada"})
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "askwell-8765=" in cookie


def test_wrong_tokens_are_counted(session, mail, client_of):
    client = client_of(create_app(session, mail, title="Mail", token=TOKEN))
    wrong = [client.post("/api/sign-in", json={"name": "eve", "token": f"guess {n}"}) for n in range(12)]
    assert [response.status_code for response in wrong] == 10 * [401] + 2 * [429]
    assert int(wrong[-1].headers["retry-after"]) > 0
    assert client.post("/sign-in", data={"name": "eve", "token": "guess"}).status_code == 429


def test_tries_are_forgotten():
    now = [0.0]
    tries = Tries(most=2, seconds=60, clock=lambda: now[0])
    tries.failed("a")
    tries.failed("a")
    assert tries.wait("a") == 60
    assert tries.wait("b") == 0
    now[0] = 59.5
    assert tries.wait("a") == 1
    now[0] = 61.0
    assert tries.wait("a") == 0
    tries.failed("b")
    assert list(tries._failures) == ["b"]


# ---- every route (R17) ----


def operations(app):
    return [
        (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    ]  # fmt: skip


def test_openapi_knows_every_route(app):
    """Two routers, and the static files; nothing else answers."""
    mounts = [route for route in app.routes if isinstance(route, Mount)]
    assert [mount.path for mount in mounts] == ["/static"]
    routes = [route for room in (api, html) for route in room.router.routes]
    assert len(app.routes) - 1 in (2, len(routes))  # FastAPI 0.115 copies a router's routes, later ones keep the router
    served = {(method, route.path) for route in routes for method in route.methods}
    assert served == set(operations(app))
    assert len(served) > 15


def test_no_route_is_open(session, mail, client_of, store):
    app = create_app(session, mail, title="Secret mail", token=TOKEN)
    stranger, before = client_of(app), store.read("main")
    for method, path in operations(app):
        for body in ({"json": {}}, {"data": {"name": "eve", "new": "x"}}, {}):
            for cookie in ({}, {"askwell-8765": Sessions(token="another token").cookie("eve")}):
                response = stranger.request(
                    method, path, headers={"cookie": "; ".join(f"{n}={v}" for n, v in cookie.items())}, **body
                )
                assert response.status_code in (401, 422 if path.endswith("sign-in") else 401, 429), (method, path)
                assert "Win a prize" not in response.text
                assert "set-cookie" not in response.headers
    assert store.read("main") == before


def test_many_wrong_tokens_at_once_are_counted_and_nothing_breaks(session, mail, client_of):
    app, found = create_app(session, mail, title="Mail", token=TOKEN), Counter()
    tries, clients = app.state.service.tries, [client_of(app) for _ in range(16)]

    def work(number):
        for step in range(400):
            tries.failed(f"10.{number}.{step % 50}.{step}")
            tries.wait(f"10.{number}.0.{step}")
        for _ in range(4):
            found[clients[number].post("/api/sign-in", json={"name": "eve", "token": "wrong"}).status_code] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {*found} <= {401, 429}
    assert found[401] < 40  # most of 64 had to wait


def test_wrong_tokens_of_others_keep_nobody_out(session, mail, client_of):
    client = client_of(create_app(session, mail, title="Mail", token=TOKEN))
    statuses = [client.post("/api/sign-in", json={"name": "eve", "token": f"wrong {n}"}).status_code for n in range(14)]
    assert statuses == [401] * 10 + [429] * 4
    assert client.post("/api/sign-in", json={"name": "ada", "token": TOKEN}).status_code == 200


def test_nothing_changes_by_get(app, ada, store):
    ada.post("/api/next", json={"size": 2})
    before, known = store.read("main"), set(operations(app))
    for _, path in known:
        for reading in ("GET", "HEAD", "OPTIONS"):
            sent = {"item": "a", "name": "x", "new": "y", "size": 3, "key": "k" * 9}
            response = ada.request(reading, path, params=sent)
            answered = (reading, path) in known
            assert response.status_code == (405 if not answered else 404 if path == "/api/picture" else 200)
    assert store.read("main") == before
