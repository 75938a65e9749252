"""The dashboard in a real browser, on a real pipeline.

``EAGRE_SCREENSHOTS=docs/images`` writes the screenshots of the docs, of a pipeline whose first
records came slowly and that has then run for some minutes.
"""

import json
import os
import re
import shutil
import signal
import threading
from pathlib import Path
from random import Random
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
    pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed"),
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
PICTURES = os.environ.get("EAGRE_SCREENSHOTS")
WARM_MS = 330_000
RATE, FIRST_RATE, FIRST_RECORDS = 200, 5, 150
"""Records per second; and of the first records, if the pictures are for the docs."""
PICTURED = {
    ("light", 1280): "#topics",
    ("light", 390): "#partitions",
    ("dark", 1280): "#graph",
    ("dark", 390): "#partitions",
}
"""The last panel on each picture."""
FIGURE = re.compile(r"\d\s*m?s\b")
MARKUP = "<img src=x onerror=\"document.title='pwned'\">"


class Load:
    """Sends payments at a steady rate, one in a hundred unreadable, some with markup in them."""

    def __init__(self, brokers):
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, "log_level": 0})
        self.markup = True
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        random, number = Random(7), 0
        while not self._over.wait(1 / self._rate(number)):
            number += 1
            marked = self.markup and number % 8 == 0
            card = MARKUP if marked else f"card-{random.randrange(2000):04}"
            amount = round(random.lognormvariate(4.5, 1.4), 2)
            value = json.dumps({"card": card, "amount": amount})
            self._producer.produce(
                "payments", "no payment" if number % 100 == 0 else value, key=card
            )
            self._producer.poll(0)

    def _rate(self, number):
        return FIRST_RATE if PICTURES and number < FIRST_RECORDS else RATE

    def close(self):
        self._over.set()
        self._thread.join()
        self._producer.flush(5)


class DashboardTab:
    """A browser window on the dashboard, its console errors and the hosts that it asks."""

    def __init__(self, window):
        self.window = window
        self.errors = []
        self.hosts = set()
        window.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        window.on("pageerror", lambda error: self.errors.append(str(error)))
        window.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def text(self, selector):
        return self.window.inner_text(selector)

    def until(self, condition, seconds, message):
        def shown():
            self.window.wait_for_timeout(200)
            return condition()

        try:
            wait_until(shown, seconds, message, interval=0)
        except TimeoutError as error:
            raise AssertionError(f"{message}\n{self.text('main')[:2000]}") from error


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


def screenshot(tab, name, last, tmp_path):
    """Take a picture from the top to the end of a panel, so that no panel is cut."""
    folder = Path(PICTURES or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    tab.window.evaluate("window.scrollTo(0, 0)")
    box = tab.window.locator(last).bounding_box()
    width, height = tab.window.viewport_size["width"], box["y"] + box["height"] + 8
    clip = {"x": 0, "y": 0, "width": width, "height": height}
    tab.window.screenshot(path=folder / f"dashboard-{name}.png", full_page=True, clip=clip)


def fits(tab, width):
    tab.window.set_viewport_size({"width": width, "height": 900})
    tab.window.wait_for_timeout(1200)
    return tab.window.evaluate("document.documentElement.scrollWidth") <= width


def contrast(tab, selector):
    """Return the contrast of a text and its background, as WCAG defines it."""
    return tab.window.evaluate(CONTRAST, selector)


CONTRAST = """(selector) => {
  const channel = (v) => (v <= 10 ? v / 3294 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = (text) => {
    const [r, g, b] = text.match(/[0-9.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  };
  const node = document.querySelector(selector);
  const background = (element) => getComputedStyle(element).backgroundColor;
  let parent = node;
  while (background(parent) === "rgba(0, 0, 0, 0)") parent = parent.parentElement;
  const a = luminance(getComputedStyle(node).color), b = luminance(background(parent));
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


def test_the_dashboard_shows_the_stream_and_its_latency(cli, broker, browser, tmp_path):
    app = cli.app(APP)
    run = Run(cli, app, "--brokers", broker.address, "--every", "8 seconds", "--slo-check")
    load = None
    try:
        run.wait_for("dashboard: ")
        address = next(line for line in run.output if "dashboard: " in line).split("dashboard: ")[1]
        tab = DashboardTab(browser.new_page(viewport={"width": 1280, "height": 900}))
        tab.window.goto(address)
        assert "token" not in tab.window.url
        run.wait_for("running in real-time")
        tab.until(
            lambda: tab.text("#phase") == "waiting for records",
            10,
            "the waiting phase is not shown",
        )
        assert "payments" in tab.text("#graph")
        load = Load(broker.address)
        _shows_the_stream(tab)
        _shows_records(tab)
        _shows_other_processes(cli)
        load.markup = False
        _fits_every_window(tab, tmp_path)
        broker = _shows_a_stall(tab, broker, tmp_path)
        _shows_a_restart(tab, cli)
        assert tab.window.title() != "pwned"
        assert tab.errors == []
        assert {host.split(":")[0] for host in tab.hosts} == {"127.0.0.1"}
    finally:
        if load:
            load.close()
        code = run.end(signal.SIGTERM)
        broker.stop()
        for pipe in (run.process.stdin, run.process.stdout, run.process.stderr):
            pipe.close()
    assert code == ExitCode.SLO_BROKEN, run.output
    assert run.has("score: SLO p99 < 250ms missed")


def _shows_the_stream(tab):
    tab.until(lambda: tab.text("#phase") == "running", 30, "no records are seen")
    tab.until(lambda: FIGURE.search(tab.text("#tiles .c-p50")), 20, "no latency is shown")
    seen = set()

    def moves():
        seen.add(tab.text("#tiles"))
        return len(seen) > 4

    tab.until(moves, 20, "the figures do not change")
    tab.until(
        lambda: tab.window.locator("#latency-chart line.epoch").count() > 0,
        30,
        "no epoch boundary is shown",
    )
    assert tab.window.locator("#latency-chart path.series").count() == 4
    assert re.search(r"\n\d", tab.text("#epochs"))
    assert "waiting in the source topic" in tab.text("#chain")
    assert "payments/1" in tab.text("#partitions")
    assert re.search(r"2 \+ \d+ = \d+ task slots of", tab.text("#graph"))
    keys = re.compile(r"[1-9][\d,]* *\n?keys")
    tab.until(lambda: keys.search(tab.text("#state")), 30, "no keys of the state are shown")
    assert "SLO: p99 < 250ms" in tab.text("#slo")
    assert "spark.sql.shuffle.partitions" in tab.text("#settings")
    tab.window.hover("#latency-chart svg")
    assert "p99" in tab.text("#latency-chart .tip")


def _shows_records(tab):
    tab.window.click("#topics [data-topic=scores] summary")
    tab.until(lambda: '"risk":' in tab.text("#topics"), 15, "no record of the output is shown")
    tab.window.click("#dead-letters [data-topic='payments.dlq'] summary")
    tab.until(lambda: "no payment" in tab.text("#dead-letters"), 15, "no dead letter is shown")
    assert "UNPARSABLE: the value is not a JSON object" in tab.text("#dead-letters")
    tab.until(lambda: MARKUP in tab.text("#topics"), 15, "markup is not shown as text")
    tab.window.uncheck("#payloads")
    tab.until(lambda: "hidden" in tab.text("#topics"), 15, "the switch hides nothing")
    assert '"risk":' not in tab.text("#topics")
    tab.window.check("#payloads")
    tab.until(lambda: '"risk":' in tab.text("#topics"), 15, "the switch shows nothing again")


def _shows_other_processes(cli):
    """A dashboard of another process, started later, measures the same pipeline."""
    other = cli.start("dashboard")
    try:
        line = other.stderr.readline()
        url, token = line.strip().split("dashboard: ")[1].split("?token=")
        asked = Request(url + "api/state", headers={"Authorization": f"Bearer {token}"})  # noqa: S310

        def measured():
            with urlopen(asked, timeout=10) as answer:  # noqa: S310
                views = json.load(answer)["pipelines"]
            return [v["meter"]["total"]["records"] > 100 for v in views] == [True]

        wait_until(measured, 30, "a separate dashboard sees no records")
    finally:
        other.send_signal(signal.SIGTERM)
        assert other.wait(20) == 0
        other.communicate()


def _fits_every_window(tab, tmp_path):
    if PICTURES:
        tab.window.wait_for_timeout(WARM_MS)
    for theme in ("light", "dark"):
        if tab.window.evaluate("document.documentElement.dataset.theme") != theme:
            tab.window.click("#theme")
        for width in (1280, 390):
            assert fits(tab, width), f"{theme} at {width} px is wider than the window"
            screenshot(tab, f"{theme}-{width}", PICTURED[theme, width], tmp_path)
        for selector in ("h1", "#tiles .tile span", "#causes h2", "#meter"):
            assert contrast(tab, selector) > 3.5, (theme, selector)
    tab.window.click("#theme")
    tab.window.set_viewport_size({"width": 1280, "height": 900})
    tab.window.wait_for_timeout(1200)
    screenshot(tab, "overview", "#partitions", tmp_path)


def _shows_a_stall(tab, broker, tmp_path):
    os.kill(broker.pid, signal.SIGKILL)
    tab.until(lambda: tab.text("#phase") == "stalled", 90, "a dead broker is not reported")
    assert "no Kafka broker answers at" in tab.text("#why")
    screenshot(tab, "stalled", "#causes", tmp_path)
    again = EmbeddedBroker(port=broker.port, data=broker.data).start()
    tab.until(lambda: tab.text("#phase") == "running", 120, "the pipeline did not recover")
    return again


def _shows_a_restart(tab, cli):
    before = tab.window.locator("#latency-chart line.restart").count()
    jvm_of(cli).kill()
    tab.until(
        lambda: tab.window.locator("#latency-chart line.restart").count() > before,
        60,
        "the restart is not shown",
    )
    tab.until(lambda: tab.text("#phase") == "running", 60, "the pipeline did not recover")
    assert re.search(r"\d+ restarts?\b", tab.text("#status"))
