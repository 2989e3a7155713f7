"""First deployment: hosts that nobody has touched, each time new ones, beside apt alone on the same kind of hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from benchmarks.access import each
from benchmarks.clusters import Cluster, require_cluster
from benchmarks.measuring import Way
from benchmarks.peers.peer import Job, Peer
from benchmarks.programs import output_of
from benchmarks.results import PROCESSORS, Sample, Target
from benchmarks.scenarios.scenario import SLURMFAB, Scenario, Setting
from slurmfab.cluster.slurm.platform import DEBIAN

PLAIN, LEAN = "apt, plain", "apt, lean"
NODES = 4
APT = "export DEBIAN_FRONTEND=noninteractive; apt-get -qq update && apt-get -qq --yes"
SPARING = "--no-install-recommends -o Dpkg::Options::=--force-unsafe-io"
WITHOUT_DAEMONS = "printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; "
"""Keeps packages from starting their daemons (deb-systemd-invoke(1p)), for the lean floor; see `WAITS`."""

WAITS = (
    "In trixie, plain apt starts slurmd, which looks for a slurm.conf for 90 s, and waits for it; this is part of its "
    "time. Debian 12 does not wait."
)

ROLES = {"controller": "controller", "compute": "compute"}


def install(role: str, options: str = "", *more: str) -> str:
    """Shell text that installs what slurmfab installs for a role, and configures nothing.

    Args:
        role: `controller` or `compute`.
        options: for apt-get.
        more: further packages.
    """
    quiet = WITHOUT_DAEMONS if options == SPARING else ""
    return f"{{ {quiet}{APT} {options} install {' '.join((*DEBIAN.packages(role), *more))}; }} >/dev/null 2>&1"


def apt_everywhere(cluster: Cluster, options: str, database: Sequence[str] = ()) -> Sample:
    """apt on all hosts at once over plain ssh; `database`: further packages of the controller."""
    more = {"controller": database}
    return each(
        {host.name: install(host.role, options, *more.get(host.role, ())) for host in cluster.lab.hosts},
        cluster.access,
    )


class Untouched:
    """Hosts that are new for each measurement; the next ones take their place.

    Args:
        setting: the scenario's.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.now: list[Cluster] = []
        self.count = 0

    def renew(self) -> None:
        """Switch new hosts on."""
        self.count += 1
        self.now[:] = [self.setting.labs.fresh("f", NODES)]

    @property
    def cluster(self) -> Cluster:
        """The present ones."""
        return self.now[0]

    def job(self, peer: Peer) -> Job:
        """What a peer is to make of them."""
        return Job(self.cluster.access, self.setting.directory / f"first-{peer.name}-{self.count}")


def ways(setting: Setting) -> Iterable[Way]:
    """apt in two ways, slurmfab, and the peers."""
    hosts = Untouched(setting)

    def proved() -> None:
        require_cluster(hosts.cluster.access)

    yield Way(PLAIN, lambda: apt_everywhere(hosts.cluster, ""), hosts.renew, is_peer=True)
    yield Way(LEAN, lambda: apt_everywhere(hosts.cluster, SPARING), hosts.renew)
    yield Way(SLURMFAB, lambda: hosts.cluster.slurmfab("deploy"), hosts.renew, proved)
    for peer in setting.peers:
        yield Way(peer.name, partial(deployed_by, peer, hosts), hosts.renew, proved, is_peer=True)


def with_accounting(setting: Setting) -> Iterable[Way]:
    """apt with the packages of the database, and slurmfab, which also makes the accounting database."""
    hosts = Untouched(setting)
    packages = (*DEBIAN.packages("database"), *DEBIAN.database.packages)

    def renew() -> None:
        hosts.renew()
        hosts.cluster.file.write_text(f"{hosts.cluster.file.read_text()}database: {{host: ctl}}\n")

    def proved() -> None:
        require_cluster(hosts.cluster.access)
        output_of(hosts.cluster.access.ssh("ctl", "sacctmgr --noheader --parsable2 show cluster | grep -q ."))

    yield Way(LEAN, lambda: apt_everywhere(hosts.cluster, SPARING, packages), hosts.renew)
    yield Way(SLURMFAB, lambda: hosts.cluster.slurmfab("deploy"), renew, proved)


def deployed_by(peer: Peer, hosts: Untouched) -> Sample:
    """A peer's deployment."""
    return peer.deploy(hosts.job(peer))


SCENARIO = Scenario(
    "first-deployment",
    "first deployment of untouched hosts, 1 + 4",
    ways,
    (
        Target(SLURMFAB, PLAIN, 0.5),
        Target(SLURMFAB, LEAN, 1.0),
        Target(SLURMFAB, unit=PROCESSORS, hosts=5),
        Target("pyinfra", PLAIN),
        Target("Ansible", PLAIN),
    ),
    warm_ups=0,
    rounds=3,
    peer_rounds=1,
    minutes=25,
    notes=(
        "Each measurement uses new hosts without package lists. The packages are in apt's cache for all variants, so "
        "the mirror's speed is not measured. apt only installs and configures nothing; slurmfab and the peers end with "
        "every node idle, and srun is tested afterwards.",
        WAITS,
        "Plain apt takes part in the first round alone.",
    ),
    tidy=lambda setting: setting.labs.remove("f"),
)
ACCOUNTING = Scenario(
    "first-accounting",
    "first deployment of untouched hosts with accounting, 1 + 4",
    with_accounting,
    (Target(SLURMFAB, LEAN, 1.15), Target(SLURMFAB, unit=PROCESSORS, hosts=5)),
    warm_ups=0,
    rounds=3,
    minutes=15,
    notes=("With accounting, apt also installs MariaDB and slurmdbd on the controller.",),
    tidy=lambda setting: setting.labs.remove("f"),
)
