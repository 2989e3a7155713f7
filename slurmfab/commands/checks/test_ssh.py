"""Checks of SSH logins of the slurm user between the controller and every host, as the cluster file wants them."""

from __future__ import annotations

import re
import time

from testinfra.backend.base import CommandResult

from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.inventory.trusted_addresses import of_host
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.wanted import deploy
from slurmfab.on_hosts.agent.identities import logins
from slurmfab.on_hosts.agent.identities.user import expiry_of

TRIES = 4
PAUSE = 1.0
"""`TRIES` attempts to log in, with `PAUSE` seconds in between, while sshd drops connections because of MaxStartups."""

TURNED_AWAY = re.compile(r"kex_exchange_identification|Connection (reset|closed) by \S+ port")
"""Errors of ssh if the connection ended before authentication, as when sshd drops it because of MaxStartups."""

BARRIERS = (
    f"[ ! -e {logins.NOLOGIN} ] || {{ echo yes; cat {logins.NOLOGIN}; }}; echo ----; "
    "sshd -T -C user=slurm,host=localhost,addr=127.0.0.1; echo ----; id -Gn slurm; echo ----; getent shadow slurm"
)
"""Prints what can keep the slurm user out besides its keys: /etc/nologin, sshd's settings, its groups, its expiry."""

SOURCE = (
    "python3 -I -S -c 'import socket, sys; way = socket.getaddrinfo(sys.argv[1], 22, type=socket.SOCK_DGRAM)[0]; "
    "probe = socket.socket(*way[:3]); probe.connect(way[4]); print(probe.getsockname()[0])' %s"
)
"""Prints the address from which this host connects to another one; connecting a UDP socket sends nothing."""

SSH = "cd / && exec runuser -u slurm -- ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=5 %s true"


def test_controller_gets_in(to_slurm: CheckedHost, controller: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the slurm user can log in by SSH from the controller"""
    assert_gets_in(controller, to_slurm, cluster, lock)


def test_host_gets_to_the_controller(
    from_slurm: CheckedHost, controller: CheckedHost, cluster: Cluster, lock: Lock
) -> None:
    """the slurm user can log in by SSH to the controller"""
    assert_gets_in(from_slurm, controller, cluster, lock)


def test_controller_is_kept_out(not_to_slurm: CheckedHost, controller: CheckedHost) -> None:
    """the slurm user cannot log in by SSH from the controller"""
    assert_is_kept_out(controller, not_to_slurm)


def test_host_is_kept_out_of_the_controller(not_from_slurm: CheckedHost, controller: CheckedHost) -> None:
    """the slurm user cannot log in by SSH to the controller"""
    assert_is_kept_out(not_from_slurm, controller)


def assert_is_kept_out(start: CheckedHost, goal: CheckedHost) -> None:
    """Fail if the slurm user can log in from `start` to `goal` by SSH."""
    with goal.logins:
        done = logged_in(start, goal)
    assert done.rc != 0, (
        f"the slurm user on {start.name} can log in to {goal.name} by SSH, but slurm_ssh in the cluster file does not "
        f"allow that. Look at ~slurm/.ssh/authorized_keys there, and deploy: {deploy(start.name, goal.name)}"
    )


def assert_gets_in(start: CheckedHost, goal: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """Fail if the slurm user cannot log in from `start` to `goal` by SSH."""
    with goal.logins:
        done = logged_in(start, goal)
    if done.rc == 0:
        return
    problem = f"the slurm user on {start.name} cannot log in to {goal.name} by SSH"
    barrier = barrier_on(goal) or untrusted_source(start, goal, cluster, lock)
    cause, repair = barrier or (last_words(done), deploy(start.name, goal.name))
    raise AssertionError(f"{problem}: {cause}. Repair: {repair}")


def untrusted_source(start: CheckedHost, goal: CheckedHost, cluster: Cluster, lock: Lock) -> tuple[str, str] | None:
    """The address from which a host connects to another one, if it is none that others trust, and the repair."""
    address = start.run(SOURCE, cluster.addresses.get(goal.name) or goal.name).stdout.strip()
    trusted = of_host(cluster, lock.hosts.get(start.name, HostLock()), start.name)
    if not address or address in trusted or cluster.slurm_ssh.also_from:
        return None
    others = ", ".join(trusted) or "there are none"
    return (
        f"its connections come from {address}, which is none of the addresses that others trust ({others})",
        f"write that address under addresses in the cluster file, or its network under ssh as networks; {FAB} deploy",
    )


def barrier_on(goal: CheckedHost) -> tuple[str, str] | None:
    """What keeps the slurm user out of a host besides its keys, and the repair; `None` for nothing."""
    answer = goal.as_found.run(BARRIERS).stdout.split("----\n")
    text, settings, groups, shadow = (*answer, "", "", "")[:4]
    if text:
        return logins.nologin("slurm", text.partition("\n")[2])
    expires = expiry_of(shadow.strip().split(":"), time.time())
    if expires != "never":
        return f"its account there expires: {expires}", deploy(goal.name)
    return logins.barred("slurm", groups.split(), logins.lists(settings))


def logged_in(start: CheckedHost, goal: CheckedHost) -> CommandResult:
    """The result of an SSH login of the slurm user, repeated if sshd dropped the connection before authentication."""
    for _ in range(TRIES - 1):
        done = start.run(SSH, goal.name)
        if done.rc == 0 or not TURNED_AWAY.search(done.stderr):
            return done
        time.sleep(PAUSE)
    return start.run(SSH, goal.name)
