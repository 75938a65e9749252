"""Train the model on generated payments: ``python train.py`` writes ``model.json``.

If you have labelled payments, replace ``examples``; the features are those of ``app.py``.
"""

import json
import math
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from random import Random

from generate import events, expects

FEATURES = {
    "unusual": "coalesce(ln((1 + amount) / (1 + usual)), 0)",
    "burst": "coalesce(ln(burst), 0)",
    "countries": "coalesce(countries - 1, 0)",
    "merchants": "coalesce(least(merchants / payments, 1), 1)",
}
EXAMPLES, RATE, ROUNDS = 20_000, 2_000, 10

Example = tuple[list[float], float]


def examples() -> Iterator[Example]:
    """Yield the features of each payment as in the pipeline, and whether the card was stolen."""
    seen: dict[str, deque[tuple[float, float, str, str]]] = defaultdict(deque)
    for number, (card, event) in zip(range(EXAMPLES), events(Random(7)), strict=False):
        if not expects(event):
            continue
        now = number / RATE
        recent = seen[card]
        recent.append((now, event["amount"], event["country"], event["merchant"]))
        minute = [row for row in recent if row[0] > now - 60]
        usual = sum(row[1] for row in recent) / len(recent)
        features = [
            math.log((1 + event["amount"]) / (1 + usual)),
            math.log(len(minute)),
            len({row[2] for row in minute}) - 1.0,
            len({row[3] for row in recent}) / len(recent),
        ]
        yield features, float(event["stolen"])


def train(data: list[Example]) -> tuple[float, list[float]]:
    """Fit a logistic regression by gradient descent, with a higher weight for the rare class."""
    rare = len(data) / max(1.0, sum(label for _, label in data))
    bias, weights = 0.0, [0.0] * len(FEATURES)
    random, step = Random(1), 0.01
    for _ in range(ROUNDS):
        random.shuffle(data)
        for features, label in data:
            evidence = bias + sum(w * x for w, x in zip(weights, features, strict=True))
            error = label - 1 / (1 + math.exp(-max(-30.0, min(30.0, evidence))))
            pull = step * error * (rare / 10 if label else 1.0)
            bias += pull
            weights = [w + pull * x for w, x in zip(weights, features, strict=True)]
        step *= 0.9
    return bias, weights


if __name__ == "__main__":
    bias, weights = train(list(examples()))
    model = {
        "bias": round(bias, 4),
        "features": FEATURES,
        "weights": {name: round(w, 4) for name, w in zip(FEATURES, weights, strict=True)},
    }
    Path(__file__).with_name("model.json").write_text(json.dumps(model, indent=2) + "\n")
