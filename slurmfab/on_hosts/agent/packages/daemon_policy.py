"""A policy (/usr/sbin/policy-rc.d: 101 forbids) that keeps dpkg from starting daemons too early."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator, Optional, Sequence

from slurmfab.on_hosts.agent.core import replace

if TYPE_CHECKING:
    from slurmfab.on_hosts.agent.core.resource import Context

POLICY = "/usr/sbin/policy-rc.d"
SAVED_POLICY = "/usr/sbin/.policy-rc.d.before-slurmfab"  # the host's own policy during an installation

POLICY_MARK = b"# slurmfab made this file"
SCRIPT = (
    POLICY_MARK
    + b""" while it installs packages, and removes it afterwards.
for word in "$@"; do
    case "${word%.service}" in
        munge|slurmctld|slurmd|slurmdbd|slurmrestd|sackd|mariadb|mysql|docker-registry) exit 101 ;;
        prometheus|prometheus-node-exporter) exit 101 ;;
    esac
done
if [ -x SAVED ]; then exec SAVED "$@"; fi
exit 0
""".replace(b"SAVED", SAVED_POLICY.encode())
)


def leftover(context: Context) -> Optional[str]:
    """A remark that an interrupted run left its policy here; `None` when it did not."""
    policy = context.path(POLICY)
    is_ours = os.path.isfile(policy) and POLICY_MARK in (replace.read(policy) or b"")
    return "left by an interrupted run" if is_ours or os.path.lexists(context.path(SAVED_POLICY)) else None


def restore(context: Context) -> None:
    """Put the host's own policy back, or remove slurmfab's where the host had none."""
    if os.path.lexists(context.path(SAVED_POLICY)):
        os.rename(context.path(SAVED_POLICY), context.path(POLICY))
    elif leftover(context):
        os.unlink(context.path(POLICY))


@contextmanager
def daemons_wait(context: Context, but: Sequence[str] = ()) -> Iterator[None]:
    """A context in which dpkg starts none of the daemons that slurmfab sets up; others obey the host's own policy."""
    restore(context)
    policy = context.path(POLICY)
    if os.path.lexists(policy):
        os.rename(policy, context.path(SAVED_POLICY))
    try:
        replace.put(policy, b"#!/bin/sh\n" + without(SCRIPT, but), 0, 0, 0o755)
        yield
    finally:
        restore(context)


def without(script: bytes, daemons: Sequence[str]) -> bytes:
    """The policy without some of the daemons that it knows."""
    for daemon in daemons:
        script = script.replace(b"|%s|" % daemon.encode(), b"|")
    return script
