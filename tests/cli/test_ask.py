"""`askwell ask` and `askwell tell`."""

import json
import shutil

from cli_calls import INIT, fine, refused, run


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
    assert table[1][1] == "-"  # drawn, to know how good the model is
    assert float(table[2][1]) > 0
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
