import xml.etree.ElementTree as ET

import pytest

from askwell.bridge.label_config import label_config, prediction, with_classes
from askwell.session import Rules


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
