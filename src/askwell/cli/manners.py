"""What all commands share: how they refuse, stop, and write files."""

import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from askwell.store import StoreError

__all__ = ["command", "plainly", "whole_file", "whole_number"]


def whole_number(name: str, *, least: int = 1, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that takes a whole number."""
    shown = "default" in options
    return click.option(name, type=click.IntRange(min=least), metavar="N", show_default=shown, **options)


def command() -> str:
    """What was typed, for a shell: the options that were given."""
    context = click.get_current_context()
    words = ["askwell", context.command.name or ""]
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            given = context.params[parameter.name or ""]
            for value in given if isinstance(given, tuple) else [given]:
                words += _words(parameter, value)
    return shlex.join(words)


def _words(parameter: click.Parameter, value: Any) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [str(value)]
    if isinstance(value, bool):
        return [parameter.opts[0] if value else parameter.secondary_opts[0]]
    return [parameter.opts[0], str(value)]


def whole_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Let something write a file, and put it in its place when it is whole."""
    part = path.with_name(f"part-{path.name}")
    try:
        write(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def plainly(*, goes_on: str) -> Iterator[None]:
    """Refusals as one message and exit code 2, Ctrl-C as one line and exit code 130, warnings as notes."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: click.echo(f"Note: {message}", err=True)
            yield
    except BrokenPipeError:  # nobody reads on; click knows what to do
        raise
    except (ValueError, ImportError, OSError, StoreError) as fault:
        click.echo(f"Error: {_as_options(str(fault))}", err=True)
        raise SystemExit(2) from None
    except RuntimeError as fault:  # a run broke: what it was doing belongs to the message
        click.echo("\n".join([f"Error: {fault}", *getattr(fault, "__notes__", [])]), err=True)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        click.echo(f"\nStopped. {goes_on}", err=True)
        raise SystemExit(130) from None


def _as_options(text: str) -> str:
    """A message that speaks of arguments (encoding='cp1252') as one that speaks of options (--encoding cp1252)."""
    options = {parameter.name or "": parameter.opts[0] for parameter in click.get_current_context().command.params}
    called = re.compile(rf"\b({'|'.join(options)})=([\w.]+|'[^']*')")
    return called.sub(lambda found: f"{options[found[1]]} {found[2]}", text)
