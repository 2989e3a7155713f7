"""What one host's script is made of: commands, files with their texts, and what comes from other hosts."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

END = "END_OF_FILE"
HEADER = re.compile(
    r"(Made by slurmfab from the cluster file[^;\n]{0,80}); edits here are overwritten(?:, except [^.\n]{0,120})?"
)
"""What slurmfab's files say at their beginning, and what is no longer so where no deployment comes."""

EJECTED = r"\1, and ejected: edits here stay"
_SURROGATE = re.compile("[\ud800-\udfff]")  # stands for a byte that is not UTF-8


@dataclass
class Script:
    """What is gathered while one host's resources are said."""

    made: Mapping[str, str] = field(default_factory=dict)  # paths of files that a new host makes, by their texts
    packages: Collection[str] = ()  # names of Slurm's packages that the host has
    sent: Mapping[str, str] = field(default_factory=dict)  # paths of packages that the host is sent, by their names
    secrets: dict[str, str] = field(default_factory=dict)  # names of shell variables by path of the file they come from
    unsaid: list[str] = field(default_factory=list)  # kinds of resources that no command is known for

    def put(self, path: str, text: str, access: str, *, secret: bool = False) -> list[str]:
        """Write a file; one with a secret or what new hosts make comes in a variable. `access`: `OWNER:GROUP MODE`."""
        target = f"put {shlex.quote(path)} {access}"
        origin = path if secret else self.made.get(text, "")
        return [f"{self.given(origin)} | {target}"] if origin else here(target, text)

    def given(self, origin: str) -> str:
        """The command that prints a file which make-cluster has from another host or from `secrets/`, by its path."""
        name = self.secrets.setdefault(origin, f"secret_{len(self.secrets)}")
        return f'printf %s "${{{name}:?is given by make-cluster}}" | base64 -d'


def here(command: str, text: str) -> list[str]:
    """A command with a text as its standard input, in base64 if a here-document cannot have it."""
    text = HEADER.sub(EJECTED, text, count=1)
    lines = text.split("\n")
    is_plain = not lines[-1] and END not in lines and is_utf8(text)
    if text and is_plain:
        return [f"{command} <<'{END}'", *lines[:-1], END]
    data = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()
    return [f"base64 -d <<<{data} | {command}" if text else f"{command} </dev/null"]


def is_utf8(text: str) -> bool:
    """Whether a text has no bytes that are not UTF-8, and no NUL, which shells drop."""
    return "\0" not in text and not _SURROGATE.search(text)


def words(*parts: object) -> str:
    """A command line of these words, quoted."""
    return shlex.join(map(str, parts))
