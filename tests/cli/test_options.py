import shlex

import click
import pytest
from click.testing import CliRunner

from askwell.cli.options import command, one_message


@click.command("count")
@click.argument("folder")
@click.option("--train/--no-train", default=True)
@click.option("--json", "as_json", is_flag=True)
@click.option("--option", "options", multiple=True)
@click.option("--seeds", type=int)
def interrupted(**asked):
    with one_message(resume=command()):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "words",
    ["'my pool'", "here --no-train", "here --train --json", "here --option a=1 --option b=2 --seeds 3"],
)
def test_what_was_typed_is_said_so_that_it_can_be_typed_again(words):
    first = CliRunner().invoke(interrupted, shlex.split(words))
    assert first.exit_code == 130
    said = shlex.split(first.stderr.removeprefix("\nStopped. askwell count "))
    assert sorted(said) == sorted(shlex.split(words))
    assert CliRunner().invoke(interrupted, said).stderr == first.stderr
