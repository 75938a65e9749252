"""Checkpoints, mid-epoch commits, and the delivery log of exactly once."""

from eagre.commit.binding import Binding
from eagre.commit.checkpoint import Checkpoint
from eagre.commit.delivery_log import DeliveryLog
from eagre.commit.mid_epoch_commit import MidEpochCommit

__all__ = ["Binding", "Checkpoint", "DeliveryLog", "MidEpochCommit"]
