"""What is wrong in the commands of a submit script: its interpreter, its modules, and its calls of srun."""

from __future__ import annotations

import os
import re
import shlex
from typing import Dict, FrozenSet, Iterator, List, Optional, Tuple

from slurmfab.on_hosts.programs.user_tools import sbatch_options
from slurmfab.on_hosts.programs.user_tools.findings import Finding, error, warning
from slurmfab.on_hosts.programs.user_tools.submit_script import Script
from slurmfab.on_hosts.programs.user_tools.wanted import Wanted

BASH = "#!/bin/bash"
SHELLS = frozenset({"bash", "sh", "dash", "ksh", "zsh"})
SMALL_SHELLS = frozenset({"dash", "busybox"})  # what /bin/sh is on hosts where it is not bash
USUAL = frozenset({"/bin", "/usr/bin", "/usr/local/bin"})  # where interpreters are on all hosts alike

MOST_LINES = 20000
_MODULE = re.compile(r"\s*(?:module|ml)\s+(?:--?\w+\s+)*(load|add|use|try-load|purge)\b\s*([^;&|#<>]*)")
_NAME = re.compile(r"[A-Za-z0-9][\w.+/-]*")
_SRUN = re.compile(r"\s*(?:time\s+|exec\s+)?srun\s+(.*)")
_BASHISMS = (
    (re.compile(r"(?:^|;|&&|\|\||\bif|\bwhile|\bthen|!)\s*\[\[\s"), "[["),
    (re.compile(r"^\s*source\s+\S"), "source"),
    (re.compile(r"^\s*(?:declare|shopt|pushd|popd|mapfile|readarray)\s"), "declare and the like"),
    (re.compile(r"^\s*(?:export\s+)?\w+=\("), "arrays"),
    (re.compile(r"^\s*function\s+\w+"), "function"),
    (re.compile(r"[<>]\([A-Za-z]"), "<( )"),
    (re.compile(r"<<<"), "<<<"),
)


class Host:
    """What this host has; a test has its own."""

    def interpreter(self, path: str) -> str:
        """Why a program cannot be the interpreter of scripts; empty if it can."""
        if not os.path.exists(path):
            return "is not there"
        return "" if os.access(path, os.X_OK) and os.path.isfile(path) else "is not executable"

    def in_path(self, name: str) -> bool:
        """Whether PATH finds a program."""
        return any(os.access(os.path.join(one, name), os.X_OK) for one in os.get_exec_path())

    def target(self, path: str) -> str:
        """The name of the program that a path leads to."""
        return os.path.basename(os.path.realpath(path))


def shebang(script: Script, host: Host) -> Iterator[Finding]:
    """Yield what is wrong with the first line."""
    first = script.lines[0] if script.lines else ""
    if not first.startswith("#!"):
        if any(line.strip() for line in script.lines):
            yield error(1, "shebang", "the first line is no #! with an interpreter, so sbatch refuses the script", BASH)
        return
    words = first[2:].split()
    if not words:
        yield error(1, "shebang", "#! names no interpreter", BASH)
        return
    path = words[0]
    if not path.startswith("/"):
        text = "the interpreter has to be an absolute path; %s is none" % path
        yield error(1, "shebang", text, BASH if path in SHELLS else "#!/usr/bin/env " + " ".join(words))
        return
    trouble = host.interpreter(path)
    program = os.path.basename(path)
    if trouble:
        near = sbatch_options.nearest(program, SHELLS | {"python3", "perl"}) or "bash"
        shown = BASH if near in SHELLS else "#!/usr/bin/env " + near
        # Another directory may be there on nodes alone.
        kind = error if os.path.dirname(path) in USUAL else warning
        yield kind(1, "shebang", "the interpreter %s %s" % (path, trouble), shown)
    elif program == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if not names:
            yield error(1, "shebang", "env is given no interpreter", BASH)
        elif not host.in_path(names[0]) and "/" not in names[0]:
            yield error(1, "shebang", "there is no program %s" % names[0], BASH if names[0] in SHELLS else "")


def shell(script: Script) -> str:
    """The path or name of the shell that runs a script; empty if another program does, or none is named."""
    words = script.lines[0][2:].split() if script.lines and script.lines[0].startswith("#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words and os.path.basename(words[0]) in SHELLS else ""


def bashisms(script: Script, host: Host) -> Iterator[Finding]:
    """Yield the first line that only bash understands, if the script is for a smaller shell."""
    path = shell(script)
    if os.path.basename(path) not in ("sh", "dash") or host.target(path) not in SMALL_SHELLS:
        return
    for number, line in commands(script):
        for pattern, name in _BASHISMS:
            if pattern.search(line):
                text = "%s does not understand %s in line %d, which is bash's" % (path, name, number)
                yield warning(1, "bash", text, BASH)
                return


def commands(script: Script) -> Iterator[Tuple[int, str]]:
    """Yield number and text of the lines with commands, outside of texts for other programs (<<EOF)."""
    end = ""
    for number, line in enumerate(script.lines[:MOST_LINES], 1):
        if end:
            end = "" if line.strip() == end else end
            continue
        if number < script.body or not script.body or line.lstrip().startswith("#"):
            continue
        found = re.search(r"""(?<![<\d])<<-?\s*(["']?)(\w+)\1""", line)
        end = found[2] if found else ""
        yield number, line


def modules(script: Script) -> List[Tuple[int, str]]:
    """Line and name of the modules that a script loads; none after `module use`, which brings others."""
    found: List[Tuple[int, str]] = []
    for number, line in commands(script) if shell(script) else ():
        match = _MODULE.match(line)
        if match and match[1] == "use":
            break
        if match and match[1] in ("load", "add"):
            found += [(number, name) for name in match[2].split() if _NAME.fullmatch(name)]
    return found


def unknown_modules(names: List[Tuple[int, str]], available: Optional[FrozenSet[str]]) -> Iterator[Finding]:
    """Yield names of `modules` that are not available (with or without versions; `None`: no modules)."""
    if available is None:
        if names:
            yield warning(names[0][0], "module", "there is no command module on this host")
        return
    for place, (number, name) in enumerate(names):
        if name in available:
            continue
        near = sbatch_options.nearest(name, available)
        base = name.partition("/")[0]
        versions = sorted(one for one in available if one.startswith(base + "/"))
        near = near or (versions[-1] if versions else "")
        text = 'there is no module "%s"' % name
        # A module that is loaded before it may bring it.
        kind = warning if place else error
        yield kind(number, "module", text, "module load " + near if near else "module avail, to see which there are")


def available_modules(shown: str) -> FrozenSet[str]:
    """The modules in what `module -t avail` printed, with and without versions."""
    found = set()
    for line in shown.split("\n"):
        name = re.sub(r"\s*[(<].*", "", line.strip()).rstrip("/@")
        if name and not name.endswith(":") and not name.startswith("/") and " " not in name:
            parts = name.split("/")
            found |= {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return frozenset(found)


def sruns(script: Script, wanted: Wanted) -> Iterator[Finding]:
    """Yield what is wrong with calls of srun in a job."""
    text = "\n".join(line for _, line in commands(script))
    for number, line in commands(script) if shell(script) else ():
        match = _SRUN.match(line)
        options = srun_options(match[1])[0] if match else {}
        for name in options:
            yield from unknown_option(number, name)
        tasks = options.get("ntasks", options.get("n", ""))
        if tasks.isdecimal() and int(tasks) > wanted.tasks and "overcommit" not in options and wanted.given:
            words = "srun starts %s tasks, and the job asks for %d" % (tasks, wanted.tasks)
            yield warning(number, "srun", words, "#SBATCH --ntasks=%s" % tasks)
        needs_cpus = match and wanted.task_cpus > 1 and "cpus-per-task" in wanted.given
        has_cpus = any(name in options for name in ("cpus-per-task", "c", "exact", "cpu-bind", "exclusive"))
        if needs_cpus and not has_cpus and "SRUN_CPUS_PER_TASK" not in text:
            words = "each task of srun gets one CPU: since Slurm 22.05 srun does not take --cpus-per-task from the job"
            yield warning(number, "srun", words, "srun --cpus-per-task=%d ..." % wanted.task_cpus)


def unknown_option(number: int, name: str) -> Iterator[Finding]:
    """Yield that srun has no such option, written without dashes; those of pyxis begin with `container`."""
    known = sbatch_options.resolve(name, sbatch_options.OF_SRUN)
    if len(name) > 1 and not known.name and not name.startswith("container"):
        near = sbatch_options.nearest(name, sbatch_options.ALL | sbatch_options.OF_SRUN)
        yield warning(number, "srun", "srun has no option --%s" % name, "srun --%s ..." % near if near else "")


def words_of(text: str) -> List[str]:
    """The words of a command as the shell splits them; none if a quote is not closed."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return []


def srun_options(text: str) -> Tuple[Dict[str, str], List[str]]:
    """The options of a call of srun by name, with the values that are sure, and the words behind them."""
    words = words_of(text)
    found: Dict[str, str] = {}
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] not in ("-", "--"):
        name, equals, value = words[place].lstrip("-").partition("=")
        is_long = words[place].startswith("--")
        place += 1
        if not is_long:
            letter, rest = name[:1], name[1:] + equals + value
            name, value, equals = letter, rest, rest
            needs = letter in "ApntNcJqwCodeixDmGLFTr"
        else:
            needs = name in sbatch_options.WITH_VALUE or name in sbatch_options.SRUN_WITH_VALUE
        if needs and not equals and place < len(words):
            value = words[place]
            place += 1
        found[name] = value
    return found, words[place:]
