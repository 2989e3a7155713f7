"""A cluster file that is older than what the hosts have: a colleague has added nodes from another copy of it.

Every node that slurmfab writes into slurm.conf has an entry in the lock, which keeps it when the node goes from the
cluster file. So a node in slurm.conf that the lock has never had was added with other files than these.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from slurmfab.base.errors import HostError, InputError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.core.engine import changed_files, requests
from slurmfab.core.engine.run import Run
from slurmfab.core.impact.disruptive_changes import UNKNOWN_NODES
from slurmfab.hosts.session import answer_value


def refuse_early(run: Run) -> None:
    """Ask the controller for its nodes, and `refuse`; for commands that drain nodes or stop daemons before they plan.

    Raises InputError: see `refuse`. Raises DeployFailed if the controller does not answer.
    """
    facts = requests.gather(run, (run.controller,), may_prepare=False)
    refuse(run, parse(facts[run.controller].slurm_conf).nodes)


def refuse(run: Run, nodes: Iterable[str]) -> None:
    """Stop if Slurm has nodes that neither the cluster file nor the lock has ever had, since they would be removed.

    A lock that knows of no deployment says nothing about nodes. Raises FilesChanged if the files changed since the run
    read them, as they may well have these now; else InputError with the nodes and the last run there.
    """
    if UNKNOWN_NODES in run.options.approvals.allowed or not run.lock_at_start.slurm:
        return
    unknown = unknown_nodes(run.inventory, nodes)
    if not unknown:
        return
    changed_files.refuse(run)
    path, last = run.inventory.path, last_run(run)
    it = "it" if len(unknown) == 1 else "them"
    raise InputError(
        f"{fold(unknown)}: in Slurm on {run.controller}, but neither {path} nor its lock has ever had {it}. Probably "
        f"somebody added {it} from another, newer copy of these files"
        f"{f' (the last run there: {last})' if last else ''}. Get that copy, as with git pull. To remove {it} from "
        f"Slurm instead: {FAB} deploy --allow {UNKNOWN_NODES}. Nothing{' more' if run.steps else ''} was changed."
    )


def unknown_nodes(known: Inventory, nodes: Iterable[str]) -> tuple[str, ...]:
    """The nodes that the cluster file and the lock have never had."""
    ours = {*known.cluster.hosts, *known.lock.hosts}
    others = [name for name in nodes if name not in ours]
    # A command that removes nodes has taken them out of its own lock, and the file's is parsed only then.
    read = known.files.hosts if others and known.files else frozenset()
    return tuple(name for name in others if name not in read)


def last_run(run: Run) -> str:
    """The last run that changed the controller, as far as the controller knows: who and when, or else its id."""
    with suppress(HostError):
        kept = answer_value(run.controller, run.transport.call(run.controller, {"op": "kept"}), "kept")
        return str(kept.get("last", "") or next(reversed(kept["runs"]), ""))
    return ""
