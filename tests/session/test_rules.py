"""Rules: who may still be asked, and which changes are allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askwell.session.rules import Revision, Rules, carried, changed, most_frequent

TWO = Rules(("ham", "spam"))
votes = st.lists(st.sampled_from("abc"), max_size=7)


@pytest.mark.parametrize(
    ("labels", "needed"),
    [("", 2), ("a", 1), ("aa", 0), ("ab", 1), ("aab", 0), ("abc", 1), ("aabb", 1), ("abcab", 0), ("aabbc", 0)],
)
def test_two_labels_and_more_where_they_disagree(labels, needed):
    assert Rules(labels_per_item=2, most_labels=5).needed(list(labels)) == needed


def test_one_label_is_enough_if_one_is_asked_for():
    assert Rules().needed(["a"]) == 0
    assert Rules().needed(["a", "b"]) == 0  # an extra one that disagrees asks nobody else


@given(votes, st.integers(1, 4), st.integers(0, 4))
def test_an_item_never_gets_more_labels_than_the_most(labels, per_item, more):
    rules = Rules(labels_per_item=per_item, most_labels=per_item + more)
    needed = rules.needed(labels)
    assert needed >= 0
    assert len(labels) + needed <= max(len(labels), rules.most_labels)
    assert needed == 0 or len(labels) + needed == max(per_item, len(labels) + 1)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=7))
def test_the_most_frequent_label_and_of_equals_the_earliest(labels):
    best, share = most_frequent(labels)
    assert labels.count(best) == max(labels.count(label) for label in labels)
    rivals = [label for label in labels if labels.count(label) == labels.count(best)]
    assert best == rivals[0]
    assert share == labels.count(best) / len(labels)


def test_what_is_not_named_stays():
    rules, renamed = changed(TWO, {"budget": 40}, used={})
    assert rules == Rules(("ham", "spam"), budget=40)
    assert renamed == {}
    assert changed(rules, {"budget": None}, used={})[0].budget is None


def test_the_most_labels_follow_unless_they_are_set():
    rules, _ = changed(TWO, {"labels_per_item": 3}, used={})
    assert rules.most_labels == 5
    assert changed(rules, {"labels_per_item": 1}, used={})[0].most_labels == 1
    assert changed(TWO, {"labels_per_item": 2, "most_labels": 2}, used={})[0].most_labels == 2


def test_classes_may_be_added_reordered_and_removed_while_unused():
    assert changed(TWO, {"classes": ["spam", "ham", "eggs"]}, used={"ham": 2})[0].classes == ("spam", "ham", "eggs")
    assert changed(TWO, {"classes": ["ham", "eggs"]}, used={"ham": 2})[0].classes == ("ham", "eggs")
    with pytest.raises(ValueError, match=r"keep those in use, but 'spam' has 2 labels.*Rename it"):
        changed(TWO, {"classes": ["ham", "eggs"]}, used={"spam": 2})


def test_classes_are_added_and_removed_one_by_one():
    assert changed(TWO, {"added": ["eggs", "ham", "eggs"]}, used={"ham": 2})[0].classes == ("ham", "spam", "eggs")
    three = changed(TWO, {"added": ["eggs"]}, used={})[0]
    assert changed(three, {"removed": ["spam"]}, used={"ham": 2})[0].classes == ("ham", "eggs")
    both = {"renamed": {"ham": "good"}, "added": ["x"], "removed": ["eggs"]}
    assert changed(three, both, used={"ham": 2})[0].classes == ("good", "spam", "x")
    with pytest.raises(ValueError, match="'spam' has 2 labels"):
        changed(three, {"removed": ["spam"]}, used={"spam": 2})
    with pytest.raises(ValueError, match="at least two"):
        changed(TWO, {"removed": ["spam"]}, used={})


def test_a_label_means_the_class_that_had_its_name_when_it_was_given():
    swapped = Revision(4, {"cat": "dog", "dog": "cat"}, ("dog", "cat"))
    reused = [Revision(6, {"cat": "kitten"}, ("dog", "kitten")), Revision(8, {}, ("dog", "kitten", "cat"))]
    history = [Revision(2, {}, ("cat", "dog")), swapped, *reused]
    assert [carried("cat", history, since=version) for version in (2, 4, 6, 8, 99)] == [
        *("dog", "kitten", "cat", "cat", "cat"),
    ]
    assert carried("dog", history, since=3) == "kitten"  # no version of ours: the rules that were in force there
    assert carried("cow", history, since=2) == "cow"  # it never was a class
    assert carried(7, history, since=2) == 7
    gone = [*history, Revision(9, {}, ("dog", "kitten")), Revision(11, {}, ("dog", "kitten", "cat"))]
    with pytest.raises(ValueError, match="removed since"):
        carried("cat", gone, since=8)  # another class of that name is another class


def test_old_names_are_understood_also_after_several_renames():
    rules, _ = changed(TWO, {"renamed": {"ham": "good"}}, used={"ham": 2})
    rules, _ = changed(rules, {"renamed": {"good": "fine"}}, used={"good": 2})
    assert rules.classes == ("fine", "spam")
    assert [rules.named(name) for name in ("ham", "good", "fine", "spam", "other", 7)] == [
        *("fine", "fine", "fine", "spam", "other"), 7,
    ]  # fmt: skip
    assert changed(rules, {"renamed": {"good": "fine"}}, used={"fine": 2}) == (rules, {})  # again: nothing to do


def test_two_classes_can_change_their_names():
    rules, renamed = changed(TWO, {"renamed": {"ham": "spam", "spam": "ham"}}, used={"ham": 1, "spam": 1})
    assert rules.classes == ("spam", "ham")
    assert renamed == {"ham": "spam", "spam": "ham"}
    assert rules.named("ham") == "ham"  # a class of that name is there


def test_an_old_name_may_be_used_for_a_new_class():
    rules, _ = changed(TWO, {"renamed": {"ham": "good"}}, used={"ham": 2})
    rules, _ = changed(rules, {"classes": ["good", "spam", "ham"]}, used={"good": 2})
    assert rules.named("ham") == "ham"


@given(st.permutations(["a", "b", "c"]), st.integers(1, 3), st.none() | st.integers(1, 9))
def test_rules_come_back_from_their_record(classes, per_item, budget):
    rules, renamed = changed(
        TWO, {"classes": classes, "labels_per_item": per_item, "budget": budget, "lease_seconds": 5}, used={}
    )
    assert TWO.after(rules.body(renamed)) == rules


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": "ham,spam"}, r"list of names, but it is the text 'ham,spam'. Try \['ham', 'spam'\]"),
        ({"classes": ["ham"]}, "at least two"),
        ({"classes": ["ham", "ham"]}, "'ham' occurs twice"),
        ({"classes": ["ham", " "]}, "texts that are not empty, but one is ' '"),
        ({"classes": ["ham", 3]}, "but one is 3"),
        ({"classes": ["ham", "spam "]}, "without blanks around them, but one is 'spam '"),
        ({"added": ["x\n"]}, "printable texts"),
        ({"renamed": {"ham": "x" * 101}}, "at most 100 letters"),
        ({"renamed": {"eggs": "ham"}}, r"'eggs' is none of them\.$"),
        ({"renamed": {"spma": "junk"}}, r"'spma' is none of them\. Did you mean 'spam'\?"),
        ({"removed": ["Ham"]}, r"'Ham' is none of them\. Did you mean 'ham'\?"),
        ({"renamed": {"ham": "spam"}}, "'spam' occurs twice. A class cannot be renamed to another"),
        ({"renamed": {"ham": "good"}, "classes": ["ham", "spam"]}, "hold the new names, but 'good'"),
        ({"labels_per_item": 0}, "labels_per_item must be a whole number from 1"),
        ({"labels_per_item": True}, "but it is True"),
        ({"labels_per_item": 3, "most_labels": 2}, "at least labels_per_item, 3, but it is 2"),
        ({"budget": 0}, "budget must be a whole number from 1"),
        ({"lease_seconds": 0}, "positive number of seconds"),
        ({"lease_seconds": float("nan")}, "positive number of seconds"),
        ({"lease": 3}, "no 'lease'"),
        ({"removed": ["eggs"]}, "'eggs' is none of them"),
        ({"added": [" "]}, "texts that are not empty"),
        ({"classes": []}, "at least two, but none would be left"),
        ({"removed": ["ham", "spam"]}, "at least two, but none would be left"),
    ],
)
def test_what_is_not_allowed_is_said(changes, message):
    with pytest.raises(ValueError, match=message):
        changed(TWO, changes, used={})
