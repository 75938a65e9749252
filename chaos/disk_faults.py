"""The faults of the disk: full, refusing, slow, and bytes that changed."""

from __future__ import annotations

import contextlib
import resource
import shutil
import time
from typing import TYPE_CHECKING, ClassVar

from eagre.commit.mid_epoch_commit import MID_EPOCH_COMMITS

from .faults import SLOW_DISK, SMALL_DISK, Fault, MidEpoch, NoEffectError
from .run import EndedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psutil

    from .shapes import Shape
    from .trial import Trial

REFUSALS = {
    "CHECKPOINT_BROKEN", "CHECKPOINT_NEWER", "CHECKPOINT_LOST", "CHECKPOINT_OTHER_CLUSTER",
    "CHECKPOINT_OTHER_PIPELINE", "CHECKPOINT_OTHER_TOPIC", "DELIVERY_LOG_BROKEN", "STATE_BROKEN",
}  # fmt: skip
"""The codes with which a run refuses a damaged checkpoint."""


class DiskFull(Fault):
    """The disk of the checkpoint is full, and has room again."""

    needs = frozenset({SMALL_DISK})

    def apply(self, trial: Trial) -> None:
        self._filler = trial.checkpoint.parent / "filler"
        begin = time.monotonic()
        with contextlib.suppress(OSError), self._filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        trial.run.wait_for("DISK_FULL", begin, 90)

    def heal(self, trial: Trial) -> None:
        self._filler.unlink()
        trial.injected()


class WritesRefused(Fault):
    """No file of the JVM may grow: each write to a disk fails. Needs no root."""

    def apply(self, trial: Trial) -> None:
        self._jvms = trial.run.parts().get("jvm", [])
        if not self._jvms:
            raise NoEffectError("there is no JVM whose writes could be refused")
        for jvm in self._jvms:
            _limit_files(jvm, 0)
        time.sleep(trial.pick.uniform(5, 20))

    def heal(self, trial: Trial) -> None:
        for jvm in self._jvms:
            if jvm.is_running():
                _limit_files(jvm, resource.RLIM_INFINITY)
        trial.injected()


def _limit_files(process: psutil.Process, size: int) -> None:
    """Set the soft limit of the size of a process's files; the hard limit stays."""
    _, hard = process.rlimit(resource.RLIMIT_FSIZE)
    process.rlimit(resource.RLIMIT_FSIZE, (size if size >= 0 else hard, hard))


class SlowDisk(MidEpoch):
    """A kill with a disk that needs as long for each request as a remote store."""

    needs = frozenset({SLOW_DISK})


class ByteFlipped(Fault):
    """A byte of one checkpoint file changes while the run is down.

    The run refuses the checkpoint with a code, and continues with a copy; or the byte does no harm.
    """

    weight = 3.0
    KINDS: ClassVar[dict[str, str]] = {
        "binding": "eagre.json",
        "delivery log": "eagre-delivery.json",
        "metadata": "metadata",
        "quarantine": "eagre-quarantine.json",
        "offsets": "offsets/[0-9]*",
        "commits": "commits/[0-9]*",
        "first offsets": "sources/[0-9]*/[0-9]*",
        "mid-epoch commit": f"{MID_EPOCH_COMMITS}/[0-9]*",
        "state metadata": "state/**/_metadata/**/*",
        "state changelog": "state/**/*.changelog",
        "state snapshot": "state/**/*.zip",
        "state file": "state/**/*.sst",
        "state schema": "state/**/_stateSchema/**/*",
        "state delta": "state/**/*.delta",
    }
    SHARE = 0.8
    """The part of rounds in which the newest file is damaged: a run reads few of the others."""

    def inject(self, trial: Trial) -> None:
        trial.run.kill_all()
        trial.run.process.wait(60)
        time.sleep(1)
        copy = trial.folder / "undamaged"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(trial.checkpoint, copy)
        kind, file = self._damage(trial)
        trial.injected()
        trial.run.restart()
        try:
            trial.await_results()
        except EndedError as ended:
            trial.note = f"{kind}: {ended.code}"
            if ended.code not in REFUSALS:
                raise
            shutil.rmtree(trial.checkpoint)
            shutil.copytree(copy, trial.checkpoint)
            trial.injected()
            trial.run.restart()
        else:
            trial.note = f"{kind}: accepted ({file})"

    def _damage(self, trial: Trial) -> tuple[str, str]:
        """Flip a bit of a byte; return the kind of the file, and its name with the place."""
        present = dict(_files(trial.checkpoint))
        kind = trial.pick.choice(sorted(present))
        files = present[kind]
        file = files[-1] if trial.pick.random() < self.SHARE else trial.pick.choice(files)
        data = bytearray(file.read_bytes())
        place = trial.pick.randrange(len(data))
        data[place] ^= 1 << trial.pick.randrange(8)
        file.write_bytes(data)
        return kind, f"{file.relative_to(trial.checkpoint)}, byte {place}"

    def suits(self, shape: Shape) -> bool:
        return shape.output == "kafka"


def _files(checkpoint: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield the kinds of files that a checkpoint has, each with its files, the newest last."""
    for kind, pattern in ByteFlipped.KINDS.items():
        files = [p for p in checkpoint.glob(pattern) if p.is_file() and p.stat().st_size]
        if files:
            yield kind, sorted(files, key=lambda path: (path.stat().st_mtime, str(path)))
