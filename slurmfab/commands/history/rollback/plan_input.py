"""The plan input and the phases of a rollback: pure functions from the undo state of hosts to resources.

The resources of daemons are planned by the same functions as in a deployment. But the files come from the undo store of
each host, and not from templates; so a rollback also restores changes that were made by hand.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from slurmfab.base.paths import MUNGE_KEY, PROGRAMS, SLURM_DIRECTORY, UNIT_FILES
from slurmfab.cluster.inventory.slurm_files import SiteFile
from slurmfab.cluster.slurm.site_files import readers
from slurmfab.commands.history.rollback.undo_state import SavedFile, UndoState
from slurmfab.core.impact.slurm_diff import FILE, NODE_LINE, PARTITION_LINE, THERE, Difference
from slurmfab.core.plan.hand_made_files import GRES, MAIN, gres_of_nodes, is_hand_made
from slurmfab.core.plan.phases import configless, daemons, exports, registry, scripts
from slurmfab.core.plan.phases import database as database_phase
from slurmfab.core.plan.phases import munge as munge_phase
from slurmfab.core.plan.phases.slurm_conf import NAME_MARK, WATCHED, has_own_files
from slurmfab.core.plan.plan import Phase
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.host_paths import FIREWALL_RULES
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.database.storage import MARIADB_UNIT, Storage
from slurmfab.on_hosts.agent.files.file import Absent
from slurmfab.on_hosts.agent.files.firewall_rules import RULE_FILES
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.mounts.earlier_mounts import EarlierMounts
from slurmfab.on_hosts.agent.mounts.exports import EXPORTS, ExportsLoaded
from slurmfab.on_hosts.agent.mounts.mount_units import AUTOMOUNT, MOUNT
from slurmfab.on_hosts.agent.mounts.released_mounts import ReleasedMounts
from slurmfab.on_hosts.agent.people import directory_service
from slurmfab.on_hosts.agent.people.node_logins import LOGIN_FILES, SSHD
from slurmfab.on_hosts.agent.services.listening import Listening
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.slurm.files import SlurmFiles
from slurmfab.on_hosts.agent.slurm.shared_files import SharedFiles
from slurmfab.on_hosts.agent.slurm.slurmctld_pause import SlurmctldPause
from slurmfab.on_hosts.agent.slurm.state import SlurmState
from slurmfab.on_hosts.agent.undo.restored_file import EarlierDirectory, EarlierLogins, Restored

UNITS = {"slurmctld": ("controller",), "slurmd": ("compute",), "munge": ("controller", "database", "compute", "login")}
"""The roles that need each daemon; daemons in the order in which they are stopped."""

NO_STATE = UndoState()


@dataclass(frozen=True)
class RollbackInput(PlanInput):
    """The plan input of a rollback: the wanted files are those in the undo stores of the hosts."""

    undo_states: Mapping[str, UndoState] = field(default_factory=dict)  # the undo states of the hosts, by host
    # whether slurmfab had deployed the cluster before the run. If so, all daemons of a host's roles run afterwards,
    # even if one had died; if not, each is as it was before the run.
    was_deployed: bool = True

    def undo_state(self, host: str) -> UndoState:
        """The undo state of a host."""
        return self.undo_states.get(host, NO_STATE)

    @property
    def hand_made(self) -> Mapping[str, str]:
        """Nothing: a rollback restores files, whoever made them."""
        return {}

    @cached_property
    def directories(self) -> Mapping[str, tuple[str, ...]]:
        """By host, the directories of Slurm's files before or after the rollback: the controller's, and its own.

        What a node tells of its directories is about that node alone.
        """
        controller = self.cluster.controller
        places = {
            host: [
                posixpath.dirname(path)
                for file in self.undo_state(host).files
                if posixpath.basename(file.path) == MAIN
                for path in (file.path, file.link)
            ]
            for host in {controller, *self.facts, *self.undo_states}
        }
        found = {
            host: dict.fromkeys(filter(None, (self.cluster.slurm_conf_directory, *places[controller], *own)))
            for host, own in places.items()
        }
        return {
            host: (*(one for one in some if one != SLURM_DIRECTORY), SLURM_DIRECTORY) for host, some in found.items()
        }

    def name_in_directory(self, host: str, file: SavedFile) -> str:
        """The name of a host's file below the directory of Slurm's files; its path if it is elsewhere."""
        directory = next((one for one in self.directories[host] if file.path.startswith(f"{one}/")), "")
        return file.path.removeprefix(f"{directory}/") if directory else file.path

    def is_slurms(self, host: str, file: SavedFile) -> bool:
        """Whether a host's file is one of Slurm's, which the installed Slurm checks before any of them is replaced."""
        is_text = not file.existed or file.content is not None or bool(file.link)
        is_here = posixpath.dirname(file.path) in self.directories[host]
        return is_here and file.path.endswith(".conf") and is_text and not file.secret

    def slurms_before(self, host: str) -> dict[str, SavedFile]:
        """By name, what each of Slurm's files on a host was; of a link, the file that it led to if that is known."""
        saved = {file.path: file for file in self.undo_state(host).files if self.is_slurms(host, file)}
        found: dict[str, SavedFile] = {}
        for path, file in saved.items():
            name = posixpath.basename(path)
            own = saved.get(f"{SLURM_DIRECTORY}/{name}")
            if own is None:
                found.setdefault(name, file)
            elif file is own:
                place = posixpath.normpath(posixpath.join(SLURM_DIRECTORY, own.link))
                found[name] = saved.get(place, own) if own.link else own
        return found

    @cached_property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Slurm's files on the controller after the rollback: restored files, and files that no run changed."""
        texts = self.controller_facts.slurm_files
        for name, file in self.slurms_before(self.cluster.controller).items():
            texts[name] = (file.content or "") if file.existed else ""
        return tuple((name, text) for name, text in texts.items() if text or name == "slurm.conf")

    @cached_property
    def whole_files(self) -> Mapping[str, str]:
        """The texts of `files` by name, with all that they include."""
        saved = self.slurms_before(self.cluster.controller)
        return {**dict(self.files), **{name: one.whole for name, one in saved.items() if one.whole}}

    @property
    def gres_after(self) -> str:
        """One gres.conf that says for each node what it will have; those of a cluster made by hand differ."""
        text = dict(self.files).get(GRES, "")
        saved = {node: self.slurms_before(node).get(GRES) for node in self.compute_nodes}
        if self.has_one_gres or not is_hand_made(dict(self.files)[MAIN]):
            return text
        return gres_of_nodes({node: (one.content or "") if one else text for node, one in saved.items()})

    @property
    def keeps_files(self) -> bool:
        """Never: what comes back are files that slurmfab has replaced."""
        return False

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The differences in slurm.conf; if there was none before, only nodes and partitions, which are removed."""
        found = super().differences
        if dict(self.files)["slurm.conf"]:
            return found
        return tuple(one for one in found if one.kind in (NODE_LINE, PARTITION_LINE))

    @cached_property
    def site_files(self) -> tuple[SiteFile, ...]:
        """The site's own files that daemons read when they start, of those that the controller's undo store has."""
        saved = self.undo_state(self.cluster.controller).files
        names = {self.name_in_directory(self.cluster.controller, file): file for file in saved if file.existed}
        return tuple(SiteFile(name, file.content or "") for name, file in names.items() if readers(name))

    @cached_property
    def site_differences(self) -> tuple[Difference, ...]:
        """The site's own files that daemons read when they start, and that the rollback changes on the controller."""
        saved = self.undo_state(self.cluster.controller).files
        names = {self.name_in_directory(self.cluster.controller, file): file for file in saved if not file.is_back}
        return tuple(
            Difference(name, FILE, name, actual=THERE, wanted=THERE if file.existed else "")
            for name, file in sorted(names.items())
            if readers(name)
        )

    @property
    def state_after(self) -> str:
        """StateSaveLocation after the rollback; empty if the files do not set it."""
        return self.conf_wanted.settings.get("statesavelocation", "")

    @property
    def moves_state(self) -> bool:
        """Whether slurmctld's state has to be moved back to another directory."""
        return bool(self.state_before and self.state_after) and self.state_before != self.state_after

    @cached_property
    def restores_key(self) -> bool:
        """Whether hosts get the munge key in their undo stores back.

        Hosts with different keys refuse each other's credentials. So in a cluster the keys are only restored if the
        controller's undo store has one; it has none if its key was changed by hand and not by a run.
        """
        saved = self.undo_state(self.cluster.controller).file(MUNGE_KEY)
        return not self.was_deployed or (saved is not None and saved.existed)

    @cached_property
    def exchanges_key(self) -> bool:
        """Whether the rollback changes the munge key of a running cluster."""
        keys = (state.file(MUNGE_KEY) for state in self.undo_states.values())
        return self.was_deployed and self.restores_key and any(key is not None and not key.is_back for key in keys)

    def runs_afterwards(self, host: str, unit: str) -> bool:
        """Whether a daemon has to run on a host after the rollback."""
        if self.was_deployed and unit in UNITS:
            return any(role in UNITS[unit] for role in self.cluster.roles(host))
        before = self.undo_state(host).service(unit)
        return before.running if before else self.facts[host].services.get(unit) == "active"

    def stays_off(self, host: str, unit: str) -> bool:
        """Whether a run started a daemon that did not run before, so that the rollback stops it."""
        return self.undo_state(host).service(unit) is not None and not self.runs_afterwards(host, unit)


Planned = Callable[[RollbackInput, str], tuple[Resource, ...]]  # what a phase of a rollback is on a host


def is_cluster_name(file: SavedFile) -> bool:
    """Whether a file is `clustername` in slurmctld's state directory; it may only change while slurmctld is stopped."""
    return posixpath.basename(file.path) == NAME_MARK


def is_run_by_slurmd(rollback: RollbackInput, host: str, file: SavedFile) -> bool:
    """Whether a host's file is a program that slurmd runs because slurm.conf names it or its directory."""
    is_program = rollback.name_in_directory(host, file) != file.path and not file.path.endswith(".conf")
    return is_program or file.path.startswith(f"{PROGRAMS}/")


SLURM_UNITS = ("slurmctld", "slurmd")
STOPPED_LATER = ("munge", "slurmdbd", MARIADB_UNIT, exports.UNIT)
"""Units that have a phase of their own, because other daemons or hosts use them."""


def stopping(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Stop daemons that were off before, while their files are still there, but those that others need until later.

    A registry's package starts its server, so that the server ran before the run had changed anything about it.

    slurmctld is also stopped while hosts have different munge keys: slurmd does not repeat a message about a job's end
    that slurmctld refuses, but it repeats one that slurmctld does not answer.
    """
    pauses = rollback.exchanges_key and daemons.runs_slurmctld(rollback, host)
    off = tuple(unit for unit in SLURM_UNITS if rollback.stays_off(host, unit))
    of_slurm = (SlurmctldPause(),) if pauses and not off else tuple(Service(unit, running=False) for unit in off)
    others = tuple(
        one.unit
        for one in rollback.undo_state(host).services
        if not one.enabled
        and one.unit not in (*SLURM_UNITS, *STOPPED_LATER)
        and not one.unit.endswith((MOUNT, AUTOMOUNT))
        and rollback.stays_off(host, one.unit)
    )
    former = (one.unit for one in registry.resources(rollback, host) if isinstance(one, Service) and not one.running)
    return (*of_slurm, *(Service(unit, running=False) for unit in dict.fromkeys((*others, *former))))


def files(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Restore all files but Slurm's, the munge key and those of logins and the firewall from the host's undo store."""
    others = (
        file
        for file in rollback.undo_state(host).files
        if file.path not in (MUNGE_KEY, *LOGIN_FILES, *RULE_FILES, *directory_service.UNDONE)
        and not (rollback.is_slurms(host, file) or is_cluster_name(file))
    )
    back = restored(file for file in others if not is_run_by_slurmd(rollback, host, file) or file.existed)
    return (*(one for one in scripts.resources(rollback, host) if isinstance(one, Program)), *back)


def former_mounts(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Unmount what a run has mounted or changed, while the units' files are still there, unless somebody uses it."""
    saved = mount_files(rollback, host)
    earlier = tuple((file.path, file.content or "") for file in saved if file.existed)
    return (ReleasedMounts(earlier, tuple(file.path for file in saved)),) if saved else ()


def earlier_mounts(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Mount what was mounted before, by the units' files that are back."""
    paths = tuple(file.path for file in mount_files(rollback, host) if file.existed)
    return (EarlierMounts(paths),) if paths else ()


def exports_loaded(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Let the NFS server serve what its files, which are back, say; where it did not run before, it stops."""
    if rollback.undo_state(host).file(EXPORTS) is None:
        return ()
    off = (Service(exports.UNIT, running=False),) if rollback.stays_off(host, exports.UNIT) else ()
    return (ExportsLoaded(exports.away(rollback)), *off)


def mount_files(rollback: RollbackInput, host: str) -> tuple[SavedFile, ...]:
    """The files of the units of mounts that a run has changed."""
    files = rollback.undo_state(host).files
    return tuple(
        one for one in files if one.path.startswith(f"{UNIT_FILES}/") and one.path.endswith((MOUNT, AUTOMOUNT))
    )


def former_scripts(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Remove programs that slurmd did not run before, once no slurm.conf names them: a missing prolog drains nodes."""
    files = rollback.undo_state(host).files
    gone = restored(file for file in files if is_run_by_slurmd(rollback, host, file) and not file.existed)
    return (*gone, *(one for one in scripts.gone(rollback, host) if isinstance(one, Program)))


def restored(some: Iterable[SavedFile]) -> tuple[Resource, ...]:
    """The resources that restore files from the host's undo store, sorted by path."""
    return tuple(Restored(file.path, file.run, file.secret) for file in sorted(some, key=lambda file: file.path))


def munge(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Restore the munge key, and let munged load it, on hosts where munged runs afterwards."""
    if not rollback.runs_afterwards(host, "munge"):
        return ()
    daemon = tuple(one for one in munge_phase.resources(rollback, host) if isinstance(one, Service))
    return (*key(rollback, host), *daemon)


def key(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Restore the munge key if a run changed it; the key does not leave the host."""
    saved = rollback.undo_state(host).file(MUNGE_KEY)
    return (Restored(MUNGE_KEY, saved.run, secret=True),) if saved and rollback.restores_key else ()


def slurms_files(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Restore Slurm's files; the installed Slurm checks them together with the files that no run changed.

    If there was no slurm.conf before, nothing is checked. If StateSaveLocation changes, slurmctld's state is moved too.
    The files of a shared directory come before the links to them, which come before a host's own files.
    """
    saved = tuple(file for file in rollback.undo_state(host).files if rollback.is_slurms(host, file))
    there = {posixpath.dirname(file.path) for file in saved if file.existed and not file.link}
    gone = tuple(Absent(file.path) for file in saved if not file.existed)
    is_primary = host == rollback.cluster.controller
    is_moving = rollback.moves_state and is_primary
    moving = (SlurmState(rollback.state_after, rollback.state_before),) if is_moving else ()
    state = (*moving, *restored(filter(is_cluster_name, rollback.undo_state(host).files)))
    if f"{SLURM_DIRECTORY}/slurm.conf" in {file.path for file in saved if not file.existed}:
        return (*restored(file for file in saved if file.existed), *gone, *state)
    links = restored(file for file in saved if file.link)
    staged = [staged_in(rollback, host, one, saved) for one in rollback.directories[host] if one in there]
    own = [one for one in staged if one.directory == SLURM_DIRECTORY]
    return (*state, *(one for one in staged if one not in own), *links, *shared_by_others(rollback, host), *own, *gone)


def staged_in(rollback: RollbackInput, host: str, directory: str, saved: Iterable[SavedFile]) -> SlurmFiles:
    """Slurm's files that a host restores in one directory."""
    here = [file for file in saved if posixpath.dirname(file.path) == directory and not file.link]
    names = {posixpath.basename(file.path) for file in here}
    beside = tuple(name for name in map(posixpath.basename, WATCHED) if name not in names)
    there = tuple((posixpath.basename(file.path), file.content or "") for file in here if file.existed)
    node = host if rollback.is_compute_node(host) else ""
    return SlurmFiles(directory, there, node, beside, host == rollback.cluster.controller)


def shared_by_others(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """The files that the primary controller restores in a shared directory, as another host has to read them there."""
    shared, primary = rollback.cluster.slurm_conf_directory, rollback.cluster.controller
    if shared is None or host == primary or not has_own_files(rollback, host):
        return ()
    files = (file for file in rollback.undo_state(primary).files if rollback.is_slurms(primary, file))
    there = [file for file in files if file.existed and not file.link and posixpath.dirname(file.path) == shared]
    values = tuple((posixpath.basename(file.path), file.content or "") for file in there)
    return (SharedFiles(SLURM_DIRECTORY, shared, values),) if values else ()


def if_it_runs(unit: str, planned: Callable[[PlanInput, str], tuple[Resource, ...]]) -> Planned:
    """The resources of a deployment on hosts on which the daemon has to run after the rollback."""
    return lambda rollback, host: planned(rollback, host) if rollback.runs_afterwards(host, unit) else ()


def database(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Restart MariaDB and slurmdbd with the earlier files, and set the earlier password of the database's user."""
    wanted = database_phase.resources(rollback, host)
    return tuple(one for one in wanted if isinstance(one, Service | Storage | Listening))


def database_gone(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Stop slurmdbd and MariaDB where they did not run before, after slurmctld stopped using them; their data stays."""
    units = ("slurmdbd", MARIADB_UNIT)
    return tuple(
        Service(unit, running=False)
        for unit in units
        if host not in rollback.cluster.database_hosts and rollback.stays_off(host, unit)
    )


def munge_gone(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Stop munged where it did not run before, after all that need it, and restore the munge key there."""
    if rollback.runs_afterwards(host, "munge"):
        return ()
    return (*((Service("munge", running=False),) if rollback.stays_off(host, "munge") else ()), *key(rollback, host))


def nodes(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Wait until every compute node that answers is ready for jobs, if the cluster was deployed before."""
    return daemons.nodes(rollback, host) if rollback.was_deployed else ()


def earlier_directories(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
    """Owners and modes of directories as before, once no daemon needs others."""
    return tuple(
        EarlierDirectory(one.path, one.owner, one.group, int(one.mode, 8))
        for one in rollback.undo_state(host).directories
    )


def guarded(main: str, paths: Iterable[str]) -> Planned:
    """The restoration of files that decide who may log in; another login has to pass it. `main`: names the others."""

    def resources(rollback: RollbackInput, host: str) -> tuple[Resource, ...]:
        files = {file.path: file for file in rollback.undo_state(host).files}
        saved = tuple((path, files[path].run) for path in paths if path in files)
        return (LoginGuard(proved=False), EarlierLogins(main, saved)) if saved else ()

    return resources


def phase(name: str, resources: Planned, *, controller_first: bool = False, guards_logins: bool = False) -> Phase:
    """A phase that is planned from a `RollbackInput`; see `Phase` for the arguments."""

    def of_host(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
        assert isinstance(plan_input, RollbackInput), "a rollback is planned from the undo state of hosts"
        return resources(plan_input, host)

    return Phase(name, of_host, controller_first=controller_first, guards_logins=guards_logins)


PHASES = (
    phase("daemons stop", stopping),
    phase("former mounts", former_mounts),
    phase("firewall", guarded(FIREWALL_RULES, RULE_FILES), guards_logins=True),
    phase("directory", guarded(directory_service.UNDONE[0], directory_service.UNDONE), guards_logins=True),
    phase("files", files),
    phase("exports", exports_loaded),
    phase("mounts", earlier_mounts),
    phase("munge", munge),
    phase("database", database),
    phase("slurmctld stop", if_it_runs("slurmctld", daemons.stop)),
    phase("slurm.conf", slurms_files, controller_first=True),
    phase("local files", if_it_runs("slurmd", configless.given_up)),
    phase("slurmctld", if_it_runs("slurmctld", daemons.slurmctld), controller_first=True),
    phase("slurmd", if_it_runs("slurmd", daemons.slurmd)),
    phase("slurmctld start", if_it_runs("slurmctld", daemons.start), controller_first=True),
    phase("directories", earlier_directories),
    phase("former scripts", former_scripts),
    phase("database stop", database_gone),
    phase("munge stop", munge_gone),
    phase("nodes", nodes),
    phase("node logins", guarded(SSHD, LOGIN_FILES), guards_logins=True),
)
"""The phases of a rollback, in the order of a deployment."""
