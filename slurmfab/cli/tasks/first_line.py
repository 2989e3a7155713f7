"""The first line on a terminal: which cluster a task is about, while what does the work is still being loaded."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from slurmfab.base.errors import InputError
from slurmfab.base.terminal import is_terminal, write
from slurmfab.cli.completion import takes
from slurmfab.cli.completion.cluster_values import ClusterValues
from slurmfab.cli.tasks import TASKS
from slurmfab.cli.tasks.command import Command
from slurmfab.cli.tasks.command_line import OWN_FLAGS, Reader
from slurmfab.cluster.inventory.file_named import file_named

FIRST_CONTACT = ("deploy", "plan")  # the tasks that need no cluster file


def show(arguments: Sequence[str]) -> None:
    """Show the line for a command line that has no mistake; elsewhere than on a terminal nobody waits for it."""
    if not arguments or arguments[0] not in TASKS or not is_terminal(sys.stderr):
        return
    reader = Reader(OWN_FLAGS)
    with suppress(InputError):  # an option of Fabric's own behind a task
        reader.read(iter(arguments))
        if line := first_line(*reader.calls[0]):
            write(line, sys.stderr)
            sys.stderr.flush()


def first_line(task: Command, given: Mapping[str, Any]) -> str:
    """Which cluster file a task with these values is about, and its number of hosts; empty if it asks no host."""
    names = {one.name for one in task.parameters}
    if not {"cluster", "ask_sudo_password"} <= names:
        return ""
    path = file_named(given.get("cluster", ""))
    hosts = given.get("hosts", "")
    if not path.exists():
        return f"{task.name}: first contact with {hosts}" if hosts and task.name in FIRST_CONTACT else ""
    count = len(ClusterValues(str(path)).named(takes.HOSTS))
    number = f", {count} host{'s' if count != 1 else ''}" if count else ""
    return f"{task.name}: {path}{number}{f'; here {hosts}' if hosts else ''}"
