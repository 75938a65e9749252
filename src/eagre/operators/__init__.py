"""What Real-Time Mode lacks: stateful operators, the same in every mode (docs/operators.md)."""

from eagre.operators.deduplicate import deduplicate
from eagre.operators.rolling import rolling

__all__ = ["deduplicate", "rolling"]
