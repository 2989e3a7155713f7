"""QOS, accounts and users in slurmdbd, with their limits, as in the cluster file.

There are two resources, because some steps have to wait for slurmctld: limits of TRES that slurmdbd learns from
slurmctld, such as GPUs, and the removal of QOS that an older slurm.conf may still name.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import ClassVar, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

from slurmfab.on_hosts.agent.accounting import odd_texts
from slurmfab.on_hosts.agent.accounting.limit_values import STATIC_TRES, TRES
from slurmfab.on_hosts.agent.accounting.reading import ActualTree, Key, read_all, tres
from slurmfab.on_hosts.agent.accounting.sacctmgr import NAME_BYTES, PROGRAM, Sacctmgr
from slurmfab.on_hosts.agent.client.amounts import tres_of
from slurmfab.on_hosts.agent.core.differences import one_line
from slurmfab.on_hosts.agent.core.language import SYSTEM_PATH
from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State

MADE = "made"
ROOT, NORMAL = "root", "normal"  # account and user, and QOS, that slurmdbd creates by itself

QOS, ACCOUNT, ASSOCIATION, USER, CLUSTER = "qos", "account", "association", "user", "cluster"

PARENT, COORDINATORS, DEFAULT_ACCOUNT, LEVEL = "Parent", "Coordinators", "DefaultAccount", "AdminLevel"

Settings = Tuple[Tuple[str, str], ...]
KeyFields = Tuple[str, str, str, str]
Values = Dict[str, str]


class Place(NamedTuple):
    """An object of slurmdbd that has values."""

    sort: str  # `qos`, `account`, `association` (of a user with an account), `user` or `cluster`
    name: str  # its name; for an association, the account
    user: str = ""

    def description(self) -> str:
        """The name in reports, such as `user ada in physics`."""
        shown = "user %s in %s" % (self.user, self.name) if self.sort == ASSOCIATION else "%s %s" % self[:2]
        return one_line(shown)


def defaults(keys: Tuple[KeyFields, ...]) -> Values:
    """The default of each key."""
    return {key.name: key.default for key in (Key(*fields) for fields in keys)}


def deepest_first(found: ActualTree) -> List[str]:
    """All accounts except root, each before its parent."""

    def depth(name: str) -> int:
        steps = 0
        while name in found.accounts and name != ROOT and steps < len(found.accounts):
            name, steps = found.accounts[name].parent, steps + 1
        return steps

    return sorted((name for name in found.accounts if name != ROOT), key=lambda name: (-depth(name), name))


def differing_values(wanted: Dict[Place, Values], actual: Dict[Place, Values]) -> Dict[Place, Values]:
    """The wanted values that differ from the actual ones."""
    found = {
        place: {key: value for key, value in values.items() if actual[place].get(key, "") != value}
        for place, values in wanted.items()
    }
    return {place: values for place, values in found.items() if values}


NAMES_PER_COMMAND = 200  # highest number of names in one command

DEFAULT_QOS = "DefaultQOS"
OWN_COMMANDS = ("", PARENT, COORDINATORS, DEFAULT_QOS)
"""Keys that are not limits and have commands of their own."""

Command = List[str]


class Commands:
    """The commands that make one difference disappear. `changes`: the wanted values that differ."""

    def __init__(self, wanted: AccountTree, actual: Dict[Place, Values], changes: Dict[Place, Values]) -> None:
        self.cluster = "cluster=" + wanted.cluster
        self.name = wanted.cluster
        self.actual = actual
        self.changes = changes
        self.keys = {QOS: keys_by_name(wanted.qos_keys), "": keys_by_name(wanted.keys)}

    def all(self) -> Iterator[Command]:
        """All commands, in their order."""
        if self.places(CLUSTER):
            yield ["add", "cluster", self.name]
        yield from batches(["add", "qos"], "", [place.name for place in self.new(QOS)])
        yield from self.accounts()
        yield from self.users()
        yield from self.grouped({place: {DEFAULT_QOS: "-1"} for place in self.without_default()})
        for sort in (QOS, ACCOUNT, ASSOCIATION):
            yield from self.grouped({place: self.assignments(place) for place in self.places(sort)})
        defaults = {place: values[DEFAULT_QOS] for place, values in self.changes.items() if values.get(DEFAULT_QOS)}
        yield from self.grouped({place: {DEFAULT_QOS: name} for place, name in defaults.items()})
        yield from self.coordinators()

    def places(self, sort: str) -> List[Place]:
        """The places of one sort where something differs, parents first."""
        return [place for place in self.changes if place.sort == sort]

    def new(self, sort: str) -> List[Place]:
        """The places of one sort that do not exist yet."""
        return [place for place in self.places(sort) if "" in self.changes[place]]

    def accounts(self) -> Iterator[Command]:
        """Create and move accounts, from the root down, so that every parent exists."""
        for place in self.places(ACCOUNT):
            values = self.changes[place]
            texts = ["%s=%s" % (key, values[key]) for key in ("Description", "Organization") if key in values]
            if "" in values:
                yield ["add", "account", place.name, self.cluster, "parent=" + values[PARENT], *texts]
            elif PARENT in values:
                yield [
                    "modify", "account", "where", "name=" + place.name, self.cluster,
                    "set", "parent=" + values[PARENT],
                ]  # fmt: skip

    def users(self) -> Iterator[Command]:
        """Create users, those with the same accounts by one command; then set default accounts and admin levels."""
        missing: Dict[str, List[str]] = {}
        for place in self.new(ASSOCIATION):
            missing.setdefault(place.user, []).append(place.name)
        alike: Dict[Tuple[str, ...], List[str]] = {}
        for user, accounts in missing.items():
            alike.setdefault(tuple(accounts), []).append(user)
        for accounts_of_some, users in alike.items():
            yield from batches(["add", "user"], "", users, "account=" + ",".join(accounts_of_some), self.cluster)
        yield from self.grouped({place: self.changes[place] for place in self.places(USER)})

    def without_default(self) -> List[Place]:
        """The associations whose default QOS changes or is removed."""
        return [
            place
            for place, values in self.changes.items()
            if DEFAULT_QOS in values and self.actual[place].get(DEFAULT_QOS)
        ]

    def assignments(self, place: Place) -> Values:
        """What to set at a place. A limit that is not wanted is cleared; for TRES, each one that has a value."""
        keys = self.keys.get(place.sort, self.keys[""])
        is_new = "" in self.changes[place]
        assignments = {}
        for name, value in self.changes[place].items():
            if name in OWN_COMMANDS or (is_new and place.sort == ACCOUNT and name not in keys):
                continue
            key = keys.get(name)
            if key and key.kind == TRES:
                before = tres_of(self.actual[place].get(name, ""))
                amounts = {**dict.fromkeys(before, key.clear), **tres_of(value)}
                assignments[name] = ",".join("%s=%s" % item for item in sorted(amounts.items()))
            else:
                assignments[name] = value or (key.clear if key else "")
        return assignments

    def grouped(self, assignments: Dict[Place, Values]) -> Iterator[Command]:
        """Commands that set values, one for all of that get the same values."""
        groups: Dict[Tuple[str, str, Tuple[Tuple[str, str], ...]], List[str]] = {}
        for place, values in assignments.items():
            if values:
                account = place.name if place.sort == ASSOCIATION else ""
                group = (place.sort, account, tuple(values.items()))
                groups.setdefault(group, []).append(place.user or place.name)
        for (sort, account, items), names in groups.items():
            entity = USER if sort == ASSOCIATION else sort
            where = [self.cluster] if sort != QOS else []
            where += ["account=" + account] if account else []
            values_set = ["%s=%s" % item for item in items]
            yield from batches(["modify", entity, "where"], "name=", names, *where, "set", *values_set)

    def coordinators(self) -> Iterator[Command]:
        """Remove and add coordinators."""
        for place in self.places(ACCOUNT):
            if COORDINATORS in self.changes[place]:
                wanted = set(self.changes[place][COORDINATORS].split(",")) - {""}
                actual = set(self.actual[place].get(COORDINATORS, "").split(",")) - {""}
                account = "account=" + place.name
                for verb, names in (("delete", actual - wanted), ("add", wanted - actual)):
                    yield from batches([verb, "coordinator"], "names=", sorted(names), account)


def keys_by_name(fields: Iterable[Tuple[str, str, str, str]]) -> Dict[str, Key]:
    """Keys by their names."""
    return {one[0]: Key(*one) for one in fields}


def batches(before: Sequence[str], prefix: str, names: Sequence[str], *after: str) -> Iterator[Command]:
    """The same command for many names, in several; `before`, `prefix` (as `name=`) and `after` are around them."""
    for first in range(0, len(names), NAMES_PER_COMMAND):
        yield [*before, prefix + ",".join(names[first : first + NAMES_PER_COMMAND]), *after]


def removals(wanted: AccountTree, found: ActualTree, places: Sequence[Place]) -> Iterator[Command]:
    """The commands that remove what the cluster file does not name: users, then accounts, then QOS.

    With several clusters in slurmdbd, users and accounts are removed from this cluster only. `found`: what slurmdbd
    has.
    """
    cluster = "cluster=" + wanted.cluster
    ours = [] if found.clusters == (wanted.cluster,) else [cluster]
    yield from batches(["delete", "user", "where"], "name=", [one.name for one in places if one.sort == USER], *ours)
    for place in places:
        if place.sort == ASSOCIATION:
            yield ["delete", "user", "where", "name=" + place.user, "account=" + place.name, cluster]
        if place.sort == ACCOUNT:
            yield ["delete", "account", "where", "name=" + place.name, *ours]
    yield from batches(["delete", "qos"], "", [one.name for one in places if one.sort == QOS])


def difference(wanted: AccountTree, found: ActualTree) -> Tuple[Dict[Place, Values], Dict[Place, Values]]:
    """Compare the wanted tree with slurmdbd's: its values in the wanted places, and the wanted ones that differ."""
    actual = wanted.actual_values(found)
    return actual, differing_values(wanted.by_place(), actual)


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
    """QOS, accounts and users with exactly the file's limits; unnamed ones stay, unknown TRES are skipped."""

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

    def wanted(self, context: Context) -> State:
        """All declared values, as `qos high Priority` and `user ada in physics`; none if a dry run cannot compare."""
        if would_be_started(context):
            context.remark = UNKNOWN
            return {}
        unknown = self.late_tres() - self.known_tres(context)
        return {
            state_key(place, key): value
            for place, values in self.by_place().items()
            for key, value in values.items()
            if not self.tres(key, value) & unknown
        }

    def actual(self, context: Context) -> State:
        """The same values in slurmdbd; empty in a dry run without it, with a remark on texts with line breaks."""
        found = self.read(context)
        if found.odd:
            context.remark = odd_texts.REMARK % "; ".join(found.odd)
        return flatten(self.actual_values(found))

    def known_tres(self, context: Context) -> FrozenSet[str]:
        """The TRES that slurmdbd knows; before it is installed, those that every slurmdbd knows."""
        if not self.late_tres() or is_not_installed_yet(context):
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
            actual, changes = difference(self, self.ask(sacctmgr))
            changes = selected(changes, names)
            if not changes:
                return
            for command in Commands(self, actual, changes).all():
                sacctmgr.run(["-i", *command])

    def by_place(self) -> Dict[Place, Values]:
        """The wanted values of every declared place, parents first; the empty key says that the place exists."""
        places: Dict[Place, Values] = {Place(CLUSTER, self.cluster): {"": MADE}}
        for name, description, settings in self.qos:
            texts = {"Description": description.lower()} if description else {}
            existence = {} if name == NORMAL else {"": MADE}
            places[Place(QOS, name)] = {**existence, **texts, **defaults(self.qos_keys), **dict(settings)}
        for name, parent, description, organization, _, settings in self.accounts:
            texts = {"Description": description.lower(), "Organization": organization.lower()}
            coordinators = ",".join(sorted(self.coordinators(name)))
            existence = {"": MADE, PARENT: parent, COORDINATORS: coordinators} if name != ROOT else {}
            places[Place(ACCOUNT, name)] = {
                **existence,
                **{key: text for key, text in texts.items() if text},
                **defaults(self.keys),
                **dict(settings),
            }
        for name, level, associations in self.users:
            for account, settings in associations:
                places[Place(ASSOCIATION, account, name)] = {"": MADE, **defaults(self.keys), **dict(settings)}
            levels = {LEVEL: level} if level else {}
            places[Place(USER, name)] = {DEFAULT_ACCOUNT: associations[0][0], **levels}
        return places

    def coordinators(self, account: str) -> FrozenSet[str]:
        """An account's own coordinators, without those of the accounts above it."""
        tree = {one[0]: one for one in self.accounts}
        own, above = frozenset(tree[account][4]), frozenset()  # type: FrozenSet[str], FrozenSet[str]
        while tree[account][1] in tree:
            account = tree[account][1]
            above |= frozenset(tree[account][4])
        return own - above

    def late_tres(self) -> FrozenSet[str]:
        """The TRES in these limits that slurmdbd learns from slurmctld, such as `gres/gpu`."""
        settings = [one[-1] for one in self.qos] + [one[-1] for one in self.accounts]
        settings += [settings for one in self.users for _, settings in one[2]]
        named = frozenset(name for some in settings for key, value in some for name in self.tres(key, value))
        return named - frozenset(STATIC_TRES)

    def tres(self, key: str, value: str) -> FrozenSet[str]:
        """The TRES named in a value; none if the key is not a limit of TRES."""
        if "=" not in value:
            return frozenset()
        limits = {one[0] for one in (*self.qos_keys, *self.keys) if one[1] == TRES}
        return frozenset(tres_of(value)) if key in limits else frozenset()

    def actual_values(self, found: ActualTree) -> Dict[Place, Values]:
        """slurmdbd's values in each wanted place; defaults where the place does not exist."""
        return {
            place: {**dict.fromkeys(values, ""), **self.values_at(place, found)}
            for place, values in self.by_place().items()
        }

    def values_at(self, place: Place, found: ActualTree) -> Values:
        """slurmdbd's values in one place."""
        if place.sort == CLUSTER:
            return {"": MADE if place.name in found.clusters else ""}
        if place.sort == QOS:
            shown = found.qos.get(place.name)
            return {**defaults(self.qos_keys), **shown, "": MADE} if shown is not None else defaults(self.qos_keys)
        if place.sort == USER:
            return {DEFAULT_ACCOUNT: found.defaults.get(place.name, ""), LEVEL: found.levels.get(place.name, "None")}
        limits = found.associations.get((place.name, place.user))
        values = {**defaults(self.keys), **limits, "": MADE} if limits is not None else defaults(self.keys)
        account = found.accounts.get(place.name) if place.sort == ACCOUNT else None
        if account is None:
            return values
        return {
            **values,
            PARENT: account.parent,
            "Description": account.description.lower(),
            "Organization": account.organization.lower(),
            COORDINATORS: ",".join(sorted(found.coordinators(place.name))),
        }

    def undeclared(self, found: ActualTree) -> List[Place]:
        """What slurmdbd has, but for its own, and a complete section does not declare: users first, QOS last."""
        declared = self.by_place()
        places: List[Place] = []
        if "accounts" in self.complete:
            users = sorted({user for _, user in found.associations} - {"", ROOT})
            for user in users:
                extra = [Place(ASSOCIATION, account, user) for account in found.accounts_of(user)]
                extra = [place for place in extra if place not in declared]
                places += extra if Place(USER, user) in declared else [Place(USER, user)]
            places += [Place(ACCOUNT, name) for name in deepest_first(found) if Place(ACCOUNT, name) not in declared]
        if "qos" in self.complete:
            places += [Place(QOS, name) for name in found.qos if name != NORMAL and Place(QOS, name) not in declared]
        return places


class RestOfAccounts(AccountTree):
    """The part of an account tree that has to wait until slurmctld runs with its new slurm.conf."""

    kind: ClassVar[str] = "accounts-rest"
    deadline: ClassVar[float] = 1800.0
    prune: bool = False  # whether undeclared users, accounts and QOS are removed

    def wanted(self, context: Context) -> State:
        """Limits of TRES that slurmdbd learns from slurmctld, and, with `prune`, no undeclared names."""
        if would_be_started(context):
            return {}
        late = self.late_tres()
        if late and context.dry_run:
            late -= self.known_tres(context)
        limits = {
            state_key(place, key): value
            for place, values in self.by_place().items()
            for key, value in values.items()
            if self.tres(key, value) & late
        }
        return {**limits, UNDECLARED: ""} if self.prune else limits

    def actual(self, context: Context) -> State:
        """The same values in slurmdbd; undeclared names that may stay add a remark."""
        found = self.read(context)
        shared = shared_qos(found)
        going = [place.description() for place in self.undeclared(found) if place not in shared]
        if not self.prune and going:
            context.remark = LEFT_UNCHANGED % ", ".join(going)
        return {**flatten(self.actual_values(found)), UNDECLARED: ", ".join(going)}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Set limits once slurmdbd knows their TRES, remove undeclared names; ResourceFailed if either fails."""
        with Sacctmgr(context, self.conf) as sacctmgr:
            if differing - {UNDECLARED}:
                wait_for_tres(sacctmgr, self.late_tres())
                self.apply_changes(sacctmgr, differing - {UNDECLARED})
            if UNDECLARED in differing:
                found = self.ask(sacctmgr)
                going = [place for place in self.undeclared(found) if place not in shared_qos(found)]
                for command in removals(self, found, going):
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


class AssociationsGone(Resource):
    """No association of a user in this cluster; the history of jobs is kept."""

    kind: ClassVar[str] = "associations-gone"
    named_by: ClassVar[str] = "user"
    wanted_state: ClassVar[State] = {"accounts": None}
    deadline: ClassVar[float] = 1800.0
    user: str
    cluster: str
    conf: str  # of `Sacctmgr`

    def actual(self, context: Context) -> State:
        """The accounts that the user may use."""
        if is_not_installed_yet(context):
            return {"accounts": None}
        with Sacctmgr(context, self.conf) as sacctmgr:
            where = ("where", "user=" + self.user, "cluster=" + self.cluster)
            rows = sacctmgr.records({"account": NAME_BYTES}, "associations", *where)
            return {"accounts": ",".join(sorted(one_line(row[0]) for row in rows)) or None}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Delete the associations; slurmdbd deletes the user with the last one."""
        with Sacctmgr(context, self.conf) as sacctmgr:
            sacctmgr.run(["-i", "delete", "user", "where", "name=" + self.user, "cluster=" + self.cluster])
