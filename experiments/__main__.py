"""`python -m experiments FIGURE`: run what is missing of a figure of the paper, draw it and judge its claim."""

from pathlib import Path
from typing import Any

import click

from experiments.figure import EFFORTS
from experiments.running import FIGURES, OUT, figure_named, redraw, reproduce

__all__ = ["main"]


@click.command()
@click.argument("figure", type=click.Choice([*FIGURES]))
@click.option("--quick", "effort", flag_value="quick", help="Minutes: to see that everything works.")
@click.option("--full", "effort", flag_value="full", help="The paper's protocol, however long it takes.")
@click.option("--seeds", type=click.IntRange(1), help="How many runs of each score.")
@click.option("--processes", type=click.IntRange(1), default=2, show_default=True)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Where the data files are.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=OUT, help="Where results go.")
@click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE", help="A choice of this figure; see --choices."
)
@click.option("--choices", is_flag=True, help="List the choices of this figure, and do nothing.")
@click.option("--redraw", "only_draw", is_flag=True, help="Draw and judge what has been run already.")
def main(
    figure: str, effort: str | None, options: tuple[str, ...], choices: bool, only_draw: bool, out: Path, **rest: Any
) -> None:
    """Reproduce a FIGURE of the paper. Stop it when you like: the same command goes on where it was."""
    from rich.console import Console

    console = Console(stderr=True)
    try:
        found = figure_named(figure)
        terms: Any = {"effort": effort or EFFORTS[1], "options": _pairs(options), "out": out}
        if choices:
            for name, option in found.options.items():
                click.echo(f"{name}={'|'.join(option.values)}  {option.meaning}")
            return
        if only_draw:
            outcome = redraw(found, **terms)
        else:
            with console.status(f"{figure}: starting") as status:
                outcome = reproduce(found, told=lambda line: status.update(f"{figure}: {line}"), **terms, **rest)
    except (ValueError, RuntimeError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(outcome.verdict)
    click.echo(f"\nwritten: {', '.join(str(path) for path in (outcome.table, *outcome.pictures))}")


def _pairs(options: tuple[str, ...]) -> dict[str, str]:
    for option in options:
        if "=" not in option:
            raise ValueError(f"--option must be NAME=VALUE, but it is {option!r}.")
    return dict(option.split("=", 1) for option in options)


if __name__ == "__main__":
    main()
