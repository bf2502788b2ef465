"""Runs every public command on a small example and prints what they print, to compare two versions of askwell.

Run it before and after a change (`PYTHONPATH=... python scripts/commands.py > after.txt`) and diff the two files.
Times, paths, keys and ports are normalised. Right uses come first, then wrong ones and the help texts.
"""

import csv
import html
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

RUN = "from askwell.cli import main; main()"
FEW = ["--seeds", "2", "--budget", "12", "--processes", "1"]
RIGHT = [
    "init mail --pool mail.csv --targets targets.csv --classes ham,spam --id key --show text --budget 40 --batch 4",
    "init flowers --pool flowers.csv --label kind --model forest --evaluation 0.1 --class-weights a=1,b=2",
    "ask mail --size 3 --who ada",
    "tell mail m1 ham --who ada",
    "tell mail --from labels.csv --who ada",
    "tell mail --from labels.csv --who ada",
    "ask mail --size 2 --who ada --json",
    "status mail",
    "status mail --json",
    "status mail --reach 0.95",
    "review mail",
    "status flowers",
    "ask flowers --size 2 --who bob",
    "rules mail",
    "rules mail --rename spam=junk --add other --budget none --labels-per-item 2 --who ada",
    "rules mail --json",
    "predict flowers flowers.csv --out predicted.csv --all-classes",
    "predict mail --targets",
    "export mail answers.csv",
    "export mail answers.json",
    "export mail answers.jsonl --with-item --consensus",
    "import mail answers.csv",
    "import mail more.csv",
    "backup mail --out copy.zip",
    "restore copy.zip again",
    "status again",
    "simulate flowers.csv --label kind --scores random,epig --out sim " + " ".join(FEW),
    "simulate flowers.csv --label kind --scores random,epig --out sim --metric log_loss " + " ".join(FEW),
    "score flowers.csv --labelled few.csv --label kind --size 3",
    "score flowers.csv --labelled few.csv --label kind --size 3 --out scores --class-weights a=1,b=5",
    "demo --out demo " + " ".join(FEW),
    "reproduce",
]
WRONG = [
    *("init", "init p --pool nowhere.csv", "init p --pool mail.csv --classes ham", "init p --pool mail.csv --id nokey"),
    *("init p --pool mail.csv --classes ham,spam --class-prior ham", "init p --pool mail.csv --label nolabel"),
    *("init p --pool mail.csv --classes ham,spam --batch 0", "init p --pool mail.csv --classes a,b --score epgi"),
    *("init mail --pool mail.csv", "init p --pool mail.csv --classes a,b --model forrest"),
    *("serve nowhere", "serve mail --host 0.0.0.0", "serve mail --port 99999", "serve mail --token short"),
    *("serve mail --port {used}", "serve mail --name lab.example.org"),
    *("simulate nowhere.csv --label kind", "simulate flowers.csv", "simulate flowers.csv --label king"),
    *("simulate flowers.csv --label kind --scores epgi", "simulate flowers.csv --label kind --out mail"),
    *("simulate flowers.csv --label kind --budget 3 --out s2", "simulate flowers.csv --label kind --metric f1"),
    *("score nowhere.csv --labelled few.csv --label kind", "score flowers.csv --labelled few.csv --label king"),
    *("score flowers.csv --labelled few.csv --label kind --score epgi", "score flowers.csv --label kind"),
    *("score flowers.csv --labelled few.csv --label kind --size 0",),
    *("score mail.csv --labelled few.csv --label kind", "score flowers.csv --labelled few.csv --label kind --id nokey"),
    *("export nowhere a.csv", "export mail a.txt", "export mail", "export mail missing/a.csv"),
    *("export mail a.csv --format xml", "export mail mail.csv --who"),
    *("ask nowhere", "tell mail m1", "tell mail m1 egg --who ada", "tell mail nobody ham", "ask mail --engine lokal"),
    *("rules mail --budget many", "rules mail --rename ham", "rules mail --remove nothing", "status nowhere"),
    *("predict mail", "predict mail mail.csv --pool", "predict nowhere a.csv", "predict flowers few.csv --out x.txt"),
    *("import mail nowhere.csv", "backup nowhere", "restore nowhere.zip r", "restore copy.zip mail"),
    *("bridge label-studio mail", "bridge label-studio mail --token t --once --every 5s"),
    *("bridge label-studio mail --token t --listen here", "demo --budget 3", "reproduce nothing", "demo --out mail"),
]
COMMANDS = (
    *(
        "",
        "init",
        "serve",
        "ask",
        "tell",
        "status",
        "review",
        "rules",
        "predict",
        "export",
        "import",
        "backup",
        "restore",
    ),
    *("bridge", "bridge label-studio", "demo", "simulate", "score", "reproduce"),
)
SAME = (  # what differs from run to run, and what is written instead
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?( UTC|Z|\+\d\d:\d\d)?", "TIME"),
    (r"\b[0-9a-f]{32}\b", "KEY"),
    (r'("token": ")[^"]+', r"\1TOKEN"),
    (r"--token [\w-]{20,}", "--token TOKEN"),
    (r'("(until|at|seconds|cpu|took|rate|hours|last)": ?)[\d.e+-]+', r"\1N"),
    (r"\d+(\.\d+)?\s+(s|seconds|min|minutes|hours)\b", r"N \2"),
    (r"\d+(\.\d+)? (KB|MB|bytes)\b", r"N \2"),
    (r"[\d,]+( labels)? an hour", r"N\1 an hour"),
    (r"[ \t]+(?=\n)", ""),
)


def data(folder: Path) -> None:
    """A table of texts, one of numbers, and labels of both."""
    words = [("win a prize now", "spam"), ("see you at noon", "ham"), ("cheap pills here", "spam"), ("notes", "ham")]
    mails = [[f"m{i}", f"{words[i % 4][0]} {i} {words[(i // 4) % 4][0]}"] for i in range(60)]
    rows(folder / "mail.csv", [["key", "text"], *mails])
    rows(folder / "targets.csv", [["key", "text"], *([f"t{i}", f"prize at noon {i}"] for i in range(10))])
    rows(folder / "labels.csv", [["id", "label"], *([f"m{i}", words[i % 4][1]] for i in range(2, 20))])
    rows(folder / "more.csv", [["id", "label", "who"], ["m30", "ham", "eve"], ["m31", "egg", "eve"]])
    flowers = [[i % 7 / 2, i % 5 - 1.5, "north" if i % 3 else "south", "ab"[i % 7 > 3]] for i in range(90)]
    rows(folder / "flowers.csv", [["width", "height", "place", "kind"], *flowers])
    rows(folder / "few.csv", [["width", "height", "place", "kind"], *flowers[:12]])


def rows(path: Path, lines: list[list[object]]) -> None:
    """A CSV file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)


def normalised(text: str, folder: Path) -> str:
    """A text without what differs from run to run."""
    for pattern, instead in ((re.escape(str(folder)), "FOLDER"), *SAME):
        text = re.sub(pattern, instead, text)
    return text


def printed(arguments: str, folder: Path) -> str:
    """What a command prints on both streams, and its exit code."""
    settings = {**os.environ, "COLUMNS": "100", "USER": "ann", "LOGNAME": "ann", "ASKWELL_TOKEN": "", "PYTHONUTF8": "1"}
    run = subprocess.run(
        [sys.executable, "-c", RUN, *arguments.split()], cwd=folder, env=settings, capture_output=True, text=True
    )  # fmt: skip
    errors = f"--- stderr\n{run.stderr}" if run.stderr else ""
    return normalised(f"{run.stdout}{errors}exit {run.returncode}", folder)


def served(folder: Path) -> str:
    """The status, headers and visible text of the page of a server, and its JSON after a sign-in."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    command = [sys.executable, "-c", RUN, "serve", "mail", "--port", str(port)]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    lines = [server.stdout.readline()]
    while lines[-1] and "Label at" not in lines[-1]:
        lines.append(server.stdout.readline())
    try:
        page = f"http://127.0.0.1:{port}"
        sent = urllib.request.Request(
            f"{page}/api/sign-in", b'{"name": "ada"}', {"content-type": "application/json"}
        )  # fmt: skip
        with urllib.request.urlopen(sent) as answer:
            cookie = answer.headers["set-cookie"].split(";")[0]
        for path in ("/", "/panel", "/classes", "/api/rules", "/api/answers?size=2", "/api/progress"):
            with urllib.request.urlopen(urllib.request.Request(page + path, headers={"cookie": cookie})) as answer:
                text = answer.read().decode()
            lines.append(f"{path}\n{visible(text) if text.startswith('<') or path[1] in 'pc' else text}\n")
        with urllib.request.urlopen(
            urllib.request.Request(f"{page}/api/openapi.json", headers={"cookie": cookie})
        ) as answer:
            lines += [f"{line}\n" for line in api(json.loads(answer.read()))]
    finally:
        time.sleep(0.5)
        server.terminate()
        server.wait()
    return normalised("".join(lines).replace(str(port), "PORT"), folder)


def visible(page: str) -> str:
    """The text of a page of HTML."""
    text = re.sub(r"(?s)<(style|script|svg).*?</\1>", " ", page)
    return re.sub(r"\s*\n\s*", "\n", html.unescape(re.sub(r"<[^>]+>", "\n", text))).strip()


def api(described: dict[str, dict[str, dict[str, dict[str, object]]]]) -> list[str]:
    """Paths with their methods, and the fields of all bodies with their types; what schemas are called is left out."""
    lines = [f"{method} {path}" for path, methods in described["paths"].items() for method in methods]
    schemas = described["components"]["schemas"]
    bodies = []
    for schema in schemas.values():
        fields = {name: normal_schema(field) for name, field in schema.get("properties", {}).items()}
        bodies.append(json.dumps([fields, schema.get("required", [])], sort_keys=True))
    return [*sorted(lines), *sorted(bodies)]


def normal_schema(schema: object) -> object:
    """A schema without its titles and the names of others."""
    if isinstance(schema, dict):
        return {
            key: normal_schema(value)
            for key, value in schema.items()
            if key not in ("title", "$ref", "mapping", "description")
        }
    return [normal_schema(each) for each in schema] if isinstance(schema, list) else schema


def show(arguments: str, folder: Path) -> None:
    """Print a command and what it printed."""
    print(f"\n=== askwell {arguments}\n{printed(arguments, folder)}", flush=True)


def main() -> None:
    """Everything, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as used:
        folder = Path(name).resolve()
        data(folder)
        for arguments in RIGHT:
            show(arguments, folder)
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not re.search(r"labels\.db|steps|sessions|cache", str(path.relative_to(folder))):
                print(f"file {path.relative_to(folder)}")
        for name in ("answers.csv", "answers.jsonl", "predicted.csv", "sim/questions.csv", "mail/askwell.toml"):
            print(f"\n=== {name}\n{normalised((folder / name).read_text(), folder)}")
        for name in ("sim/report.html", "demo/report.html"):
            print(f"\n=== {name}\n{normalised(visible((folder / name).read_text('utf-8')), folder)}")
        print(f"\n=== serve\n{served(folder)}")
        port = used.getsockname()[1]
        for arguments in WRONG:
            text = printed(arguments.format(used=port), folder)
            text = re.sub(r"--port \d+", "--port FREE", text.replace(str(port), "USED"))
            print(f"\n=== askwell {arguments}\n{text}", flush=True)
        for command in COMMANDS:
            show(f"{command} --help".strip(), folder)


if __name__ == "__main__":
    main()
