"""What people see in Label Studio: the labelling configuration for a kind of item, and its list of classes."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

from askwell.data import Kind
from askwell.session import Rules

__all__ = ["CHOICES", "label_config", "prediction", "with_classes"]

CHOICES = "label"  # the name of the choices
TAGS = {"text": "Text", "image": "Image", "table": "Table"}


def label_config(kind: Kind, classes: Sequence[str]) -> str:
    """The configuration for items of a kind, one class to be chosen.

    >>> print(label_config("text", ["ham", "spam"]))
    <View>
      <Text name="text" value="$text" />
      <Choices name="label" toName="text" choice="single" required="true" showInline="true">
        <Choice value="ham" />
        <Choice value="spam" />
      </Choices>
    </View>
    """
    if not classes:
        raise ValueError("classes must be known before people label in Label Studio, but the project has none.")
    view = ET.Element("View")
    ET.SubElement(view, TAGS[kind], name=kind, value=f"${kind}")
    options = {"name": CHOICES, "toName": kind, "choice": "single", "required": "true", "showInline": "true"}
    choices = ET.SubElement(view, "Choices", options)
    for name in classes:
        ET.SubElement(choices, "Choice", value=name)
    return _text(view)


def with_classes(config: str, rules: Rules) -> str:
    """A configuration, perhaps edited by people, with all classes of the rules; the rest stays as it is.

    Labels keep the name that they were first given: Label Studio refuses to lose one that annotations use. What a class
    is called now is what people see.

    >>> old = label_config("text", ["ham", "spam"])
    >>> rules = Rules(("good", "spam", "eggs"), former={"ham": "good"})
    >>> print(with_classes(old, rules))
    <View>
      <Text name="text" value="$text" />
      <Choices name="label" toName="text" choice="single" required="true" showInline="true">
        <Choice value="good" alias="ham" />
        <Choice value="spam" />
        <Choice value="eggs" />
      </Choices>
    </View>
    """
    view = _parsed(config)
    choices = _choices(view)
    known = set()
    for choice in choices.iter("Choice"):
        first = choice.get("alias") or choice.get("value") or ""
        name = str(rules.named(first))
        known.add(name)
        if name in rules.classes and name != choice.get("value"):
            choice.set("value", name)
            choice.set("alias", first)
    for name in rules.classes:
        if name not in known:
            ET.SubElement(choices, "Choice", value=name)
    new = _text(view)
    return config if new == _text(_parsed(config)) else new


def prediction(config: str, label: str) -> list[dict[str, Any]]:
    """A label as the result of a prediction, in the words of a configuration; [] if it has no such class.

    >>> prediction(label_config("table", ["a", "b"]), "b")
    [{'from_name': 'label', 'to_name': 'table', 'type': 'choices', 'value': {'choices': ['b']}}]
    """
    choices = _choices(_parsed(config))
    names = {choice.get("value"): choice.get("alias") or choice.get("value") for choice in choices.iter("Choice")}
    if label not in names:
        return []
    place = {"from_name": choices.get("name", CHOICES), "to_name": choices.get("toName", "text")}
    return [{**place, "type": "choices", "value": {"choices": [names[label]]}}]


def _parsed(config: str) -> ET.Element:
    try:
        return ET.fromstring(config)
    except ET.ParseError as fault:
        raise ValueError(f"the labelling configuration in Label Studio is no XML: {fault}. Correct it there.") from None


def _choices(view: ET.Element) -> ET.Element:
    """The choices by our name, or else the only ones."""
    found = list(view.iter("Choices"))
    ours = [choices for choices in found if choices.get("name") == CHOICES] or found
    if len(ours) != 1:
        raise ValueError(
            f'the labelling configuration in Label Studio must have one <Choices name="{CHOICES}">, but it has '
            f"{len(found)} <Choices>. Add it there, or begin anew."
        )
    return ours[0]


def _text(view: ET.Element) -> str:
    ET.indent(view)
    return ET.tostring(view, encoding="unicode")
