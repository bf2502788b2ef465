"""`askwell init`: create a labelling project."""

from pathlib import Path
from typing import Any

import click

from askwell.cli.options import (
    CLASS_WEIGHTS,
    by_class,
    delimiter,
    encoding,
    one_message,
    path_argument,
    separator,
    split_names,
    whole_number,
)

__all__ = ["init"]

CLASS_PRIOR = "ham=0.9,spam=0.1"
SHARE = click.FloatRange(0, 0.5)


@click.command()
@path_argument("folder")
@click.option(
    "--pool",
    required=True,
    metavar="PATH",
    help="The pool: items that can be labelled. A glob in quotes, or a URL, is read chunk by chunk.",
)
@click.option("--targets", metavar="PATH", help="Unlabelled inputs the model will have to predict.")
@click.option("--label-targets", is_flag=True, help="Ask about the targets too, where they may be labelled.")
@click.option("--class-prior", metavar="A=P,...", help=f"Or the expected class frequencies: {CLASS_PRIOR}.")
@click.option("--class-weights", metavar="A=W,...", help=f"Cost of an error per class, 1 by default: {CLASS_WEIGHTS}.")
@click.option("--classes", metavar="A,B,...", help="Class names.  [default: those in the --label column]")
@click.option("--numbers", is_flag=True, default=None, help="Labels are numbers to predict, instead of classes.")
@click.option("--label-range", metavar="LOW,HIGH", help="The lowest and the highest of these.  [default: any]")
@click.option("--show", metavar="COLUMNS", help="Columns to show to annotators.  [default: free text, else all]")
@click.option(
    "--kind", type=click.Choice(["text", "image", "table"]), help="How to display items.  [default: detected]"
)
@click.option("--id", metavar="COLUMN", help="Column with unique ids.  [default: row numbers]")
@click.option("--label", metavar="COLUMN", help="Column with known labels; they are saved at once.")
@click.option(
    "--cost", metavar="COLUMN", help="Column with the cost of labelling a row; items are ranked by gain per cost."
)
@click.option(
    "--features",
    metavar="COLUMNS",
    help="Feature columns; minilm, mobilenet or another net; or embeddings:COLUMN, embeddings:FILE.npy.",
)
@click.option("--model", metavar="NAME", help="forest, linear, gp, or module:function.  [default: depends on the data]")
@click.option("--score", metavar="NAME", help="Acquisition function, such as epig, bald, margin.  [default: auto]")
@whole_number("--batch", help="Batch size: questions chosen together.  [default: 10]")
@whole_number("--retrain-every", help="New labels before the model is retrained.  [default: 10]")
@click.option(
    "--evaluation",
    type=SHARE,
    metavar="SHARE",
    help="Share of questions drawn at random from the targets, to know how good the model is.  [default: 0.2]",
)
@whole_number("--budget", help="Total number of labels.  [default: unlimited]")
@whole_number("--labels-per-item", help="Labels per item, from different people.  [default: 1]")
@click.option(
    "--store", metavar="URL", help="Label store, e.g. postgresql://user@host/database.  [default: a SQLite file]"
)
@click.option("--run", metavar="NAME", help="The project's name in the store.  [default: main]")
@click.option("--template", metavar="FILE", help="Your own Jinja template for showing an item on the page.")
@whole_number("--seed", least=0, help="Random seed.  [default: 0]")
@delimiter
@encoding
def init(folder: Path, features: str | None, **options: Any) -> None:
    """Create a labelling project in FOLDER.

    The pool is a table (CSV, JSON lines, Parquet), a NumPy array, a folder of images or text files, or tables that are
    too large to read: a folder of Parquet or CSV files, or a glob such as 'big/*.parquet'. Writes
    askwell.toml, a file of settings that you can edit, and the label store. If init fails, nothing is created.
    """
    from askwell.data.pretrained import is_pretrained
    from askwell.project import init_project, project_note
    from askwell.project.init import features_advice

    whole = features is None or features.startswith("embeddings:") or is_pretrained(features)

    with one_message():
        ends = options.pop("label_range")
        prior, weights = options.pop("class_prior"), options.pop("class_weights")
        with init_project(
            folder,
            features=features if whole else split_names(features),
            classes=split_names(options.pop("classes")),
            show=split_names(options.pop("show")),
            label_range=None if ends is None else _range(ends),
            class_prior=by_class("--class-prior", prior, like=CLASS_PRIOR),
            class_weights=by_class("--class-weights", weights, like=CLASS_WEIGHTS),
            delimiter=separator(options.pop("delimiter")),
            **options,
        ) as project:
            click.echo(project_note(project))
            if advice := features_advice(project):
                click.echo(advice)
        shown = click.format_filename(folder)
        click.echo(f"\nCreated {shown}/. Settings are in askwell.toml.\nNext: askwell serve {shown}")


def _range(text: str) -> tuple[float, ...]:
    """Two numbers with a comma between them."""
    try:
        return tuple(float(end) for end in text.split(","))
    except ValueError:
        raise ValueError(f"--label-range must be two numbers, such as 0,100, but it is {text!r}.") from None
