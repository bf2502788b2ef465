"""A project's labels in and out of files: `askwell export`, `import`, `backup` and `restore`."""

from pathlib import Path
from typing import Any

import click

from askwell.cli.options import command, exact, one_message, path_argument, path_option, plural

__all__ = ["backup", "bring", "export", "restore"]

file_format = click.option(
    "--format",
    type=click.Choice(["csv", "jsonl", "parquet", "label-studio"]),
    help="File format.  [default: from the file name]",
)


@click.command()
@path_argument("folder")
@path_argument("file")
@file_format
@click.option("--consensus", is_flag=True, help="One row per item, with the majority label.")
@exact
@click.option("--with-item", is_flag=True, help="Include what people saw: the text, the image path or the columns.")
@click.option("--bom", is_flag=True, help="Start the CSV with a byte order mark, so that Excel reads it as UTF-8.")
def export(folder: Path, file: Path, exact: bool, consensus: bool, **options: Any) -> None:
    """Export all answers to FILE: .csv, .jsonl, .parquet, or .json for Label Studio.

    One row per person and item, with the latest answer: id, label, who, at (ISO 8601, UTC), seconds, kind (label or
    skip), reason, key. The pool's files are needed only for --with-item and Label Studio.
    """
    from askwell.project import open_project
    from askwell.project.exchange import export_labels

    with one_message(), open_project(folder, writable=False) as project:
        count = export_labels(project, file, safe=not exact, consensus=consensus, **options)
        click.echo(f"Wrote {plural(count, 'item' if consensus else 'answer')} to {click.format_filename(file)}.")


@click.command(name="import")
@path_argument("folder")
@path_argument("file")
@file_format
@click.option("--exact", is_flag=True, help="The CSV was written by askwell export --exact.")
def bring(folder: Path, file: Path, format: Any, exact: bool) -> None:
    """Import answers from FILE: a table with the columns id and label, or an export.

    The columns who, at, seconds, kind, reason and key are optional; other columns are ignored. Answers that are stored
    already are not stored twice. Rows that cannot be stored are listed; all others are stored.
    """
    from askwell.project import open_project
    from askwell.project.exchange import import_labels

    with one_message(), open_project(folder) as project:
        report = import_labels(project, file, format=format, safe=not exact)
        click.echo(str(report))
        if report.refused:
            raise SystemExit(2)


@click.command()
@path_argument("folder")
@path_option(
    "--out",
    "path",
    metavar="FILE.zip",
    help="Backup file, or a folder to put it in.  [default: project name and time, in the working directory]",
)
@click.option(
    "--with-data/--without-data",
    "data",
    default=None,
    help="Include pool, targets and embeddings.  [default: if at most 100 MB]",
)
def backup(folder: Path, path: Path | None, data: bool | None) -> None:
    """Back up a project to one file, even while people are labelling.

    The file holds all records, the settings and the data. askwell restore recreates the project from it, on any machine
    and in either kind of store (SQLite or PostgreSQL).
    """
    from askwell.project import open_project
    from askwell.project.backup import backup_project

    with one_message(resume=f"No backup was written. To try again: {command()}"), open_project(folder) as project:
        report = backup_project(project, path=path, data=data)
        click.echo(f"Wrote {click.format_filename(report.path)}: {report}.")
        for note in report.notes:
            click.echo(f"Note: {note}", err=True)


@click.command()
@path_argument("file", metavar="BACKUP")
@path_argument("folder")
@click.option(
    "--store", metavar="URL", help="Restore the records into another store: sqlite:///labels.db, postgresql://..."
)
@click.option(
    "--overwrite", is_flag=True, help="Allow FOLDER to be a project; the files replaced are moved to a subfolder."
)
def restore(file: Path, folder: Path, store: str | None, overwrite: bool) -> None:
    """Restore a project from BACKUP into FOLDER.

    All checksums of the backup are verified before anything is changed, and the records again after they were stored.
    A project that is in use is not replaced.
    """
    from askwell.project.backup import restore_project

    with one_message(resume=f"Nothing was replaced. To try again: {command()}"):
        report = restore_project(file, folder, store=store, overwrite=overwrite)
        shown = click.format_filename(folder)
        click.echo(f"Restored {shown}, as it was at {report.at}: {report}.")
        for note in report.notes:
            click.echo(f"Note: {note}", err=True)
        click.echo(f"Next: askwell serve {shown}")
