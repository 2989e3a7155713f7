"""`slurmfab`: the tasks as a program of its own, for those who install it and have no fabfile."""

from __future__ import annotations

import sys

from fabric.main import Fab

from slurmfab import __version__
from slurmfab.tasks import namespace

CORE_HOSTS = ("-H", "--hosts")


def main() -> None:
    """Run the tasks that the command line names."""
    program = Fab(name="slurmfab", binary="slurmfab", version=__version__, namespace=namespace)
    program.run([sys.argv[0], *after_task(sys.argv[1:])])


def after_task(words: list[str]) -> list[str]:
    """The command line with `--hosts` behind the task, where a task reads it; in front, Fabric would call the task for each host.

    >>> after_task(["--hosts", "n1,n2", "deploy"])
    ['deploy', '--hosts', 'n1,n2']
    """
    rest, moved = list(words), []
    while rest and rest[0].split("=")[0] in CORE_HOSTS:
        flag, equals, value = rest.pop(0).partition("=")
        moved += ["--hosts", value if equals or not rest else rest.pop(0)]
    return [*rest[:1], *moved, *(["--hosts" if word == "-H" else word for word in rest[1:]])]
