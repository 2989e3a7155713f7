"""QOS, accounts and users in slurmdbd, with their limits, as in the cluster file.

There are two resources, because some steps have to wait for slurmctld: limits of TRES that slurmdbd learns from
slurmctld, such as GPUs, and the removal of QOS that an older slurm.conf may still name.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import ClassVar, Dict, FrozenSet, Tuple

from slurmfab.on_hosts.agent.accounting import odd_texts
from slurmfab.on_hosts.agent.accounting.commands import Commands, difference, removals
from slurmfab.on_hosts.agent.accounting.limit_values import STATIC_TRES
from slurmfab.on_hosts.agent.accounting.reading import ActualTree, Key, read_all, tres
from slurmfab.on_hosts.agent.accounting.sacctmgr import PROGRAM, Sacctmgr
from slurmfab.on_hosts.agent.accounting.wanted_tree import QOS, KeyFields, Place, Settings, Values, WantedTree
from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.resource import SYSTEM_PATH, Context, Resource, ResourceFailed, State

UNDECLARED = "not in the cluster file"
LEFT_UNCHANGED = "not in the cluster file, left unchanged: %s. To remove them: " + FAB + " deploy --prune"
SHARED = "%s: QOS belong to all clusters of this slurmdbd, so these stay: %s"
SLURMDBD_CONF = "/etc/slurm/slurmdbd.conf"

PASSES = 2  # number of comparisons: only after a parent's value is removed does a child's own show
TRES_SECONDS = 30.0  # time that slurmctld gets to tell slurmdbd its TRES

POLL_SECONDS = 0.3

UNKNOWN = "slurmdbd does not run; its accounts are compared after it has started"
"""The remark on a plan that cannot compare accounts."""


class AccountTree(Resource):
    """QOS, accounts and users exist, each with exactly the limits of the cluster file.

    Names that are not in the cluster file are left unchanged. Limits of TRES that slurmdbd does not know yet are
    skipped.
    """

    kind: ClassVar[str] = "accounts"
    named_by: ClassVar[str] = "cluster"
    deadline: ClassVar[float] = 1800.0
    cluster: str
    conf: str  # of `Sacctmgr`
    qos_keys: Tuple[KeyFields, ...]  # the fields of each `Key` of a QOS
    keys: Tuple[KeyFields, ...]  # the fields of each `Key` of an association
    qos: Tuple[Tuple[str, str, Settings], ...] = ()  # name, description (empty to keep it) and settings of each
    # Name, parent, description, organization, coordinators and settings of each, parents first.
    accounts: Tuple[Tuple[str, str, str, str, Tuple[str, ...], Settings], ...] = ()
    # Name, AdminLevel (empty to keep it), and account and settings of each association, the default account first.
    users: Tuple[Tuple[str, str, Tuple[Tuple[str, Settings], ...]], ...] = ()
    # `qos` and `accounts`, if the cluster file has that section, so that other names are undeclared.
    complete: Tuple[str, ...] = ()

    @property
    def tree(self) -> WantedTree:
        """The wanted QOS, accounts and users."""
        return WantedTree(self.cluster, self.qos_keys, self.keys, self.qos, self.accounts, self.users, self.complete)

    def wanted(self, context: Context) -> State:
        """All declared values, by keys such as `qos high Priority` and `user ada in physics`.

        A dry run cannot compare them if slurmdbd would have been started by now: then nothing is wanted.
        """
        if would_be_started(context):
            context.remark = UNKNOWN
            return {}
        unknown = self.tree.late_tres() - self.known_tres(context)
        return {
            state_key(place, key): value
            for place, values in self.tree.by_place().items()
            for key, value in values.items()
            if not self.tree.tres(key, value) & unknown
        }

    def actual(self, context: Context) -> State:
        """The same values in slurmdbd; empty in a dry run without it, with a remark on texts with line breaks."""
        found = self.read(context)
        if found.odd:
            context.remark = odd_texts.REMARK % "; ".join(found.odd)
        return flatten(self.tree.actual_values(found))

    def known_tres(self, context: Context) -> FrozenSet[str]:
        """The TRES that slurmdbd knows; before it is installed, those that every slurmdbd knows."""
        if not self.tree.late_tres() or is_not_installed_yet(context):
            return frozenset(STATIC_TRES)
        with Sacctmgr(context, self.conf) as sacctmgr:
            return tres(sacctmgr)

    def read(self, context: Context) -> ActualTree:
        """Everything that slurmdbd has for the cluster. Raises ResourceFailed if slurmdbd does not answer."""
        if is_not_installed_yet(context) or would_be_started(context):
            return ActualTree((), {}, {}, {}, {}, {}, ())
        with Sacctmgr(context, self.conf) as sacctmgr:
            return self.ask(sacctmgr)

    def ask(self, sacctmgr: Sacctmgr) -> ActualTree:
        """Read everything with an open `Sacctmgr`."""
        qos_keys, keys = ([Key(*fields) for fields in some] for some in (self.qos_keys, self.keys))
        return read_all(sacctmgr, self.cluster, qos_keys, keys)

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Change what differs, in Slurm's order; ResourceFailed if sacctmgr refuses, what was before is done."""
        with Sacctmgr(context, self.conf) as sacctmgr:
            self.apply_changes(sacctmgr, frozenset(self.wanted(context)))

    def apply_changes(self, sacctmgr: Sacctmgr, names: FrozenSet[str]) -> None:
        """Compare and change these values until nothing differs, at most `PASSES` times."""
        for _ in range(PASSES):
            actual, changes = difference(self.tree, self.ask(sacctmgr))
            changes = selected(changes, names)
            if not changes:
                return
            for command in Commands(self.tree, actual, changes).all():
                sacctmgr.run(["-i", *command])


class RestOfAccounts(AccountTree):
    """The part of an account tree that has to wait until slurmctld runs with its new slurm.conf."""

    kind: ClassVar[str] = "accounts-rest"
    deadline: ClassVar[float] = 1800.0
    prune: bool = False  # whether undeclared users, accounts and QOS are removed

    def wanted(self, context: Context) -> State:
        """Limits of TRES that slurmdbd learns from slurmctld; with `prune`, no undeclared names.

        A dry run compares only the limits of TRES that slurmdbd does not know yet: the others are compared before.
        """
        if would_be_started(context):
            return {}
        late = self.tree.late_tres()
        if late and context.dry_run:
            late -= self.known_tres(context)
        limits = {
            state_key(place, key): value
            for place, values in self.tree.by_place().items()
            for key, value in values.items()
            if self.tree.tres(key, value) & late
        }
        return {**limits, UNDECLARED: ""} if self.prune else limits

    def actual(self, context: Context) -> State:
        """The same values in slurmdbd; undeclared names that may stay add a remark."""
        found = self.read(context)
        shared = shared_qos(found)
        going = [place.description() for place in self.tree.undeclared(found) if place not in shared]
        if not self.prune and going:
            context.remark = LEFT_UNCHANGED % ", ".join(going)
        return {**flatten(self.tree.actual_values(found)), UNDECLARED: ", ".join(going)}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Set the limits once slurmdbd knows their TRES, and remove undeclared names.

        Raises ResourceFailed if slurmdbd does not learn the TRES, or Slurm refuses a change, such as a removal while
        jobs run.
        """
        with Sacctmgr(context, self.conf) as sacctmgr:
            if differing - {UNDECLARED}:
                wait_for_tres(sacctmgr, self.tree.late_tres())
                self.apply_changes(sacctmgr, differing - {UNDECLARED})
            if UNDECLARED in differing:
                found = self.ask(sacctmgr)
                going = [place for place in self.tree.undeclared(found) if place not in shared_qos(found)]
                for command in removals(self.tree, found, going):
                    sacctmgr.run(["-i", *command])


def wait_for_tres(sacctmgr: Sacctmgr, names: FrozenSet[str]) -> None:
    """Wait until slurmdbd knows these TRES. Raises ResourceFailed if it does not learn them in time."""
    deadline = time.monotonic() + TRES_SECONDS
    while names - tres(sacctmgr):
        if time.monotonic() > deadline:
            raise ResourceFailed(
                "slurmdbd does not know the TRES %s. slurmctld sends it AccountingStorageTRES of slurm.conf when it "
                "starts; see slurmctld.log" % ", ".join(sorted(names - tres(sacctmgr)))
            )
        time.sleep(POLL_SECONDS)


def is_not_installed_yet(context: Context) -> bool:
    """Whether this is a dry run on a host without slurmdbd."""
    has_program = shutil.which(PROGRAM, path=SYSTEM_PATH) is not None
    return context.dry_run and not (has_program and os.path.exists(context.path(SLURMDBD_CONF)))


def would_be_started(context: Context) -> bool:
    """Whether this is a dry run and slurmdbd, or its database, would have been started by an earlier step."""
    return bool(context.starting & {"slurmdbd", "mariadb"}) and not is_not_installed_yet(context)


def shared_qos(found: ActualTree) -> FrozenSet[Place]:
    """All QOS if slurmdbd has several clusters, otherwise none."""
    return frozenset(Place(QOS, name) for name in found.qos) if len(found.clusters) > 1 else frozenset()


def state_key(place: Place, key: str) -> str:
    """The key of a value in a state."""
    return "%s %s" % (place.description(), key) if key else place.description()


def flatten(places: Dict[Place, Values]) -> Dict[str, str]:
    """The values of all places as one state."""
    return {state_key(place, key): value for place, values in places.items() for key, value in values.items()}


def selected(changes: Dict[Place, Values], names: FrozenSet[str]) -> Dict[Place, Values]:
    """The changes whose state keys are in `names`."""
    some = {
        place: {key: value for key, value in values.items() if state_key(place, key) in names}
        for place, values in changes.items()
    }
    return {place: values for place, values in some.items() if values}
