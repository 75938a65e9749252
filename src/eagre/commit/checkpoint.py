"""Reads and writes checkpoints, and checks which pipeline and topics they belong to.

Next to Spark's files Eagre stores ``eagre.json``: the pipeline, the cluster id and the topic ids
that the checkpoint was created with, and its starting offsets. Offsets are not valid on another
cluster or in a topic that was deleted and created again, so Eagre rejects such a checkpoint.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from eagre.broker.topics import offsets_of
from eagre.commit import known_checkpoints
from eagre.commit.binding import REPAIR, Binding
from eagre.commit.claim import claimed
from eagre.commit.delivery_log import DeliveryLog
from eagre.commit.file_format import parsed, with_format, without_format
from eagre.commit.location import located
from eagre.commit.mid_epoch_commit import MidEpochCommit, newest, numbered
from eagre.commit.offset_log import purge, write_entry
from eagre.commit.store import StorePath, write
from eagre.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from eagre.broker.topics import Offsets
    from eagre.commit.store import CheckpointPath

BINDING = "eagre.json"
LOCK = "eagre.lock"
OWNERS = "eagre-owner"
"""The folder of the claims on a checkpoint in a store."""


class Checkpoint:
    """A checkpoint: a folder on a local or mounted disk, or in a store.

    Attributes:
        path: Where it lies.
    """

    def __init__(self, path: CheckpointPath | str) -> None:
        place = located(path)
        self.path: CheckpointPath = (
            place if isinstance(place, StorePath) else place.expanduser().resolve()
        )

    @property
    def exists(self) -> bool:
        """Whether Spark or Eagre has written to the folder."""
        return (self.path / "metadata").exists() or (self.path / BINDING).exists()

    @property
    def lost(self) -> bool:
        """Whether the folder held a checkpoint that is gone."""
        return not self.exists and known_checkpoints.is_remembered(self.path)

    @property
    def has_commit(self) -> bool:
        """Whether a pipeline has run with it and committed, at an epoch boundary or within one."""
        return self.last_commit() >= 0 or newest(self.path) is not None

    @property
    def folder(self) -> Path:
        """Its folder.

        Raises:
            CheckpointError: It is in a store.
        """
        if isinstance(self.path, StorePath):
            raise CheckpointError(
                "CHECKPOINT_REMOTE",
                f"checkpoint {self.path} is in a store, where Eagre cannot do that.",
                hint="stop the run, and use the tools of the store.",
            )
        return self.path

    @property
    def lock_file(self) -> Path:
        """The file that a run keeps locked while its JVM is running."""
        return self.folder / LOCK

    @property
    def in_use(self) -> bool:
        """Whether a run holds the lock."""
        if not self.lock_file.exists():
            return False
        with self.lock_file.open("a") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
            return False

    def binding(self) -> Binding | None:
        """Read the binding; None if Eagre did not create the checkpoint.

        Raises:
            CheckpointError: The file exists but cannot be read.
        """
        path = self.path / BINDING
        if not path.exists():
            return None
        try:
            entries = without_format(path)
            entries["start"] = offsets_of(entries["start"])
            return Binding(**entries)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._broken(BINDING, error) from None

    def bind(self, binding: Binding) -> Binding:
        """Bind a new checkpoint, or check the existing binding; return the binding in effect.

        Raises:
            CheckpointError: The checkpoint belongs to another pipeline, cluster or topic.
        """
        bound = self.binding()
        if bound is None:
            self._require_not_lost(binding)
            self._write(binding)
            known_checkpoints.remember(self.path, binding.cluster)
            return binding
        bound.require_same(self.path, binding)
        if bound.topics != binding.topics:
            start = {**bound.start, **binding.start}
            bound = Binding(bound.pipeline, bound.cluster, binding.topics, start, bound.made)
            self._write(bound)
        return bound

    def committed(self) -> tuple[int, Offsets]:
        """Return the last committed batch or epoch and the source offsets after it; -1 if none.

        Raises:
            CheckpointError: Spark's logs cannot be read.
        """
        batch = self.last_commit()
        return batch, self._batch_offsets(batch) if batch >= 0 else {}

    def mid_epoch_commit(self) -> MidEpochCommit | None:
        """Read the newest mid-epoch commit, if it is later than Spark's last commit.

        Raises:
            CheckpointError: The file exists but cannot be read.
        """
        path = newest(self.path)
        try:
            commit = MidEpochCommit.read(path) if path else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                "CHECKPOINT_BROKEN",
                f"{path} cannot be read ({error}).",
                hint="restore it from a backup. Without a backup, remove the file: the next run "
                "continues from the previous mid-epoch commit.",
            ) from None
        return commit if commit and commit.batch > self.last_commit() else None

    def reached(self) -> Offsets:
        """Return the source offsets that the next run continues from; empty before a commit."""
        commit = self.mid_epoch_commit()
        return commit.position if commit else self.committed()[1]

    def adopt(self) -> int | None:
        """Write the newest mid-epoch commit into Spark's logs, as if its epoch had ended there.

        The caller holds the lock, and no query is running. If the process is killed halfway, the
        next start repeats the step.

        Returns:
            The batch that Spark continues after; None if its logs already have it.
        """
        commit = self.mid_epoch_commit()
        if not commit:
            return None
        delivery_log = DeliveryLog.read(self.path)
        if delivery_log.snapshots:
            delivery_log.add_snapshot(commit.batch - 1, commit.ends)
        before = self.path / "offsets" / str(commit.batch - 1)
        if commit.batch and not before.exists():  # Spark reads the last two
            write_entry(before, commit.offsets)
        for log, entry in (("offsets", commit.offsets), ("commits", commit.commit)):
            write_entry(self.path / log / str(commit.batch), entry)
        purge(self.path)
        return commit.batch

    def unfinished(self) -> list[CheckpointPath]:
        """List the files of a first commit that was interrupted by a kill.

        Spark cannot start with them: a log must be empty before its first entry.
        """
        folders = [self.path / name for name in ("offsets", "commits")]
        begun = [folder for folder in folders if folder.exists() and not numbered(folder)]
        return [file for folder in begun for file in folder.iterdir()]

    def clear_unfinished(self) -> int:
        """Remove the files of an interrupted first commit; no committed data is lost."""
        files = self.unfinished()
        for file in files:
            file.unlink()
        return len(files)

    @property
    def stateful(self) -> bool:
        """Whether the checkpoint holds state."""
        return (self.path / "state").exists()

    def commit_version(self) -> int:
        """Return the format version of the last commit (real time needs 2 or higher); 0 if none."""
        batch = self.last_commit()
        if batch < 0:
            return 0
        first = (self.path / "commits" / str(batch)).read_text().split("\n", 1)[0]
        return int(first[1:]) if first[1:].isdigit() else 0

    def settings(self) -> dict[str, str]:
        """Return the Spark settings of the last commit."""
        return self._settings(self.last_commit())

    def describe(self) -> dict[str, Any]:
        """Describe the contents of the checkpoint as JSON-serializable entries."""
        if not self.exists:
            raise self._missing()
        batch, offsets = self.last_commit(), self.reached()
        binding = self.binding()
        return {
            "path": str(self.path),
            "batch": batch,
            "offsets": offsets,
            "binding": asdict(binding) if binding else None,
            "stateful": self.stateful,
            "settings": self._settings(batch),
            "bytes": self._size(),
        }

    def _size(self) -> int:
        if isinstance(self.path, StorePath):
            return self.path.size()
        return sum(p.stat().st_size for p in self.path.rglob("*") if p.is_file())

    def reset(self) -> None:
        """Remove the checkpoint: the next run starts from scratch, at ``--from``."""
        if not self.exists and not self.lost:
            raise self._missing()
        if isinstance(self.path, StorePath):
            with claimed(self.path):
                for part in self.path.iterdir():
                    if part.name != OWNERS:
                        part.remove()
        else:
            self._require_free()
            shutil.rmtree(self.path, ignore_errors=self.lost)
        known_checkpoints.forget(self.path)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock, so that no run starts meanwhile.

        Raises:
            CheckpointError: There is no checkpoint, or a run uses it.
        """
        if not self.exists:
            raise self._missing()
        if isinstance(self.path, StorePath):
            with claimed(self.path):
                yield
            return
        with self.lock_file.open("a") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise self._used() from None
            yield

    def _require_free(self) -> None:
        if self.in_use:
            raise self._used()

    def _used(self) -> CheckpointError:
        return CheckpointError(
            "CHECKPOINT_IN_USE",
            f"a run uses checkpoint {self.path}.",
            hint="stop the run first: `eagre status` lists it, `eagre stop NAME` stops it.",
        )

    def copy(self, target: Path) -> None:
        """Copy the checkpoint to a folder that is empty or does not exist.

        Raises:
            CheckpointError: It is missing, or in use: its files would be of different commits.
        """
        with self.held():
            self._copy(target)

    def _copy(self, target: Path) -> None:
        if target.exists() and any(target.iterdir()):
            raise CheckpointError(
                "CHECKPOINT_TARGET_NOT_EMPTY",
                f"{target} is not empty.",
                hint="name a folder that does not exist yet.",
            )
        # POSIX releases the lock if this process opens its file once more and closes it.
        shutil.copytree(
            self.folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(LOCK)
        )

    def require_found(self) -> None:
        """Refuse to start from scratch.

        Raises:
            CheckpointError: There is no checkpoint to continue from.
        """
        if not self.exists:
            raise CheckpointError(
                "CHECKPOINT_LOST",
                f"there is no checkpoint in {self.path}, and --resume does not start from scratch.",
                hint="mount or restore the folder; for the first start, omit --resume.",
            )

    def _require_not_lost(self, binding: Binding) -> None:
        """Refuse to start from scratch if a checkpoint of the same cluster is missing."""
        if (self.path / "metadata").exists():
            return
        if known_checkpoints.is_remembered(self.path, binding.cluster):
            raise CheckpointError(
                "CHECKPOINT_LOST",
                f"checkpoint {self.path} existed before and is missing: a start from scratch would "
                "repeat or skip records.",
                hint=REPAIR.format(path=self.path),
            )

    def _write(self, binding: Binding) -> None:
        entries = json.dumps(with_format(asdict(binding)), indent=2)
        write(self.path / BINDING, entries)

    def last_commit(self) -> int:
        """Return the last committed batch or epoch; -1 if none."""
        return max((int(p.name) for p in numbered(self.path / "commits")), default=-1)

    def _batch_offsets(self, batch: int) -> Offsets:
        offsets: Offsets = {}
        for line in self._batch_lines(batch)[2:]:
            if line != "-":
                offsets.update(self._parsed(batch, line))
        return offsets

    def _settings(self, batch: int) -> dict[str, str]:
        if batch < 0:
            return {}
        conf: dict[str, str] = self._parsed(batch, self._batch_lines(batch)[1]).get("conf", {})
        return {key: conf[key] for key in sorted(conf)}

    def _batch_lines(self, batch: int) -> list[str]:
        name = f"offsets/{batch}"
        try:
            lines = (self.path / name).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise self._broken(name, error) from None
        if len(lines) < 3 or not lines[0].startswith("v"):  # noqa: PLR2004  (version, metadata, offset)
            raise self._broken(name, ValueError("incomplete log file"))
        return lines

    def _parsed(self, batch: int, line: str) -> Any:  # noqa: ANN401  (JSON)
        try:
            value = parsed(line)
            return value if "conf" in value else offsets_of(value)
        except (ValueError, AttributeError, TypeError) as error:
            raise self._broken(f"offsets/{batch}", error) from None

    def _missing(self) -> CheckpointError:
        return CheckpointError(
            "CHECKPOINT_NOT_FOUND",
            f"there is no checkpoint in {self.path}.",
            hint="by default, `eagre run` stores checkpoints in .eagre/checkpoints/PIPELINE.",
        )

    def _broken(self, name: str, error: Exception) -> CheckpointError:
        return CheckpointError(
            "CHECKPOINT_BROKEN",
            f"checkpoint {self.path} is broken: {name} cannot be read ({error}).",
            hint=REPAIR.format(path=self.path),
        )
