"""Which programs AppArmor lets make user namespaces, where it denies them to users' programs, as on Ubuntu since 23.10.

There the kernel gives a program without a profile an empty namespace (kernel.apparmor_restrict_unprivileged_userns); a
profile with the rule `userns,` that is attached to the program's path lets it make a whole one (apparmor.d(5)).
"""

from __future__ import annotations

import glob
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB, names, read_text

PROFILES = "/etc/apparmor.d"
LEFT = ("~", ".orig", ".rej", ".dpkg-new", ".dpkg-old", ".dpkg-dist", ".dpkg-bak", ".dpkg-remove")
"""How the names of files end that AppArmor does not load."""

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


def read(root: str, asked: Iterable[str]) -> List[Dict[str, Any]]:
    """Of programs, by patterns of their paths (glob(7)), those that are there.

    Each has its `path`, the name of the file with the profile that is attached to it (`profile`; empty for none, or
    for one of slurmfab's), and whether that has the rule (`allows`).
    """
    found = [path[len(root) :] for one in asked for path in sorted(glob.glob(glob.escape(root) + one))]
    profiles = list(attached(root)) if found else []
    programs = []
    for path in dict.fromkeys(found):
        those = [(name, allows) for pattern, name, allows in profiles if pattern.fullmatch(path)]
        name, allows = max(those, key=lambda one: one[1], default=("", False))
        programs.append({"path": path, "profile": name, "allows": allows})
    return programs


def attached(root: str) -> Iterator[Tuple[re.Pattern[str], str, bool]]:
    """Yield the paths that each profile of others is attached to, its file's name, and whether it has the rule."""
    disabled = names("%s%s/disable" % (root, PROFILES))
    for name in names(root + PROFILES):
        text = read_text("%s%s/%s" % (root, PROFILES, name))
        is_left = name in disabled or name.startswith(".") or name.endswith(LEFT)
        if is_left or "{" not in text or text.startswith(MADE_BY_SLURMFAB):
            continue
        text = COMMENT.sub("", text)
        variables = {"multiarch": "*"}
        for variable in VARIABLE.finditer(text):
            variables[variable[1]] = "{%s}" % ",".join(variable[2].split())
        for head in HEAD.finditer(text):
            body = text[head.end() : (text + "\n}").index("\n}", head.end() - 1)]
            path = head[2] or head[3] or head[1]
            pattern = expression(path, variables) if path[0] in "/@" else None
            if pattern:
                yield re.compile(pattern), name, bool(RULE.search(body))


def expression(path: str, variables: Mapping[str, str]) -> Optional[str]:
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
