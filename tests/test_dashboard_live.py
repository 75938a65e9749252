"""The page in a real browser, on a real pipeline: what people see.

``EAGRE_SCREENSHOTS=docs/images`` writes the pictures of the docs.
"""

import json
import os
import re
import shutil
import signal
import threading
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Producer

from eagre.broker import EmbeddedBroker
from eagre.cli.exit_codes import ExitCode
from eagre.waiting import wait_until
from test_run import Run
from test_supervision import jvm_of

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed: the page is not looked at"),
]

APP = """
from pyspark.sql import functions as F
import eagre as eg

@eg.pipeline(
    source=eg.Kafka("payments", schema="card STRING, amount DOUBLE", partitions=2),
    sink=eg.Kafka("scores", key="card"),
    slo="p99 < 250ms",
)
def score(df):
    once = eg.deduplicate(df, ["card", "amount"], within="1 minute")
    return once.withColumn("risk", F.when(F.col("amount") > 900, 0.9).otherwise(0.1))
"""
FIGURE = re.compile(r"\d\s*m?s\b")
MARKUP = "<img src=x onerror=\"document.title='pwned'\">"


class Load:
    """Sends payments at a steady rate, one in a hundred unreadable, one with markup in it."""

    def __init__(self, brokers):
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, "log_level": 0})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        number = 0
        while not self._over.wait(1 / 200):
            number += 1
            card = MARKUP if number % 8 == 0 else f"card-{number % 97}"
            value = json.dumps({"card": card, "amount": number})
            self._producer.produce(
                "payments", "no payment" if number % 100 == 0 else value, key=card
            )
            self._producer.poll(0)

    def close(self):
        self._over.set()
        self._thread.join()
        self._producer.flush(5)


class Looker:
    """A browser window on the page, with everything it complains about."""

    def __init__(self, window):
        self.window = window
        self.complaints = []
        self.asked = set()
        window.on(
            "console", lambda m: self.complaints.append(m.text) if m.type == "error" else None
        )
        window.on("pageerror", lambda error: self.complaints.append(str(error)))
        window.on("request", lambda request: self.asked.add(request.url.split("/")[2]))

    def text(self, selector):
        return self.window.inner_text(selector)

    def until(self, condition, seconds, message):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, message + "\n" + self.text("main")[:2000]
            self.window.wait_for_timeout(200)


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def broker(tmp_path):
    place = tmp_path / "kafka"
    place.mkdir()
    started = EmbeddedBroker(data=place).start()
    yield started
    started.stop()


def picture(looker, name, tmp_path):
    folder = Path(os.environ.get("EAGRE_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    looker.window.evaluate("window.scrollTo(0, 0)")
    looker.window.screenshot(path=folder / f"{name}.png")


def fits(looker, width):
    looker.window.set_viewport_size({"width": width, "height": 900})
    looker.window.wait_for_timeout(1200)
    return looker.window.evaluate("document.documentElement.scrollWidth") <= width


def contrast(looker, selector):
    """How far a text stands out from what is behind it, as WCAG counts it."""
    return looker.window.evaluate(CONTRAST, selector)


CONTRAST = """(selector) => {
  const channel = (v) => (v <= 10 ? v / 3294 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = (text) => {
    const [r, g, b] = text.match(/[0-9.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  };
  const node = document.querySelector(selector);
  const ground = (one) => getComputedStyle(one).backgroundColor;
  let behind = node;
  while (ground(behind) === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const a = luminance(getComputedStyle(node).color), b = luminance(ground(behind));
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


def test_the_page_shows_the_stream_and_its_tail(cli, broker, browser, tmp_path):
    app = cli.app(APP)
    run = Run(cli, app, "--brokers", broker.address, "--every", "8 seconds", "--slo-check")
    load = None
    try:
        run.wait_for("dashboard: ")
        address = next(line for line in run.said if "dashboard: " in line).split("dashboard: ")[1]
        looker = Looker(browser.new_page(viewport={"width": 1280, "height": 900}))
        looker.window.goto(address)
        assert "token" not in looker.window.url
        run.wait_for("running in real-time")
        looker.until(lambda: looker.text("#phase") == "waiting for records", 10, "it never waits")
        assert "payments" in looker.text("#graph")
        load = Load(broker.address)
        _flows(looker)
        _opens(looker)
        _seen_from_outside(cli)
        _readable(looker, tmp_path)
        broker = _stalls(looker, broker, tmp_path)
        _starts_again(looker, cli)
        assert looker.window.title() != "pwned"
        assert looker.complaints == []
        assert {host.split(":")[0] for host in looker.asked} == {"127.0.0.1"}
    finally:
        if load:
            load.close()
        code = run.end(signal.SIGTERM)
        broker.stop()
        for pipe in (run.process.stdin, run.process.stdout, run.process.stderr):
            pipe.close()
    assert code == ExitCode.SLO_BROKEN, run.said
    assert run.has("score: SLO p99 < 250ms broken")


def _flows(looker):
    looker.until(lambda: looker.text("#phase") == "running", 30, "no records are seen")
    looker.until(lambda: FIGURE.search(looker.text("#tiles .c-p50")), 20, "no latency is shown")
    seen = set()

    def moves():
        seen.add(looker.text("#tiles"))
        return len(seen) > 4

    looker.until(moves, 20, "the figures stand still")
    looker.until(
        lambda: looker.window.locator("#latency-chart line.epoch").count() > 0,
        30,
        "no boundary is marked",
    )
    assert looker.window.locator("#latency-chart path.series").count() == 4
    assert re.search(r"\n\d", looker.text("#epochs"))
    assert "waiting in the source topic" in looker.text("#chain")
    assert "payments/1" in looker.text("#partitions")
    assert re.search(r"2 \+ \d+ = \d+ task slots of", looker.text("#graph"))
    keys = re.compile(r"[1-9][\d,]* *\n?keys")
    looker.until(lambda: keys.search(looker.text("#state")), 30, "no keys of the state are shown")
    assert "SLO: p99 < 250ms" in looker.text("#slo")
    assert "spark.sql.shuffle.partitions" in looker.text("#settings")
    looker.window.hover("#latency-chart svg")
    assert "p99" in looker.text("#latency-chart .tip")


def _opens(looker):
    looker.window.click("#topics [data-topic=scores] summary")
    looker.until(
        lambda: '"risk":' in looker.text("#topics"), 15, "no record of the output is shown"
    )
    looker.window.click("#letters [data-topic='payments.dlq'] summary")
    looker.until(lambda: "no payment" in looker.text("#letters"), 15, "no dead letter is shown")
    assert "UNPARSABLE: the value is not a JSON object" in looker.text("#letters")
    looker.until(lambda: MARKUP in looker.text("#topics"), 15, "markup is not shown as text")
    looker.window.uncheck("#payloads")
    looker.until(lambda: "hidden" in looker.text("#topics"), 15, "the switch hides nothing")
    assert '"risk":' not in looker.text("#topics")
    looker.window.check("#payloads")
    looker.until(lambda: '"risk":' in looker.text("#topics"), 15, "the switch shows nothing again")


def _seen_from_outside(cli):
    """A page that is started later, by another process, measures the same pipeline."""
    other = cli.start("dashboard")
    try:
        line = other.stderr.readline()
        url, token = line.strip().split("dashboard: ")[1].split("?token=")
        asked = Request(url + "api/state", headers={"Authorization": f"Bearer {token}"})  # noqa: S310

        def measured():
            with urlopen(asked, timeout=10) as answer:  # noqa: S310
                views = json.load(answer)["pipelines"]
            return [v["meter"]["total"]["records"] > 100 for v in views] == [True]

        wait_until(measured, 30, "a page of its own sees nothing")
    finally:
        other.send_signal(signal.SIGTERM)
        assert other.wait(20) == 0
        other.communicate()


def _readable(looker, tmp_path):
    if "EAGRE_SCREENSHOTS" in os.environ:
        looker.window.wait_for_timeout(45_000)
    for theme in ("light", "dark"):
        if looker.window.evaluate("document.documentElement.dataset.theme") != theme:
            looker.window.click("#theme")
        for width in (1280, 390):
            assert fits(looker, width), f"{theme} at {width} px is wider than the window"
            picture(looker, f"dashboard-{theme}-{width}", tmp_path)
        for selector in ("h1", "#tiles .tile span", "#causes h2", "#meter"):
            assert contrast(looker, selector) > 3.5, (theme, selector)
    looker.window.click("#theme")
    looker.window.set_viewport_size({"width": 1280, "height": 900})


def _stalls(looker, broker, tmp_path):
    os.kill(broker.pid, signal.SIGKILL)
    looker.until(lambda: looker.text("#phase") == "stalled", 90, "a dead broker is not noticed")
    assert "no Kafka broker answers at" in looker.text("#why")
    picture(looker, "dashboard-stalled", tmp_path)
    again = EmbeddedBroker(port=broker.port, data=broker.data).start()
    looker.until(lambda: looker.text("#phase") == "running", 120, "it does not come back")
    return again


def _starts_again(looker, cli):
    before = looker.window.locator("#latency-chart line.restart").count()
    jvm_of(cli).kill()
    looker.until(
        lambda: looker.window.locator("#latency-chart line.restart").count() > before,
        60,
        "the restart is not marked",
    )
    looker.until(lambda: looker.text("#phase") == "running", 60, "it does not come back")
    assert re.search(r"\d+ restarts?\b", looker.text("#status"))
