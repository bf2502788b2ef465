"""Label Studio's configuration, tasks and annotations, and what of them is new."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askwell.bridge.documents import as_tasks, label_config, last_annotations, prediction, unix, with_classes
from askwell.bridge.records import RecordedAnswers, new_records
from askwell.session import Rules, Session
from askwell.store import open_store


def choices(config):
    return [(c.get("alias"), c.get("value")) for c in ET.fromstring(config).iter("Choice")]


@pytest.mark.parametrize(("kind", "tag"), [("text", "Text"), ("image", "Image"), ("table", "Table")])
def test_each_kind_is_shown(kind, tag):
    (shown,) = ET.fromstring(label_config(kind, ["a", "b"])).iter(tag)
    assert (shown.get("name"), shown.get("value")) == (kind, f"${kind}")


def test_names_of_classes_are_text_and_not_markup():
    names = ['<b>"&', "ä ö", "a'b"]
    assert choices(label_config("text", names)) == [(None, name) for name in names]


def test_classes_are_needed():
    with pytest.raises(ValueError, match="classes must be known"):
        label_config("text", [])


def edited_config(choices):
    return f'<View>\n\n<Header value="Look!"/><Choices name="label" toName="text">{choices}</Choices></View>'


def test_nothing_to_change_changes_nothing():
    edited = edited_config('<Choice value="b"/><Choice value="a"/>')
    assert with_classes(edited, Rules(("a", "b"))) == edited


def test_what_people_edited_stays():
    edited = edited_config('<Choice value="a" hotkey="x"/>')
    (header,) = ET.fromstring(with_classes(edited, Rules(("a", "b")))).iter("Header")
    assert header.get("value") == "Look!"
    assert choices(with_classes(edited, Rules(("a", "b")))) == [(None, "a"), (None, "b")]


def test_a_class_that_was_renamed_twice_keeps_its_first_name():
    config = label_config("text", ["ham", "spam"])
    once = with_classes(config, Rules(("good", "spam"), former={"ham": "good"}))
    twice = with_classes(once, Rules(("best", "spam"), former={"ham": "best", "good": "best"}))
    assert choices(once) == [("ham", "good"), (None, "spam")]
    assert choices(twice) == [("ham", "best"), (None, "spam")]


def test_a_class_that_only_label_studio_has_stays():
    assert choices(with_classes(label_config("text", ["a", "b", "odd"]), Rules(("a", "b")))) == [
        (None, "a"), (None, "b"), (None, "odd"),
    ]  # fmt: skip


@pytest.mark.parametrize("config", ["<View>", "<View/>", "<View><Choices name='x'/><Choices name='y'/></View>"])
def test_a_configuration_that_cannot_be_used(config):
    with pytest.raises(ValueError, match="labelling configuration in Label Studio"):
        with_classes(config, Rules(("a", "b")))


def test_predictions_use_the_name_that_label_studio_keeps():
    config = with_classes(label_config("text", ["ham", "spam"]), Rules(("good", "spam"), former={"ham": "good"}))
    (part,) = prediction(config, "good")
    assert part["value"] == {"choices": ["ham"]}
    assert prediction(config, "unheard of") == []


NAMES = {1: "ada", 2: "bob"}
ITEMS = ["a", "b", "c"]
CLASSES = ("ham", "spam")


def annotation(id, user, label, minute, *, cancelled=False, **more):
    result = [{"type": "choices", "from_name": "label", "value": {"choices": [label]}}] if label else []
    time = f"2026-11-16T{minute // 60:02}:{minute % 60:02}:00.000001Z"
    known = {"id": id, "completed_by": user, "result": result, "was_cancelled": cancelled}
    return known | {"updated_at": time, "created_at": time, "lead_time": 2.5} | more


def task(id, item, *annotations):
    return {"id": id, "data": {"pool_id": item, "text": item}, "annotations": list(annotations), "created_at": ""}


class Project:
    """A store and what the bridge knows of it, as after a start."""

    def __init__(self):
        self.store = open_store(None)
        self.session = Session(self.store, ITEMS)
        self.session.set_rules("ada", classes=list(CLASSES))

    def take(self, *tasks):
        """One pull by a bridge that has just started."""
        taken = RecordedAnswers("m")
        taken.follow(self.store.read("main"))
        records, warnings = new_records(as_tasks(tasks), taken, rules=self.session.rules, names=NAMES, run="main")
        if records:
            self.store.append(records)
        return [record.kind for record in records], warnings

    def answers(self):
        return {(said.item, said.who): said.label for said in self.session.answers()}


def test_labels_and_skips_come_in_once():
    project = Project()
    there = [
        task(1, "a", annotation(5, 1, "ham", 1)),
        task(2, "b", annotation(6, 2, None, 2, cancelled=True)),
        task(3, "c"),
    ]
    assert project.take(*there) == (["label", "skip"], [])
    assert project.take(*there) == ([], [])
    assert project.answers() == {("a", "ada"): "ham", ("b", "bob"): None}
    (label, skip) = project.session.answers()
    assert (label.kind, label.seconds, skip.kind, skip.reason) == ("label", 2.5, "skip", "skipped in Label Studio")
    assert project.store.read("main")[-2].body["at"] == unix("2026-11-16T00:01:00.000001Z")


def test_an_annotation_posted_twice_counts_once_and_the_latest_counts():
    project = Project()
    project.take(task(1, "a", annotation(5, 1, "ham", 1), annotation(6, 1, "spam", 2)))
    assert project.answers() == {("a", "ada"): "spam"}
    assert project.session.progress().labels == 1


def test_an_item_that_is_there_twice_counts_once():
    project = Project()
    project.take(task(1, "a", annotation(5, 1, "ham", 1)), task(9, "a", annotation(6, 1, "spam", 2)))
    assert project.answers() == {("a", "ada"): "spam"}


def test_two_people_are_two():
    project = Project()
    project.take(task(1, "a", annotation(5, 1, "ham", 1), annotation(6, 2, "spam", 2)))
    assert project.answers() == {("a", "ada"): "ham", ("a", "bob"): "spam"}


def test_a_correction_replaces():
    project = Project()
    project.take(task(1, "a", annotation(5, 1, "ham", 1)))
    assert project.take(task(1, "a", annotation(5, 1, "spam", 3)))[0] == ["label"]
    assert project.answers() == {("a", "ada"): "spam"}


def test_what_was_deleted_is_withdrawn_and_may_come_back():
    project = Project()
    there = task(1, "a", annotation(5, 1, "ham", 1))
    project.take(there)
    assert project.take(task(1, "a"))[0] == ["withdrawal"]
    assert project.answers() == {}
    assert project.take(task(1, "a"))[0] == []
    assert project.take(there)[0] == ["label"]  # its undo
    assert project.take(task(1, "a"))[0] == ["withdrawal"]
    assert project.answers() == {}


def test_the_earlier_word_counts_again_when_the_later_is_deleted():
    project = Project()
    first, second = annotation(5, 1, "ham", 1), annotation(6, 1, "spam", 2)
    project.take(task(1, "a", first))
    project.take(task(1, "a", first, second))
    assert project.take(task(1, "a", first))[0] == ["label"]
    assert project.answers() == {("a", "ada"): "ham"}
    assert project.take(task(1, "a", first))[0] == []


def test_a_task_that_is_gone_takes_no_label_with_it():
    project = Project()
    project.take(task(1, "a", annotation(5, 1, "ham", 1)))
    assert project.take()[0] == []
    assert project.answers() == {("a", "ada"): "ham"}


def test_an_annotation_without_a_class_says_nothing():
    project = Project()
    assert project.take(task(1, "a", annotation(5, 1, None, 1))) == ([], [])
    project.take(task(1, "a", annotation(5, 1, "ham", 2)))
    assert project.take(task(1, "a", annotation(5, 1, None, 3)))[0] == ["withdrawal"]


def test_what_is_no_class_waits_until_it_is():
    project = Project()
    there = task(1, "a", annotation(5, 1, "eggs", 1))
    kinds, (warning,) = project.take(there)
    assert kinds == []
    assert (
        warning
        == "'eggs' is no class of this project: add it, or correct it in Label Studio (1 annotations are waiting)."
    )
    project.session.set_rules("ada", classes=["ham", "spam", "eggs"])
    assert project.take(there) == (["label"], [])


def test_the_former_name_of_a_class_is_understood():
    project = Project()
    project.session.set_rules("ada", renamed={"ham": "good"})
    assert project.take(task(1, "a", annotation(5, 1, "ham", 1))) == (["label"], [])
    assert project.answers() == {("a", "ada"): "good"}


def test_what_happened_on_the_page_since_is_not_overruled():
    project = Project()
    there = task(1, "a", annotation(5, 1, "ham", 1))
    project.take(there)
    project.session.answer("ada", "a", "spam", key="page-1")
    assert project.take(there)[0] == []
    project.take(task(1, "a"))  # deleted there: not what she said on the page
    assert project.answers() == {("a", "ada"): "spam"}


def test_names_that_nobody_knows_and_times_that_are_none():
    project = Project()
    odd = annotation(5, None, "ham", 1, lead_time=float("nan")) | {"updated_at": None}
    project.take(task(1, "a", odd), task(2, "b", annotation(6, {"id": 2}, "ham", 1)))
    assert project.answers() == {("a", "Label Studio user -1"): "ham", ("b", "bob"): "ham"}
    assert project.session.answers()[0].seconds is None


def test_foreign_tasks_are_left_alone():
    assert as_tasks([{"id": 1, "data": {"text": "x"}}, {"id": 2, "data": None}]) == []


steps = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "say", "correct", "delete", "take"]),
        st.sampled_from(ITEMS),
        st.sampled_from([1, 2]),
        st.sampled_from(["ham", "spam", "skip"]),
    ),
    max_size=25,
)


@given(steps)
def test_whenever_it_is_looked_askwell_ends_up_with_everybodys_last_word(history):
    """The twin is a list of annotations, as Label Studio keeps it, read at the end."""
    project, kept, number = Project(), [], 0

    def listed():
        return [task(place, item, *[a for i, a in kept if i == item]) for place, item in enumerate(ITEMS)]

    for minute, (act, item, user, label) in enumerate(history):
        mine = [place for place, (i, a) in enumerate(kept) if i == item and a["completed_by"] == user]
        said = {"label": None if label == "skip" else label, "minute": minute, "cancelled": label == "skip"}
        if act == "say":
            number += 1
            kept.append((item, annotation(number, user, **said)))
        elif act == "correct" and mine:
            kept[mine[0]] = (item, annotation(kept[mine[0]][1]["id"], user, **said))
        elif act == "delete" and mine:
            del kept[mine[-1]]
        elif act == "take":
            project.take(*listed())
    project.take(*listed())
    assert project.take(*listed()) == ([], [])
    expected = {}
    for item, a in sorted(kept, key=lambda pair: (pair[1]["updated_at"], pair[1]["id"])):
        expected[item, NAMES[a["completed_by"]]] = a["result"][0]["value"]["choices"][0] if a["result"] else None
    assert project.answers() == expected


def test_last_words_do_not_depend_on_the_order_of_the_list():
    there = [task(1, "a", annotation(5, 1, "ham", 2), annotation(6, 1, "spam", 1), annotation(4, 1, "spam", 2))]
    assert last_annotations(as_tasks(there))["a", 1].annotation == 5
