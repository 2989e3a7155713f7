"""Why the cluster's own hosts refuse an upgrade that its twin may carry out: the twin has the disks of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.upgrade import planning, target
from slurmfab.core.engine import session
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.engine.session import Output


class Refused(NamedTuple):
    """What the plan of an upgrade says on the cluster's own hosts, in sentences for people."""

    reasons: tuple[str, ...] = ()  # why it is refused there, such as a disk that is too small
    notes: tuple[str, ...] = ()  # what could not be found out


def of_upgrade(known: Inventory, words: Sequence[str], output: Output) -> Refused:
    """Plan an upgrade on the cluster's own hosts, as `upgrade --plan` does; nothing for another command.

    `words`: the command line that is rehearsed. Raises InputError if nothing says where the upgrade leads, or the
    cluster file has no source for it.
    """
    if words[0] != "upgrade":
        return Refused()
    given = dict(pairwise(words))
    to, suite = given.get("--to", ""), given.get("--suite", "")
    wanted = target.target_of(known.cluster, to, suite)
    run = session.start(known, "", output, RunOptions("rehearse", installs_python=False))
    try:
        with session.ending(run, tells=False):
            plan = planning.made(run, wanted, to, suite, is_whole=False)
    except InputError:
        raise
    except SlurmfabError as error:
        why = run.failed_hosts.get(known.cluster.controller, error)
        return Refused(notes=(f"Whether the cluster has room for the upgrade is not known: {why}",))
    silent = f"{fold(plan.silent)}: no answer, so what the upgrade needs there is not known." if plan.silent else ""
    reasons = tuple(f"On the cluster itself, the upgrade is refused: {one}" for one in plan.refusals)
    return Refused(reasons, (silent,) if silent else ())
