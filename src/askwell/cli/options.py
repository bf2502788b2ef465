"""What commands share: options and arguments, lists inside options, and how they fail."""

import getpass
import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import click
from click.core import ParameterSource

from askwell.store import StoreError

__all__ = [
    "CLASS_WEIGHTS",
    "by_class",
    "command",
    "delimiter",
    "encoding",
    "engine",
    "exact",
    "one_message",
    "path_argument",
    "path_option",
    "person",
    "plural",
    "processes",
    "separator",
    "split_names",
    "who",
    "whole_number",
]

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
CLASS_WEIGHTS = "spam=1,fraud=50"


# ---- options and arguments -----------------------------------------------------------------------------------------


def whole_number(name: str, *, least: int = 1, **options: Any) -> Decorator:
    """An option that takes a whole number."""
    shown = "default" in options
    return click.option(name, type=click.IntRange(min=least), metavar="N", show_default=shown, **options)


def path_argument(name: str, **options: Any) -> Decorator:
    """An argument that takes a path."""
    return click.argument(name, type=click.Path(path_type=Path), **options)


def path_option(*names: str, metavar: str = "PATH", folder: bool = False, **options: Any) -> Decorator:
    """An option that takes a path; with `folder` never that of a file."""
    return click.option(*names, type=click.Path(path_type=Path, file_okay=not folder), metavar=metavar, **options)


delimiter = click.option("--delimiter", metavar="MARK", help="CSV delimiter.  [default: detected]")
encoding = click.option("--encoding", metavar="NAME", help="CSV encoding, such as cp1252.  [default: UTF-8]")
engine = click.option(
    "--engine", metavar="NAME", help="Run on a cluster instead: ray, ray:host:port. Machines must share --out."
)
exact = click.option(
    "--exact", is_flag=True, help="In a CSV, do not escape cells that a spreadsheet would run as formulas."
)
processes = whole_number("--processes", help="Number of parallel runs.  [default: one per processor]")
who = click.option("--who", metavar="NAME", help="Name of the annotator.  [default: your user name]")


# ---- values --------------------------------------------------------------------------------------------------------


def person(name: str | None) -> str:
    """Whose answers these are: the name given, else the user's own."""
    try:
        return name or getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise ValueError(
            "who must be a person's name, but the system does not know your user name. Give --who."
        ) from None


def split_names(text: str | None) -> list[str] | None:
    """The names of a list with commas between.

    >>> split_names("ham, spam,")
    ['ham', 'spam']
    """
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def by_class(option: str, text: str | None, *, like: str) -> dict[str, float] | None:
    """The numbers of a list such as ham=0.9,spam=0.1.

    >>> by_class("--class-weights", "spam=1, fraud=50", like=CLASS_WEIGHTS)
    {'spam': 1.0, 'fraud': 50.0}
    """
    if text is None:
        return None
    try:
        pairs = [(name.strip(), float(number)) for name, number in (part.rsplit("=", 1) for part in text.split(","))]
    except ValueError:
        raise ValueError(f"{option} must be like {like}, but it is {text!r}.") from None
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"{option} must name each class once, but it is {text!r}.")
    return dict(pairs)


def separator(text: str | None) -> str | None:
    """A delimiter; a tab, which is hard to type, may be written as a backslash and a t."""
    return (text or "").replace("\\t", "\t") or None


def plural(count: int, thing: str) -> str:
    """A number of things.

    >>> plural(1, "label"), plural(2000, "label")
    ('1 label', '2,000 labels')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


# ---- the command itself --------------------------------------------------------------------------------------------


def command() -> str:
    """The command as it was typed, for a shell: the options that were given."""
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


@contextmanager
def one_message(*, resume: str | None = None) -> Iterator[None]:
    """Errors as one message and exit code 2, Ctrl-C as one line and exit code 130, warnings as notes.

    `resume` says what is saved and how to go on after Ctrl-C.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: click.echo(f"Note: {message}", err=True)
            yield
    except BrokenPipeError:  # nobody reads on; click knows what to do
        raise
    except (ValueError, ImportError, OSError, StoreError) as error:
        click.echo(f"Error: {_as_options(str(error))}", err=True)
        raise SystemExit(2) from None
    except RuntimeError as error:  # a run broke: what it was doing belongs to the message
        click.echo("\n".join([f"Error: {error}", *getattr(error, "__notes__", [])]), err=True)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        resume = resume or f"Everything labelled so far is saved. To resume: {command()}"
        click.echo(f"\nStopped. {resume}", err=True)
        raise SystemExit(130) from None


def _as_options(text: str) -> str:
    """A message that speaks of arguments (encoding='cp1252') as one that speaks of options (--encoding cp1252)."""
    options = {parameter.name or "": parameter.opts[0] for parameter in click.get_current_context().command.params}
    names = "|".join(options)
    text = re.sub(rf"^({names})(?= must\b)", lambda match: options[match[1]], text)
    text = re.sub(rf"\b({names})=\{{(\w+): (\w+)\}}", lambda match: f"{options[match[1]]} {match[2]}={match[3]}", text)
    text = re.sub(rf"\b({names})=True\b", lambda match: options[match[1]], text)
    return re.sub(rf"\b({names})=([\w.]+|'[^']*')", lambda match: f"{options[match[1]]} {match[2]}", text)
