"""Trainers of the nets compared, with random labels: accuracy, AUC, log loss and CPU-seconds of a fit, as Markdown.

`python -m experiments.trainers` prints the table of README.md for MNIST: three seeds of the curated pool, one thread,
25 draws, 1,000 test images. `python -m experiments.trainers Magic Satellite Vowel` does so for the perceptron: six
seeds, all draws and test inputs.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from askwell.seeds import rng_for
from experiments.measures import measures
from experiments.splits import UCI, Problem, mnist_problem, uci_problem

__all__ = ["compared", "trainers"]

LABELS = {"Curated": (20, 60, 140, 300)}  # of others:
UCI_LABELS = (24, 64, 144, 300)


def trainers(name: str) -> dict[str, Any]:
    """What is compared on a data set, by name; the first is what the figures are run with."""
    from askwell.models.training import ModernTraining, PaperTraining

    if name in UCI:
        return {
            "300 x 32, rate 0.001": ModernTraining(),
            "200 x 32, rate 0.001": ModernTraining(steps=200),
            "150 x 32, rate 0.002": ModernTraining(steps=150, learning_rate=2e-3),
            "150 x 64, rate 0.002": ModernTraining(steps=150, learning_rate=2e-3, batch=64),
            "100 x 32, rate 0.003": ModernTraining(steps=100, learning_rate=3e-3),
            "the paper's": PaperTraining(),
        }
    return {
        "400 x 32, bfloat16": ModernTraining(learning_rate=2e-3, steps=400, bfloat16=True),
        "400 x 32, float32": ModernTraining(learning_rate=2e-3, steps=400),
        "200 x 64, bfloat16": ModernTraining(learning_rate=2e-3, steps=200, batch=64, bfloat16=True),
        "200 x 32, bfloat16, rate 0.003": ModernTraining(learning_rate=3e-3, steps=200, bfloat16=True),
        "150 x 32, bfloat16, rate 0.003": ModernTraining(learning_rate=3e-3, steps=150, bfloat16=True),
    }


def compared(
    name: str,
    ways: Mapping[str, Any],
    *,
    seeds: Sequence[int] = range(3),
    labels: Sequence[int] = UCI_LABELS,
    test: int = 1000,
) -> Iterator[str]:
    """Lines of a table: per trainer and number of labels the means over seeds; `test` images where there are images."""
    from askwell.models.tensors import one_thread

    yield f"| {name}, trainer | labels | accuracy | AUC | log loss | CPU-s a fit |"
    yield "|---|---|---|---|---|---|"
    problems = [uci_problem(name, seed) if name in UCI else mnist_problem(name, seed, test=test) for seed in seeds]
    for count in labels:
        for way, training in ways.items():
            rows = []
            for seed, given in zip(seeds, problems, strict=True):
                model, n = _model(name, given, training), min(count, len(given.y))
                began = time.process_time()
                with one_thread():
                    posterior = model.fit(given.x[:n], given.y[:n], rng=rng_for(seed, n, "fit"), classes=given.classes)
                spent = time.process_time() - began
                found = measures(posterior.predict(given.test[0]).mean(axis=1), given.test[1], given.prior)
                rows.append((found["accuracy"], found["auc"], found["log_loss"], spent))
            accuracy, area, loss, cpu = np.mean(rows, axis=0)
            yield f"| {way} | {count} | {accuracy:.3f} | {area:.3f} | {loss:.3f} | {cpu:.2f} |"


def _model(name: str, problem: Problem, training: Any) -> Any:
    from askwell.models.dropout import DropoutModel
    from askwell.models.networks import cnn, mlp
    from askwell.models.training import PaperTraining

    module = mlp(problem.x.shape[1], len(problem.classes)) if name in UCI else cnn
    held = problem.validation if isinstance(training, PaperTraining) else None
    return DropoutModel(module, training=training, validation=held, draws=100 if name in UCI else 25, device="cpu")


if __name__ == "__main__":
    for name in sys.argv[1:] or LABELS:
        usual = name in UCI
        for line in compared(name, trainers(name), seeds=range(6 if usual else 3), labels=LABELS.get(name, UCI_LABELS)):
            print(line, flush=True)
