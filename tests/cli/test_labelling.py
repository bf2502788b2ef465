"""The commands of a labelling project, as a user meets them."""

import json
import os
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
    assert "pool: pool.csv, 80 items of kind text, shown by text\ntargets: traffic.csv, 20 items\n" in found
    assert "classes: ham, spam\nmodel: linear; questions by epig, 5 at a time\n" in found
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
        assert (wanted.label, wanted.template, wanted.kind) == ("truth", "../card.html", "text")
        assert (place / "p" / "other.db").exists()
        assert len(project.desk().labels()) == 80


@pytest.mark.parametrize(("words", "said"), [
    (("--pool", "pol.csv"), "there is no file"),
    (("--classes", "ham"), "classes must be two or more names"),
    (("--show", "txt"), "Did you mean 'text'?"),
    (("--id", "text2"), "no column 'text2'"),
    (("--model", "wood"), "model must be one of"),
    (("--class-prior", "ham:0.9"), "--class-prior must be like ham=0.9,spam=0.1, but it is 'ham:0.9'"),
    (("--class-prior", "ham=0.9"), "sum to one"),
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
    assert fine("tell", "p", item, project[item], "--who", "ada") == "1 told.\n"
    assert fine("tell", "p", item, project[item], "--who", "ada") == "0 told, 1 known already.\n"
    rows = "".join(f"{each['item']},{project[each['item']]}\n" for each in first)
    (place / "answers.csv").write_text(f"id,label\n{rows}")
    assert fine("tell", "p", "--from", "answers.csv", "--who", "ada") == "5 told, 1 known already.\n"
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
    table = [line.split() for line in found.output.splitlines() if not line.startswith("Training")]
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
        ("id,label\nm1,\n", "has no value in 1 of 1 rows"),
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
    assert fine("export", "p", "a.jsonl") == "3 answers written to a.jsonl.\n"
    assert fine("export", "p", "b.csv", "--consensus") == "3 items written to b.csv.\n"
    fine("init", "q", *INIT[1:])
    assert "3 added" in fine("bring", "q", "a.jsonl")
    assert "0 added, 3 known already" in fine("bring", "q", "a.jsonl")
    assert fine("export", "q", "c.jsonl") == "3 answers written to c.jsonl.\n"
    assert (place / "a.jsonl").read_bytes() == (place / "c.jsonl").read_bytes()
    (place / "d.csv").write_text("id,label\nzzz,ham\n")
    found = run("bring", "q", "d.csv")
    assert found.exit_code == 2
    assert "d.csv:2" in found.output


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
    assert "--host 0.0.0.0 lets other machines in, and that needs a --token" in said
    assert "--token" in refused("serve", "p", "--name", "lab.example.org")


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
