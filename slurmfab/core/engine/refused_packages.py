"""Packages in the cluster file that none of their hosts can get: told before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.on_hosts.agent.core.resource import FAILED
from slurmfab.on_hosts.agent.packages.packages import NO_SOURCE_HAS, Packages

if TYPE_CHECKING:
    from slurmfab.core.engine.report import Step

ADVICE = "Correct packages in the cluster file, or the hosts' own sources. Nothing was changed on any host."


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
    lines = [
        f"{fold(hosts)}: the package sources there do not have {text}."
        for text, hosts in sorted(lacking.items())
        if hosts == named.get(text.partition("=")[0])
    ]
    if lines:
        raise InputError("\n".join((*lines, ADVICE)))
