"""The wanted QOS, accounts and users of a cluster, and slurmdbd's, in one comparable form."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, NamedTuple, Tuple

from slurmfab.on_hosts.agent.accounting.limit_values import STATIC_TRES, TRES, tres_of
from slurmfab.on_hosts.agent.accounting.reading import ActualTree, Key
from slurmfab.on_hosts.agent.accounting.sacctmgr import one_line

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


class WantedTree(NamedTuple):
    """The wanted accounts, users and QOS; see `accounting.tree.AccountTree` for the fields."""

    cluster: str
    qos_keys: Tuple[KeyFields, ...]
    keys: Tuple[KeyFields, ...]
    qos: Tuple[Tuple[str, str, Settings], ...]
    accounts: Tuple[Tuple[str, str, str, str, Tuple[str, ...], Settings], ...]
    users: Tuple[Tuple[str, str, Tuple[Tuple[str, Settings], ...]], ...]
    complete: Tuple[str, ...]

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
        """What slurmdbd has and a complete section of the cluster file does not declare: users first, QOS last.

        What slurmdbd creates by itself is never included. A user without any declared association is one place.
        """
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


def differing(wanted: Dict[Place, Values], actual: Dict[Place, Values]) -> Dict[Place, Values]:
    """The wanted values that differ from the actual ones."""
    found = {
        place: {key: value for key, value in values.items() if actual[place].get(key, "") != value}
        for place, values in wanted.items()
    }
    return {place: values for place, values in found.items() if values}
