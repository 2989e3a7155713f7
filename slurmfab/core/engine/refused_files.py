"""What hosts refuse: packages that they cannot get, and files in which Slurm finds mistakes; told before any change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import natural
from slurmfab.base.objections import Objection, objected
from slurmfab.on_hosts.agent.core.resource import FAILED
from slurmfab.on_hosts.agent.packages.packages import NO_SOURCE_HAS, Packages
from slurmfab.on_hosts.agent.slurm.files import BETWEEN, REFUSED

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.reading import Document, Place
    from slurmfab.core.engine.report import Step
    from slurmfab.core.engine.run import Run

END = "fatal: Unable to process configuration file"
"""The last error of each of Slurm's programs, which says nothing more."""

LEFT = "Slurm's files and daemons were left as they are."

_IN_LINE = re.compile(r"line (\d+): \"(.*)\"")
_WORD = re.compile(r"\w+")

ADVICE = "Correct packages in the cluster file, or the hosts' own sources. Nothing was changed on any host."


def refuse_unparsable(run: Run, steps: Iterable[Step]) -> None:
    """Refuse, by InputError, new files that the controller's Slurm could not parse in the comparison."""
    for step in steps:
        for outcome in step.with_status(FAILED) if step.host == run.controller else ():
            if outcome.message.startswith(REFUSED):
                errors = outcome.message.removeprefix(REFUSED).split(BETWEEN)
                raise InputError("\n".join((*refusals(run, errors), LEFT)))


def refusals(run: Run, errors: Iterable[str]) -> list[str]:
    """A line for each mistake: where in the cluster file, if it is known, and Slurm's words."""
    from slurmfab.cluster.inventory import complaints, reading  # seldom needed

    telling = [error for error in errors if error != END] or [END]
    path, files = str(run.inventory.path), run.inventory.files
    if files is None or files.cluster is None:
        return [f"{run.controller}: the installed Slurm refuses the new slurm.conf: {error}" for error in telling]
    document = reading.read(files.cluster.decode(), path)
    found: dict[str, str] = {}
    for error in telling:
        for place in places(error, document):
            where = f"{path}:{document.line(place)}: {complaints.place_in_words(place)}"
            found.setdefault(where, f"{where}: Slurm on {run.controller} refuses it: {error.removeprefix('error: ')}")
    elsewhere = [f"{run.controller}: the installed Slurm refuses the new slurm.conf: {error}" for error in telling]
    return list(found.values()) or elsewhere


def places(error: str, document: Document) -> list[Place]:
    """The places of the file that an error is about, by its key and value, or the line that it quotes."""
    slurms = list(slurm_settings(document))
    match = _IN_LINE.search(error)
    if match:
        rest = match[2].split()
        return [place for place, value in slurms if rest and f" {rest[0]} " in f" {place[-1]}={value} "]
    words = {word.lower() for word in _WORD.findall(error)}
    named = [(place, value) for place, value in slurms if str(place[-1]).lower() in words]
    exact = [place for place, value in named if f'"{value}"' in error or f"({value})" in error]
    return exact or [place for place, _ in named]


def slurm_settings(document: Document) -> Iterator[tuple[Place, Any]]:
    """The places of Slurm's keys in the cluster file, with their values."""
    from slurmfab.cluster.inventory.reading import is_slurms

    for place in document.lines:
        if isinstance(place[-1], str) and is_slurms(place[-1]):
            value: Any = document.shape
            for part in place:
                value = value[part] if isinstance(part, int) or part in value else {}
            if value and not isinstance(value, dict | list):
                yield place, value


def refuse_unknown(steps: Iterable[Step]) -> None:
    """Refuse packages that no host which should have them can get.

    A host whose sources lack what those of others have fails alone, when its packages are installed. `steps`: outcomes
    of a comparison. Raises InputError: with a line for each such package.
    """
    named: dict[str, set[str]] = {}
    lacking: dict[str, set[str]] = {}
    for step in steps:
        for outcome in step.outcomes:
            kind, _, names = outcome.id.partition(":")
            for name in names.split(",") if kind == Packages.kind else ():
                named.setdefault(name, set()).add(step.host)
            if outcome.status == FAILED and outcome.message.startswith(NO_SOURCE_HAS):
                for text in outcome.message.removeprefix(NO_SOURCE_HAS).split(", "):
                    lacking.setdefault(text, set()).add(step.host)
    objected(
        (
            Objection(tuple(sorted(hosts, key=natural)), f"the package sources there do not have {text}.")
            for text, hosts in sorted(lacking.items())
            if hosts == named.get(text.partition("=")[0])
        ),
        (ADVICE,),
    )
