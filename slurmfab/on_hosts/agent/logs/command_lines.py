"""Secrets among the words of command lines: `mysql -pX`, `sshpass -p X`, `curl -u user:X`, `--password X`.

Lines are read word by word, so that the time is proportional to the length whatever the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from slurmfab.on_hosts.agent.logs.secret_detectors import Place


class Options(NamedTuple):
    """Options of a program that have a secret."""

    joined: tuple[str, ...] = ()  # options with the secret in the same word, as in `-pX`
    apart: tuple[str, ...] = ()  # options with the secret in the next word
    pairs: tuple[str, ...] = ()  # options with `user:secret`, in the same word or in the next one
    separator: str = ":"  # what is between user and secret


PROGRAMS = {
    "mysql": Options(joined=("-p",)),
    "mariadb": Options(joined=("-p",)),
    "sshpass": Options(joined=("-p",), apart=("-p",)),
    "curl": Options(pairs=("-u", "-U", "--user", "--proxy-user")),
    "wget": Options(),
    "docker": Options(joined=("-p",), apart=("-p",)),
    "podman": Options(pairs=("--creds",), joined=("-p",), apart=("-p",)),
    "skopeo": Options(pairs=("--creds", "--src-creds", "--dest-creds")),
    "ipmitool": Options(joined=("-P",), apart=("-P", "-Y", "-k")),
    "ipmipower": Options(joined=("-p",), apart=("-p",)),
    "ldap": Options(joined=("-w",), apart=("-w", "-s")),
    "redis-cli": Options(apart=("-a",)),
    "smbclient": Options(pairs=("-U", "--user"), separator="%"),
    "snmp": Options(apart=("-c", "-A", "-X")),
    "useradd": Options(apart=("-p",)),
    "usermod": Options(apart=("-p",)),
    "openssl": Options(joined=("pass:",), apart=("-k", "-K", "-pass", "-passin", "-passout")),
    "zip": Options(joined=("-P",), apart=("-P",)),
    "unzip": Options(joined=("-P",), apart=("-P",)),
    "7z": Options(joined=("-p",)),
    "kinit": Options(),
    "vncpasswd": Options(),
}
"""Options by how the name of the program begins, those of any program apart."""

_LONG = re.compile(
    r"(?i)--?(?:[a-z0-9]{1,32}[-_]){0,4}(?:pass|passwd|password|passphrase|passcode|pwd|secret|token|credentials?"
    r"|(?:api|access|secret|auth|encryption|license)[-_]?key|apikey)(=|$)"
)
"""An option of any program with a secret in the next word, or after `=`."""

_HINT = re.compile(
    r"(?i)--?[a-z0-9_-]{0,80}(?:pass|pwd|secret|token|credential|key)|mysql|mariadb|sshpass|curl|docker|podman|skopeo"
    r"|ipmi|ldap|redis-cli|smbclient|snmp|useradd|usermod|openssl|zip|7z"
)
_WORD = re.compile(
    r"(?:\\?\"[^\"\n]*\\?\"?|\\?'[^'\n]*\\?'?|\\\n[ \t]*(?=.)|[^\s\"'\\;|&]+|\\(?!n)){1,4096}|\\n|[;|&\n]"
)
_BREAKS = ("\n", "\\n", ";", "|", "&")
_QUOTES = "\"'\\,)]}"
_BEFORE = "\"'\\([{ \t\n"

DEEPEST = 3  # quotations inside quotations that are read as command lines
WIDTHS = frozenset((64, 70, 72, 76, 78, 79, 80, 100, 120, 128, 132))  # lengths of lines that something has wrapped


def secrets(text: str) -> Iterator[Place]:
    """Yield the places of secrets in command lines."""
    begin = 0
    for line in logical_lines(text):
        if _HINT.search(line):
            yield from ((begin + first, begin + end) for first, end in in_line(line))
        begin += len(line)


def logical_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text with their ends; one that was wrapped, or cut by a backslash, goes on."""
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        kept.append(line)
        content = line.rstrip("\r\n")
        if not content.endswith("\\") and len(content) not in WIDTHS:
            yield "".join(kept)
            kept = []
    yield "".join(kept)


def in_line(line: str, depth: int = 0) -> Iterator[Place]:
    """Yield the places of secrets in one line. `depth`: of how many quotations it is the content."""
    options, expected = Options(), ""
    for found in _WORD.finditer(line):
        first, end = stripped(line, *found.span())
        if found[0] in ("\n", "\\n"):
            continue
        if found[0] in _BREAKS:
            options, expected = Options(), ""
            continue
        word = line[first:end]
        if expected:
            at = word.find(expected) + 1 if expected != " " else 0
            if at or expected == " ":
                yield first + at, end
            expected = ""
            continue
        if " " in word and depth < DEEPEST:
            yield from ((first + one, first + other) for one, other in in_line(word, depth + 1))
            continue
        options = options_of(word) or options
        place, expected = secret_in(word, options)
        if place:
            yield first + place, end


def stripped(line: str, first: int, end: int) -> Place:
    """The place of a word without quotes and brackets around it."""
    while first < end and line[first] in _BEFORE:
        first += 1
    while first < end and line[end - 1] in _QUOTES:
        end -= 1
    return first, end


def options_of(word: str) -> Options | None:
    """The options with secrets of the program that a word names."""
    name = word.rpartition("/")[2].rpartition("=")[2].strip("'\"`+-$(")[:32]
    return next((options for program, options in PROGRAMS.items() if name.startswith(program)), None)


def secret_in(word: str, options: Options) -> tuple[int, str]:
    """Where the secret begins in a word, and what is expected of the next one.

    Returns 0 for a word without one. What is before the secret in the next word, a space for nothing, empty if the next
    word has none.
    """
    long = _LONG.match(word)
    if long:
        return (long.end(), "") if long[1] else (0, " ")
    if word in options.apart:
        return 0, " "
    if word in options.pairs:
        return 0, options.separator
    for option in options.pairs:
        if word.startswith(option) and options.separator in word[len(option) :]:
            return word.index(options.separator, len(option)) + 1, ""
    for option in options.joined:
        if word.startswith(option) and len(word) > len(option):
            return len(option), ""
    return 0, ""
