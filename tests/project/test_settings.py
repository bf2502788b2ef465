"""askwell.toml: written and read back the same, and refused with what to correct."""

import dataclasses
import string
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from askwell.project.settings import FILE, Settings, read_settings, settings_text

LEAST = {"pool": "mail.csv", "kind": "text", "classes": ("ham", "spam"), "features": "text", "model": "linear"}


def written(folder, text):
    (folder / FILE).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / FILE


names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
labels = (
    st.text(string.ascii_letters + string.punctuation + "äß 数", min_size=1, max_size=9).map(str.strip).filter(bool)
)
any_settings = st.fixed_dictionaries(
    {
        "pool": names,
        "kind": st.sampled_from(["text", "image", "table"]),
        "classes": st.lists(labels, min_size=2, max_size=4, unique=True).map(tuple),
        "features": st.sampled_from(["text", "pixels", "columns", "embeddings:a.npy,b.npy", ("age", 'quoted " name')]),
        "model": st.sampled_from(["forest", "linear", "gp", "my.models:make"]),
    },
    optional={
        "targets": names,
        "id": names,
        "show": st.lists(names, max_size=3, unique=True).map(tuple),
        "score": st.sampled_from(["epig", "bald", "random"]),
        "batch": st.integers(1, 1000),
        "retrain_seconds": st.floats(1, 1e6),
        "evaluation": st.floats(0, 0.5),
        "budget": st.none() | st.integers(1, 10**9),
        "labels_per_item": st.integers(1, 3),
        "most_labels": st.none() | st.integers(3, 9),
        "seed": st.integers(0, 2**40),
        "delimiter": st.sampled_from([";", "\t", "\x7f", "\\"]),
    },
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_settings)
def test_what_is_written_is_read_back(tmp_path, values):
    whole = Settings(**values)
    assert read_settings(written(tmp_path, settings_text(whole))) == whole


def test_every_setting_is_in_the_file_with_its_meaning():
    text = settings_text(Settings(**LEAST))
    for field in dataclasses.fields(Settings):
        start = f"[{field.name}]" if field.name in ("class_prior", "class_weights") else f"{field.name} ="
        (line,) = [line for line in text.splitlines() if line.removeprefix("# ").startswith(start)]
        assert "  # " in line, line
    uncommented = "\n".join(line.removeprefix("# ") for line in text.splitlines()[1:])
    assert {*tomllib.loads(uncommented)} == {
        "data",
        "class_prior",
        "model",
        "class_weights",
        "training",
        "start",
        "store",
    }


def test_a_class_prior_has_its_section(tmp_path):
    whole = Settings(**LEAST, class_prior={"ham": 0.75, "spam": 0.25})
    found = read_settings(written(tmp_path, settings_text(whole)))
    assert found.class_prior == {"ham": 0.75, "spam": 0.25}


def test_costs_of_errors_have_their_section(tmp_path):
    whole = Settings(**LEAST, class_weights={"ham": 1, "spam": 50.0})
    found = read_settings(written(tmp_path, settings_text(whole)))
    assert found.class_weights == {"ham": 1, "spam": 50.0}
    assert Settings(**LEAST).class_weights is None


@pytest.mark.parametrize(("changes", "said"), [
    ({"pool": ""}, "pool must be a text that is not empty, but it is ''"),
    ({"pool": 3}, "pool must be a text"),
    ({"kind": "video"}, "kind must be one of text, image, table, but it is 'video'"),
    ({"batch": 0}, "batch must be a whole number from 1, but it is 0"),
    ({"batch": True}, "batch must be a whole number from 1, but it is True"),
    ({"batch": 1.5}, "batch must be"),
    ({"budget": 0}, "budget must be a whole number from 1, or left out"),
    ({"seed": -1}, "seed must be"),
    ({"evaluation": 0.6}, "evaluation must be a share from 0 to 0.5"),
    ({"lease_seconds": float("nan")}, "lease_seconds must be a number of seconds"),
    ({"labels_per_item": 3, "most_labels": 2}, "most_labels must be at least labels_per_item"),
    ({"classes": ("ham",)}, "classes must be two or more names"),
    ({"classes": ("ham", "ham")}, "classes must all be different"),
    ({"classes": ("ham", " spam")}, "without blanks around them, but one is ' spam'"),
    ({"classes": ("ham", "a\nb")}, "printable"),
    ({"classes": ("ham", "x" * 101)}, "at most 100 letters"),
    ({"features": ()}, "features must name a column at least"),
    ({"features": ("a", "a")}, "each column once"),
    ({"features": "embeddings:"}, "features must be one of text, pixels, columns, minilm, mobilenet, a list"),
    ({"model": "linaer"}, "model must be one of forest, linear, gp, or module:function, but it is 'linaer'. Did"),
    ({"score": "epgi"}, "score must be one of random.*Did you mean 'epig'"),
    ({"show": "text"}, "show must be a list of column names"),
    ({"targets": "a.csv", "class_prior": {"ham": 1.0}}, "exclude each other"),
    ({"class_prior": {"eggs": 1.0}}, "'eggs' is none of them"),
    ({"class_prior": {"ham": 0.5}}, "sum to one"),
    ({"class_prior": {"ham": "much"}}, "must hold numbers"),
    ({"class_weights": {"eggs": 1.0}}, "class_weights must be for the classes ham, spam, but 'eggs' is none of them"),
    ({"class_weights": {"ham": -1.0}}, "class_weights must be numbers from 0"),
    ({"class_weights": {"ham": 2.0}, "score": "bald"}, "class_weights must go with a score that heeds them"),
])  # fmt: skip
def test_values_are_checked(changes, said):
    with pytest.raises(ValueError, match=said):
        Settings(**(LEAST | changes))


@pytest.mark.parametrize(("text", "said"), [
    ("[data\n", "cannot be read: .*line 1"),
    ("pool = 'a'\n", "is no section"),
    ("[dato]\n", r"\[dato\] is no section. Did you mean 'data'"),
    ("[data]\npol = 'a'\n", r"'pol' means nothing in \[data\]. Did you mean 'pool'"),
    ("[data]\npool = 'a.csv'\n", r"'kind' is missing. It belongs to \[data\]"),
    (b"\xff\xfe", "is not UTF-8 text"),
    ("[data]\n" + "# x\n" * 300_000, "larger than 1 MB"),
    ("a = " + "[" * 5000, "cannot be read"),
])  # fmt: skip
def test_files_are_refused_with_what_to_correct(tmp_path, text, said):
    with pytest.raises(ValueError, match=f"{tmp_path.name}/{FILE}.*{said}"):
        read_settings(written(tmp_path, text))


def test_a_change_by_hand_that_is_wrong(tmp_path):
    text = settings_text(Settings(**LEAST)).replace("batch = 10", "batch = -1")
    with pytest.raises(ValueError, match=f"{FILE}: batch must be a whole number from 1, but it is -1"):
        read_settings(written(tmp_path, text))
    with pytest.raises(ValueError, match="there is no project in"):
        read_settings(tmp_path / "no" / FILE)
