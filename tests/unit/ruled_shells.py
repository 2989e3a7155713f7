"""Shells whose answers are rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from slurmfab.commands.checks.shell import CommandResult

Rule = str | CommandResult | Callable[[str], str | CommandResult]


class RuledShell:
    """A shell that answers by rules: the first regular expression that is found in a command decides."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self.rules = dict(rules)
        self.commands: list[str] = []
        self.inputs: list[str] = []

    def run(self, command: str, stdin: str = "", seconds: float = 0) -> CommandResult:  # noqa: ARG002 - as Shell has it
        self.commands.append(command)
        self.inputs.append(stdin)
        for pattern, rule in self.rules.items():
            if re.search(pattern, command):
                answer = rule if isinstance(rule, str | CommandResult) else rule(command)
                return CommandResult(0, answer.encode()) if isinstance(answer, str) else answer
        return CommandResult(127, b"", f"sh: {command.split(maxsplit=1)[0]}: not found\n".encode())


def daemons_of(*, changes: str = "", start: int | None = 100, key: str = "munge munge 400") -> str:
    """What a host shows of its daemons, whose clock says 1000 s, and which booted at 500 s.

    Args:
        changes: when files changed, and their paths, line by line.
        start: seconds from the boot to the start of the daemons; `None` where they do not run.
        key: user, group and mode of the munge key; empty for none.
    """
    names = ("munge", "mariadb", "slurmdbd", "slurmctld", "slurmd")
    state = "inactive" if start is None else "active"
    units = "\n\n".join(
        f"MainPID={0 if start is None else 70 + number}\nResult=success\nId={name}.service\nLoadState=loaded\n"
        f"ActiveState={state}\nUnitFileState=enabled"
        for number, name in enumerate(names)
    )
    processes = "".join(
        f"{70 + number} (a (b) c) S 1 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {start * 100} 1 2\n"
        for number, _ in enumerate(names)
        if start is not None
    )
    times = f"500.00 400.00\n1000.0\n100\n{processes}"
    ports = "00000000:1AA1\n00000000:1AA2\n00000000000000000000000000000000:1AA3\n"
    return "\n----\n".join((units, times, changes, key, "" if start is None else "there", ports))
