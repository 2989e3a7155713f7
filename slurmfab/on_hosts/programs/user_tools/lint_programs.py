"""Programs that a submit script starts by srun or mpirun, and files that it names: are they there?"""

from __future__ import annotations

import os
import re
from typing import Dict, FrozenSet, Iterator, List, Tuple

from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.programs.user_tools import sbatch_options
from slurmfab.on_hosts.programs.user_tools.findings import Finding, error, warning
from slurmfab.on_hosts.programs.user_tools.lint_text import Host, commands, shell, srun_options, words_of
from slurmfab.on_hosts.programs.user_tools.submit_script import Script
from slurmfab.on_hosts.programs.user_tools.wanted import Wanted, directive

LOCAL = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/local", "/scratch", "/dev")  # noqa: S108 - names, not files of ours
"""Directories that each node has for itself; what is there on this host says nothing about nodes."""

LETTERS = "%AabJjNnstuxW"  # what may follow a percent sign in names of files (sbatch(1), filename pattern)

_PATTERN = re.compile(r"%(\d*)(.?)")


def check_paths(wanted: Wanted, here: str, user: str) -> Iterator[Finding]:
    """Yield files that a job wants and could not open, if submitted from the directory `here`."""
    start = os.path.join(here, wanted.value("chdir"))
    if "chdir" in wanted.given and not is_local(start) and not os.path.isdir(start):
        text = "the directory %s does not exist, and the job would run in /tmp" % start
        yield error(wanted.line("chdir"), "path", text, "an existing directory, or mkdir -p " + start)
    for name in ("output", "error"):
        if name in wanted.given:
            yield from patterns(wanted, name)
            yield from written(wanted, name, os.path.join(start, wanted.value(name)), user)
    source = os.path.join(start, wanted.value("input"))
    if "input" in wanted.given and "%" not in source and not is_local(source) and not os.path.exists(source):
        yield error(wanted.line("input"), "path", "the file %s does not exist" % source)
    if "container" in wanted.given:
        yield from bundle(wanted.line("container"), os.path.join(start, wanted.value("container")))


def bundle(line: int, path: str) -> Iterator[Finding]:
    """Yield why a directory is no OCI bundle, which has a file `config.json` (OCI runtime specification, bundle.md)."""
    if not is_local(path) and not os.path.isfile(os.path.join(path, "config.json")):
        reason = "has no config.json, so it is no OCI bundle" if os.path.isdir(path) else "does not exist"
        yield error(line, "path", "the container bundle %s %s" % (path, reason), "sbundle IMAGE, to make one")


def is_local(path: str) -> bool:
    """Whether a path is on each node's own disk, as far as its name says."""
    return any((os.path.normpath(path) + "/").startswith(one + "/") for one in LOCAL)


def patterns(wanted: Wanted, name: str) -> Iterator[Finding]:
    """Yield percent signs that stand for nothing."""
    value = wanted.value(name)
    for found in _PATTERN.finditer(value.replace("%%", "")) if "\\" not in value else ():
        if not found[2] or found[2] not in LETTERS:
            shown = directive(name, "%x-%j.out" if name == "output" else "%x-%j.err")
            yield warning(wanted.line(name), "pattern", "%s stands for nothing in names of files" % found[0], shown)


def written(wanted: Wanted, name: str, path: str, user: str) -> Iterator[Finding]:
    """Yield why a file cannot be written. `wanted`: by the job. `path`: of the file, with patterns."""
    folder = os.path.dirname(path.replace("%u", user))
    line = wanted.line(name)
    if is_local(path):
        return
    if not path.endswith("/") and "%" not in path and os.path.isdir(path):
        yield error(
            line, "path", "%s is a directory, not a file" % path, directive(name, wanted.value(name) + "/%x-%j.out")
        )
        return
    if path.endswith("/"):
        yield error(line, "path", "%s names no file" % path, directive(name, wanted.value(name) + "%x-%j.out"))
        return
    known = folder.partition("%")[0].rpartition("/")[0] if "%" in folder else folder
    if not os.path.isdir(known or "/"):
        text = "the directory %s does not exist: the job would fail at once, without any output" % known
        yield error(line, "path", text, "mkdir -p %s, or a directory that exists" % known)
    elif "%" not in folder and not os.access(known, os.W_OK | os.X_OK):
        text = "you may not write in %s: the job would fail at once, without any output" % known
        yield error(line, "path", text, directive(name, "%x-%j.out"))
    elif "%" not in path and os.path.exists(path) and not os.access(path, os.W_OK):
        yield error(line, "path", "you may not write to %s" % path, directive(name, "%x-%j.out"))


_STARTER = re.compile(r"\s*(?:time\s+|exec\s+)?(srun|mpirun|mpiexec)\s+(.*)")
_OTHER_PROGRAMS = re.compile(
    r"(?:^|[;&|]|\s)(?:module|ml|source|\.|spack|conda|mamba|eval|alias|nix|guix)\s|\bPATH=|\(\)\s*\{|^\s*function\s"
)
"""What may bring programs that this host does not show."""

_MOVES = re.compile(r"\s*(?:cd|pushd|popd)\b")
_PLAIN = re.compile(r"[\w./+@:=-]+")  # paths without variables, patterns and other things that a shell expands

MPIRUN_VALUES: Dict[str, int] = {
    **dict.fromkeys(("n", "np", "c", "N", "npernode", "map-by", "bind-to", "rank-by", "H", "host", "hostfile"), 1),
    **dict.fromkeys(("machinefile", "x", "wdir", "path", "ppn"), 1),
    **dict.fromkeys(("mca", "gmca", "prtemca", "pmixmca", "genv", "env"), 2),
    **dict.fromkeys(("oversubscribe", "report-bindings", "display-map", "tag-output", "verbose", "v", "q"), 0),
}
"""How many values options of mpirun have, by name (mpirun(1) of Open MPI 4 and 5, and of MPICH's Hydra 4)."""


def check(script: Script, start: str, host: Host) -> Iterator[Finding]:
    """Yield missing programs and container bundles, as far as a reader can tell, from the job's directory."""
    has_moved = has_path = False
    for number, line in commands(script) if shell(script) else ():
        has_moved = has_moved or bool(_MOVES.match(line))
        has_path = has_path or bool(_OTHER_PROGRAMS.search(line))
        match = _STARTER.match(line)
        if not match:
            continue
        options, rest = srun_options(match[2]) if match[1] == "srun" else ({}, after_mpirun(words_of(match[2])))
        place = options.get("container", "")
        if place and _PLAIN.fullmatch(place) and not (has_moved and not place.startswith("/")):
            yield from bundle(number, os.path.join(start, place))
        inside = any(name.startswith("container") for name in options)
        path = rest[0] if rest else ""
        if "/" in path and not inside and _PLAIN.fullmatch(path) and not (has_moved and not path.startswith("/")):
            yield from program(number, os.path.join(start, path))
        elif "/" not in path and not inside and not has_path and _PLAIN.fullmatch(path) and not host.in_path(path):
            yield warning(number, "program", "there is no program %s on this host" % path)


_CONDA = re.compile(r"\s*(?:conda|mamba|micromamba)\s+activate\b")


def conda(script: Script) -> Iterator[Finding]:
    """Yield the first environment of conda's that a script activates without conda's shell functions."""
    words = script.lines[0].split() if script.lines else []
    if not shell(script) or any(word.startswith("-") and {"l", "i"} & {*word} for word in words[1:]):
        return  # a login shell, or an interactive one, reads the files that conda init has written
    for number, line in commands(script):
        if _CONDA.match(line):
            text = "a batch script does not have conda's functions, which ~/.bashrc gives to login shells"
            yield warning(number, "conda", text, 'eval "$(conda shell.bash hook)" in a line before it')
            return
        if _OTHER_PROGRAMS.search(line) or "conda" in line:
            return


def after_mpirun(words: List[str]) -> List[str]:
    """The words behind mpirun's options; none if an option is not known, since it may have a value."""
    place = 0
    while place < len(words) and words[place].startswith("-"):
        name, equals, _ = words[place].lstrip("-").partition("=")
        if name not in MPIRUN_VALUES:
            return []
        place += 1 + (0 if equals else MPIRUN_VALUES[name])
    return words[place:]


def program(line: int, path: str) -> Iterator[Finding]:
    """Yield why a program cannot be started; the script itself may make it before."""
    path = os.path.normpath(path)
    if is_local(path):
        return
    if not os.path.exists(path):
        yield warning(line, "program", "the program %s does not exist" % path)
    elif os.path.isdir(path):
        yield warning(line, "program", "%s is a directory, not a program" % path)
    elif not os.access(path, os.X_OK):
        yield warning(line, "program", "%s is not executable" % path, "chmod +x " + path)


def mpi_kinds(script: Script) -> List[Tuple[int, str]]:
    """Line and name of the kinds of MPI that calls of srun name."""
    found = []
    for number, line in commands(script) if shell(script) else ():
        match = _STARTER.match(line)
        kind = srun_options(match[2])[0].get("mpi", "") if match and match[1] == "srun" else ""
        if kind and _PLAIN.fullmatch(kind):
            found.append((number, kind))
    return found


def unknown_kinds(named: List[Tuple[int, str]], shown: str) -> Iterator[Finding]:
    """Yield kinds of `mpi_kinds` that `srun --mpi=list` lacks, if it lists any."""
    known = available_kinds(shown)
    for number, kind in named if known else ():
        if kind not in known:
            near = sbatch_options.nearest(kind, known)
            text = 'srun has no MPI plugin "%s"; there is %s' % (kind, listed(sorted(known)))
            yield error(number, "srun", text, "srun --mpi=%s ..." % near if near else "")


def available_kinds(shown: str) -> FrozenSet[str]:
    """The kinds in what `srun --mpi=list` printed: one a line, and the versions of PMIx in a line of their own.

    >>> sorted(available_kinds("MPI plugin types are...\\n\\tnone\\n\\tpmix\\nspecific versions available: pmix_v4"))
    ['none', 'pmix', 'pmix_v4']
    """
    _, _, kinds = shown.partition("plugin types are")
    found = {line.strip() for line in kinds.splitlines()[1:] if ":" not in line}
    found |= {word for line in kinds.splitlines() if ":" in line for word in line.partition(":")[2].split(",")}
    return frozenset(word for word in map(str.strip, found) if re.fullmatch(r"[\w.-]+", word))
