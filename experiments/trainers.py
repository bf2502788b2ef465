"""Trainers of the MNIST net compared, with random labels: accuracy, log loss and CPU-seconds of a fit, as Markdown.

`python -m experiments.trainers` prints the table of README.md: three seeds of the curated pool, one thread, 25 draws,
1,000 test images.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from askwell.seeds import rng_for
from experiments.measures import measures
from experiments.splits import mnist_problem

__all__ = ["compared", "trainers"]

LABELS = (20, 60, 140, 300)


def trainers() -> dict[str, Any]:
    """What is compared, by name."""
    from askwell.models.training import ModernTraining

    return {
        "400 x 32, float32": ModernTraining(learning_rate=2e-3, steps=400),
        "400 x 32, bfloat16": ModernTraining(learning_rate=2e-3, steps=400, bfloat16=True),
        "200 x 64, bfloat16": ModernTraining(learning_rate=2e-3, steps=200, batch=64, bfloat16=True),
        "200 x 32, bfloat16, rate 0.003": ModernTraining(learning_rate=3e-3, steps=200, bfloat16=True),
        "150 x 32, bfloat16, rate 0.003": ModernTraining(learning_rate=3e-3, steps=150, bfloat16=True),
    }


def compared(
    ways: Mapping[str, Any], *, seeds: Sequence[int] = range(3), labels: Sequence[int] = LABELS, test: int = 1000
) -> Iterator[str]:
    """Lines of a table: per trainer and number of labels the means over seeds."""
    from askwell.models.dropout import DropoutModel
    from askwell.models.networks import cnn
    from askwell.models.tensors import one_thread

    yield "| trainer | labels | accuracy | log loss | CPU-s a fit |"
    yield "|---|---|---|---|---|"
    problems = [mnist_problem("Curated", seed, test=test) for seed in seeds]
    for count in labels:
        for name, training in ways.items():
            model, rows = DropoutModel(cnn, training=training, draws=25, device="cpu"), []
            for seed, given in zip(seeds, problems, strict=True):
                began = time.process_time()
                with one_thread():
                    rng = rng_for(seed, count, "fit")
                    posterior = model.fit(given.x[:count], given.y[:count], rng=rng, classes=given.classes)
                spent = time.process_time() - began
                found = measures(posterior.predict(given.test[0]).mean(axis=1), given.test[1], given.prior)
                rows.append((found["accuracy"], found["log_loss"], spent))
            accuracy, loss, cpu = np.mean(rows, axis=0)
            yield f"| {name} | {count} | {accuracy:.3f} | {loss:.3f} | {cpu:.2f} |"


if __name__ == "__main__":
    for line in compared(trainers()):
        print(line, flush=True)
