"""The phases of `fab restore`: those of a deployment, with the parts of a backup restored before the daemons start."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from slurmfab.base.paths import MUNGE_KEY, SLURM_DIRECTORY
from slurmfab.commands.backup.archive import Backup
from slurmfab.core.plan.directories import state_directory
from slurmfab.core.plan.phases import database
from slurmfab.core.plan.plan import PHASES, Phase
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.backup import archive as parts
from slurmfab.on_hosts.agent.backup.restored_database import RestoredDatabase
from slurmfab.on_hosts.agent.backup.restored_state import RestoredFiles, RestoredState
from slurmfab.on_hosts.agent.backup.staged_parts import staged
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import File
from slurmfab.on_hosts.agent.services.listening import Listening
from slurmfab.on_hosts.agent.services.service import Service

RENDERED_FILES = ("slurm.conf", "gres.conf", "cgroup.conf", "slurmdbd.conf")
"""Files of /etc/slurm that a deployment renders from the cluster file, so that they are not restored."""


@dataclass(frozen=True)
class RestorePhases:
    """The phases that restore a backup."""

    backup: Backup
    stamp: str  # time of the restoration, which becomes part of the name of the replaced state directory

    def staged(self, name: str) -> tuple[str, str]:
        """The path of a part that was sent to its host, and its SHA-256 digest."""
        return staged(self.backup.digest, name), self.backup.parts[name].sha256

    def parts_of(self, plan_input: PlanInput, host: str) -> tuple[str, ...]:
        """The names of the parts that are sent to a host."""
        cluster = plan_input.cluster
        wanted: list[str] = []
        if host == cluster.controller:
            wanted += [parts.STATE, parts.FILES]
        elif host in cluster.database_hosts:
            wanted.append(parts.DATABASE_FILES)
        if cluster.database and not cluster.database.external and host == cluster.database.host:
            wanted.append(parts.DATABASE)
        return tuple(name for name in wanted if name in self.backup.parts)

    def halt(self, plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
        """Stop the daemons that write to the files which are about to be replaced."""
        cluster, needed = plan_input.cluster, self.parts_of(plan_input, host)
        return (
            *((Service("slurmctld", running=False),) if host in cluster.controllers else ()),
            *((Service("slurmdbd", running=False),) if parts.DATABASE in needed else ()),
        )

    def key(self, plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
        """The munge key of the backup, on the controller; the munge phase copies it to hosts that have another key."""
        if host != plan_input.cluster.controller or parts.KEY not in self.backup.parts:
            return ()
        content = base64.b64encode(self.backup.read(parts.KEY)).decode()
        return (File(MUNGE_KEY, content, owner="munge", group="munge", mode=0o400, secret=True, encoding="base64"),)

    def server(self, plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
        """The database server without slurmdbd, which would create empty tables before the restored ones are there."""
        return tuple(
            one
            for one in database.resources(plan_input, host)
            if not isinstance(one, Listening) and not (isinstance(one, Service) and one.unit == "slurmdbd")
        )

    def data(self, plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
        """Restore slurmctld's state, the accounting database and the files of /etc/slurm."""
        cluster, needed = plan_input.cluster, self.parts_of(plan_input, host)
        wanted: list[Resource] = []
        if parts.STATE in needed:
            wanted.append(state_directory(cluster.state_directory, plan_input.slurm_owner(host)))
            wanted.append(RestoredState(cluster.state_directory, *self.staged(parts.STATE), self.stamp))
        if parts.DATABASE in needed and cluster.database:
            wanted.append(RestoredDatabase(cluster.database.name, *self.staged(parts.DATABASE)))
        for name in (parts.FILES, parts.DATABASE_FILES):
            if name in needed:
                wanted += [
                    Directory(SLURM_DIRECTORY),
                    RestoredFiles(SLURM_DIRECTORY, *self.staged(name), RENDERED_FILES),
                ]
        return tuple(wanted)

    @property
    def preparing(self) -> tuple[Phase, ...]:
        """The phases until the facts are gathered again, beginning with the halt of daemons."""
        phases = [Phase("halt", self.halt, prepares=True)]
        for phase in PHASES:
            if phase.name == "munge key":
                phases.append(Phase("restored key", self.key, prepares=True))
            phases += [phase] if phase.prepares else []
        return tuple(phases)

    @property
    def rest(self) -> tuple[Phase, ...]:
        """The phases after that; the data is restored before slurmdbd and slurmctld start."""
        phases = []
        for phase in PHASES:
            if phase.name == "database":
                phases += [Phase("database server", self.server), Phase("restored data", self.data)]
            phases += [] if phase.prepares else [phase]
        return tuple(phases)
