"""Qualities of service, accounts and users as slurmdbd should know them, each with its limits.

Two resources see to it, since some has to wait for slurmctld: limits of what slurmdbd hears of from slurmctld alone,
such as GPUs, and the removal of QOS that an older slurm.conf may still name.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import ClassVar, Dict, FrozenSet, Tuple

from slurmfab.agent.account_commands import Commands, difference, removals
from slurmfab.agent.account_wishes import QOS, KeyFields, Place, Settings, Values, Wishes
from slurmfab.agent.accounting_reading import Found, Key, read_all, tres
from slurmfab.agent.limit_values import STATIC_TRES
from slurmfab.agent.resource import SYSTEM_PATH, Context, Resource, ResourceFailed, State
from slurmfab.agent.sacctmgr import PROGRAM, Sacctmgr

BESIDES = "not in the cluster file"
LEFT = "not in the cluster file, and left alone: %s. To remove them: --prune"
SHARED = "%s: QOS belong to all clusters of this slurmdbd, so these stay: %s"
SLURMDBD_CONF = "/etc/slurm/slurmdbd.conf"

PASSES = 2
"""How often the database is compared and changed: what an account hands down shows only when it is gone there."""

TRES_SECONDS = 30.0
"""How long slurmctld may take until it has told slurmdbd of its TRES."""

POLL_SECONDS = 0.3

UNKNOWN = "slurmdbd does not run, so nobody knows what it would answer; it is asked when it has been started"
"""What is told of a plan's gap."""


class AccountTree(Resource):
    """QOS, accounts and users that are there, each with the limits of the cluster file and no others.

    What the file does not name at all is left alone. Limits of TRES that slurmdbd does not know yet are left out.

    Args:
        cluster: the ClusterName.
        conf: of `Sacctmgr`.
        qos_keys: the fields of each `Key` of a QOS.
        keys: the fields of each `Key` of an association.
        qos: name, description (empty for whatever is there) and settings of each.
        accounts: name, parent, description, organization, coordinators and settings of each, parents first.
        users: name, AdminLevel (empty for whatever is there), and account and settings of each association, the
            default account first.
        complete: `qos` and `accounts`, as far as the file has such a section, and so tells all of them.
    """

    kind: ClassVar[str] = "accounts"
    cluster: str
    conf: str
    qos_keys: Tuple[KeyFields, ...]
    keys: Tuple[KeyFields, ...]
    qos: Tuple[Tuple[str, str, Settings], ...] = ()
    accounts: Tuple[Tuple[str, str, str, str, Tuple[str, ...], Settings], ...] = ()
    users: Tuple[Tuple[str, str, Tuple[Tuple[str, Settings], ...]], ...] = ()
    complete: Tuple[str, ...] = ()

    def name(self) -> str:
        """The cluster."""
        return self.cluster

    @property
    def wishes(self) -> Wishes:
        """What is wanted, for comparisons."""
        return Wishes(self.cluster, self.qos_keys, self.keys, self.qos, self.accounts, self.users, self.complete)

    def wanted(self, context: Context) -> State:
        """All that is declared, by names such as `qos high Priority` and `user ada in physics`.

        In a dry run in which slurmdbd would only be started, it is not known what differs, and nothing is wanted.
        """
        if is_away(context):
            context.remark = UNKNOWN
            return {}
        unknown = self.wishes.late_tres() - self.known_tres(context)
        return {
            named(place, key): value
            for place, values in self.wishes.by_place().items()
            for key, value in values.items()
            if not self.wishes.tres(key, value) & unknown
        }

    def actual(self, context: Context) -> State:
        """The same as slurmdbd has it; in a dry run before there is one, nothing."""
        return flat(self.wishes.as_found(self.read(context)))

    def known_tres(self, context: Context) -> FrozenSet[str]:
        """The TRES that slurmdbd knows; before there is one, those that every one knows."""
        if not self.wishes.late_tres() or is_to_come(context):
            return frozenset(STATIC_TRES)
        with Sacctmgr(context, self.conf) as sacctmgr:
            return tres(sacctmgr)

    def read(self, context: Context) -> Found:
        """What slurmdbd knows.

        Raises:
            ResourceFailed: it does not answer.
        """
        if is_to_come(context) or is_away(context):
            return Found((), {}, {}, {}, {}, {}, ())
        with Sacctmgr(context, self.conf) as sacctmgr:
            return self.ask(sacctmgr)

    def ask(self, sacctmgr: Sacctmgr) -> Found:
        """What slurmdbd knows, with a sacctmgr that is at hand."""
        qos_keys, keys = ([Key(*fields) for fields in some] for some in (self.qos_keys, self.keys))
        return read_all(sacctmgr, self.cluster, qos_keys, keys)

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Change what differs, in the order that Slurm wants.

        Raises:
            ResourceFailed: sacctmgr refuses something; what came before that is done, and the rest is not.
        """
        with Sacctmgr(context, self.conf) as sacctmgr:
            self.settle(sacctmgr, frozenset(self.wanted(context)))

    def settle(self, sacctmgr: Sacctmgr, names: FrozenSet[str]) -> None:
        """Compare and change these, until nothing differs; twice at the most."""
        for _ in range(PASSES):
            actual, changes = difference(self.wishes, self.ask(sacctmgr))
            changes = only(changes, names)
            if not changes:
                return
            for command in Commands(self.wishes, actual, changes).all():
                sacctmgr.run(["-i", *command])


class RestOfAccounts(AccountTree):
    """What of an account tree has to wait until slurmctld runs with its new slurm.conf.

    Args:
        prune: whether what slurmdbd knows besides is removed.
    """

    kind: ClassVar[str] = "accounts-rest"
    prune: bool = False

    def wanted(self, context: Context) -> State:
        """The limits of TRES that slurmdbd knows from slurmctld alone; and nothing besides, if that is to go.

        In a dry run these are only the limits that it cannot have yet: the others are compared before.
        """
        if is_away(context):
            return {}
        late = self.wishes.late_tres()
        if late and context.dry_run:
            late -= self.known_tres(context)
        limits = {
            named(place, key): value
            for place, values in self.wishes.by_place().items()
            for key, value in values.items()
            if self.wishes.tres(key, value) & late
        }
        return {**limits, BESIDES: ""} if self.prune else limits

    def actual(self, context: Context) -> State:
        """The same as slurmdbd has it; what it has besides is worth a remark if it may stay."""
        found = self.read(context)
        shared = shared_qos(found)
        going = [place.words() for place in self.wishes.besides(found) if place not in shared]
        if not self.prune and going:
            context.remark = LEFT % ", ".join(going)
        return {**flat(self.wishes.as_found(found)), BESIDES: ", ".join(going)}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Set the limits when slurmdbd has heard of what they are about, and remove what is to go.

        Raises:
            ResourceFailed: it does not hear of it, or Slurm refuses something, as to remove whose jobs run.
        """
        with Sacctmgr(context, self.conf) as sacctmgr:
            if differing - {BESIDES}:
                wait_for_tres(sacctmgr, self.wishes.late_tres())
                self.settle(sacctmgr, differing - {BESIDES})
            if BESIDES in differing:
                found = self.ask(sacctmgr)
                going = [place for place in self.wishes.besides(found) if place not in shared_qos(found)]
                for command in removals(self.wishes, found, going):
                    sacctmgr.run(["-i", *command])


def wait_for_tres(sacctmgr: Sacctmgr, names: FrozenSet[str]) -> None:
    """Wait until slurmdbd knows these TRES.

    Raises:
        ResourceFailed: it does not hear of them.
    """
    deadline = time.monotonic() + TRES_SECONDS
    while names - tres(sacctmgr):
        if time.monotonic() > deadline:
            raise ResourceFailed(
                "slurmdbd knows no %s: slurmctld tells it of what AccountingStorageTRES in slurm.conf names, when it "
                "starts; see slurmctld.log" % ", ".join(sorted(names - tres(sacctmgr)))
            )
        time.sleep(POLL_SECONDS)


def is_to_come(context: Context) -> bool:
    """Whether this is a dry run on a host that has no slurmdbd yet."""
    has_program = shutil.which(PROGRAM, path=SYSTEM_PATH) is not None
    return context.dry_run and not (has_program and os.path.exists(context.path(SLURMDBD_CONF)))


def is_away(context: Context) -> bool:
    """Whether this is a dry run on a host whose slurmdbd, or its database, would have been started by now."""
    return bool(context.starting & {"slurmdbd", "mariadb"}) and not is_to_come(context)


def shared_qos(found: Found) -> FrozenSet[Place]:
    """The QOS, if other clusters have them too."""
    return frozenset(Place(QOS, name) for name in found.qos) if len(found.clusters) > 1 else frozenset()


def named(place: Place, key: str) -> str:
    """How a state calls a value of a place."""
    return "%s %s" % (place.words(), key) if key else place.words()


def flat(places: Dict[Place, Values]) -> Dict[str, str]:
    """Places and their values as a state."""
    return {named(place, key): value for place, values in places.items() for key, value in values.items()}


def only(changes: Dict[Place, Values], names: FrozenSet[str]) -> Dict[Place, Values]:
    """Those of the changes that have one of these names."""
    some = {
        place: {key: value for key, value in values.items() if named(place, key) in names}
        for place, values in changes.items()
    }
    return {place: values for place, values in some.items() if values}
