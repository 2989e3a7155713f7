"""Guides in docs/guides, played: their files are written, their commands run, and their output compared.

A guide is Markdown. What is played of it, in its order:

- the comment `<!-- lab: {suite: trixie, nodes: 3} -->`: arguments of `LabSpec`, once, before everything else. With
  `installed: no` the hosts lack Slurm's packages; `installed: {ctl: [slurmdbd]}` names further ones, to save time;
  with `hand_made: accounts` they are a cluster of this kind of `hand_made.KINDS`, which says the other arguments; with
  `up: tour` there are no hosts, until a command of the guide starts the lab of this name;
- the comments `<!-- lab: {start: n3} -->` and `<!-- lab: {stop: n3} -->`: a host is switched on or off;
- a fenced block after a line that ends with "write `FILE`:" or "set in `FILE`:": the file gets this text, or each
  top-level key of the block replaces the one of this name in the file;
- a block of kind `console`: commands with their output. `$ ` is the machine of the admin, whose working directory
  begins empty; `root@n1:~# ` and `ann@ctl:~$ ` are hosts. A command must succeed, or end with `; echo $?`; `plan` may
  end with 4. `…` stands for anything, alone on a line for any number of lines.

An indented block is not played on lab hosts. `typed` reads its commands, for a machine on which nothing is installed.

What differs from run to run does not count: times, addresses, versions, keys, hardware of this machine; nor do the
numbers of changes and of checks, which each new check would change.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

PIECE = re.compile(
    r"^<!-- lab: (?P<lab>.*?) -->$|^(?P<before>[^\n]*)\n\n?```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"\b(?P<how>[Ww]rite|[Ss]et) (?:in )?`(?P<path>[^`]+)`:$")
TYPED = re.compile(r"^ {4}(?P<command>\S.*?)(?: +# (?P<remark>.*))?$", re.MULTILINE)
PROMPT = re.compile(r"^(?:(?P<user>[a-z]+)@(?P<host>[a-z]+[0-9]*):~[$#]|\$) (?P<command>.*)$")
KEY = r"^{}:.*\n(?:(?:[ \t#-].*)?\n)*?(?=^[A-Za-z]|\Z)"
"""A top-level key of a YAML file with all lines that belong to it."""

ANYTHING = "…"
VARYING = (
    (r"\d{4}-\d\d-\d\d[T ]?(\d\d:\d\d(:\d\d)?)?( ?[+-]\d{4})?", "DATE"),
    (r"\d{8}T\d{6}(\.\d+)?Z?(-\w+)?", "DATE"),
    (r"\d+(\.\d+)?( to \d+(\.\d+)?)? (s|min)\b", "TIME"),
    (r"\b\d+:\d\d(:\d\d)?\b", "TIME"),
    (r"(\d+\.){3}(\d+|\[[\d,-]+\])", "ADDRESS"),
    (r"\bjob \d+", "JOB"),
    (r"\b\d+ (changes?|changed|checks? passed)\b", "COUNT"),
    (r"SHA256:[\w+/]+|\bAAAA[\w+/=]+", "KEY"),
    (r"[\d.]+( of [\d.]+)? ?(MiB|GiB|kB|MB|GB|TiB)(/s)?", "SIZE"),
    (r"\b(CPUs|RealMemory|DefMemPerCPU|Sockets|CoresPerSocket|SocketsPerBoard)(=|: )\d+( -> \d+)?", "HAS"),
    (r"\b\d+ (CPUs?|cores)\b|CPU usage: .*", "HAS"),
    (r"\b\d+\.\d+\.\d+(-[\w.+~]+)?", "VERSION"),
    (r"\bLinux \d[\w.+-]*", "VERSION"),
    (r"-{3,}|={3,}|━+", "LINE"),
    (r"[ \t]+", " "),
)
"""Patterns of what differs between runs and machines, and the word that stands for it."""


@dataclass(frozen=True, eq=False)
class Step:
    """A command of a guide with the output that the guide shows.

    Args:
        line: the line as it is printed, with its prompt.
        user: whose prompt it is; empty for the admin's own machine.
        host: the host of the prompt; empty for the admin's own machine.
        command: text for a shell.
        output: the lines that follow.
    """

    line: str
    user: str
    host: str
    command: str
    output: str

    @property
    def program(self) -> str:
        """The first word of the command."""
        return self.command.partition(" ")[0]


@dataclass(frozen=True)
class Written:
    """A file that a guide says to write, or to set keys in."""

    path: str
    text: str
    whole: bool


@dataclass(frozen=True)
class Switched:
    """Hosts that are switched on or off: `{"start": "n3"}`."""

    hosts: Mapping[str, str]


@dataclass(frozen=True)
class Typed:
    """A command of an indented block, which shows no output."""

    command: str
    remark: str  # what stands behind `#`


@dataclass(frozen=True)
class Guide:
    """A guide: the lab that it needs, and what is to be done in its order."""

    lab: Mapping[str, Any]
    pieces: tuple[Step | Written | Switched, ...]


def read(text: str) -> Guide:
    """What is to be played of a guide's text."""
    pieces = list(_pieces(text))
    first = pieces.pop(0)
    assert isinstance(first, Switched), "A guide begins with the comment that says its lab."
    return Guide(first.hosts, tuple(pieces))


def typed(page: str, heading: str) -> tuple[Typed, ...]:
    """The commands of the indented blocks below a heading, up to the next heading of any level."""
    section = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section, f"no such heading: {heading}"
    outside = re.sub(r"^```.*?^```$", "", section[1], flags=re.MULTILINE | re.DOTALL)
    return tuple(Typed(found["command"], found["remark"] or "") for found in TYPED.finditer(outside))


def _pieces(text: str) -> Iterator[Step | Written | Switched]:
    for found in PIECE.finditer(text):
        if found["lab"]:
            yield Switched(yaml.safe_load(found["lab"]))
        elif found["kind"] == "console":
            yield from _steps(found["text"])
        elif named := FILE.search(found["before"]):
            yield Written(named["path"], found["text"], named["how"].lower() == "write")


def _steps(block: str) -> Iterator[Step]:
    """The commands of a block; a line that ends with a backslash goes on in the next."""
    lines = block.splitlines()
    while lines:
        line = lines.pop(0)
        while line.endswith("\\"):
            line += "\n" + lines.pop(0)
        found = re.fullmatch(PROMPT.pattern, line, re.DOTALL)
        assert found, f"This is neither a command nor the output of one: {line}"
        output = []
        while lines and not PROMPT.match(lines[0]):
            output.append(lines.pop(0))
        yield Step(line, found["user"] or "", found["host"] or "", found["command"], "\n".join(output))


def with_keys(text: str, keys: str) -> str:
    """A cluster file in which the top-level keys of another text replace those of the same name, or are added."""
    for name in yaml.safe_load(keys):
        section = re.search(KEY.format(name), keys, re.MULTILINE)
        assert section
        old = re.search(KEY.format(name), text, re.MULTILINE)
        start, end = old.span() if old else (len(text), len(text))
        text = text[:start] + section[0] + text[end:]
    return text


def plain(text: str) -> str:
    """A text in which a word stands for each thing that differs between runs."""
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return "\n".join(line.strip() for line in text.strip().splitlines() if line.strip())


def agree(shown: str, real: str) -> bool:
    """Whether the output that a guide shows is the real one, but for what differs between runs."""
    lines = [r"(?:[^\n]*\n)*?" if line == ANYTHING else pattern(line) + "\n" for line in plain(shown).splitlines()]
    return bool(re.fullmatch("".join(lines), plain(real) + "\n" if plain(real) else ""))


def not_there(shown: str, real: str) -> list[str]:
    """The lines that a guide shows and that no line of the real output is."""
    there = plain(real).splitlines()
    lines = [line for line in shown.splitlines() if plain(line) != ANYTHING]
    return [line for line in lines if not any(re.fullmatch(pattern(plain(line)), one) for one in ("", *there))]


def refreshed(shown: str, real: str) -> str:
    """What a guide shows of a command's output, with the lines of this run; all of it if they do not agree."""
    if not agree(shown, real):
        return real
    rest = iter(real.splitlines())
    lines = []
    for line in shown.splitlines():
        if plain(line) in ("", ANYTHING):
            lines.append(line)
        else:
            found = next(one for one in rest if re.fullmatch(pattern(plain(line)), plain(one)))
            lines.append(line if ANYTHING in line else found)
    return "\n".join(lines)


def pattern(line: str) -> str:
    """A regular expression for a line of a guide."""
    return re.escape(line).replace(ANYTHING, "[^\n]*")


def succeeded(step: Step, done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a command ended as a guide may show it: with 0, or for a plan with 4."""
    return done.returncode == 0 or (done.returncode == 4 and " plan" in step.command)


def with_outputs(text: str, outputs: Mapping[Step, str]) -> str:
    """A guide's text with other outputs of its commands, which are in the guide's order."""
    place = 0
    for step, output in outputs.items():
        old = f"{step.line}\n{step.output}\n" if step.output else f"{step.line}\n"
        new = f"{step.line}\n{output.strip()}\n" if output.strip() else f"{step.line}\n"
        place = text.index(old, place)
        text = text[:place] + new + text[place + len(old) :]
        place += len(new)
    return text
