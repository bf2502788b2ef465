"""Commands for those who would not lose a project: `backup` and `restore`."""

from pathlib import Path

import click

from askwell.cli.manners import command, plainly

__all__ = ["backup", "restore"]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "path",
    type=click.Path(path_type=Path),
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

    with plainly(goes_on=f"No backup was written. To try again: {command()}"), open_project(folder) as project:
        found = backup_project(project, path=path, data=data)
        click.echo(f"Wrote {click.format_filename(found.path)}: {found}.")
        for note in found.notes:
            click.echo(f"Note: {note}", err=True)


@click.command()
@click.argument("file", metavar="BACKUP", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
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

    with plainly(goes_on=f"Nothing was replaced. To try again: {command()}"):
        found = restore_project(file, folder, store=store, overwrite=overwrite)
        shown = click.format_filename(folder)
        click.echo(f"Restored {shown}, as it was at {found.at}: {found}.")
        for note in found.notes:
            click.echo(f"Note: {note}", err=True)
        click.echo(f"Next: askwell serve {shown}")
