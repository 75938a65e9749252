"""What makes delivery dependable: checkpoints bound to what they were made with, exactly once."""

from eagre.delivery.bookmark import Bookmark
from eagre.delivery.checkpoint import Binding, Checkpoint
from eagre.delivery.exactly import Outputs, begin
from eagre.delivery.ledger import Ledger
from eagre.delivery.quarantine import Quarantine

__all__ = [
    "Binding",
    "Bookmark",
    "Checkpoint",
    "Ledger",
    "Outputs",
    "Quarantine",
    "begin",
]
