"""Which programs AppArmor lets make user namespaces, where it denies them to users' programs, as on Ubuntu since 23.10.

There the kernel gives a program without a profile an empty namespace (kernel.apparmor_restrict_unprivileged_userns); a
profile with the rule `userns,` that is attached to the program's path lets it make a whole one (apparmor.d(5)).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from slurmfab.cluster.facts import HostFacts
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB

HEAD = re.compile(
    r"""^[ \t]*(?:profile\s+"?([^\s"]+)"?(?:\s+"?([/@][^\s"]*)"?)?|"?([/@][^\s"]*)"?)"""
    r"""\s+(?:flags\s*=\s*\([^)]*\)\s*)?\{\s""",
    re.MULTILINE,
)
"""The head of a profile: `profile NAME PATH flags=(…) {`, of which NAME or PATH may be missing."""

VARIABLE = re.compile(r"^[ \t]*@\{(\w+)\}[ \t]*\+?=[ \t]*(.*)$", re.MULTILINE)
COMMENT = re.compile(r"^[ \t]*#(?!include).*$", re.MULTILINE)
RULE = re.compile(r"^[ \t]*(?:(?:audit|allow|priority=\S+)[ \t]+)*(?:userns\b[^,]*|all[ \t]*),", re.MULTILINE)
PIECES = re.compile(r"@\{(\w+)\}|\*\*|[*?{},]|.", re.DOTALL)
MEANS = {"**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}

NOT_LOADED = ("~", ".orig", ".rej", ".dpkg-new", ".dpkg-old", ".dpkg-dist", ".dpkg-bak", ".dpkg-remove")
"""How the names of files end that AppArmor does not load; nor does it those that begin with a full stop."""


class Denied(NamedTuple):
    """A program that cannot make user namespaces, or could not without slurmfab."""

    path: str
    profile: str = ""  # the name of the file in /etc/apparmor.d with the profile in its way; empty where it has none


def denied(facts: HostFacts) -> tuple[Denied, ...]:
    """The programs of a host to which AppArmor denies user namespaces, leaving out what slurmfab's profiles say."""
    profiles = [one for name, text in facts.apparmor_profiles.items() for one in attached(name, text)]
    found = []
    for path in facts.namespace_programs:
        those = {name: allows for pattern, name, allows in profiles if pattern.fullmatch(path)}
        if not any(those.values()):
            found.append(Denied(path, next(iter(those), "")))
    return tuple(found)


def attached(file: str, text: str) -> Iterator[tuple[re.Pattern[str], str, bool]]:
    """Yield the paths that each profile in a file of others is attached to, the file's name, and whether it allows."""
    if file.startswith(".") or file.endswith(NOT_LOADED) or text.startswith(MADE_BY_SLURMFAB):
        return
    text = COMMENT.sub("", text)
    variables = {"multiarch": "*"}
    for variable in VARIABLE.finditer(text):
        variables[variable[1]] = "{" + ",".join(variable[2].split()) + "}"
    for head in HEAD.finditer(text):
        body = text[head.end() : f"{text}\n}}".index("\n}", head.end() - 1)]
        path = head[2] or head[3] or head[1]
        pattern = expression(path, variables) if path[0] in "/@" else None
        if pattern:
            yield re.compile(pattern), file, bool(RULE.search(body))


def expression(path: str, variables: Mapping[str, str]) -> str | None:
    """A path as a profile writes it as a regular expression; `None` if it has a variable that its file does not set."""
    parts = []
    for piece in PIECES.finditer(path):
        if piece[1]:
            inner = expression(variables[piece[1]], variables) if piece[1] in variables else None
            if inner is None:
                return None
            parts.append(inner)
        else:
            parts.append(MEANS.get(piece[0], re.escape(piece[0])))
    return "".join(parts)
