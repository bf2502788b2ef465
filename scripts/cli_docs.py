"""Writes docs/cli.md from the help of the command line: `python scripts/cli_docs.py`."""

from collections.abc import Iterator
from pathlib import Path

import click

from askwell.cli import main

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
INTRODUCTION = """\
# The command line

This page is generated from the help texts by `python scripts/cli_docs.py`. How tables are read is described in
[tables](tables.md).

An error is one message that says what is wrong and what to try, with exit code 2; nothing is left half done. Ctrl-C
stops with exit code 130 and keeps every finished step: run the same command to resume.
"""


def page() -> str:
    """The page: the help of every command, in the order in which `askwell --help` lists them."""
    context = click.Context(main, info_name="askwell", terminal_width=100, **main.context_settings)
    return "\n".join([INTRODUCTION, _help(context), *_commands(main, context)])


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    """A part for each command of a group, and for those of groups within."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield f"## {inner.command_path}\n\n{_help(inner)}"
        if isinstance(command, click.Group):
            yield from _commands(command, inner)


def _help(context: click.Context) -> str:
    return f"```text\n{context.get_help().rstrip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
