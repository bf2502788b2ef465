"""What all commands share: how they refuse, stop, and write files."""

import errno
import getpass
import os
import re
import shlex
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from askwell.store import StoreError

__all__ = ["LOOPBACK", "by_class", "command", "listening", "plainly", "whole_file", "whole_number"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PORTS = 100  # that are tried to propose a free one


def whole_number(name: str, *, least: int = 1, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that takes a whole number."""
    shown = "default" in options
    return click.option(name, type=click.IntRange(min=least), metavar="N", show_default=shown, **options)


def person(who: str | None) -> str:
    """Whose answers these are: the name that was given, or else the user's own."""
    try:
        return who or getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise ValueError(
            "who must be a person's name, but the system does not know your user name. Give --who."
        ) from None


def names_in(text: str | None) -> list[str] | None:
    """The names of a list with commas between.

    >>> names_in("ham, spam,")
    ['ham', 'spam']
    """
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def by_class(option: str, text: str | None, *, like: str) -> dict[str, float] | None:
    """The numbers of a list such as ham=0.9,spam=0.1.

    >>> by_class("--class-weights", "spam=1, fraud=50", like="spam=1,fraud=50")
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


def listening(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """A socket that listens, before any address is printed; or a ValueError that says why not, and proposes a port."""
    try:
        return _opened(host, port)
    except OSError as fault:
        where, said = f"{host}:{port}", fault.strerror or str(fault)
        if fault.errno == errno.EADDRINUSE:
            free = next((other for other in range(port + 1, min(port + PORTS, 65536)) if _is_free(host, other)), None)
            more = "another one" if free is None else f"{option} {free if option == '--port' else f'{host}:{free}'}"
            raise ValueError(
                f"port {port} is in use: another program listens on {where}, perhaps another askwell. Try {more}."
            ) from None
        if fault.errno == errno.EACCES:
            raise ValueError(
                f"port {port} needs administrator rights on this machine ({said}). Try one from 1024."
            ) from None
        raise ValueError(f"cannot listen on {where}; it is not an address of this machine: {said}.") from None


def _opened(host: str, port: int) -> socket.socket:
    """A browser may take "localhost" for either loopback: none of them may be somebody else's."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, *_, address = sorted(found, key=lambda each: each[0] != socket.AF_INET)[0]
    opened = socket.create_server(address[:2], family=family, backlog=2048)
    other = {"127.0.0.1": "::1", "localhost": "::1", "::1": "127.0.0.1"}.get(host)
    if other is not None and _answers(other, port):
        opened.close()
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    return opened


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def _is_free(host: str, port: int) -> bool:
    try:
        _opened(host, port).close()
    except OSError:
        return False
    return True


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
    names = "|".join(options)
    text = re.sub(rf"^({names})(?= must\b)", lambda found: options[found[1]], text)
    text = re.sub(rf"\b({names})=\{{(\w+): (\w+)\}}", lambda found: f"{options[found[1]]} {found[2]}={found[3]}", text)
    text = re.sub(rf"\b({names})=True\b", lambda found: options[found[1]], text)
    return re.sub(rf"\b({names})=([\w.]+|'[^']*')", lambda found: f"{options[found[1]]} {found[2]}", text)
