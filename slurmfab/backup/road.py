"""The phases of a restoration: those of a deployment, with what a backup has put in its place before daemons see it."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from slurmfab.agent import backup_archive as parts
from slurmfab.agent.directory import Directory
from slurmfab.agent.file import File
from slurmfab.agent.listening import Listening
from slurmfab.agent.resource import Resource
from slurmfab.agent.restored_database import RestoredDatabase
from slurmfab.agent.restored_state import RestoredFiles, RestoredState
from slurmfab.agent.service import Service
from slurmfab.agent.staged_parts import staged
from slurmfab.backup.archive import Backup
from slurmfab.phases import database
from slurmfab.phases.munge import KEY
from slurmfab.phases.slurm_conf import CONFIGURATION
from slurmfab.plan import PHASES, Phase
from slurmfab.situation import Situation

OURS = ("slurm.conf", "gres.conf", "cgroup.conf", "slurmdbd.conf")
"""Files of /etc/slurm that a deployment makes from the cluster file."""


@dataclass(frozen=True)
class Road:
    """What has to be done on the hosts, given a backup.

    Args:
        backup: what is restored.
        stamp: when, for the name of what was there before.
    """

    backup: Backup
    stamp: str

    def staged(self, name: str) -> tuple[str, str]:
        """Where a part lies on its host, and its digest."""
        return staged(self.backup.digest, name), self.backup.parts[name].sha256

    def parts_of(self, situation: Situation, host: str) -> tuple[str, ...]:
        """The parts that a host needs, to be brought there first."""
        cluster = situation.cluster
        wanted: list[str] = []
        if host == cluster.controller:
            wanted += [parts.STATE, parts.FILES]
        elif host in cluster.database_hosts:
            wanted.append(parts.DATABASE_FILES)
        if cluster.database and not cluster.database.external and host == cluster.database.host:
            wanted.append(parts.DATABASE)
        return tuple(name for name in wanted if name in self.backup.parts)

    def halt(self, situation: Situation, host: str) -> tuple[Resource, ...]:
        """No daemon that writes to what is about to be replaced."""
        cluster, needed = situation.cluster, self.parts_of(situation, host)
        return (
            *((Service("slurmctld", running=False),) if host in cluster.controllers else ()),
            *((Service("slurmdbd", running=False),) if parts.DATABASE in needed else ()),
        )

    def key(self, situation: Situation, host: str) -> tuple[Resource, ...]:
        """The munge key of the backup on the controller, from where it goes to the others that have another one."""
        if host != situation.cluster.controller or parts.KEY not in self.backup.parts:
            return ()
        content = base64.b64encode(self.backup.read(parts.KEY)).decode()
        return (File(KEY, content, owner="munge", group="munge", mode=0o400, secret=True, encoding="base64"),)

    def server(self, situation: Situation, host: str) -> tuple[Resource, ...]:
        """The database server without slurmdbd, which would make empty tables."""
        return tuple(
            one
            for one in database.resources(situation, host)
            if not isinstance(one, Listening) and not (isinstance(one, Service) and one.unit == "slurmdbd")
        )

    def data(self, situation: Situation, host: str) -> tuple[Resource, ...]:
        """State, tables and files, each where it belongs."""
        cluster, needed = situation.cluster, self.parts_of(situation, host)
        wanted: list[Resource] = []
        if parts.STATE in needed:
            wanted.append(Directory(cluster.state_directory, "slurm", "slurm", 0o700))
            wanted.append(RestoredState(cluster.state_directory, *self.staged(parts.STATE), self.stamp))
        if parts.DATABASE in needed and cluster.database:
            wanted.append(RestoredDatabase(cluster.database.name, *self.staged(parts.DATABASE)))
        for name in (parts.FILES, parts.DATABASE_FILES):
            if name in needed:
                wanted += [Directory(CONFIGURATION), RestoredFiles(CONFIGURATION, *self.staged(name), OURS)]
        return tuple(wanted)

    @property
    def preparing(self) -> tuple[Phase, ...]:
        """What the rest is planned on, beginning with the halt."""
        phases = [Phase("halt", self.halt, prepares=True)]
        for phase in PHASES:
            if phase.name == "munge key":
                phases.append(Phase("restored key", self.key, prepares=True))
            phases += [phase] if phase.prepares else []
        return tuple(phases)

    @property
    def rest(self) -> tuple[Phase, ...]:
        """All that follows; the data are in their places before slurmdbd and slurmctld start."""
        phases = []
        for phase in PHASES:
            if phase.name == "database":
                phases += [Phase("database server", self.server), Phase("restored data", self.data)]
            phases += [] if phase.prepares else [phase]
        return tuple(phases)
