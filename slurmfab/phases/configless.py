"""Nodes that fetch Slurm's files from slurmctld (`configless`): how slurmd there is told, and how they come and go.

Towards it, a node has new files of its own until slurmctld serves them; then slurmd starts anew and fetches, and only
then its own files go: no command on it is ever without any. Back from it, a node has files of its own, and a slurmd
that reads them, before slurmctld serves none any more. Each step shows on the host, so a run that is cut off heals.
"""

from __future__ import annotations

import hashlib
import posixpath

from slurmfab.agent.absent import Absent
from slurmfab.agent.carried_files import CarriedFiles
from slurmfab.agent.directory import Directory
from slurmfab.agent.facts import FETCHING
from slurmfab.agent.fetched_files import FetchedFiles
from slurmfab.agent.file import File
from slurmfab.agent.resource import Resource
from slurmfab.agent.service import Service
from slurmfab.phases.once import once
from slurmfab.phases.slurm_conf import CONFIGURATION, WATCHED, is_about_to_fetch, read_by_slurmd
from slurmfab.situation import Situation
from slurmfab.slurm.render import fill
from slurmfab.slurm.versions import reconfigure_renews_daemons, slurmd_mode

GIVEN_UP = "# slurmd reads files of its own again, once it has been restarted; then slurmfab removes this.\n"
"""What the drop-in says until then."""


def slurmd(situation: Situation, host: str, local: Service, *, carried: bool) -> tuple[Resource, ...]:
    """slurmd that fetches its files, and none of its own.

    Args:
        situation: what is wanted and known.
        host: a node that is to fetch.
        local: slurmd with files of its own.
        carried: whether slurmctld has just told every slurmd to take new files.
    """
    is_turning = is_about_to_fetch(situation, host)
    return (
        *((local,) if is_turning else ()),
        Directory(posixpath.dirname(FETCHING), "root", "root", 0o755),
        File(FETCHING, drop_in(situation)),
        FetchedFiles(servers(situation), digests(situation), carried and not is_turning),
        *(() if is_turning else (Service("slurmd"),)),
        # A job_container.conf where none is wanted may be somebody else's.
        *(Absent(path) for path in read_by_slurmd(situation)),
    )


@once
def digests(situation: Situation) -> tuple[tuple[str, str], ...]:
    """The SHA-256 of each of Slurm's files, by its name."""
    return tuple((name, hashlib.sha256(text.encode()).hexdigest()) for name, text in situation.files)


@once
def drop_in(situation: Situation) -> str:
    """What slurmd's unit is told."""
    return fill("slurmd-configless.conf", {"mode": slurmd_mode(situation.slurm_version), "servers": servers(situation)})


@once
def servers(situation: Situation) -> str:
    """The controllers as slurmd asks them, the primary first (slurmd(8), --conf-server)."""
    port = situation.conf_wanted.settings.get("slurmctldport", "6817").partition("-")[0]
    places = [(name, situation.address(name)) for name in situation.cluster.controllers if name in situation.members]
    # A colon would be taken for the port's.
    return ",".join(f"{name if ':' in address else address}:{port}" for name, address in places)


def given_up(situation: Situation, host: str) -> tuple[Resource, ...]:
    """slurmd with files of its own again, which are there by now, before slurmctld ends to serve any.

    The drop-in, by which a later run knows of a node that fetches, goes last.
    """
    if not stops_fetching(situation, host):
        return ()
    return (File(FETCHING, GIVEN_UP), Service("slurmd", watches=WATCHED), Absent(FETCHING))


def stops_fetching(situation: Situation, host: str) -> bool:
    """Whether a node fetches its files and is to have its own again."""
    fetches = host in situation.facts and situation.facts[host].fetches
    return fetches and situation.is_compute_node(host) and not situation.cluster.fetches(host)


def carried(situation: Situation, host: str) -> tuple[Resource, ...]:
    """Every slurmd with the controller's files, also those of nodes that the run is not about."""
    if host != situation.cluster.controller or not situation.cluster.configless:
        return ()
    nodes = tuple(
        name for name in situation.compute_nodes if situation.cluster.fetches(name) and not situation.is_on_trial(name)
    )
    if not nodes:
        return ()
    log = situation.conf_wanted.settings.get("slurmctldlogfile", "")
    watches = tuple(f"{CONFIGURATION}/{name}" for name, _ in situation.files)
    return (CarriedFiles(nodes, watches, log, reconfigure_renews_daemons(situation.slurm_version)),)
