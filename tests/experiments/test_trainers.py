import dataclasses

import pytest

from experiments.trainers import compared, trainers

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("without_files")


def test_a_table_of_trainers():
    ways = {name: dataclasses.replace(each, steps=2) for name, each in list(trainers().items())[:2]}
    head, _, *rows = compared(ways, seeds=[0], labels=[20], test=30)
    assert head.count("|") == 6
    assert [row.split(" | ")[:2] for row in rows] == [[f"| {name}", "20"] for name in ways]
