"""The commands of a labelling project, as a user meets them."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import malformed
import pytest
from click.testing import CliRunner
from mails import write_mails

from askwell.cli import main
from askwell.project import open_project

INIT = ("p", "--pool", "pool.csv", "--classes", "ham,spam", "--show", "text", "--id", "key")


def run(command, *words):
    return CliRunner().invoke(main, ["import" if command == "bring" else command, *(str(word) for word in words)])


def fine(command, *words):
    found = run(command, *words)
    assert found.exit_code == 0, found.output
    return found.output


def refused(command, *words):
    """The one message of a refusal."""
    found = run(command, *words)
    assert found.exit_code == 2, found.output
    assert isinstance(found.exception, SystemExit)
    assert "Traceback" not in found.output
    (line,) = [line for line in found.output.splitlines() if line.startswith("Error: ")]
    return line


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_mails(tmp_path / "traffic.csv", 20, seed=1, truth=False)
    return tmp_path


@pytest.fixture
def truth(place):
    return write_mails(place / "pool.csv", 80)


@pytest.fixture
def project(place, truth):
    fine("init", *INIT, "--targets", "traffic.csv")
    return truth


# ---- init ----


def test_init_says_what_it_found_and_what_to_do(place, truth):
    found = fine("init", *INIT, "--targets", "traffic.csv", "--budget", 30, "--batch", 5, "--retrain-every", 5)
    assert "pool: pool.csv, 80 items (text), showing text\ntargets: traffic.csv, 20 items\n" in found
    assert "classes: ham, spam\nmodel: linear; acquisition function: auto; batch size: 5\n" in found
    assert found.endswith("Next: askwell serve p\n")
    text = (place / "p" / "askwell.toml").read_text()
    assert 'pool = "../pool.csv" ' in text
    assert "budget = 30 " in text
    assert "retrain_every = 5 " in text


def test_all_options_arrive(place, truth):
    (place / "card.html").write_text("{{ text }}")
    options = {
        "class-prior": "ham=0.75,spam=0.25", "features": "text", "model": "forest", "score": "bald", "held-out": 0.1,
        "labels-per-item": 2, "seed": 3, "run": "mails", "store": "sqlite:///other.db", "label": "truth",
        "template": "card.html", "delimiter": ",", "encoding": "utf-8", "kind": "text",
    }  # fmt: skip
    fine("init", *INIT, *(word for name, value in options.items() for word in (f"--{name}", value)))
    from askwell.project import open_project

    with open_project("p") as project:
        wanted = project.settings
        assert wanted.class_prior == {"ham": 0.75, "spam": 0.25}
        assert (wanted.features, wanted.model, wanted.score) == (("text",), "forest", "bald")
        assert (wanted.held_out, wanted.labels_per_item, wanted.seed, wanted.run) == (0.1, 2, 3, "mails")
        assert (wanted.label, wanted.template, wanted.kind) == ("truth", "card.html", "text")
        assert project.template() == (place / "p" / "card.html").read_text() == "{{ text }}"
        assert (place / "p" / "other.db").exists()
        assert len(project.session().labels()) == 80


def test_costs_of_errors_are_kept_and_choose_the_questions(place, truth):
    """By the names that classes have now; also after a change by hand."""
    from askwell.project import open_project

    found = fine("init", *INIT, "--label", "truth", "--class-weights", "spam=50")
    assert "class weights: ham 1, spam 50\n" in found
    file = place / "p" / "askwell.toml"
    assert "[class_weights]  # cost of a wrong prediction, per class; default: 1\n" in file.read_text()
    fine("rules", "p", "--rename", "spam=junk")
    with open_project("p") as project:
        project.session()
        assert project.class_weights() == {"junk": 50.0}
    file.write_text(file.read_text().replace('"spam" = 50.0', '"spam" = 2'))
    with open_project("p") as project:
        project.session()
        assert project.class_weights() == {"junk": 2.0}


@pytest.mark.parametrize(("words", "said"), [
    (("--pool", "pol.csv"), "there is no file"),
    (("--classes", "ham"), "classes must be two or more names"),
    (("--show", "txt"), "Did you mean 'text'?"),
    (("--id", "text2"), "no column 'text2'"),
    (("--model", "wood"), "model must be one of"),
    (("--class-prior", "ham:0.9"), "--class-prior must be like ham=0.9,spam=0.1, but it is 'ham:0.9'"),
    (("--class-prior", "ham=0.9"), "sum to one"),
    (("--class-weights", "spam:9"), "--class-weights must be like spam=1,fraud=50, but it is 'spam:9'"),
    (("--class-weights", "spam=1,spam=2"), "--class-weights must name each class once"),
    (("--class-weights", "fraud=50"), "--class-weights must be for the classes ham, spam, but 'fraud' is none"),
    (("--class-weights", "spam=-1"), "--class-weights must be numbers from 0, but that of 'spam' is -1.0"),
    (("--class-weights", "spam=nan"), "numbers from 0"),
    (("--class-weights", "spam=0,ham=0"), "must not all be 0"),
    (("--class-weights", "spam=9", "--score", "bald"), "a score that heeds them"),
    (("--store", "mysql://x"), "store must be one of"),
    (("--store", "sqlite:///no/where.db"), "there is no folder"),
    (("--encoding", "klingon"), "encoding must be"),
    (("--targets", "wrong.csv"), "wrong.csv:3: this is not utf-8 text (byte 0xe9). Try --encoding 'cp1252'"),
])  # fmt: skip
def test_init_refuses_plainly_and_leaves_nothing(place, truth, words, said):
    (place / "wrong.csv").write_bytes(b"key,text\na,fine\nb,caf\xe9\n")
    before = sorted(place.rglob("*"))
    assert said in refused("init", *INIT, *words)
    assert sorted(place.rglob("*")) == before


def test_malformed_pools_are_taken_or_refused_without_a_traceback(place):
    """R11, through the front door."""
    outcomes = set()
    for turn, (_, case) in enumerate(malformed.cases(len(malformed.MAKERS), seed=1)):
        (place / case.name).write_bytes(case.data)
        words = ("--id", case.id) if case.id else ()
        found = run(
            "init", f"p{turn}", "--pool", case.name, "--classes", "a,b", "--show", "text", "--kind", "text", *words
        )
        outcomes.add(found.exit_code)
        assert found.exit_code in (0, 2), found.output
        assert found.exit_code == 0 or isinstance(found.exception, SystemExit)
        assert (place / f"p{turn}").exists() == (found.exit_code == 0)
        assert found.exit_code == 0 or case.name in found.output
    assert outcomes == {0, 2}


# ---- ask and tell ----


def asked(*words):
    return [json.loads(line) for line in fine("ask", "p", "--json", *words).splitlines() if line.startswith("{")]


def test_ask_tell_ask(project, place):
    first = asked("--size", 6, "--who", "ada")
    assert len({each["item"] for each in first}) == 6
    assert first[0]["shown"]["text"]
    again = asked("--size", 6, "--who", "ada", "--no-train")
    assert [each["token"] for each in again] == [each["token"] for each in first], "they are held"
    other = asked("--size", 6, "--who", "bob", "--no-train")
    assert not {each["item"] for each in other} & {each["item"] for each in first}
    item = first[0]["item"]
    assert fine("tell", "p", item, project[item], "--who", "ada") == "Saved 1 label.\n"
    assert fine("tell", "p", item, project[item], "--who", "ada") == "Saved 0 labels; 1 already known.\n"
    rows = "".join(f"{each['item']},{project[each['item']]}\n" for each in first)
    (place / "answers.csv").write_text(f"id,label\n{rows}")
    assert fine("tell", "p", "--from", "answers.csv", "--who", "ada") == "Saved 5 labels; 1 already known.\n"
    assert not {each["item"] for each in asked("--size", 6, "--who", "ada", "--no-train")} & {
        each["item"] for each in first
    }


def test_before_the_first_label_there_is_nothing_to_train(project):
    assert run("ask", "p").output.startswith("Choosing the first questions")


def test_the_model_is_trained_when_it_is_time(project, place):
    rows = "".join(f"{item},{label}\n" for item, label in list(project.items())[:12])
    (place / "answers.csv").write_text(f"id,label\n{rows}")
    fine("tell", "p", "--from", "answers.csv")
    found = run("ask", "p", "--size", 2)
    assert "Training the model" in found.output
    table = [line.split() for line in found.stdout.splitlines()]  # on the other stream something may be compiling
    assert table[0] == ["item", "score", "shown"]
    assert len(table) == 3
    assert float(table[1][1]) > 0
    assert "Training the model" not in run("ask", "p").output
    status = fine("status", "p")
    assert "12 of 80 items labelled" in status
    assert "Trained on 12 labels in round 1 (linear)" in status
    figures = json.loads(fine("status", "p", "--json"))
    assert (figures["labelled"], figures["rounds"][0]["labels"]) == (12, 12)


def test_the_pool_is_scored_where_it_is_said(project, place):
    rows = "".join(f"{item},{label}\n" for item, label in list(project.items())[:12])
    (place / "answers.csv").write_text(f"id,label\n{rows}")
    fine("tell", "p", "--from", "answers.csv")
    shutil.copytree("p", "q")
    tables = [
        [line for line in run("ask", folder, "--size", 5, "--engine", engine).output.splitlines() if "..." not in line]
        for folder, engine in (("p", "serial"), ("q", "local:2"))
    ]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 6
    assert "engine must be" in refused("ask", "p", "--engine", "cluster")


def test_wrong_answers_store_nothing(project, place):
    item = next(iter(project))
    assert "label must be one of ham, spam, but it is 'hum'" in refused("tell", "p", item, "hum")
    assert "there is no item 'zzz'" in refused("tell", "p", "zzz", "ham")
    for words in ((), (item,), (item, "ham", "--from", "a.csv")):
        assert "tell needs ITEM and LABEL, or --from FILE" in refused("tell", "p", *words)
    for text, said in (
        (f"id,label\n{item},ham\nm1,hum\n", "a.csv:3: label must be one of"),
        (f"id,label\n{item},ham\nzzz,ham\n", "a.csv:3: there is no item 'zzz'"),
        (f"id,label\n{item},ham\n{item},spam\n", "a.csv:3: ids must all be different"),
        (f"item,label\n{item},ham\n", "a.csv has no column 'id'"),
        ("id,label\nm1,\n", "a.csv:2: the column 'label' has no value here"),
    ):
        (place / "a.csv").write_text(text)
        assert said in refused("tell", "p", "--from", "a.csv")
    assert "0 of 80 items labelled" in fine("status", "p")


def test_what_is_shown_cannot_steer_the_terminal(place):
    (place / "pool.jsonl").write_text(json.dumps({"text": "hello \x1b[31mred\x1b]0;title\x07 \x9b1m\u202e end"}) + "\n")
    fine("init", "p", "--pool", "pool.jsonl", "--classes", "a,b", "--show", "text", "--kind", "text")
    found = fine("ask", "p", "--no-train")
    assert "hello" in found
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*found}


def test_the_end_is_said(project):
    fine("init", "q", *INIT[1:], "--budget", 1)
    fine("tell", "q", "m0", "ham")
    found = run("ask", "q", "--no-train")
    assert found.exit_code == 0
    assert "No questions: " in found.output


# ---- export and import ----


def test_export_and_import(project, place):
    for item in ("m0", "m1", "m2"):
        fine("tell", "p", item, project[item], "--who", "ada")
    assert fine("export", "p", "a.jsonl") == "Wrote 3 answers to a.jsonl.\n"
    assert fine("export", "p", "b.csv", "--consensus") == "Wrote 3 items to b.csv.\n"
    fine("init", "q", *INIT[1:])
    assert "3 added" in fine("bring", "q", "a.jsonl")
    assert "0 added, 3 known already" in fine("bring", "q", "a.jsonl")
    assert fine("export", "q", "c.jsonl") == "Wrote 3 answers to c.jsonl.\n"
    assert (place / "a.jsonl").read_bytes() == (place / "c.jsonl").read_bytes()
    (place / "d.csv").write_text("id,label\nzzz,ham\n")
    found = run("bring", "q", "d.csv")
    assert found.exit_code == 2
    assert "d.csv:2" in found.output


ODD = ["=1+1", "'=2", "+3;=4", " lead", "007", "NA", "1.10"]  # ids that a spreadsheet or a reader would change


@pytest.fixture
def odd(place):
    """Two projects over ids and classes that a CSV for spreadsheets has to change; the first has labels and a skip."""
    (place / "odd.jsonl").write_text("".join(json.dumps({"key": item, "n": len(item)}) + "\n" for item in ODD))
    for folder in ("p", "q"):
        fine("init", folder, "--pool", "odd.jsonl", "--id", "key", "--classes", "=spam,'=ham,NA")
    for place_, item in enumerate(ODD[:-1]):
        fine("tell", "p", "--who", "ada", "--", item, ["=spam", "'=ham", "NA"][place_ % 3])
    with open_project("p") as project:
        project.session().skip("ada", ODD[-1], "=why", key="k" * 8)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("options", [(), ("--consensus",), ("--exact",)])
def test_what_export_wrote_can_be_told(odd, place, ending, options):
    """Ids and labels came back with the ' that keeps a spreadsheet from running them."""
    fine("export", "p", f"a.{ending}", *options)
    exact = [word for word in options if word == "--exact"]
    assert fine("tell", "q", "--from", f"a.{ending}", "--who", "ada", *exact) == "Saved 6 labels.\n"
    fine("export", "p", "p.csv", "--consensus")
    fine("export", "q", "q.csv", "--consensus")
    assert (place / "p.csv").read_bytes() == (place / "q.csv").read_bytes()
    assert fine("tell", "q", "--from", f"a.{ending}", "--who", "ada", *exact) == "Saved 0 labels; 6 already known.\n"


def test_what_export_wrote_exactly_can_be_imported(odd, place):
    fine("export", "p", "a.csv", "--exact")
    assert "7 added" in fine("bring", "q", "a.csv", "--exact")
    fine("export", "q", "b.csv", "--exact")
    assert (place / "a.csv").read_bytes() == (place / "b.csv").read_bytes()


def test_answers_of_several_people_are_not_told_as_one_persons(project, place):
    for who in ("ada", "bob"):
        fine("tell", "p", "m0", "ham", "--who", who)
    fine("export", "p", "a.csv")
    said = refused("tell", "p", "--from", "a.csv")
    assert "a.csv:3: ids must all be different, but row 2 has 'm0' too" in said
    assert "askwell import" in said


def test_a_former_name_of_a_class_is_told_once(project, place):
    fine("tell", "p", "m0", "ham", "--who", "ada")
    fine("rules", "p", "--rename", "ham=good")
    (place / "a.csv").write_text("id,label\nm0,ham\n")
    assert fine("tell", "p", "--from", "a.csv", "--who", "ada") == "Saved 0 labels; 1 already known.\n"


def test_a_training_that_fails_is_said_by_ask(place, truth):
    """Newcomer: it said "Training the model ..." and exited with 0, without a word."""
    (place / "p").mkdir()
    (place / "p" / "unfit.py").write_text(
        "class Model:\n    def fit(self, x, y, *, rng):\n        raise ValueError('the moon is wrong.')\n"
    )
    fine("init", *INIT, "--model", "unfit:Model")
    fine("ask", "p", "--who", "ada")  # no labels: nothing is trained
    for item, label in [next(pair for pair in truth.items() if pair[1] == name) for name in ("ham", "spam")]:
        fine("tell", "p", item, label, "--who", "ada")
    for item, label in list(truth.items())[:12]:
        fine("tell", "p", item, label, "--who", "ada")
    found = run("ask", "p", "--who", "bob")
    assert found.exit_code == 1, found.output
    assert "training failed: the moon is wrong." in found.stderr
    assert "--no-train" in found.stderr
    assert found.stdout == ""
    assert "item" in fine("ask", "p", "--who", "bob", "--no-train")
    assert "The last training failed" in fine("status", "p")


# ---- no project, no server for strangers ----


def test_no_project(place):
    for command, *words in (
        ("ask",),
        ("tell", "a", "b"),
        ("status",),
        ("export", "a.csv"),
        ("bring", "a.csv"),
        ("serve",),
    ):
        assert "there is no project in" in refused(command, "nowhere", *words)


def test_a_damaged_store_is_one_message(project, place):
    (place / "p" / "labels.db").write_bytes(b"damaged")
    assert "cannot open the store" in refused("status", "p")


def test_other_machines_need_a_token(project):
    said = refused("serve", "p", "--host", "0.0.0.0")
    assert "--host 0.0.0.0 lets other machines in, so it needs a --token" in said
    assert "--token" in refused("serve", "p", "--name", "lab.example.org")


@pytest.mark.parametrize("taken", ["127.0.0.1", "0.0.0.0"])
def test_a_port_in_use_is_said_before_any_link(project, taken):
    """Newcomer: the link was printed first, and led to somebody else's page."""
    pytest.importorskip("uvicorn")
    with socket.create_server((taken, 0)) as other:
        port = other.getsockname()[1]
        result = run("serve", "p", "--port", port)
    assert result.exit_code == 2
    assert "Label at" not in result.output
    assert f"port {port} is in use" in result.stderr
    free = int(re.search(r"Try --port (\d+)", result.stderr)[1])
    with socket.create_server(("127.0.0.1", free)):
        assert free > port


def test_a_port_that_another_program_has_on_the_other_loopback(project):
    """Browsers take localhost for ::1 first."""
    pytest.importorskip("uvicorn")
    try:
        other = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with other:
        assert "is in use" in refused("serve", "p", "--port", other.getsockname()[1])


def test_an_address_of_another_machine(project):
    pytest.importorskip("uvicorn")
    said = refused("serve", "p", "--host", "192.0.2.7", "--token", "long enough a token")
    assert "cannot listen on 192.0.2.7:8000; it is not an address of this machine" in said


def test_serve_answers_and_ends_without_loss(project, place):
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from askwell.cli.labelling import serve; serve(['p', '--port', '{port}'])"
    with subprocess.Popen([sys.executable, "-c", code], cwd=place, stderr=subprocess.PIPE) as server:
        try:
            page = ""
            for _ in range(600):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                        page = answer.read().decode()
                    break
                except urllib.error.HTTPError as door:
                    page = door.read().decode()  # who are you?
                    break
                except (urllib.error.URLError, ConnectionError):
                    assert server.poll() is None, server.stderr.read().decode()
                    time.sleep(0.1)
            assert "<html" in page
        finally:
            os.kill(server.pid, signal.SIGINT)
        assert server.wait(30) in (0, 130)
        assert b"Traceback" not in server.stderr.read()
    assert "0 of 80 items labelled" in fine("status", "p")


# ---- a project folder runs no code of its own ----

MODULES = ("askwell", "numpy", "click", "json", "sklearn", "sitecustomize", "usercustomize", "threadpoolctl", "ray")


def askwell(*words, folder, wait=True):
    """The installed command, started in a folder."""
    command = "from askwell.cli import main; main()"
    started = subprocess.Popen(
        [sys.executable, "-P", "-c", command, *map(str, words)],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return started.communicate()[0] if wait else started


@pytest.fixture
def trapped(project, place):
    """A project whose folder holds files that are called like modules, and the file that they write when they run."""
    ran = place / "ran"
    for name in MODULES:
        (place / "p" / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write({name!r} + '\\n')\n")
    return ran


def test_files_of_a_project_are_no_modules(trapped, place):
    folder = place / "p"
    for words in (("status", "."), ("ask", "."), ("ask", ".", "--engine", "local:2"), ("export", ".", "out.csv")):
        said = askwell(*words, folder=folder)
        assert "Traceback" not in said, said
        assert not trapped.exists(), (words, trapped.read_text())
    rows = "\n".join(f"{n},{n % 7},{'ab'[n % 7 > 3]}" for n in range(60))
    (folder / "numbers.csv").write_text(f"x,y,label\n{rows}\n")
    simulate = ("simulate", "numbers.csv", "--label", "label", "--budget", "8", "--seeds", "2", "--processes", "2")
    score = ("score", "numbers.csv", "--labelled", "numbers.csv", "--label", "label", "--engine", "local:2")
    for words in (simulate, score):
        said = askwell(*words, folder=folder)
        assert "Traceback" not in said, said
        assert not trapped.exists(), (words, trapped.read_text())


def wrong_token(port, address):
    """The status of a wrong token that comes with an address of its own making."""
    body = json.dumps({"name": "eve", "token": "guess"}).encode()
    headers = {"Content-Type": "application/json", "X-Forwarded-For": address}
    try:
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/api/sign-in", body, headers))
    except urllib.error.HTTPError as refusal:
        return refusal.code


def test_a_server_started_in_a_project_runs_nothing_of_it_and_believes_no_forwarded_address(
    trapped, place, monkeypatch
):
    monkeypatch.setenv("ASKWELL_TOKEN", "correct horse battery")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = askwell("serve", ".", "--port", port, folder=place / "p", wait=False)
    try:
        rounds = []
        while not rounds and not trapped.exists() and server.poll() is None:
            time.sleep(0.5)
            rounds = json.loads(fine("status", place / "p", "--json"))["rounds"]
        assert rounds
        assert "failed" not in rounds[-1], rounds
        assert not trapped.exists(), trapped.read_text()
        assert [wrong_token(port, f"10.0.0.{n}") for n in range(14)] == [401] * 10 + [429] * 4
        kept = place / "p" / ".askwell" / "sessions.json"
        assert kept.stat().st_mode & 0o777 == 0o600
    finally:
        server.terminate()
        server.communicate()


def test_a_model_that_the_settings_name_is_found_in_the_folder_by_every_process(project, place):
    folder = place / "p"
    (folder / "mine.py").write_text("import beside\ndef make():\n    return beside.Forest(n_estimators=5)\n")
    (folder / "beside.py").write_text(
        "from sklearn.ensemble import RandomForestClassifier\nclass Forest(RandomForestClassifier):\n    pass\n"
    )
    settings = folder / "askwell.toml"
    settings.write_text(settings.read_text().replace('model = "linear"', 'model = "mine:make"'))
    for item, label in list(project.items())[:12]:
        fine("tell", folder, item, label)
    said = askwell("ask", folder, "--engine", "local:2", folder=place)
    assert "Traceback" not in said, said
    assert "Error" not in said, said


# ---- a copy that may only be read ----


AS_NOBODY = """
import json, os, sys
from click.testing import CliRunner
from askwell.cli import main
commands = json.load(sys.stdin)
for round in range(2):  # looking first as whoever we are: then all is imported, which others may not be able to do
    found = []
    for words in commands[: 2 + round]:
        done = CliRunner().invoke(main, words)
        found.append([done.exit_code, done.output])
    if not os.geteuid():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
print(json.dumps(found))
"""


def test_a_copy_that_may_only_be_read_can_be_looked_at_and_exported(project, place, tmp_path_factory, enterable):
    folder, out = place / "p", tmp_path_factory.mktemp("out")
    for item, label in list(project.items())[:3]:
        fine("tell", folder, item, label)
    shutil.copytree(folder, out / "p", ignore=shutil.ignore_patterns("*-lock", "*-sessions"))
    shutil.copy(place / "pool.csv", out)
    shutil.copy(place / "traffic.csv", out)
    out.chmod(0o777)
    enterable(out)
    for path in (out / "p").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    (out / "p").chmod(0o555)
    try:
        commands = [
            ["status", str(out / "p"), "--json"],
            ["export", str(out / "p"), str(out / "labels.csv")],
            ["tell", str(out / "p"), "m70", "ham"],
        ]
        words = [sys.executable, "-P", "-c", AS_NOBODY]
        done = subprocess.run(words, input=json.dumps(commands), cwd=out, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (status, shown), (export, _), (tell, said) = json.loads(done.stdout)
        assert (status, export, tell) == (0, 0, 2), done.stdout
        assert json.loads(shown)["labels"] == 3
        assert len((out / "labels.csv").read_text().splitlines()) == 4
        assert "may not be written" in said
    finally:
        (out / "p").chmod(0o755)


# ---- a template shows what it says, and only what lies in the folder ----


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret.html", "link.html", "deep/../../secret.html", "deep", "no.html"]
)
def test_a_template_from_outside_the_folder_is_refused(project, place, name):
    (place / "secret.html").write_text("secret")
    (place / "p" / "link.html").symlink_to(place / "secret.html")
    (place / "p" / "deep").mkdir()
    settings = place / "p" / "askwell.toml"
    text = "\n".join(line for line in settings.read_text().splitlines() if not line.startswith("# template"))
    settings.write_text(text.replace("[data]", f"[data]\ntemplate = {json.dumps(name)}\n", 1))
    said = refused("serve", "p")
    assert "template must be a UTF-8 file in the project's folder, but" in said
    assert "secret\n" not in said
