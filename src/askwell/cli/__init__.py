"""The command line: a file for each command, or for a few that are one idea. Each parses, calls, and prints.

A new command is a function under `click.command` in a file of its name, listed in `LABEL` or `TRY` here; its help goes
into docs/cli.md by `python scripts/cli_docs.py`. What commands share is in `options`.
"""

import click

import askwell
from askwell.cli.ask import ask, tell
from askwell.cli.export import backup, bring, export, restore
from askwell.cli.init import init
from askwell.cli.predict import predict
from askwell.cli.reproduce import reproduce
from askwell.cli.review import review
from askwell.cli.rules import rules
from askwell.cli.score import score
from askwell.cli.serve import bridge, serve
from askwell.cli.simulate import demo, simulate
from askwell.cli.status import status

__all__ = ["main"]

LABEL = (init, serve, ask, tell, status, review, rules, predict, export, bring, backup, restore, bridge)
TRY = (demo, simulate, score, reproduce)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(askwell.__version__, prog_name="askwell")
def main() -> None:
    """Choose which examples to label next, so that a model predicts well on the inputs you care about."""


for _command in (*LABEL, *TRY):
    main.add_command(_command)
