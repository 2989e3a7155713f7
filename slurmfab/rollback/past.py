"""What a rollback is planned from, and its phases: pure functions from what hosts keep to resources.

Where daemons are concerned it is a deployment of the earlier files, by the very functions that plan one; only the files
come from what each host keeps, and not from templates. So what somebody had changed by hand comes back as well.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from slurmfab.agent.absent import Absent
from slurmfab.agent.listening import Listening
from slurmfab.agent.program import Program
from slurmfab.agent.resource import Resource
from slurmfab.agent.restored import Restored
from slurmfab.agent.service import Service
from slurmfab.agent.slurm_files import SlurmFiles
from slurmfab.agent.slurm_state import SlurmState
from slurmfab.agent.storage import UNIT as MARIADB
from slurmfab.agent.storage import Storage
from slurmfab.phases import configless, daemons, scripts
from slurmfab.phases import database as database_phase
from slurmfab.phases import munge as munge_phase
from slurmfab.phases.munge import KEY
from slurmfab.phases.slurm_conf import CONFIGURATION, NAME_MARK, WATCHED
from slurmfab.plan import Phase
from slurmfab.promises.conf import NODE_LINE, PARTITION_LINE, Difference
from slurmfab.rollback.kept import Kept, KeptFile
from slurmfab.situation import Situation
from slurmfab.slurm.conf_text import parse
from slurmfab.slurm.node_programs import PROGRAMS

UNITS = {
    "slurmctld": ("controller",),
    "slurmd": ("compute",),
    "munge": ("controller", "database", "compute", "login"),
}
"""The daemons of a cluster, in the order in which they are stopped, and the roles that need them."""

NOTHING = Kept()


@dataclass(frozen=True)
class Past(Situation):
    """A situation in which the wanted files are those that the hosts keep.

    Args:
        kept: what each host keeps of the state before the run, by name.
        was_deployed: whether a run of slurmfab's had been there before. If so, the daemons of a host's roles run
            afterwards, also one that had died; if not, each is as it was.
    """

    kept: Mapping[str, Kept] = field(default_factory=dict)
    was_deployed: bool = True

    def kept_by(self, host: str) -> Kept:
        """What a host keeps."""
        return self.kept.get(host, NOTHING)

    @cached_property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Slurm's files as the controller will have them: what it keeps, and what has not changed there."""
        texts = self.controller_facts.slurm_files
        for file in filter(is_slurms, self.kept_by(self.cluster.controller).files):
            texts[posixpath.basename(file.path)] = (file.content or "") if file.existed else ""
        return tuple((name, text) for name, text in texts.items() if text or name == "slurm.conf")

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """What differs in Slurm's sense; without a slurm.conf, nodes and partitions go, and no setting counts."""
        found = super().differences
        if dict(self.files)["slurm.conf"]:
            return found
        return tuple(one for one in found if one.kind in (NODE_LINE, PARTITION_LINE))

    @property
    def state_after(self) -> str:
        """The directory in which slurmctld will look for its state, empty where the files do not say."""
        return parse(dict(self.files)["slurm.conf"]).settings.get("statesavelocation", "")

    @property
    def moves_state(self) -> bool:
        """Whether slurmctld's state has to be brought back to another directory."""
        return bool(self.state_before and self.state_after) and self.state_before != self.state_after

    @cached_property
    def restores_key(self) -> bool:
        """Whether hosts get back the munge key that they keep.

        Hosts with different keys believe each other nothing. So in a cluster they do only where the controller has kept
        one; it has not where somebody else had written its key.
        """
        kept = self.kept_by(self.cluster.controller).file(KEY)
        return not self.was_deployed or (kept is not None and kept.existed)

    @cached_property
    def exchanges_key(self) -> bool:
        """Whether hosts of a cluster that is at work are going to have another munge key."""
        keys = (kept.file(KEY) for kept in self.kept.values())
        return self.was_deployed and self.restores_key and any(key is not None and not key.is_back for key in keys)

    def runs_afterwards(self, host: str, unit: str) -> bool:
        """Whether a daemon is to run on a host when all is done."""
        if self.was_deployed and unit in UNITS:
            return any(role in UNITS[unit] for role in self.cluster.roles(host))
        before = self.kept_by(host).service(unit)
        return before.running if before else self.facts[host].services.get(unit) == "active"

    def stays_off(self, host: str, unit: str) -> bool:
        """Whether a daemon that a run has started did not run before, and is to stop."""
        return self.kept_by(host).service(unit) is not None and not self.runs_afterwards(host, unit)


def is_slurms(file: KeptFile) -> bool:
    """Whether a file is one of those that the installed Slurm judges before any is replaced."""
    is_text = not file.existed or file.content is not None
    return posixpath.dirname(file.path) == CONFIGURATION and file.path.endswith(".conf") and is_text and not file.secret


def is_mark(file: KeptFile) -> bool:
    """Whether a file says whose state slurmctld's state directory holds; it may only change while slurmctld is down."""
    return posixpath.basename(file.path) == NAME_MARK


def is_run_by_slurmd(file: KeptFile) -> bool:
    """Whether slurm.conf names a file, or the directory that it is in, for slurmd to run."""
    return file.path.startswith((f"{PROGRAMS}/", *(f"{scripts.SCRIPTS.format(kind)}/" for kind in scripts.KINDS)))


def belongs_to_slurm(file: KeptFile) -> bool:
    """Whether a file changes together with slurm.conf."""
    return is_slurms(file) or is_mark(file)


def stopping(past: Past, host: str) -> tuple[Resource, ...]:
    """Slurm's daemons that did not run before, stopped while their files are still there.

    While the munge key is another on some hosts than on others, slurmctld is away: what a job's end is told with would
    be refused, and not be told again; a controller that is not there is asked again until it is.
    """
    pauses = past.exchanges_key and daemons.runs_slurmctld(past, host)
    off = tuple(unit for unit in ("slurmctld", "slurmd") if past.stays_off(host, unit))
    return tuple(Service(unit, running=False) for unit in (*(("slurmctld",) if pauses and not off else ()), *off))


def files(past: Past, host: str) -> tuple[Resource, ...]:
    """All files but Slurm's and the munge key, as the host keeps them."""
    others = (file for file in past.kept_by(host).files if file.path != KEY and not belongs_to_slurm(file))
    back = restored(file for file in others if not is_run_by_slurmd(file) or file.existed)
    return (*(one for one in scripts.resources(past, host) if isinstance(one, Program)), *back)


def former_scripts(past: Past, host: str) -> tuple[Resource, ...]:
    """What slurmd runs and did not run before, gone once no slurm.conf names it: a prolog that is missing fails."""
    files = past.kept_by(host).files
    gone = restored(file for file in files if is_run_by_slurmd(file) and not file.existed)
    return (*gone, *(one for one in scripts.gone(past, host) if isinstance(one, Program)))


def restored(some: Iterable[KeptFile]) -> tuple[Resource, ...]:
    """Files from the host's own copies, in the order of their names."""
    return tuple(Restored(file.path, file.run, file.secret) for file in sorted(some, key=lambda file: file.path))


def munge(past: Past, host: str) -> tuple[Resource, ...]:
    """The key as it was, and a munged that has loaded it, where munged runs afterwards."""
    if not past.runs_afterwards(host, "munge"):
        return ()
    daemon = tuple(one for one in munge_phase.resources(past, host) if isinstance(one, Service))
    return (*key(past, host), *daemon)


def key(past: Past, host: str) -> tuple[Resource, ...]:
    """The munge key as it was, where a run has changed it; it does not leave the host."""
    kept = past.kept_by(host).file(KEY)
    return (Restored(KEY, kept.run, secret=True),) if kept and past.restores_key else ()


def slurms_files(past: Past, host: str) -> tuple[Resource, ...]:
    """Slurm's files as the host keeps them, judged by the installed Slurm together with those that have not changed.

    Where there was no slurm.conf, there is nothing to judge. What slurmctld has
    had in another directory since goes back with them.
    """
    kept = tuple(filter(is_slurms, past.kept_by(host).files))
    names = {posixpath.basename(file.path) for file in kept}
    there = tuple((posixpath.basename(file.path), file.content or "") for file in kept if file.existed)
    gone = tuple(Absent(file.path) for file in kept if not file.existed)
    is_moving = past.moves_state and host == past.cluster.controller
    moving = (SlurmState(past.state_after, past.state_before),) if is_moving else ()
    state = (*moving, *restored(filter(is_mark, past.kept_by(host).files)))
    if f"{CONFIGURATION}/slurm.conf" in {file.path for file in kept if not file.existed}:
        return (*restored(file for file in kept if file.existed), *gone, *state)
    beside = tuple(path for path in WATCHED if posixpath.basename(path) not in names)
    node = host if past.is_compute_node(host) else ""
    staged = SlurmFiles(CONFIGURATION, there, node, tuple(map(posixpath.basename, beside)))
    return (*state, *((staged,) if there else ()), *gone)


def stop(past: Past, host: str) -> tuple[Resource, ...]:
    """slurmctld stopped, where a deployment of these files would stop it."""
    return daemons.stop(past, host) if past.runs_afterwards(host, "slurmctld") else ()


def local_files(past: Past, host: str) -> tuple[Resource, ...]:
    """slurmd with files of its own, where a run has had it fetch them, before slurmctld ends to serve them."""
    return configless.given_up(past, host) if past.runs_afterwards(host, "slurmd") else ()


def slurmctld(past: Past, host: str) -> tuple[Resource, ...]:
    """slurmctld with the earlier files, unless it has to wait for every slurmd."""
    return daemons.slurmctld(past, host) if past.runs_afterwards(host, "slurmctld") else ()


def slurmd(past: Past, host: str) -> tuple[Resource, ...]:
    """slurmd with the earlier files; after a reconfigure it has them already."""
    return daemons.slurmd(past, host) if past.runs_afterwards(host, "slurmd") else ()


def start(past: Past, host: str) -> tuple[Resource, ...]:
    """slurmctld after every slurmd, where it had to be stopped."""
    return daemons.start(past, host) if past.runs_afterwards(host, "slurmctld") else ()


def database(past: Past, host: str) -> tuple[Resource, ...]:
    """MariaDB and slurmdbd with the earlier files, where they were; the database's user has the earlier password."""
    wanted = database_phase.resources(past, host)
    return tuple(one for one in wanted if isinstance(one, Service | Storage | Listening))


def database_gone(past: Past, host: str) -> tuple[Resource, ...]:
    """slurmdbd and MariaDB stopped where they did not run before, when slurmctld does without; their data stays."""
    units = ("slurmdbd", MARIADB)
    return tuple(
        Service(unit, running=False)
        for unit in units
        if host not in past.cluster.database_hosts and past.stays_off(host, unit)
    )


def munge_gone(past: Past, host: str) -> tuple[Resource, ...]:
    """munged stopped where it did not run before, when nothing needs it any more, and the key as it was."""
    if past.runs_afterwards(host, "munge"):
        return ()
    return (*((Service("munge", running=False),) if past.stays_off(host, "munge") else ()), *key(past, host))


def nodes(past: Past, host: str) -> tuple[Resource, ...]:
    """Every compute node that answers is ready for jobs, where slurmctld runs to say so."""
    return daemons.nodes(past, host) if past.was_deployed else ()


def phase(
    name: str, resources: Callable[[Past, str], tuple[Resource, ...]], *, controller_first: bool = False
) -> Phase:
    """A phase of a rollback, which only a `Past` can be planned with."""

    def of_host(situation: Situation, host: str) -> tuple[Resource, ...]:
        assert isinstance(situation, Past), "a rollback is planned from what hosts keep"
        return resources(situation, host)

    return Phase(name, of_host, controller_first=controller_first)


PHASES = (
    phase("daemons stop", stopping),
    phase("files", files),
    phase("munge", munge),
    phase("database", database),
    phase("slurmctld stop", stop),
    phase("slurm.conf", slurms_files, controller_first=True),
    phase("local files", local_files),
    phase("slurmctld", slurmctld, controller_first=True),
    phase("slurmd", slurmd),
    phase("slurmctld start", start, controller_first=True),
    phase("former scripts", former_scripts),
    phase("database stop", database_gone),
    phase("munge stop", munge_gone),
    phase("nodes", nodes),
)
"""The order of a rollback, which is a deployment's."""
