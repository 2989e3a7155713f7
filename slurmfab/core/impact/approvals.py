"""Options of a deployment, and what its user allows beforehand although it is not harmless."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Approvals:
    """Disruptive actions that the user allows."""

    drain_first: bool = False  # whether to drain nodes and wait for their jobs where a change would hurt these jobs
    allowed: frozenset[str] = frozenset()  # names of disruptive changes, as `--allow` takes them and refusals show them
    move_ids: bool = False  # whether files get another owner where slurm or munge has another UID or GID than wanted
    prune: bool = False  # whether to remove accounts, users and QOS that the cluster file does not name


NOTHING = Approvals()  # no disruptive action


@dataclass(frozen=True)
class DeployOptions:
    """Options of `deploy` and `plan`."""

    hosts: str = ""  # hostlist, empty for all hosts of the cluster file
    plan_file: str = ""  # path of a saved plan, the only thing to carry out; empty for all that differs
    retry_failed: bool = False  # whether only the hosts that earlier runs left out take part
    approvals: Approvals = NOTHING
    yes: bool = False  # whether to ask nothing on a terminal, before a first contact or before harm to jobs
    wake: bool = False  # whether nodes that Slurm has powered down are woken
    only: tuple[str, ...] = ()  # words for the phases to carry out; empty for all


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
