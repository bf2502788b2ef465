"""A real Label Studio server, from the template of scripts/label_studio, and the people in front of it."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import httpx

PLACE = Path(os.environ.get("ASKWELL_LABEL_STUDIO") or Path.home() / ".cache" / "askwell-label-studio")
PROGRAM = PLACE / "venv" / "bin" / "label-studio"
TOKENS = {name: (name * 14)[:40] for name in ("ada", "bob")}
QUIET = {
    "COLLECT_ANALYTICS": "False",
    "LATEST_VERSION_CHECK": "False",
    "SENTRY_DSN": "",
    "FRONTEND_SENTRY_DSN": "",
    "LOG_LEVEL": "ERROR",
    # Both programs are on this machine, which Label Studio would refuse to call.
    "ML_BLOCK_LOCAL_IP": "false",
    "SSRF_PROTECTION_ENABLED": "false",
    "TASK_LOCK_TTL": "600",
}


class Server:
    """A running Label Studio."""

    def __init__(self, folder):
        self.folder, self.people = folder, {}
        shutil.copytree(PLACE / "template", folder / "data")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(PROGRAM, "start", "--no-browser", "--internal-host", "127.0.0.1"),
                    *("--port", str(self.port), "--data-dir", self.folder / "data"),
                ],
                env=os.environ | QUIET | {"LABEL_STUDIO_BASE_DATA_DIR": str(self.folder / "data"), "DEBUG": "false"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + 300
        while True:
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            try:
                if httpx.get(f"{self.url}/health", timeout=2, trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.3)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def log(self):
        return (self.folder / "log").read_text("utf-8", "replace")[-3000:]

    def person(self, name):
        """Somebody's HTTP client."""
        if name not in self.people:
            self.people[name] = Person(self.url, name)
        return self.people[name]

    def django(self, script):
        """Run a script inside Label Studio's own code, for what its API does not offer."""
        start = (
            "import os, sys, label_studio\n"
            "sys.path.insert(0, os.path.dirname(label_studio.__file__))\n"
            "import django\n"
            "django.setup()\n"
        )
        environment = QUIET | {
            "LABEL_STUDIO_BASE_DATA_DIR": str(self.folder / "data"),
            "DJANGO_SETTINGS_MODULE": "core.settings.label_studio",
        }
        done = subprocess.run(
            [PROGRAM.with_name("python"), "-c", start + script],
            env=os.environ | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout


class Person:
    """What somebody does in Label Studio's page, by the requests that the page makes."""

    def __init__(self, url, name):
        self.name = f"{name}@example.com"
        headers = {"Authorization": f"Token {TOKENS[name]}"}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)

    def ask(self, method, path, **options):
        answer = self.http.request(method, path, **options)
        assert answer.status_code < 400, (answer.status_code, answer.text[:500])
        return answer.json() if answer.content else None

    def next(self, project):
        """The next task of the label stream, or None."""
        answer = self.http.get(f"/api/projects/{project}/next")
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text[:500]
        return answer.json()

    def label(self, task, label, shown="text", **more):
        result = [{"from_name": "label", "to_name": shown, "type": "choices", "value": {"choices": [label]}}]
        return self.ask("POST", f"/api/tasks/{task}/annotations/", json={"result": result, "lead_time": 2.5} | more)

    def skip(self, task):
        return self.ask("POST", f"/api/tasks/{task}/annotations/", json={"result": [], "was_cancelled": True})
