"""Keeping dpkg from starting daemons that are not configured yet.

invoke-rc.d(8) and deb-systemd-invoke ask /usr/sbin/policy-rc.d whether they may: 101 forbids, 0 allows.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator, Optional

from slurmfab.agent import replace

if TYPE_CHECKING:
    from slurmfab.agent.resource import Context

POLICY = "/usr/sbin/policy-rc.d"
KEPT = "/usr/sbin/.policy-rc.d.before-slurmfab"
"""Where a policy of the host's own waits meanwhile."""

MARK = b"# slurmfab made this file"
SCRIPT = (
    MARK
    + b""" while it installs packages, and removes it afterwards.
for word in "$@"; do
    case "${word%.service}" in
        munge|slurmctld|slurmd|slurmdbd|slurmrestd|sackd|mariadb|mysql) exit 101 ;;
    esac
done
if [ -x KEPT ]; then exec KEPT "$@"; fi
exit 0
""".replace(b"KEPT", KEPT.encode())
)


def leftover(context: Context) -> Optional[str]:
    """In words, what a killed run left; `None` when all is well."""
    policy = context.path(POLICY)
    is_ours = os.path.isfile(policy) and MARK in (replace.read(policy) or b"")
    return "left by an interrupted run" if is_ours or os.path.lexists(context.path(KEPT)) else None


def restore(context: Context) -> None:
    """Put the host's own policy back, or have none."""
    if os.path.lexists(context.path(KEPT)):
        os.rename(context.path(KEPT), context.path(POLICY))
    elif leftover(context):
        os.unlink(context.path(POLICY))


@contextmanager
def daemons_wait(context: Context) -> Iterator[None]:
    """A context in which dpkg starts none of slurmfab's daemons; for others the host's own policy counts."""
    restore(context)
    policy = context.path(POLICY)
    if os.path.lexists(policy):
        os.rename(policy, context.path(KEPT))
    try:
        replace.put(policy, b"#!/bin/sh\n" + SCRIPT, 0, 0, 0o755)
        yield
    finally:
        restore(context)
