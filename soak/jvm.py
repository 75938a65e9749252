"""What a JVM holds after a garbage collection, and what it holds outside of its heap."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

from eagre.jvm.java import find_java

MB = 1 << 20
SECONDS = 60
MOST_CLASSES = 40
TOTAL = re.compile(r"^Total\s+\d+\s+(\d+)", re.MULTILINE)
FILLERS = ("[Ljdk.internal.vm.FillerElement;", "jdk.internal.vm.FillerObject")
CLASS = re.compile(r"^\s*\d+:\s+(\d+)\s+(\d+)\s+(\S+)", re.MULTILINE)
RANGE = re.compile(r"\[0x([0-9a-f]+), 0x[0-9a-f]+, 0x([0-9a-f]+)\)")
METASPACE = re.compile(r"Metaspace\s+used (\d+)K")
MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ")


def inspect(pid: int) -> tuple[dict[str, float], dict[str, int]]:
    """Collect garbage; return memory by kind in MB, and bytes by class. Empty without a JDK."""
    heap = _ask(pid, "GC.heap_info")
    values, classes = live_heap(_ask(pid, "GC.class_histogram"))
    if used := METASPACE.search(_ask(pid, "VM.metaspace", "basic")):
        values["jvm.metaspace_mb"] = int(used[1]) / 1024
    ranges = [(int(low, 16), int(high, 16)) for low, high in RANGE.findall(heap)]
    native = _outside(pid, ranges)
    if native is not None:
        values["jvm.native_mb"] = native
    return values, classes


def live_heap(histogram: str) -> tuple[dict[str, float], dict[str, int]]:
    """Return what is alive according to a class histogram, in MB, and bytes by class.

    The parallel GC leaves dead objects at the bottom of the old generation, and writes arrays over
    them that the histogram counts. They come and go with each collection, and nothing leaks.
    """
    classes = {name: int(size) for _, size, name in CLASS.findall(histogram)}
    fillers = sum(classes.pop(name, 0) for name in FILLERS)
    total = TOTAL.search(histogram)
    values = {"jvm.live_heap_mb": (int(total[1]) - fillers) / MB} if total else {}
    return values, dict(itertools.islice(classes.items(), MOST_CLASSES))


def _ask(pid: int, *question: str) -> str:
    """Ask a JVM through its attach socket."""
    jcmd = find_java().home / "bin" / "jcmd"
    if not jcmd.exists():
        return ""
    try:
        done = subprocess.run(
            [jcmd, str(pid), *question],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout


def _outside(pid: int, heap: list[tuple[int, int]]) -> float | None:
    """Return the resident memory outside of the heap, in MB; the heap grows up to its limit."""
    if not heap:
        return None
    low, high = min(begin for begin, _ in heap), max(end for _, end in heap)
    resident, inside = 0, False
    try:
        lines = Path(f"/proc/{pid}/smaps").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if mapping := MAPPING.match(line):
            begin, end = int(mapping[1], 16), int(mapping[2], 16)
            inside = begin < high and end > low
        elif line.startswith("Rss:") and not inside:
            resident += int(line.split()[1])
    return resident / 1024
