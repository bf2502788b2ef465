"""Commands as a user types them, in this process."""

from click.testing import CliRunner

from askwell.cli import main

INIT = ("p", "--pool", "pool.csv", "--classes", "ham,spam", "--show", "text", "--id", "key")


def run(command, *words):
    return CliRunner().invoke(main, ["import" if command == "bring" else command, *(str(word) for word in words)])


def fine(command, *words):
    result = run(command, *words)
    assert result.exit_code == 0, result.output
    return result.output


def refused(command, *words):
    """The one message of an error."""
    result = run(command, *words)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    return line
