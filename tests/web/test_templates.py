"""Hostile texts, cells, classes and names in a real browser: no script runs (R15)."""

import itertools
import threading
import time

import pytest
import uvicorn
from labelling_server import free_port

from askwell.data import Items, open_items
from askwell.session import Candidate, Session
from askwell.store import open_store
from askwell.web import create_app

RUN = "window.ran=1;alert(1)"
HANDLERS = ("onerror", "onload", "onclick", "onfocus autofocus", "onmouseover", "ontoggle open", "onanimationstart")
TAGS = (
    "img src=x",
    "svg",
    "body",
    "input",
    "details",
    "video src=x",
    "audio src=x",
    "iframe",
    "object data=x",
    "marquee",
)
BREAKS = ("", '">', "'>", "</td>", "</title>", "</textarea>", "-->", "</script>")
PAYLOADS = [
    f"{start}<{tag} {handler}={RUN}>" for start, tag, handler in itertools.product(BREAKS, TAGS, HANDLERS)
] + [
    f"<script>{RUN}</script>",
    f"<script src='data:text/javascript,{RUN}'></script>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<a href='javascript:{RUN}'>x</a>",
    f"<form action='javascript:{RUN}'><button autofocus>x</button></form>",
    f"<math><mtext><img src=x onerror={RUN}></mtext></math>",
    f"{{{{constructor.constructor('{RUN}')()}}}}",
    f"{{% for x in [].__class__.__base__.__subclasses__() %}}{{{{ x }}}}{{% endfor %}}${{{RUN}}}",
    f"<div hx-get='/panel' hx-trigger='load' hx-on::load='{RUN}'>x</div>",
    f"\\u003cimg src=x onerror={RUN}\\u003e",
    f"&lt;img src=x onerror={RUN}&gt;",
    f"<style>@import 'data:text/css,*{{}}';</style><link rel=stylesheet href=data:text/css,x onload={RUN}>",
]  # fmt: skip


@pytest.fixture
def serve():
    """Apps on ports of their own, in threads."""
    running = []

    def start(app):
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=free_port(), log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        running.append((server, thread))
        while not server.started:
            time.sleep(0.02)
        return f"http://127.0.0.1:{server.config.port}"

    yield start
    for server, thread in running:
        server.should_exit = server.force_exit = True
        thread.join()


def watched(page):
    """The dialogs that scripts open."""
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    return dialogs


def enter(page, address, name):
    page.goto(address)
    page.fill("#name", name)
    page.click("button.main")
    page.wait_for_selector("body[data-ready=yes]")


def test_there_are_many_payloads_and_they_work_where_nothing_guards(window):
    assert len(PAYLOADS) > 500
    page = window()
    dialogs = watched(page)
    page.set_content(f"<p>{PAYLOADS[0]}</p>")
    page.wait_for_function("() => window.ran === 1")
    assert dialogs == ["1"]


def test_no_script_runs(tmp_path, serve, window):
    """Every payload as a cell of a table, some as texts, classes, names, targets and reports of the trainer."""
    rows = 12
    header = ",".join(f"c{n}" for n in range(len(PAYLOADS) // rows + 1))
    cells = [PAYLOADS[row::rows] for row in range(rows)]
    width = header.count(",") + 1
    lines = [",".join('"' + cell.replace('"', '""') + '"' for cell in row + [""] * (width - len(row))) for row in cells]
    (tmp_path / "pool.csv").write_text("\n".join([header, *lines]) + "\n", "utf-8")
    items = open_items(tmp_path / "pool.csv", kind="table")
    classes = [payload[:100] for payload in PAYLOADS[-12:]] + ["plain", PAYLOADS[80][:100]]
    with open_store(f"sqlite:///{tmp_path}/labels.db") as store:
        session = Session(store, items.ids)
        session.set_rules("start", classes=list(dict.fromkeys(classes)))
        payload = PAYLOADS[0]
        session.put_round(
            {"round": 1, "labels": 3, "model": payload, "advice": {"stop": True, "rule": payload, "why": payload},
             "estimate": {"metric": payload, "how": payload, "value": 0.5, "low": 0.4, "high": 0.6}},
            queue=[Candidate(item, 0.1, ((items.ids[0], 0.1), (payload, 0.2))) for item in items.ids],
        )  # fmt: skip
        session.put_round({"round": 2, "failed": PAYLOADS[-1]})
        app = create_app(
            session, items, title=payload, targets=items, status=lambda: {"training": True, "text": PAYLOADS[-12]}
        )
        address, page = serve(app), window()
        dialogs = watched(page)
        enter(page, address, PAYLOADS[0][:80])
        page.keyboard.press("w")
        for _ in range(rows):
            page.wait_for_selector("#item .cells")
            before = page.inner_text("#item-id")
            assert page.evaluate("() => document.querySelectorAll('#item img, #item svg, #item script').length") == 0
            page.keyboard.press("1")
            page.wait_for_function("before => document.getElementById('item-id').textContent !== before", arg=before)
        page.wait_for_selector(".failed")
        page.keyboard.press("e")
        page.wait_for_selector(".class-list")
        page.wait_for_timeout(500)
        assert page.evaluate("() => window.ran") is None
        assert dialogs == []
        assert len(session.labels()) == rows
        shown = page.evaluate("() => document.body.textContent")
        assert PAYLOADS[0][:80] in shown  # as text: it arrived, and did nothing


@pytest.mark.parametrize(
    "template", [None, "<div class='slot'><p>{{ text }}</p><b>{{ id }}</b></div>", "{{ text|safe }}"]
)
def test_no_script_runs_in_texts_and_templates(tmp_path, serve, window, template):
    """Not even where a project's own template trusts its texts: the policy of the page forbids it."""
    texts = PAYLOADS[-12:] + PAYLOADS[:420:60]
    items = Items("texts", "text", tuple(f"{n} {text[:60]}" for n, text in enumerate(texts)), texts)
    with open_store(f"sqlite:///{tmp_path}/labels.db") as store:
        session = Session(store, items.ids)
        session.set_rules("start", classes=["a", "b"])
        address, page = serve(create_app(session, items, title="Texts", template=template)), window()
        dialogs = watched(page)
        enter(page, address, "ada")
        for _ in texts:
            page.wait_for_function("() => document.getElementById('item-id').textContent")
            before = page.inner_text("#item-id")
            page.keyboard.press("a")
            page.wait_for_function("before => document.getElementById('item-id').textContent !== before", arg=before)
        page.wait_for_timeout(300)
        assert page.evaluate("() => window.ran") is None
        assert dialogs == []
        assert len(session.labels()) == len(texts)
