"""What the user of a deployment wants of it, and has agreed to beforehand besides what is always safe."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Consent:
    """What may be done although it is not harmless.

    Args:
        drain_first: whether nodes may be drained, and their jobs waited for, where a change would hurt these.
        allowed: names of dangers that are accepted, as a refusal spells them.
        move_ids: whether files may get another owner, where slurm or munge has another number than is wanted.
        prune: whether accounts, users and qualities of service go that the cluster file does not name.
    """

    drain_first: bool = False
    allowed: frozenset[str] = frozenset()
    move_ids: bool = False
    prune: bool = False


NOTHING = Consent()
"""Only what is always safe."""


@dataclass(frozen=True)
class Wish:
    """What of a cluster is to be deployed, and on what terms.

    Args:
        hosts: hostlist, empty for all hosts of the cluster file.
        plan_file: a saved plan, which alone is to be done; empty for whatever differs.
        retry_failed: only the hosts that the last run had to leave out.
        consent: what was agreed to beforehand.
    """

    hosts: str = ""
    plan_file: str = ""
    retry_failed: bool = False
    consent: Consent = NOTHING
