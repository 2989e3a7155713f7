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

DAEMONS = (
    "munge", "slurmctld", "slurmd", "slurmdbd", "slurmrestd", "sackd", "mariadb", "mysql", "docker-registry",
    "prometheus", "prometheus-node-exporter",
)  # fmt: skip
"""Daemons that a later phase sets up, starts and restarts."""

OF_PACKAGES = {
    "jupyterhub": ("jupyterhub",),
    "docker.io": ("docker",),
    "nfs-kernel-server": ("nfs-server", "nfs-kernel-server"),
    "rpcbind": ("rpcbind",),
    "quota": ("quotarpc",),
}
"""Daemons of further packages that capabilities bring: a later phase starts them, perhaps by a unit of slurmfab's and
never by the package's (jupyterhub), or nothing does before another unit needs them (rpcbind). One that runs is updated
by its package's scripts as ever. dbus, timers and what the site's own packages bring start as they do elsewhere: no
phase would start them."""

NEW_DAEMONS = tuple(unit for units in OF_PACKAGES.values() for unit in units)
NEVER = "jupyterhub"  # which would be a hub of root's, without TLS, at every address


def of_site(packages: Sequence[str]) -> Sequence[str]:
    """The daemons that start because the site itself names their packages."""
    return [unit for name in packages if name != NEVER for unit in OF_PACKAGES.get(name, ())]


def script(but: Sequence[str] = ()) -> bytes:
    """The policy's lines after the first, without some of the daemons."""
    known = ("|".join(one for one in some if one not in but) or "-" for some in (DAEMONS, NEW_DAEMONS))
    # A unit's socket starts it, too.
    text = """ while it installs packages, and removes it afterwards.
for word in "$@"; do
    case "${word%%.*}" in
        %s) exit 101 ;;
        %s) case " $* " in *" start "*) exit 101 ;; esac ;;
    esac
done
if [ -x SAVED ]; then exec SAVED "$@"; fi
exit 0
""" % tuple(known)
    return POLICY_MARK + text.replace("SAVED", SAVED_POLICY).encode()


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
        replace.put(policy, b"#!/bin/sh\n" + script(but), 0, 0, 0o755)
        yield
    finally:
        restore(context)
