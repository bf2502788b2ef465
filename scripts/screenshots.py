"""Makes the screenshots of the labelling page in docs/images: `python scripts/screenshots.py`, with Chromium installed.

The projects are made up: their mails, curves and figures are not measurements.
"""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import uvicorn
from playwright.sync_api import Browser, sync_playwright
from sklearn.datasets import load_digits

from askwell.data import Items, open_items
from askwell.estimate.accuracy import Estimate, wilson
from askwell.estimate.stopping import RULE
from askwell.report.page import png
from askwell.session import Candidate, Session
from askwell.store import open_store
from askwell.web import create_app

IMAGES = Path(__file__).parents[1] / "docs" / "images"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CLASSES = ("billing", "delivery", "bug report", "account", "praise", "other")
QUESTION = "Is there a discount for schools? We would need about thirty seats from September."
REASONS = {
    "Can a school pay by invoice, and after delivery?": 0.31,
    "Do you have a price list for non-profit organisations?": 0.24,
    "How do I change the address on an invoice of last month?": 0.11,
    "I was charged twice for order 8841, please send one payment back.": 0.05,
}
FORECAST = {"labels": 50, "gain": 0.012, "low": -0.045, "high": 0.054}
NEEDED = [(0.95, 40, 140), (0.97, 90, None)]
WHY = "The last 91 of 182 labels improved the accuracy on the targets by 3.1%, as the model sees it."
ADVICE = {"stop": False, "rule": RULE, "why": WHY}


def label(session: Session, items: Sequence[str], names: Sequence[Any], *, pause: float) -> None:
    """Labels of two people, one after another, up to now."""
    now = time.time()
    for number, (item, name) in enumerate(zip(items, names, strict=True)):
        with mock.patch("time.time", return_value=now - pause * (len(items) - number)):
            session.answer("Ada" if number % 2 else "Grace", item, name, key=f"key-{number:05}", seconds=pause / 2)


def train(session: Session, labels: Sequence[int], values: Sequence[float], queue: Sequence[Candidate]) -> None:
    """Rounds of training with their estimates; the last one has advice, and ranks the items."""
    for number, (count, value) in enumerate(zip(labels, values, strict=True), 1):
        drawn = count // 5
        low, high = wilson(value * drawn, drawn)
        shown = Estimate(value, low, high, how="drawn", labels=drawn, of="targets")
        report = {"round": number, "labels": count, "model": "linear", "estimate": shown.body(), "needed": NEEDED}
        session.put_round({**report, "next50": FORECAST, "advice": ADVICE}, queue=queue)


@contextmanager
def served(session: Session, items: Items, targets: Items, title: str, status: dict[str, Any]) -> Iterator[str]:
    """The address of the page, served by a thread."""
    app = create_app(session, items, title=title, targets=targets, status=lambda: status)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def picture(browser: Browser, address: str, name: str, *, why: bool = False, **options: Any) -> None:
    """One screenshot of the page, as Ada sees it."""
    page = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options}).new_page()
    page.goto(address)
    page.fill("#name", "Ada")
    page.click("button[type=submit]")
    page.wait_for_selector("body[data-ready=yes]")
    page.wait_for_selector("#curve canvas, #curve .u-wrap")
    if why:
        page.keyboard.press("w")
    page.wait_for_timeout(1000)
    page.screenshot(path=IMAGES / name)
    page.context.close()


def mails(browser: Browser) -> None:
    """Texts with six classes: light, dark with the reasons, and on a phone."""
    ids = [f"ticket-{4000 + n}" for n in range(2000)]
    items = Items("mail", "text", tuple(ids), [QUESTION] * len(ids))
    targets = Items("targets", "text", tuple(f"t{n}" for n in range(len(REASONS))), list(REASONS))
    with open_store(None) as store:
        session = Session(store, items.ids)
        session.set_rules("start", classes=list(CLASSES), budget=500)
        label(session, ids[1000:1182], [CLASSES[n % 6] for n in range(182)], pause=16)
        curve = [0.56, 0.66, 0.73, 0.78, 0.83, 0.86, 0.87, 0.89, 0.90, 0.91, 0.91, 0.92, 0.92]
        why = tuple(zip(targets.ids, REASONS.values(), strict=True))
        queue = [Candidate(item, 0.18, why) for item in ids[153:250]]
        train(session, [14 * n for n in range(1, 14)], curve, queue)
        status = {"training": True, "seconds": 3.0}
        with served(session, items, targets, "Support mail", status) as address:
            picture(browser, address, "web_light.png")
            picture(browser, address, "web_dark.png", why=True, color_scheme="dark")
            phone = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 1.5, "has_touch": True}
            picture(browser, address, "web_phone.png", is_mobile=True, **phone)


def digits(browser: Browser, folder: Path) -> None:
    """Images with ten classes, and the targets that one would inform."""
    images, truth = load_digits(return_X_y=True)
    for number, image in enumerate(images[:130]):
        place = folder / ("pool" if number < 100 else "targets") / f"{number:03}.png"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(png(image.reshape(8, 8) / 16))
    items, targets = open_items(folder / "pool"), open_items(folder / "targets")
    with open_store(None) as store:
        session = Session(store, items.ids)
        session.set_rules("start", classes=[str(n) for n in range(10)], budget=100)
        label(session, list(items.ids)[:30], [str(name) for name in truth[:30]], pause=9)
        why = tuple(zip(list(targets.ids)[3:8], (0.33, 0.27, 0.20, 0.12, 0.10), strict=True))
        train(session, [10, 20, 30], [0.41, 0.49, 0.55], [Candidate(item, 0.21, why) for item in list(items.ids)[33:]])
        with served(session, items, targets, "Digits", {"training": False, "text": ""}) as address:
            picture(browser, address, "web_picture.png", why=True)


def main() -> None:
    """All of them."""
    path = os.environ.get("ASKWELL_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        mails(browser)
        digits(browser, Path(name))
        browser.close()


if __name__ == "__main__":
    main()
