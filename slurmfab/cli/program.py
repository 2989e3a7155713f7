"""The tasks as a program of its own, which needs no fabfile."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from invoke.config import Config
from invoke.exceptions import Exit, ParseError
from invoke.parser import Parser
from invoke.program import Program

from slurmfab import __version__
from slurmfab.base.errors import InputError
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import guard_output
from slurmfab.cli.tasks.invoke_tasks import check_words, namespace

CORE_HOSTS = ("-H", "--hosts")
INVOKES_COMPLETION = "--print-completion-script"  # Invoke's option for scripts that know no values; it prints ours


class SlurmfabConfig(Config):
    """Invoke's configuration under our own name: `slurmfab.yaml`, `SLURMFAB_…`."""

    prefix = "slurmfab"


class SlurmfabProgram(Program):
    """Invoke's program, with our exit code for a command line that cannot be understood.

    Not Fabric's, whose own `--hosts` would call a task once for each host.
    """

    def parse_core(self, argv: list[str] | None) -> None:
        """Read the options in front of the tasks."""
        with input_errors():
            super().parse_core(argv)

    def _make_parser(self) -> Parser:
        """What reads the tasks and their options; behind options of Invoke's, words are looked through only here."""
        parser = super()._make_parser()
        check_words(self.argv[1:], self.initial_context)
        return parser

    def parse_tasks(self) -> None:
        """Read the tasks and their options."""
        with input_errors():
            super().parse_tasks()


@contextmanager
def input_errors() -> Iterator[None]:
    """Say where help is when the command line cannot be understood. Raises Exit: with the exit code for wrong input."""
    try:
        yield
    except ParseError as error:
        raise Exit(f"{error} See: {FAB} help, {FAB} help TASK.", code=InputError.exit_code) from None


def run() -> None:
    """Run the tasks that the command line names; a reader of the output who leaves early is no error."""
    guard_output()
    program = SlurmfabProgram(
        name="slurmfab", binary="slurmfab", version=__version__, namespace=namespace, config_class=SlurmfabConfig
    )
    try:
        program.run([sys.argv[0], *after_task(sys.argv[1:])])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def after_task(arguments: list[str]) -> list[str]:
    """The command line with `--hosts` behind the task, where a task reads it.

    >>> after_task(["--hosts", "n1,n2", "deploy"])
    ['deploy', '--hosts', 'n1,n2']
    """
    rest, moved = list(arguments), []
    if rest[:1] == [INVOKES_COMPLETION]:
        return ["completion", *rest[1:]]
    while rest and rest[0].split("=")[0] in CORE_HOSTS:
        _, equals, value = rest.pop(0).partition("=")
        moved += ["--hosts", value if equals or not rest else rest.pop(0)]
    return [*rest[:1], *moved, *("--hosts" if word == "-H" else word for word in rest[1:])]
