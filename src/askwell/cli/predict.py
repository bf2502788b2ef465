"""`askwell predict`: the model's predictions, as a table."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from askwell.cli.options import command, exact, one_message, path_argument, path_option

if TYPE_CHECKING:
    from askwell.project import Project
    from askwell.project.predicting import Predictions

__all__ = ["predict"]

SHOWN = 5  # rows that were left out


@click.command()
@path_argument("folder")
@path_argument("source", metavar="[INPUT]", required=False)
@click.option("--pool", "which", flag_value="pool", help="Predict the project's own pool instead of INPUT.")
@click.option("--targets", "which", flag_value="targets", help="Predict the project's targets.")
@path_option("--out", metavar="FILE", help="Output file: .csv, .jsonl or .parquet.  [default: print]")
@click.option(
    "--format", type=click.Choice(["csv", "jsonl", "parquet"]), help="Output format.  [default: from --out, else csv]"
)
@click.option("--all-classes", is_flag=True, help="Add a column p_CLASS with the probability of each class.")
@click.option("--id", metavar="COLUMN", help="Id column of INPUT.  [default: the project's, else row numbers]")
@path_option(
    "--embeddings",
    metavar="FILE.npy",
    help="Embeddings of INPUT, one row per input. Needed if the project's features are embeddings in a file.",
)
@click.option("--delimiter", metavar="MARK", help="CSV delimiter.  [default: the project's]")
@click.option("--encoding", metavar="NAME", help="CSV encoding.  [default: the project's]")
@exact
def predict(
    folder: Path,
    source: Path | None,
    which: str | None,
    out: Path | None,
    format: str | None,
    all_classes: bool,
    exact: bool,
    **reading: Any,
) -> None:
    """Predict the classes of INPUT with a project's model.

    INPUT is of the same kind as the project's pool: a table with the model's feature columns, a folder of images or
    text files, or a NumPy array. The model is trained on all current labels. Writes one row per input: id, class,
    probability.
    """
    from askwell.project import open_project
    from askwell.project.predicting import predict_items, table_format

    with one_message(resume=f"Nothing was written. To try again: {command()}"):
        if (source is None) == (which is None):
            raise ValueError("predict needs exactly one input: INPUT, --pool or --targets.")
        wanted = (format or "csv") if out is None else table_format(out, format)
        if out is not None and not out.absolute().parent.is_dir():
            raise ValueError(f"--out must be in an existing folder, but there is no folder {str(out.parent)!r}.")
        if out is not None and source is not None and out.exists() and source.exists() and out.samefile(source):
            raise ValueError(f"--out must not be the file INPUT, but both are {str(out)!r}.")
        with open_project(folder) as project:
            if out is not None:
                project.check_output(out)
            if source is None:
                predictions = predict_items(project, which or "pool")
            else:
                predictions = _predicted(project, source, **reading)
            if out is None:
                click.echo(predictions.data(wanted, all_classes=all_classes, safe=not exact), nl=False)
            else:
                predictions.write(out, format=wanted, all_classes=all_classes, safe=not exact)
            click.echo(_summary(project, predictions, out), err=True)


def _predicted(
    project: "Project", source: Path, *, id: str | None, embeddings: Path | None, **reading: Any
) -> "Predictions":
    """The predictions of an input, or an error that names the option that is missing."""
    from askwell.project.predicting import open_input, predict_items, takes_embeddings

    in_file = takes_embeddings(project)
    if embeddings is not None and not in_file:
        raise ValueError(
            "--embeddings is only for projects whose features are embeddings in a file. This project has others."
        )
    if in_file and embeddings is None:
        if source.suffix.lower() != ".npy":
            raise ValueError(
                "--embeddings FILE.npy is missing: the project's features are embeddings in a file, so "
                f"{source.name} needs embeddings too, one row per input."
            )
        embeddings = source
    items = open_input(project, source, id=id, **reading)
    column = id or project.settings.id
    if column is not None and items.table is not None and items.table.ids is None:
        click.echo(f"Note: {items.source} has no column {column!r}, so its row numbers are the ids.", err=True)
    return predict_items(project, items, embeddings=embeddings)


def _summary(project: "Project", predictions: "Predictions", out: Path | None) -> str:
    best = predictions.best()
    counts = Counter(best)
    classes = ", ".join(f"{label} {counts[label]:,}" for label in predictions.classes)
    if not predictions.classes and best:
        classes = f"numbers from {min(best):.4g} to {max(best):.4g}"
    where = "" if out is None else f" written to {click.format_filename(out)}"
    lines = [
        f"{len(predictions.ids):,} predictions{where}: {classes}. Model: {project.settings.model}, trained on "
        f"{len(project.session().labels()):,} labelled items."
    ]
    if predictions.left_out:
        lines.append(f"{len(predictions.left_out):,} left out, without any features:")
        lines += [f"  {each}" for each in predictions.left_out[:SHOWN]]
        more = len(predictions.left_out) - SHOWN
        lines += [f"  and {more:,} more"] if more > 0 else []
    return "\n".join(lines)
