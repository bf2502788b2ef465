"""`askwell serve` and `askwell bridge`: people label on askwell's own page, or in another tool."""

import errno
import hashlib
import hmac
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from askwell.cli.ask import warn
from askwell.cli.options import one_message, path_argument, whole_number

__all__ = ["bridge", "serve"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PORTS = 100  # that are tried to propose a free one
VARIABLE = "LABEL_STUDIO_API_KEY"
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@click.command()
@path_argument("folder")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 lets other machines in."
)
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8000, show_default=True, metavar="N", help="Port to listen on."
)
@click.option(
    "--token", envvar="ASKWELL_TOKEN", metavar="TEXT", help="Password for other machines.  [default: $ASKWELL_TOKEN]"
)
@click.option(
    "--name", "names", multiple=True, metavar="HOST", help="Host name that browsers may use. May be repeated."
)
@click.option(
    "--behind-proxy", metavar="ADDRESS", help="Trust X-Forwarded-For from the proxy at this address.  [default: none]"
)
def serve(
    folder: Path, host: str, port: int, token: str | None, names: tuple[str, ...], behind_proxy: str | None
) -> None:
    """Serve the labelling page of a project, and train its model in the background.

    By default only this machine can open the page. Any other --host needs a --token. Stop with Ctrl-C; all answers are
    saved.
    """
    with one_message():
        from askwell.project import open_project
        from askwell.project.project import CACHE
        from askwell.web import create_app  # says what to install if something is missing
        from askwell.web.connections import limits

        import uvicorn  # isort: skip

        names = _names(host, names, token)
        with open_project(folder) as project, _listener(host, port) as listener:
            warn(project)
            training = _training(project)
            app = create_app(
                project.session(),
                project.items,
                title=project.folder.name,
                targets=project.target_items or project.items,
                token=token,
                hosts=names,
                status=lambda: _training_status(training.status()),
                template=project.template(),
                sessions=project.folder / CACHE / "sessions.json",
            )
            with training:
                click.echo(f"Label at http://{'localhost' if host in LOOPBACK else host}:{port}  (Ctrl-C to stop)")
                config = uvicorn.Config(
                    app,
                    log_level="warning",
                    timeout_graceful_shutdown=5,
                    proxy_headers=behind_proxy is not None,
                    forwarded_allow_ips=behind_proxy,
                    **limits(),
                )
                with suppress(KeyboardInterrupt):
                    uvicorn.Server(config).run(sockets=[listener])


def _names(host: str, names: Sequence[str], token: str | None) -> tuple[str, ...]:
    """The names that browsers may use: this machine's own, and, where others may come in, those given or any."""
    if token is None and (names or host not in LOOPBACK):
        option = f"--name {names[0]}" if names and host in LOOPBACK else f"--host {host}"
        raise ValueError(
            f"{option} lets other machines in, so it needs a --token that only your annotators know. Try --token "
            f"{secrets.token_urlsafe(16)}"
        )
    return (*LOOPBACK, *(names or (() if host in LOOPBACK else ("*",))))


def _training(project: Any) -> Any:
    """What trains the project's model in the background while it is entered."""
    from askwell.project.training import Retraining

    every_labels, every_seconds = project.settings.retrain_every, project.settings.retrain_seconds
    return Retraining(project.folder, every_labels=every_labels, every_seconds=every_seconds, store=project.store())


def _training_status(status: dict[str, Any]) -> dict[str, Any]:
    seconds = None if status["since"] is None else max(0.0, time.time() - status["since"])
    return {"training": status["state"] == "fitting", "seconds": seconds, "text": status["text"]}


# ---- bridge ----------------------------------------------------------------------------------------------------------


@click.group()
def bridge() -> None:
    """Label in another tool, while askwell chooses the questions."""


@bridge.command("label-studio")
@path_argument("folder")
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
def label_studio(
    folder: Path,
    url: str,
    token: str | None,
    once: bool,
    every: str | None,
    listen: str | None,
    train: bool,
    **options: Any,
) -> None:
    """Let people label a project in Label Studio.

    FOLDER is an askwell project. Its questions go to Label Studio, best first, and the answers come back. You can stop
    and restart the command or Label Studio at any time: nothing is lost, and nothing is asked or saved twice.
    """
    from askwell.project import open_project

    with one_message(resume="Answers wait in Label Studio. Run the same command to resume."):
        if once and (every or listen):
            raise ValueError("--once synchronizes once: leave out --every and --listen.")
        seconds, address = _seconds(every or "10s"), _address(listen)
        with open_project(folder) as project, ExitStack() as stack:
            wake, hints = threading.Event(), None
            server = _server(url, token, stack)
            if address is not None:
                hints = stack.enter_context(_ml_backend(project, address, token, wake))
            link = _bridge(project, server, hints, **options)
            stack.callback(link.close)
            if once:
                report = link.once()
                click.echo(f"{url}/projects/{report.project}: {report}")
                for warning in report.warnings:
                    click.echo(f"Note: {warning}", err=True)
                return
            if train:
                stack.enter_context(_training(project))
            click.echo(f"Synchronizing {project.folder.name} with {url} every {seconds:g} seconds. Ctrl-C to stop.")
            link.run(seconds, say=click.echo, wake=wake)


def _server(url: str, token: str | None, stack: ExitStack) -> Any:
    from askwell.bridge import LabelStudio

    if not token:
        raise ValueError(
            f"--token is missing. Copy the API token of a user in Label Studio (Account & Settings) into {VARIABLE}."
        )
    server = LabelStudio(url, token)
    stack.callback(server.close)
    return server


def _bridge(
    project: Any, server: Any, hints: str | None, *, title: str | None, into: int | None, **options: Any
) -> Any:
    from askwell.bridge import Bridge

    title, run = title or project.folder.name, project.settings.run
    session, store = project.session(), project.store()
    return Bridge(server, session, project.items, store, title=title, run=run, project=into, hints=hints, **options)


@contextmanager
def _ml_backend(project: Any, address: tuple[str, int], token: str | None, wake: threading.Event) -> Iterator[str]:
    """Label Studio's ML routes, in a thread; the address that it can send hints to."""
    try:
        import uvicorn

        from askwell.bridge.ml_backend import ml_backend_app
        from askwell.web.connections import limits
    except ImportError:
        raise ImportError("--listen needs FastAPI and uvicorn: pip install 'askwell[web]'.") from None
    secret = hmac.new((token or "").encode(), str(project.folder).encode(), hashlib.sha256).hexdigest()[:24]
    listener = _listener(*address, option="--listen")
    app = ml_backend_app(
        project.session(), project.store(), run=project.settings.run, hint=wake.set, pause=0.2, token=secret
    )
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", proxy_headers=False, **limits())
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    url = f"http://{address[0]}:{address[1]}/{secret}"
    click.echo(f"ML backend, optional, for Label Studio: {url}")
    try:
        yield f"{url}/webhook"
    finally:
        server.should_exit = True
        thread.join(5)
        listener.close()


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not match or float(match[1]) <= 0:
        raise ValueError(f"--every must be a time such as 10s, 2m or 1h, but it is {text!r}.")
    return float(match[1]) * UNITS[match[2]]


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(f"--listen must be an address such as 127.0.0.1:9090, but it is {text!r}.")
    return host.strip("[]") or "127.0.0.1", int(port)


# ---- ports -----------------------------------------------------------------------------------------------------------


def _listener(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """A socket that listens, before any address is printed; or a ValueError that says why not, and proposes a port."""
    try:
        return _opened(host, port)
    except OSError as error:
        where, reason = f"{host}:{port}", error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            free = next((other for other in range(port + 1, min(port + PORTS, 65536)) if _is_free(host, other)), None)
            more = "another one" if free is None else f"{option} {free if option == '--port' else f'{host}:{free}'}"
            raise ValueError(
                f"port {port} is in use: another program listens on {where}, perhaps another askwell. Try {more}."
            ) from None
        if error.errno == errno.EACCES:
            raise ValueError(
                f"port {port} needs administrator rights on this machine ({reason}). Try one from 1024."
            ) from None
        raise ValueError(f"cannot listen on {where}; it is not an address of this machine: {reason}.") from None


def _opened(host: str, port: int) -> socket.socket:
    """A browser may take "localhost" for either loopback: none of them may be somebody else's."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, *_, address = sorted(addresses, key=lambda each: each[0] != socket.AF_INET)[0]
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
