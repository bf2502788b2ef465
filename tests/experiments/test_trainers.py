import dataclasses

import pytest

from experiments.trainers import compared, trainers

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("without_files")


@pytest.mark.parametrize("name", ["Curated", "Vowel"])
def test_a_table_of_trainers(name):
    ways = {way: dataclasses.replace(each, steps=2) for way, each in trainers(name).items()}
    head, _, *rows = compared(name, ways, seeds=[0], labels=[20], test=30)
    assert head.count("|") == 7
    assert [row.split(" | ")[:2] for row in rows] == [[f"| {way}", "20"] for way in ways]
