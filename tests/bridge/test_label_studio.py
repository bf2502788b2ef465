"""Against a real Label Studio server: people there are HTTP clients that do what its page does."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from bridge_lives import mail
from studio import TOKENS

from askwell.bridge import Bridge, LabelStudio, RefusedError, UnreachableError
from askwell.bridge.documents import StudioTask
from askwell.bridge.label_studio import HOLD, SAMPLING, SyncReport, warnings_about
from askwell.bridge.records import BridgeLog
from askwell.data import open_items
from askwell.project.init import init_project
from askwell.project.project import open_project
from askwell.session import Candidate, Session
from askwell.store import open_store

pytestmark = pytest.mark.label_studio
PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"
)


class Death(BaseException):
    """The bridge dies here."""


class Project:
    """A project, its bridge, and the people in Label Studio."""

    def __init__(self, server, items, folder, **options):
        self.server, self.items, self.options = server, items, {"title": "mail", "settle_seconds": 3} | options
        self.store_url = f"sqlite:///{folder / 'labels.db'}"
        self.client = LabelStudio(server.url, TOKENS["ada"], tries=2)
        self.open()
        self.session.set_rules("boss", classes=["ham", "spam"])
        self.ada, self.bob = server.person("ada"), server.person("bob")

    def open(self):
        self.store = open_store(self.store_url)
        self.session = Session(self.store, self.items.ids)

    def end(self):
        """As if the process had ended, and its turn with it."""
        BridgeLog(self.store, "main").end_turn()
        self.store.close()

    def close(self):
        self.store.close()
        self.client.close()

    def bridge(self, **options):
        return Bridge(self.client, self.session, self.items, self.store, **self.options | options)

    def pushed(self, **options):
        bridge = self.bridge(**options)
        self.id = bridge.once().project
        return bridge

    def tasks(self):
        """item -> ids of its tasks in Label Studio."""
        found = {}
        for task in self.client.tasks(self.id):
            found.setdefault(task["data"]["pool_id"], []).append(task["id"])
        return found

    def task(self, item):
        (id,) = self.tasks()[item]
        return id

    def answers(self):
        return {(said.item, said.who): said.label for said in self.session.answers() if said.who != "label-studio"}


@pytest.fixture
def project(label_studio_server, tmp_path):
    project = Project(label_studio_server, mail(40), tmp_path, size=6)
    yield project
    project.close()


def label_in_turn(project, people, label="ham"):
    """Each person takes the next task of the stream and labels it; the items in order."""
    items = []
    for person in people:
        task = person.next(project.id)
        person.label(task["id"], label)
        items.append(task["data"]["pool_id"])
    return items


# ---- there and back ------------------------------------------------------------------------------------------------


def test_two_people_label_and_their_labels_come_back(project):
    bridge = project.pushed()
    held = [task.item for task in project.session.next("label-studio", size=6)]
    assert [*project.tasks()] == held
    ada, bob = project.ada, project.bob
    assert label_in_turn(project, [ada, bob, ada]) == held[:3]  # the order of the session, exactly
    ada.skip(project.task(held[3]))
    passed = bridge.once()
    assert (passed.labels, passed.skips, passed.added, passed.warnings) == (3, 1, 4, ())
    assert project.answers() == {
        (held[0], "ada@example.com"): "ham",
        (held[1], "bob@example.com"): "ham",
        (held[2], "ada@example.com"): "ham",
        (held[3], "ada@example.com"): None,
    }
    assert {said.seconds for said in project.session.answers(who="bob@example.com")} == {2.5}
    assert bridge.once().is_quiet
    assert len(project.session.answers()) == 4
    task = bob.next(project.id)  # what ada skipped is still for others
    assert task["data"]["pool_id"] == held[3]
    assert not {*project.tasks()} & {
        task.item for task in project.session.next("page", size=40)
    }  # nobody is asked twice


def test_corrections_duplicates_and_deletions(project):
    bridge = project.pushed()
    one, two, three = [*project.tasks()][:3]
    ada, bob = project.ada, project.bob
    first = ada.label(project.task(one), "ham")
    ada.label(project.task(one), "ham")  # a double click
    bob.label(project.task(two), "ham")
    kept = ada.label(project.task(three), "ham")
    last = ada.label(project.task(three), "spam")
    assert bridge.once().labels == 3
    assert project.answers() == {
        (one, "ada@example.com"): "ham", (two, "bob@example.com"): "ham", (three, "ada@example.com"): "spam",
    }  # fmt: skip
    result = [{"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": ["spam"]}}]
    ada.ask("PATCH", f"/api/annotations/{first['id']}/", json={"result": result})
    for annotation in bob.ask("GET", f"/api/tasks/{project.task(two)}/annotations/"):
        bob.ask("DELETE", f"/api/annotations/{annotation['id']}/")
    ada.ask("DELETE", f"/api/annotations/{last['id']}/")
    passed = bridge.once()
    assert (passed.labels, passed.withdrawn) == (2, 1)
    assert project.answers() == {(one, "ada@example.com"): "spam", (three, "ada@example.com"): "ham"}
    assert kept["id"] != last["id"]
    ada.ask("DELETE", f"/api/tasks/{project.task(three)}/")  # cleaning up: the label stays
    assert bridge.once().withdrawn == 0
    assert (three, "ada@example.com") in project.answers()


def test_a_new_round_changes_the_order_exactly(project):
    bridge = project.pushed()
    before = [*project.tasks()]
    label_in_turn(project, [project.ada])
    bridge.once()
    order = sorted(set(project.items.ids) - {before[0]}, key=lambda item: (item[-1], item))
    order = [before[5], before[2], *[item for item in order if item not in before], before[3]]
    project.session.put_queue(1, [Candidate(item, 1 / (2 + place)) for place, item in enumerate(order)])
    passed = bridge.once()
    assert (passed.rescored, passed.added, passed.open) == (2, 4, 6)
    assert label_in_turn(project, [project.ada, project.bob, project.ada, project.ada, project.bob]) == order[:5]
    bridge.once()
    assert label_in_turn(project, [project.bob, project.ada, project.ada]) == order[5:8]
    stale = {before[1], before[4]}  # given back: the page may ask
    page = project.session.next("page", size=40)
    assert stale <= {task.item for task in page}
    project.session.release("page", [task.token for task in page])
    project.session.put_queue(2, [Candidate(item, 1.0) for item in reversed(order)])
    bridge.once()
    assert label_in_turn(project, [project.ada, project.bob]) == [before[3], order[-2]]


def test_labels_per_item_are_those_of_the_project(project):
    project.session.set_rules("boss", labels_per_item=2)
    bridge = project.pushed()
    label_in_turn(project, [project.ada])
    bridge.once()
    first = project.bob.next(project.id)  # Label Studio finishes first what somebody began
    project.bob.label(first["id"], "spam")
    assert bridge.once().labels == 1
    assert len({item for item, _ in project.answers()}) == 1


def test_where_people_disagree_the_other_page_asks_once_more(project):
    project.session.set_rules("boss", labels_per_item=2, most_labels=3)
    bridge = project.pushed()
    item = next(iter(project.tasks()))
    project.ada.label(project.task(item), "ham")
    project.bob.label(project.task(item), "spam")
    passed = bridge.once()
    assert (passed.labels, passed.open) == (2, 6)
    assert item in {task.item for task in project.session.next("cyd", size=40)}
    assert bridge.once().is_quiet


def test_skipped_tasks_take_no_place(project):
    bridge = project.pushed()
    for task in [*project.tasks().values()]:
        project.ada.skip(task[0])
    assert bridge.once().added == 6
    assert project.ada.next(project.id) is not None
    label_in_turn(project, [project.bob] * 7)  # bob gets them all
    passed = bridge.once()
    assert passed.labels == 7
    assert passed.open == 6 + len(
        {item for item, who in project.answers() if (item, "bob@example.com") not in project.answers()}
    )


def test_classes_are_added_and_renamed(project):
    bridge = project.pushed()
    (first, second, third, *_) = project.tasks()
    project.ada.label(project.task(first), "ham")
    bridge.once()
    project.session.set_rules("boss", renamed={"ham": "good"})
    project.session.set_rules("boss", classes=["good", "spam", "eggs"])
    bridge.once()
    project.ada.label(project.task(second), "eggs")
    project.ada.label(project.task(third), "ham")  # as its page keeps on saying
    bridge.once()
    assert [*project.answers().values()] == ["good", "eggs", "good"]
    config = project.ada.ask("GET", f"/api/projects/{project.id}/")["label_config"]
    project.ada.ask(
        "PATCH", f"/api/projects/{project.id}/",
        json={"label_config": config.replace("</Choices>", '<Choice value="own"/></Choices>')},
    )  # fmt: skip
    fourth = [*project.tasks()][3]
    project.ada.label(project.task(fourth), "own")
    passed = bridge.once()
    assert passed.labels == 0
    assert passed.warnings[0].startswith("'own' is no class of this project")
    project.session.set_rules("boss", classes=["good", "spam", "eggs", "own"])
    assert bridge.once().labels == 1


def test_pictures_and_rows(label_studio_server, tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "rows").mkdir()
    for name in ("a.png", "b b.png"):
        (tmp_path / "pictures" / name).write_bytes(PIXEL)
    pictures = Project(label_studio_server, open_items(tmp_path / "pictures"), tmp_path / "pictures", size=2)
    pictures.pushed()
    task = pictures.ada.next(pictures.id)
    answer = pictures.ada.http.get(task["data"]["image"])
    assert (answer.content, answer.headers["content-type"]) == (PIXEL, "image/png")
    pictures.ada.label(task["id"], "ham", shown="image")
    (tmp_path / "rows" / "rows.csv").write_text("id,size,town\nx,1,Oslo\ny,2,Rome\n", "utf-8")
    rows = Project(label_studio_server, open_items(tmp_path / "rows" / "rows.csv", id="id"), tmp_path / "rows", size=2)
    rows.pushed()
    task = rows.ada.next(rows.id)
    assert task["data"]["table"] in ({"size": "1", "town": "Oslo"}, {"size": "2", "town": "Rome"})
    rows.ada.label(task["id"], "spam", shown="table")
    for each in (pictures, rows):
        assert each.bridge().once().labels == 1
        each.close()


def test_a_picture_that_vanished_is_told_and_not_asked_again(label_studio_server, tmp_path):
    (tmp_path / "pictures").mkdir()
    for name in ("a.png", "b.png"):
        (tmp_path / "pictures" / name).write_bytes(PIXEL)
    project = Project(label_studio_server, open_items(tmp_path / "pictures"), tmp_path, size=2)
    (tmp_path / "pictures" / "a.png").unlink()
    bridge = project.bridge()
    passed = bridge.once()
    assert passed.added == 1
    assert passed.warnings[0].startswith("'a.png' cannot be shown")
    assert bridge.once().warnings == ()
    project.close()


# ---- the project there ---------------------------------------------------------------------------------------------


def test_the_project_is_found_again_by_its_mark(project, monkeypatch):
    monkeypatch.setattr(BridgeLog, "saw_project", lambda *_: (_ for _ in ()).throw(Death))
    with pytest.raises(Death):
        project.bridge().once()
    monkeypatch.undo()
    mark = BridgeLog(project.store, "main").mark()
    project.pushed()
    assert [found["id"] for found in project.client.projects() if mark in found["description"]] == [project.id]


def test_a_deleted_project_is_an_error_and_no_loss(project):
    bridge = project.pushed()
    label_in_turn(project, [project.ada, project.bob])
    bridge.once()
    project.ada.ask("DELETE", f"/api/projects/{project.id}/")
    with pytest.raises(RefusedError, match=f"it was number {project.id} .* --new begins another"):
        bridge.once()
    assert len(project.answers()) == 2
    project.pushed(new=True)
    assert len(project.tasks()) == 6
    assert not {item for item, _ in project.answers()} & {*project.tasks()}


def test_a_project_that_is_there_already_is_used(project):
    mine = project.ada.ask(
        "POST", "/api/projects/",
        json={
            "title": "my own", "sampling": "Uniform sampling",
            "label_config": '<View><Text name="t" value="$text"/>'
            '<Choices name="c" toName="t"><Choice value="ham"/></Choices></View>',
        },
    )  # fmt: skip
    mine = mine["id"]
    project.ada.ask("POST", f"/api/projects/{mine}/import", json=[{"data": {"text": "x", "pool_id": "mail 3"}}])
    bridge = project.bridge(project=mine)
    passed = bridge.once()
    project.id = mine
    assert passed.project == mine
    assert "Uniform sampling" in passed.warnings[0]
    project.bob.ask(
        "POST", f"/api/tasks/{project.task('mail 3')}/annotations/",
        json={"result": [{"from_name": "c", "to_name": "t", "type": "choices", "value": {"choices": ["spam"]}}]},
    )  # fmt: skip
    assert bridge.once().labels == 1
    assert project.answers() == {("mail 3", "bob@example.com"): "spam"}


def test_a_wrong_token_and_a_personal_one(project):
    with LabelStudio(project.server.url, "0" * 40) as client, pytest.raises(RefusedError, match="does not know this"):
        client.whoami()
    with LabelStudio(project.server.url, project.ada.ask("POST", "/api/token/")["token"]) as client:
        assert client.whoami()["email"] == "ada@example.com"
        assert Bridge(client, project.session, project.items, project.store, title="own", size=2).once().added == 2


# ---- the order that people get -------------------------------------------------------------------------------------


def test_an_order_that_label_studio_makes_random_is_noticed(project):
    project.options["size"] = 30
    bridge = project.pushed()
    assert bridge.once().warnings == ()
    project.server.django(
        "from projects.models import Project\n"
        "from users.models import User\n"
        f"project = Project.objects.get(id={project.id})\n"
        "for user in User.objects.all():\n"
        "    project.add_collaborator(user)\n"
    )
    label_in_turn(project, [project.ada] * 12)
    (warning,) = bridge.once().warnings
    assert "several project members" in warning


def test_a_task_that_is_deleted_while_it_is_used_stops_nothing(project, monkeypatch):
    bridge = project.pushed()
    items = [*project.tasks()]
    project.session.put_queue(1, [Candidate(item, 0.1) for item in items])
    send = LabelStudio.add_predictions

    def too_late(client, id, predictions):
        if (gone := predictions[0]["task"]) == first:
            project.ada.ask("DELETE", f"/api/tasks/{gone}/")
        send(client, id, predictions)

    first = project.task(items[0])
    monkeypatch.setattr(LabelStudio, "add_predictions", too_late)
    assert bridge.once().added == 1  # what was deleted is asked again
    assert project.task(items[0]) != first


def test_a_version_that_somebody_changed_is_put_back(project):
    bridge = project.pushed()
    project.ada.ask("PATCH", f"/api/projects/{project.id}/", json={"show_collab_predictions": False})
    assert project.ada.ask("GET", f"/api/projects/{project.id}/")["model_version"] == ""
    bridge.once()
    assert project.ada.ask("GET", f"/api/projects/{project.id}/")["model_version"] == bridge.ranking.version


# ---- deaths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before the request", "after the request", "before the project"])
def test_a_bridge_that_dies_while_it_sends_sends_nothing_twice(project, monkeypatch, moment):
    def die(*_, **__):
        raise Death

    if moment == "before the project":
        monkeypatch.setattr(LabelStudio, "make_project", die)
    elif moment == "before the request":
        monkeypatch.setattr(LabelStudio, "add_tasks", die)
    else:
        monkeypatch.setattr(BridgeLog, "end", die)
    with pytest.raises(Death):
        project.bridge().once()
    monkeypatch.undo()
    project.end()
    project.open()
    project.pushed()
    assert [len(ids) for ids in project.tasks().values()] == [1] * 6
    assert project.pushed().once().warnings == ()


def test_a_request_that_is_still_under_way_is_waited_for(project, monkeypatch):
    """The bridge dies, but its request arrives: a second bridge has begun meanwhile."""
    project.pushed()
    label_in_turn(project, [project.ada])
    late = []
    monkeypatch.setattr(
        LabelStudio, "add_tasks", lambda client, *sent: late.append(sent) or (_ for _ in ()).throw(Death)
    )
    with pytest.raises(Death):
        project.bridge().once()
    monkeypatch.undo()
    arriving = threading.Timer(1.0, lambda: project.client.add_tasks(*late[0]))
    arriving.start()
    project.bridge(settle_seconds=20).once()
    arriving.join()
    assert [len(ids) for ids in project.tasks().values()] == [1] * 7


def test_killed_at_any_moment_nothing_is_lost_and_nothing_twice(label_studio_server, tmp_path):
    project = Project(label_studio_server, mail(60), tmp_path, size=6)
    project.pushed()
    project.end()  # now it is the others' turn
    folder = Path(__file__).parent
    lives = subprocess.Popen(
        [
            *(sys.executable, folder / "bridge_lives.py", project.server.url, TOKENS["ada"], project.store_url),
            *("12", "7", "60"),
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(folder)},
    )  # fmt: skip
    said, done = {}, threading.Event()

    def label(person, wanted):
        count = 0
        while count < wanted and not done.is_set():
            task = person.next(project.id)
            if task is None:
                done.wait(0.1)
                continue
            label = "ham" if len(task["data"]["pool_id"]) % 2 else "spam"
            person.label(task["id"], label)
            said[task["data"]["pool_id"], person.name] = label  # acknowledged
            count += 1

    people = [threading.Thread(target=label, args=(person, 15)) for person in (project.ada, project.bob)]
    for thread in people:
        thread.start()
    for thread in people:
        thread.join(240)
    done.set()
    killed, _ = lives.communicate("end\n", timeout=120)
    assert lives.returncode == 0
    assert int(killed) >= 12
    project.open()
    bridge = project.bridge()
    bridge.once()
    assert len(said) == 30
    assert project.answers() == said
    assert {item: len(ids) for item, ids in project.tasks().items() if len(ids) > 1} == {}
    keys = [record.key for record in project.store.read("main") if record.kind == "label"]
    assert len(keys) == len(set(keys)) == 30
    project.close()


def test_label_studio_is_killed_and_comes_back(project):
    bridge = project.pushed()
    label_in_turn(project, [project.ada, project.bob])
    project.server.stop()
    with pytest.raises(UnreachableError, match="Is Label Studio running there"):
        bridge.once()
    heard, stop = [], threading.Event()
    running = threading.Thread(target=bridge.run, args=(0.1,), kwargs={"say": heard.append, "stop": stop})
    running.start()
    try:
        project.server.start()
        for _ in range(100):
            if len(project.answers()) == 2:
                break
            stop.wait(0.1)
    finally:
        stop.set()
        running.join()
    assert len(project.answers()) == 2
    assert sum("does not answer" in text for text in heard) == 1  # said once, not at every try
    assert any(text.startswith("2 labels") for text in heard)


def test_items_stay_with_label_studio_while_the_bridge_is_away(project):
    now = [1_800_000_000.0]
    project.session = Session(project.store, project.items.ids, clock=lambda: now[0])
    bridge = project.pushed(clock=lambda: now[0])
    asked = {*project.tasks()}
    records = len(project.store.read("main"))
    for _ in range(10):
        now[0] += 60
        bridge.once()
    assert len(project.store.read("main")) == records  # no records while nothing happens
    now[0] += HOLD - 700
    assert not asked & {task.item for task in project.session.next("page", size=40)}
    now[0] += HOLD
    assert asked <= {task.item for task in project.session.next("page", size=40)}
    bridge.once()
    assert all(len(ids) == 1 for ids in project.tasks().values())


def test_the_budget_is_kept(project):
    project.session.set_rules("boss", budget=3)
    bridge = project.pushed()
    assert len(project.tasks()) == 3
    label_in_turn(project, [project.ada, project.bob, project.ada])
    passed = bridge.once()
    assert passed.warnings == ("The budget of 3 labels is used up.",)
    assert project.ada.next(project.id) is None


def test_sizes_are_checked(project):
    with pytest.raises(ValueError, match="size must be a whole number from 1"):
        project.bridge(size=0)


# ---- the command ---------------------------------------------------------------------------------------------------


def test_the_command_from_a_file_of_texts_to_a_trained_model_and_back(label_studio_server, tmp_path):
    """Everything together: a new project, the command with training, a person, kill -9, and one last pass."""
    words = {"ham": "minutes of the meeting on budget", "spam": "win a prize with this offer"}
    rows = [(f"m{n}", kind, f"{words[kind]} number {n}") for n in range(60) for kind in [("ham", "spam")[n % 2]]]
    table = "".join(f"{key},{text}\n" for key, _, text in rows)
    (tmp_path / "mail.csv").write_text(f"key,text\n{table}", "utf-8")
    folder = tmp_path / "mail"
    init_project(
        folder, pool=tmp_path / "mail.csv", classes=["ham", "spam"], id="key", show="text", retrain_every=4
    ).close()
    program = [sys.executable, "-c", "from askwell.cli.serve import bridge; bridge()", "label-studio", folder]
    options = ["--url", label_studio_server.url, "--size", "5"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listening = f"127.0.0.1:{free.getsockname()[1]}"
    environment = os.environ | {"LABEL_STUDIO_API_KEY": TOKENS["ada"], "PYTHONUNBUFFERED": "1"}
    ada, truth, said = label_studio_server.person("ada"), {key: kind for key, kind, _ in rows}, {}
    command = subprocess.Popen(
        [*program, *options, "--every", "0.3s", "--title", "by command", "--listen", listening],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        id = waited(
            lambda: [p["id"] for p in ada.ask("GET", "/api/projects/")["results"] if p["title"] == "by command"]
        )
        for number in range(12):
            task = waited(lambda: ada.next(id[0]))
            item = task["data"]["pool_id"]
            ada.label(task["id"], truth[item])
            said[item] = truth[item]
            if number == 7:  # a round of the model, and its order there
                waited(lambda: not is_first_order(ada, id[0]))
        (hook,) = ada.ask("GET", "/api/webhooks/", params={"project": id[0]})
        assert httpx.get(hook["url"].replace("/webhook", "/health"), trust_env=False).json()["status"] == "UP"
        assert httpx.get(f"http://{listening}/health", trust_env=False).status_code == 404
    finally:
        command.kill()
        heard, _ = command.communicate()
    assert TOKENS["ada"] not in heard
    assert "came in" in heard
    task = ada.next(id[0])
    ada.label(task["id"], "ham")
    said[task["data"]["pool_id"]] = "ham"
    last = subprocess.run([*program, *options, "--once"], env=environment, capture_output=True, text=True, check=False)
    assert last.returncode == 0, last.stderr
    assert f"/projects/{id[0]}: " in last.stdout
    with open_project(folder) as project:
        labels = project.session().labels()
        assert {item: found.label for item, found in labels.items()} == said
        assert any(record.kind == "round" for record in project.store().read("main"))


def is_first_order(person, project):
    return person.ask("GET", f"/api/projects/{project}/")["model_version"] in ("", "askwell-0-0")


def waited(ask):
    """What is asked for, as soon as there is something."""
    for _ in range(1800):
        if found := ask():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen within three minutes")


def test_a_pass_in_words():
    assert (
        str(SyncReport(labels=1, added=1, open=1)) == "1 label and 0 skips came in; 1 question was added, 1 are open."
    )
    assert str(SyncReport(labels=2, withdrawn=3, rescored=4, open=5)) == (
        "2 labels and 0 skips came in, 3 taken back; 0 questions were added, 4 put in a new order, 5 are open."
    )


def test_a_pass_is_quiet_if_nothing_happened():
    assert SyncReport(open=20, warnings=("odd",)).is_quiet
    assert not any(SyncReport(**{name: 1}).is_quiet for name in ("labels", "skips", "withdrawn", "added", "rescored"))


def test_another_order_is_noticed():
    (warning,) = warnings_about({"sampling": "Sequential sampling"}, [])
    assert "'Sequential sampling'" in warning
    assert warnings_about({"sampling": SAMPLING}, []) == []


def test_items_that_are_there_twice_are_noticed():
    tasks = [StudioTask(n, item, "", (), {}, {}) for n, item in enumerate("abca")]
    (warning,) = warnings_about({"sampling": SAMPLING}, tasks)
    assert warning == "1 items are there more than once ('a': tasks 0, 3). Delete all but one."
