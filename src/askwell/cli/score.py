"""`askwell score`: rank a pool that need not fit in memory."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from askwell.acquisition import checked_class_weights, weighted
from askwell.cli.options import CLASS_WEIGHTS, by_class, command, one_message, path_option, split_names, whole_number

__all__ = ["score"]

LIKE = 2_000  # rows of the pool that say in which units its columns are


@click.command()
@click.argument("pool")
@path_option(
    "--labelled",
    required=True,
    metavar="FILE",
    help="Training data: a table with the pool's columns and labels (CSV, JSON lines, Parquet).",
)
@click.option("--label", required=True, metavar="COLUMN", help="Label column of the training data.")
@click.option(
    "--targets", metavar="PATH", help="Unlabelled inputs the model will have to predict.  [default: the pool]"
)
@whole_number("--most-targets", default=100, help="Maximum number of targets, evenly spread.")
@click.option("--columns", metavar="A,B,...", help="Numeric feature columns.  [default: all columns, encoded]")
@click.option("--id", metavar="COLUMN", help="Id column of the pool.  [default: row numbers]")
@click.option(
    "--model",
    type=click.Choice(["forest", "linear"]),
    default="forest",
    show_default=True,
    help="Random forest, or Bayesian logistic regression.",
)
@click.option("--score", default="auto", show_default=True, metavar="NAME", help="Acquisition function.")
@click.option("--class-weights", metavar="A=W,...", help=f"Cost of an error per class, 1 by default: {CLASS_WEIGHTS}.")
@whole_number("--size", default=10, help="Number of best items to print.")
@path_option("--out", metavar="FOLDER", folder=True, help="Write all scores here, as Parquet files.")
@path_option("--keep", metavar="FOLDER", folder=True, help="Save only intermediate results here, to resume.")
@click.option(
    "--engine",
    metavar="NAME",
    help="Where to run: local, local:4 (processes), ray, ray://host:port.  [default: this process]",
)
@click.option(
    "--screen",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Score only this share of items exactly, after a rough screening.",
)
@click.option("--skip-bad", is_flag=True, help="Skip rows and files that cannot be read, and count them.")
@whole_number("--seed", default=0, least=0, help="Random seed, for the model and for the order of ties.")
def score(pool: str, out: Path | None, keep: Path | None, engine: str | None, **asked: Any) -> None:
    """Rank a POOL that need not fit in memory, by an acquisition function.

    POOL is a Parquet, CSV or .npy file, a folder, a glob or a URL. The best items are printed as id, tab, score. --out
    writes the scores of all items as Parquet files; --keep saves only the intermediate results of each chunk. With
    either, run the same command to resume.
    """
    from askwell.scoring import Report, best_items, flat_warning

    with one_message(resume=f"To resume: {command()}" if out or keep else "Nothing was saved: see --keep."):
        if out and keep:
            raise ValueError("--out saves intermediate results too: give --out or --keep, not both.")
        costs = by_class("--class-weights", asked["class_weights"], like=CLASS_WEIGHTS)
        rows, search = _search(pool, asked)
        ranked_by = _score(asked["score"], costs, search.posterior.classes)
        report = Report()
        best, scores = best_items(
            search,
            ranked_by,
            asked["size"],
            engine=engine,
            screen=asked["screen"],
            skip_bad=asked["skip_bad"],
            report=report,
            folder=out or keep,
            every=out is not None,
        )
        for item, value in zip(rows.ids(best), scores.tolist(), strict=True):
            click.echo(f"{item}\t{value:.6g}")
        click.echo(_summary(report, rows), err=True)
        # some of all chunks are looked at, which would stumble over those that were skipped
        flat = None if report.skipped else flat_warning(search, ranked_by, scores)
        if flat is not None:
            click.echo(f"Note: {flat}", err=True)


def _search(pool: str, asked: dict[str, Any]) -> tuple[Any, Any]:
    """The pool's rows, and the search for the best of them."""
    from askwell.data import label_column, open_rows, read_table
    from askwell.models import model_named
    from askwell.scoring import Search
    from askwell.seeds import rng_for

    columns = split_names(asked["columns"])
    rows = open_rows(pool, columns=columns, drop=[asked["label"]], id=asked["id"], skip_bad=asked["skip_bad"])
    table = read_table(asked["labelled"])
    y = label_column(table, asked["label"])
    model = model_named(asked["model"], _some(rows, LIKE))
    posterior = model.fit(rows.encode(table), y, rng=rng_for(asked["seed"], 0, "fit"))
    inputs = rows if asked["targets"] is None else open_rows(asked["targets"], like=rows)
    targets = _some(inputs, asked["most_targets"])
    return rows, Search(posterior, rows, targets, rng=partial(rng_for, asked["seed"], 0))


def _some(rows: Any, most: int) -> np.ndarray:
    """At most so many rows, evenly spread over a few chunks of the files."""
    from askwell.scoring import Search

    some: np.ndarray = rows[Search(None, rows).some(most)]
    return some


def _score(name: str, costs: dict[str, float] | None, classes: Sequence[Any]) -> Any:
    """The score, with costs of errors if there are any: classes are named by their text."""
    if costs is None:
        return name
    by_text = {str(label): label for label in classes}
    weights = {by_text.get(label, label): cost for label, cost in costs.items()}
    return weighted(name, checked_class_weights(weights, score=name, classes=classes), classes)


def _summary(report: Any, rows: Any) -> str:
    """What was done, as text."""
    spent = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in report.seconds.items())
    lines = [f"{report.rows:,} rows ({spent})."]
    if report.screened:
        lines.append(f"{report.screened:,} of them ({report.screened / report.rows:.0%}) were screened out.")
    if report.skipped:
        lines.append(f"{report.skipped_rows:,} rows were skipped: {'; '.join(report.skipped[:5])}")
    if rows.refused:
        lines.append(f"{len(rows.refused)} files were left out: {'; '.join(rows.refused[:5])}")
    return "\n".join(lines)
