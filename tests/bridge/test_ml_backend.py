import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from bridge_lives import mail
from studio import TOKENS

from askwell.bridge import Bridge, LabelStudio
from askwell.bridge.documents import label_config
from askwell.bridge.ml_backend import Debounced, ml_backend_app
from askwell.session import Candidate, Session
from askwell.store import open_store

CONFIG = label_config("text", ["ham", "spam"])


class Client:
    """Calls an app in this process."""

    def __init__(self, app):
        self.transport = httpx.ASGITransport(app)

    def request(self, method, path, **options):
        async def answer():
            async with httpx.AsyncClient(transport=self.transport, base_url="http://askwell") as client:
                return await client.request(method, path, **options)

        with ThreadPoolExecutor(1) as thread:  # in this one a browser of other tests may have its loop
            return thread.submit(lambda: asyncio.run(answer())).result()

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, **options):
        return self.request("POST", path, **options)


@pytest.fixture
def project():
    store = open_store(None)
    session = Session(store, ["a", "b", "c"])
    session.set_rules("ada", classes=["ham", "spam"])
    return session, store


def tasks(*items):
    return {"tasks": [{"id": n, "data": {"pool_id": item}} for n, item in enumerate(items)], "label_config": CONFIG}


def test_the_four_routes_and_no_other(project):
    app = ml_backend_app(*project)
    client = Client(app)
    assert client.get("/health").json() == {"status": "UP", "model_class": "askwell"}
    assert client.post("/setup", json={"project": "1.2", "access_token": "x"}).json() == {
        "model_version": "askwell-0-0"
    }
    assert client.post("/webhook", json={"action": "PROJECT_UPDATED"}).status_code == 201
    assert client.post("/predict", json=tasks()).json() == {"results": [], "model_version": "askwell-0-0"}
    assert client.get("/docs").status_code == client.get("/openapi.json").status_code == 404


def test_scores_are_those_of_the_last_queue(project):
    session, _ = project
    client = Client(ml_backend_app(*project))
    session.put_queue(1, [Candidate("b", 0.4), Candidate("a", 0.1)])
    first = client.post("/predict", json=tasks("a", "b", "c")).json()
    assert [found["score"] for found in first["results"]] == [0.5, 0.0, 3.0]
    assert all(found["result"] == [] for found in first["results"])
    session.put_queue(2, [Candidate("a", 0.4), Candidate("c", 0.1)])
    second = client.post("/predict", json=tasks("a", "b", "c")).json()
    assert [found["score"] for found in second["results"]] == [0.0, 2.0, 0.5]
    assert second["model_version"] != first["model_version"]
    assert {found["model_version"] for found in second["results"]} == {second["model_version"]}


def test_labels_come_from_the_one_who_predicts(project):
    asked = []

    def predict(items):
        asked.append(list(items))
        return [{"a": "spam", "b": None, "c": "no class"}[item] for item in items]

    client = Client(ml_backend_app(*project, predict=predict))
    sent = tasks("a", "b", "c", "a")
    sent["tasks"].append({"id": 9, "data": {"text": "from elsewhere"}})
    found = client.post("/predict", json=sent).json()["results"]
    choice = [{"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": ["spam"]}}]
    assert [each["result"] for each in found] == [choice, [], [], choice, []]
    assert asked == [["a", "b", "c"]]


def test_a_configuration_without_choices_is_refused_in_words(project):
    client = Client(ml_backend_app(*project, predict=lambda items: ["ham"] * len(items)))
    answer = client.post("/predict", json=tasks("a") | {"label_config": "<View/>"})
    assert answer.status_code == 422
    assert "must have one <Choices" in answer.json()["detail"]


@pytest.mark.parametrize("sent", [[], {"tasks": 3}, {"tasks": ["x"]}, "x"])
def test_nonsense_is_refused(project, sent):
    assert Client(ml_backend_app(*project)).post("/predict", json=sent).status_code == 422


def test_a_token_hides_all_routes(project):
    client = Client(ml_backend_app(*project, token="s3cret"))
    for method, path in (("GET", "health"), ("POST", "setup"), ("POST", "predict"), ("POST", "webhook")):
        assert client.request(method, f"/{path}", json={}).status_code == 404
        assert client.request(method, f"/guess/{path}", json=tasks()).status_code == 404
        assert client.request(method, f"/s3cret/{path}", json=tasks()).status_code in (200, 201)


def test_many_hints_are_one(project):
    called, calls = threading.Event(), []

    def hint():
        calls.append(1)
        called.set()

    client = Client(ml_backend_app(*project, hint=hint, pause=0.2))
    for action in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "START_TRAINING", "TASKS_CREATED"):
        assert client.post("/webhook", json={"action": action, "annotation": {"id": 1}}).status_code == 201
    assert called.wait(10)
    assert calls == [1]


def test_a_hint_during_the_call_is_for_another_call():
    begun, go, calls = threading.Event(), threading.Event(), threading.Semaphore(0)

    def call():
        begun.set()
        go.wait(10)
        calls.release()

    hint = Debounced(call, pause=0.01)
    hint()
    assert begun.wait(10)
    hint()
    go.set()
    assert calls.acquire(timeout=10)
    assert calls.acquire(timeout=10)


# ---- a real Label Studio -------------------------------------------------------------------------------------------


@contextmanager
def served(app):
    """The app on a free port; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.label_studio
def test_label_studio_connects_asks_for_predictions_and_gives_hints(label_studio_server, project):
    session, store = project
    session.put_queue(4, [Candidate("c", 0.4), Candidate("a", 0.2), Candidate("b", 0.1)])
    hints = threading.Semaphore(0)
    app = ml_backend_app(
        session, store, predict=lambda items: ["spam"] * len(items), hint=hints.release, pause=0.05, token="s3cret"
    )
    ada = label_studio_server.person("ada")
    body = {"title": "by backend", "label_config": CONFIG, "sampling": "Uncertainty sampling"}
    id = ada.ask("POST", "/api/projects/", json=body)["id"]
    ada.ask("POST", f"/api/projects/{id}/import", json=[{"data": {"text": i, "pool_id": i}} for i in "abc"])
    with served(app) as address:
        wrong = ada.http.post("/api/ml/", json={"url": address, "project": id, "title": "no token"})
        assert wrong.status_code == 400
        backend = ada.ask("POST", "/api/ml/", json={"url": f"{address}/s3cret", "project": id, "title": "askwell"})
        every = {"selectedItems": {"all": True, "excluded": []}, "project": id}
        ada.ask("POST", f"/api/dm/actions/?id=retrieve_tasks_predictions&project={id}", json=every)
        found = ada.ask("GET", "/api/tasks/", params={"project": id, "fields": "all"})["tasks"]
        scores = {task["data"]["pool_id"]: task["predictions"][0]["score"] for task in found}
        assert scores == {"c": 0.0, "a": pytest.approx(1 / 3), "b": pytest.approx(2 / 3)}
        (part,) = found[0]["predictions"][0]["result"]
        assert part["value"] == {"choices": ["spam"]}
        version = found[0]["predictions"][0]["model_version"]
        assert version.startswith("askwell-4-")
        ada.ask("PATCH", f"/api/projects/{id}/", json={"model_version": version})
        asked = []
        for _ in range(3):
            task = ada.next(id)
            asked.append(task["data"]["pool_id"])
            ada.label(task["id"], "ham")
            assert hints.acquire(timeout=20)
        assert asked == ["c", "a", "b"]
        while hints.acquire(timeout=0.5):  # of the last annotation
            pass
        ada.ask("POST", f"/api/ml/{backend['id']}/train", json={})
        assert hints.acquire(timeout=20)


@pytest.mark.label_studio
def test_a_webhook_wakes_the_bridge(label_studio_server):
    items, store = mail(5), open_store(None)
    session = Session(store, items.ids)
    session.set_rules("boss", classes=["ham", "spam"])
    wake, stop = threading.Event(), threading.Event()
    ada = label_studio_server.person("ada")
    with (
        served(ml_backend_app(session, store, hint=wake.set, pause=0.05, token="s3cret")) as address,
        LabelStudio(label_studio_server.url, TOKENS["ada"]) as client,
    ):
        bridge = Bridge(client, session, items, store, title="woken", size=2, hints=f"{address}/s3cret/webhook")
        id = bridge.once().project
        bridge.once()
        assert len(client.webhooks(id)) == 1
        running = threading.Thread(target=bridge.run, args=(3600,), kwargs={"say": print, "stop": stop, "wake": wake})
        running.start()
        try:
            stop.wait(1.0)
            ada.label(ada.next(id)["id"], "ham")
            for _ in range(200):
                if session.labels():
                    break
                stop.wait(0.1)
        finally:
            stop.set()
            wake.set()
            running.join()
    assert len(session.labels()) == 1
