"""A stand-in answers here, for faults that a real server shows too seldom; all else is tested against a real one."""

import json
import logging

import httpx
import pytest

from askwell.bridge.client import LabelStudio, RefusedError, UnreachableError

TOKEN = "0123456789abcdef0123456789abcdef01234567"
URL = "http://127.0.0.1:8080"


class StandIn:
    """Answers with what it was given, one after the other, the last one for ever; remembers what was asked."""

    def __init__(self, *answers):
        self.answers, self.asked, self.slept = list(answers), [], []

    def __call__(self, request):
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, token=TOKEN, **options):
        return LabelStudio(URL, token, transport=httpx.MockTransport(self), sleep=self.slept.append, **options)


def answer(status, content=None, **options):
    return httpx.Response(status, json={} if content is None else content, **options)


def test_who_is_asking():
    server = StandIn(answer(200, {"id": 1, "email": "ada@example.com"}))
    assert server.client().whoami()["email"] == "ada@example.com"
    assert server.asked[0].headers["authorization"] == f"Token {TOKEN}"
    assert server.asked[0].url == f"{URL}/api/current-user/whoami"


@pytest.mark.parametrize("fault", [answer(500), answer(503), httpx.ReadTimeout("late"), httpx.ConnectError("refused")])
def test_what_may_be_sent_twice_is(fault):
    server = StandIn(fault, fault, answer(200, {"id": 7}))
    assert server.client().project(7) == {"id": 7}
    assert len(server.asked) == 3
    assert server.slept == [0.5, 1.0]


@pytest.mark.parametrize("fault", [answer(500), httpx.ReadTimeout("late"), httpx.RemoteProtocolError("cut")])
def test_what_may_not_be_sent_twice_is_not(fault):
    server = StandIn(fault, answer(201))
    with pytest.raises(UnreachableError):
        server.client().add_tasks(7, [{"data": {}}])
    assert len(server.asked) == 1


@pytest.mark.parametrize("fault", [httpx.ConnectError("refused"), httpx.ConnectTimeout("late"), answer(429)])
def test_what_never_arrived_may_be_sent_again(fault):
    server = StandIn(fault, answer(201))
    server.client().add_tasks(7, [{"data": {"pool_id": "a"}}])
    assert json.loads(server.asked[-1].content) == [{"data": {"pool_id": "a"}}]
    assert len(server.asked) == 2


def test_patience_ends():
    server = StandIn(httpx.ConnectError("refused"))
    with pytest.raises(
        UnreachableError, match=r"127\.0\.0\.1:8080 does not answer .*refused.* Is Label Studio running"
    ):
        server.client(tries=3).whoami()
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (answer(401, {"detail": "Invalid token."}), "does not know this token"),
        (answer(403, {"detail": "You shall not"}), "does not allow this user .*You shall not"),
        (httpx.Response(302, headers={"location": "/user/login/"}), "points to /user/login/"),
        (httpx.Response(200, text="<html>Welcome to nginx</html>"), "does not answer .* as Label Studio does"),
        (answer(200, ["a list"]), "does not answer .* as Label Studio does"),
        (answer(400, {"validation_errors": {"title": ["too short"]}}), r"refused .*\(400\).*too short"),
    ],
)
def test_refusals_say_what_to_do_and_are_not_tried_again(given, said):
    server = StandIn(given)
    with pytest.raises(RefusedError, match=said):
        server.client().whoami()
    assert len(server.asked) == 1


def test_a_project_that_is_gone_is_none():
    assert StandIn(answer(404, {"detail": "Not found."})).client().project(7) is None


def test_lists_are_read_page_by_page():
    pages = [
        answer(200, {"total": 250, "tasks": [{"id": n} for n in range(s, min(s + 100, 250))]}) for s in (0, 100, 200)
    ]
    server = StandIn(*pages)
    assert [task["id"] for task in server.client().tasks(3)] == list(range(250))
    assert [request.url.params["page"] for request in server.asked] == ["1", "2", "3"]


def test_a_personal_token_is_exchanged_and_renewed():
    personal = "eyJhbGciOi.eyJ0b2tlbl90.c2lnbmF0dXJl"
    server = StandIn(
        answer(200, {"access": "first"}), answer(200, {"id": 1}),
        answer(401), answer(200, {"access": "second"}), answer(200, {"id": 2}),
    )  # fmt: skip
    client = server.client(personal)
    assert client.whoami() == {"id": 1}
    assert client.whoami() == {"id": 2}
    assert [request.headers.get("authorization") for request in server.asked] == [
        None, "Bearer first", "Bearer first", None, "Bearer second",
    ]  # fmt: skip
    assert json.loads(server.asked[0].content) == {"refresh": personal}


def test_a_personal_token_that_is_unknown():
    server = StandIn(answer(401, {"detail": "Token is invalid"}))
    with pytest.raises(RefusedError, match="does not know this token"):
        server.client("a.b.c").whoami()


@pytest.mark.parametrize("token", ["", "  ", "two words", "tökén"])
def test_what_is_no_token(token):
    with pytest.raises(RefusedError, match="LABEL_STUDIO_API_KEY"):
        LabelStudio(URL, token)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://a", "http://", "http://ada:secret@host", "http://a/?x=1"])
def test_what_is_no_address(url):
    with pytest.raises(RefusedError, match="url must be the address of Label Studio"):
        LabelStudio(url, TOKEN)


def test_the_token_is_nowhere_to_be_read(caplog):
    caplog.set_level(logging.DEBUG)
    server = StandIn(answer(401, {"detail": "Invalid token."}))
    client = server.client()
    with pytest.raises(RefusedError) as refusal:
        client.whoami()
    server.answers = [httpx.ConnectError("refused")]
    with pytest.raises(UnreachableError) as fault:
        client.whoami()
    assert TOKEN not in f"{refusal.value}{fault.value}{client!r}{caplog.text}"
