"""The command line: parse, call, print."""

import click

import askwell
from askwell.cli.backup import backup, restore
from askwell.cli.bridging import bridge
from askwell.cli.labelling import ask, bring, export, init, serve, status, tell
from askwell.cli.predict import predict
from askwell.cli.reproducing import reproduce
from askwell.cli.rules import rules
from askwell.cli.scoring import score
from askwell.cli.trying import demo, simulate

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(askwell.__version__, prog_name="askwell")
def main() -> None:
    """Choose which examples to label next, so that a model predicts well on the inputs you care about."""


for each in (
    init,
    serve,
    ask,
    tell,
    status,
    rules,
    predict,
    export,
    bring,
    backup,
    restore,
    bridge,
    demo,
    simulate,
    score,
    reproduce,
):
    main.add_command(each)
