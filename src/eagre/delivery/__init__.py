"""What makes delivery dependable: checkpoints bound to what they were made with."""

from eagre.delivery.checkpoint import Binding, Checkpoint

__all__ = ["Binding", "Checkpoint"]
