"""Commands for those who label with another tool: `bridge label-studio`."""

import hashlib
import hmac
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from askwell.cli.manners import listening, plainly, whole_number

__all__ = ["bridge"]

VARIABLE = "LABEL_STUDIO_API_KEY"
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@click.group()
def bridge() -> None:
    """Label in another tool, while askwell chooses the questions."""


@bridge.command("label-studio")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--url", default="http://127.0.0.1:8080", show_default=True, metavar="URL", help="Address of Label Studio."
)
@click.option(
    "--token",
    envvar=VARIABLE,
    metavar="TEXT",
    help=f"API token of a Label Studio user. Safer in the environment variable {VARIABLE}, where others cannot see it.",
)
@click.option("--once", is_flag=True, help="Synchronize once and exit: fetch answers, send questions.")
@click.option("--every", metavar="TIME", help="Interval between synchronizations: 10s, 2m, 1h.  [default: 10s]")
@whole_number("--size", default=20, help="Number of open questions in Label Studio.")
@click.option("--title", metavar="TEXT", help="Title of the Label Studio project.  [default: the folder's name]")
@click.option(
    "--into", type=click.IntRange(min=1), metavar="N", help="Use the existing Label Studio project with this number."
)
@click.option("--new", is_flag=True, help="Create another Label Studio project, and leave the previous one as it is.")
@click.option("--train/--no-train", default=True, show_default=True, help="Train the model while the bridge runs.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Also serve as an ML backend for Label Studio at this address, and get new labels at once.",
)
def label_studio(folder: Path, once: bool, every: str | None, listen: str | None, train: bool, **options: Any) -> None:
    """Let people label a project in Label Studio.

    FOLDER is an askwell project. Its questions go to Label Studio, best first, and the answers come back. You can stop
    and restart the command or Label Studio at any time: nothing is lost, and nothing is asked or saved twice.
    """
    from askwell.project.folder import open_project

    with plainly(goes_on="Answers wait in Label Studio. Run the same command to resume."):
        if once and (every or listen):
            raise ValueError("--once synchronizes once: leave out --every and --listen.")
        seconds, place = _seconds(every or "10s"), _place(listen)
        with open_project(folder) as opened, ExitStack() as stack:
            _go(opened, stack, once=once, seconds=seconds, place=place, train=train, **options)


def _go(
    project: Any,
    stack: ExitStack,
    *,
    once: bool,
    seconds: float,
    place: tuple[str, int] | None,
    train: bool,
    url: str,
    token: str | None,
    size: int,
    title: str | None,
    into: int | None,
    new: bool,
) -> None:
    from askwell.bridge import Bridge, LabelStudio

    if not token:
        raise ValueError(
            f"--token is missing. Copy the API token of a user in Label Studio (Account & Settings) into {VARIABLE}."
        )
    wake, hints = threading.Event(), None
    session, store, run = project.session(), project.store(), project.settings.run
    server = LabelStudio(url, token)
    stack.callback(server.close)
    if place is not None:
        secret = hmac.new(token.encode(), str(project.folder).encode(), hashlib.sha256).hexdigest()[:24]
        address = f"http://{place[0]}:{place[1]}/{secret}"
        stack.enter_context(_served(session, store, run, place, secret, wake))
        click.echo(f"ML backend, optional, for Label Studio: {address}")
        hints = f"{address}/webhook"
    link = Bridge(
        server, session, project.items, store,
        title=title or project.folder.name, run=run, size=size, project=into, new=new, hints=hints,
    )  # fmt: skip
    stack.callback(link.close)
    if once:
        passed = link.once()
        click.echo(f"{url}/projects/{passed.project}: {passed}")
        for warning in passed.warnings:
            click.echo(f"Note: {warning}", err=True)
        return
    if train:
        from askwell.project.training import Retraining

        every_labels, every_seconds = project.settings.retrain_every, project.settings.retrain_seconds
        stack.enter_context(Retraining(project.folder, every_labels=every_labels, every_seconds=every_seconds))
    click.echo(f"Synchronizing {project.folder.name} with {url} every {seconds:g} seconds. Ctrl-C to stop.")
    link.run(seconds, say=click.echo, wake=wake)


@contextmanager
def _served(
    session: Any, store: Any, run: str, place: tuple[str, int], secret: str, wake: threading.Event
) -> Iterator[None]:
    """Label Studio's ML routes, in a thread."""
    try:
        import uvicorn

        from askwell.bridge.ml_backend import ml_backend_app
        from askwell.web.connections import limits
    except ImportError:
        raise ImportError("--listen needs FastAPI and uvicorn: pip install 'askwell[web]'.") from None
    listener = listening(*place, option="--listen")
    app = ml_backend_app(session, store, run=run, hint=wake.set, pause=0.2, token=secret)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", proxy_headers=False, **limits())
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(5)
        listener.close()


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not found or float(found[1]) <= 0:
        raise ValueError(f"--every must be a time such as 10s, 2m or 1h, but it is {text!r}.")
    return float(found[1]) * UNITS[found[2]]


def _place(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(f"--listen must be an address such as 127.0.0.1:9090, but it is {text!r}.")
    return host.strip("[]") or "127.0.0.1", int(port)
