"""Options of a deployment, and what its user allows beforehand although it is not harmless."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Approvals:
    """Disruptive actions that the user allows.

    Args:
        drain_first: whether to drain nodes and wait for their jobs where a change would hurt these jobs.
        allowed: names of disruptive changes, as `--allow` takes them and refusals show them.
        move_ids: whether files get another owner where slurm or munge has another UID or GID than wanted.
        prune: whether to remove accounts, users and QOS that the cluster file does not name.
    """

    drain_first: bool = False
    allowed: frozenset[str] = frozenset()
    move_ids: bool = False
    prune: bool = False


NOTHING = Approvals()
"""No disruptive action."""


@dataclass(frozen=True)
class DeployOptions:
    """Options of `deploy` and `plan`.

    Args:
        hosts: hostlist, empty for all hosts of the cluster file.
        plan_file: path of a saved plan, the only thing to carry out; empty for all that differs.
        retry_failed: whether only the hosts that earlier runs left out take part.
        approvals: what the user allows.
        yes: whether to ask nothing on a terminal, before a first contact or before harm to jobs.
        wake: whether nodes that Slurm has powered down are woken.
    """

    hosts: str = ""
    plan_file: str = ""
    retry_failed: bool = False
    approvals: Approvals = NOTHING
    yes: bool = False
    wake: bool = False


def task_that_allows(task: str) -> str:
    """The task whose options allow what was refused.

    Args:
        task: the one in which it was refused.

    Returns:
        The other task that has `--drain-first` and `--allow`; empty where `task` has them itself.

    >>> task_that_allows("plan"), task_that_allows("rollback")
    ('deploy', '')
    """
    return "" if task in {"deploy", "rollback"} else "deploy"
