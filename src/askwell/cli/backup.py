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
    help="Or a folder for it.  [default: the project's name and the time, in the working directory]",
)
@click.option(
    "--with-data/--without-data", "data", default=None, help="Pool, targets, embeddings too.  [default: up to 100 MB]"
)
def backup(folder: Path, path: Path | None, data: bool | None) -> None:
    """Write a project to one file, while people go on labelling.

    It holds every record, the settings and the data; askwell restore makes the project again from it, on any machine
    and in either kind of store.
    """
    from askwell.project import open_project
    from askwell.project.backup import backup_project

    with plainly(goes_on=f"No backup was written. To do it again: {command()}"), open_project(folder) as project:
        found = backup_project(project, path=path, data=data)
        click.echo(f"Written to {click.format_filename(found.path)}: {found}.")
        for note in found.notes:
            click.echo(f"Note: {note}", err=True)


@click.command()
@click.argument("file", metavar="BACKUP", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--store", metavar="URL", help="Put the records there instead: sqlite:///labels.db, postgresql://...")
@click.option("--overwrite", is_flag=True, help="FOLDER may be a project: what is replaced is moved to a folder in it.")
def restore(file: Path, folder: Path, store: str | None, overwrite: bool) -> None:
    """Make a project again in FOLDER from a BACKUP.

    Everything in the backup is proved by its checksums before anything is changed, and the records once more after
    they were stored. A project that is in use is not replaced.
    """
    from askwell.project.backup import restore_project

    with plainly(goes_on=f"Nothing was replaced. To do it again: {command()}"):
        found = restore_project(file, folder, store=store, overwrite=overwrite)
        shown = click.format_filename(folder)
        click.echo(f"Restored {shown}, as it was at {found.at}: {found}.")
        for note in found.notes:
            click.echo(f"Note: {note}", err=True)
        click.echo(f"Next: askwell serve {shown}")
