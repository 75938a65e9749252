"""The demo's terminal as an animated SVG, drawn from a recording, without a browser or scripts.

``python -m laboratory.readme_animation --record`` runs ``eagre demo`` in a terminal and stores its
output, with times, in ``laboratory/demo.json``; without the option it only draws the picture,
``docs/images/demo.svg``. The output is not changed; long waits are shortened.
"""

from __future__ import annotations

import json
import os
import pty
import sys
import textwrap
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

RECORDED = Path(__file__).with_name("demo.json")
PICTURE = Path("docs/images/demo.svg")
COMMAND = ["eagre", "demo", "--seconds", "10", "--no-dashboard", "--no-archive"]
COLUMNS, CHARACTER, LINE, MARGIN, BAR = 124, 7.2, 19, 16, 30
"""Columns of text, and sizes in pixels."""
LONGEST_WAIT, HOLD = 0.15, 9.0
"""Seconds: the longest wait between two changes; how long the last screen stays."""
REWRITE = "\r\x1b[2K"

Recording = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """A line of the terminal and when it is visible; until the end if ``until`` is None."""

    row: int
    text: str
    since: float
    until: float | None = None


def record() -> Recording:
    """Run the demo in a terminal, and record its output with times."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(sys.executable, [sys.executable, "-m", *COMMAND])  # noqa: S606  (our own command)
    began, printed = time.monotonic(), []
    while text := _read(terminal):
        printed.append([round(time.monotonic() - began, 2), text])
    os.waitpid(child, 0)
    note = f"one run, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores; waits are shortened"
    return {"command": " ".join(COMMAND), "note": note, "printed": printed}


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 1 << 16).decode(errors="replace")
    except OSError:  # Linux raises it when the other side is closed
        return ""


def lines(recording: Recording) -> tuple[list[Shown], float]:
    r"""Return the lines of the terminal with their times, and the time of the last line.

    >>> demo = {"command": "x", "printed": [[0.1, "a"], [9.0, "\r\x1b[2Kb\r\n"], [9.1, "c\r\n"]]}
    >>> for line in lines(demo)[0]:
    ...     print(line.row, line.text, round(line.since, 2), line.until and round(line.until, 2))
    0 $ x 0.0 None
    1 a 1.0 1.15
    1 b 1.15 None
    2 c 1.25 None
    """
    shown = [Shown(0, f"$ {recording['command']}", 0.0)]
    row, current, now, before = 1, "", 1.0, 0.0
    for number, (at, text) in enumerate(recording["printed"]):
        now += min(at - before, LONGEST_WAIT) if number else 0.0
        before = at
        *done, rest = text.replace("\r\n", "\n").split("\n")
        for part in done:
            current = _written(shown, row, current, part, now)
            row, current = row + max(1, len(_wrapped(current))), ""
        current = _written(shown, row, current, rest, now)
    return shown, now


def _written(shown: list[Shown], row: int, current: str, text: str, now: float) -> str:
    """Replace the text of a line; return the new text."""
    if not text:
        return current
    if text.startswith(REWRITE):
        text = text.removeprefix(REWRITE)
        shown[:] = [_ended(line, now) if line.row == row else line for line in shown]
    shown += [Shown(row + n, part, now) for n, part in enumerate(_wrapped(text))]
    return text


def _ended(line: Shown, now: float) -> Shown:
    return line if line.until is not None else Shown(line.row, line.text, line.since, now)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS)


def drawn(recording: Recording) -> str:
    """Draw the picture: a CSS rule shows each line at its time."""
    shown, last = lines(recording)
    duration = last + HOLD
    rules = "".join(_rule(number, line, duration) for number, line in enumerate(shown))
    texts = "\n".join(_text(number, line) for number, line in enumerate(shown))
    width = round(COLUMNS * CHARACTER) + 2 * MARGIN
    height = BAR + (max(line.row for line in shown) + 1) * LINE + MARGIN
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">
<title>{escape(recording["command"])}: {escape(recording["note"])}</title>
<style>
text {{ font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d3dce4;
  white-space: pre; animation: {duration:.1f}s step-end infinite }}
.dim {{ fill: #8796a3 }} .batch {{ fill: #e5a84b }} .real {{ fill: #4fd0a7 }}
.head {{ font-weight: bold }} .bar {{ animation: none }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none !important }}
  .past {{ display: none }} }}
{rules}</style>
<rect width="{width}" height="{height}" rx="8" fill="#101820"/>
<rect width="{width}" height="{BAR - 6}" rx="8" fill="#1d2833"/>
<text class="bar dim" x="{MARGIN}" y="16">{escape(recording["note"])}</text>
{texts}
</svg>
"""


def _rule(number: int, line: Shown, duration: float) -> str:
    steps = f"0%{{opacity:0}}{line.since / duration:.2%}{{opacity:1}}"
    if line.since == 0:
        steps = "0%{opacity:1}"
    if line.until is not None:
        steps += f"{line.until / duration:.2%}{{opacity:0}}"
    return f"@keyframes t{number}{{{steps}}} #t{number}{{animation-name:t{number}}}\n"


def _text(number: int, line: Shown) -> str:
    y = BAR + (line.row + 1) * LINE - 5
    names = [_colour(line.text), "past" if line.until is not None else ""]
    attributes = f'id="t{number}" class="{" ".join(filter(None, names))}" x="{MARGIN}" y="{y}"'
    length = len(line.text.rstrip())
    return (
        f'<text {attributes} xml:space="preserve" textLength="{length * CHARACTER:.0f}">'
        f"{escape(line.text.rstrip())}</text>"
    )


def _colour(text: str) -> str:
    """Return the colour class of a line.

    >>> [_colour(text) for text in ("eagre: real-time  warm-up", "micro-batch  1.0", "$ x")]
    ['real', 'batch', 'head']
    """
    if text.startswith(("$", "latency", "micro-batch ÷")):
        return "head"
    for mode, name in (("micro-batch", "batch"), ("real-time", "real")):
        if text.startswith((f"{mode}  ", f"eagre: {mode}  ")):
            return name
    return "dim"


def main() -> None:
    """Record if requested, and draw."""
    if sys.argv[1:] == ["--record"]:
        RECORDED.write_text(json.dumps(record(), indent=0, ensure_ascii=False) + "\n")
    PICTURE.write_text(drawn(json.loads(RECORDED.read_text())))


if __name__ == "__main__":
    main()
