"""Shells whose answers are rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from slurmfab.checks.shell import Answer

Rule = str | Answer | Callable[[str], str | Answer]


class RuledShell:
    """A shell that answers by rules: the first regular expression that is found in a command decides."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self.rules = dict(rules)
        self.commands: list[str] = []
        self.inputs: list[str] = []

    def run(self, command: str, stdin: str = "", seconds: float = 0) -> Answer:  # noqa: ARG002 - as Shell has it
        self.commands.append(command)
        self.inputs.append(stdin)
        for pattern, rule in self.rules.items():
            if re.search(pattern, command):
                answer = rule if isinstance(rule, str | Answer) else rule(command)
                return Answer(0, answer.encode()) if isinstance(answer, str) else answer
        return Answer(127, b"", f"sh: {command.split(maxsplit=1)[0]}: not found\n".encode())
