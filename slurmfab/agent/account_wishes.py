"""What slurmdbd should know of a cluster and what it knows, in one form, so that both can be compared."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, NamedTuple, Tuple

from slurmfab.agent.accounting_reading import Found, Key
from slurmfab.agent.limit_values import STATIC_TRES, TRES, tres_of

MADE = "made"
ROOT, NORMAL = "root", "normal"
"""The account and user, and the QOS, that slurmdbd makes itself."""

QOS, ACCOUNT, ASSOCIATION, USER, CLUSTER = "qos", "account", "association", "user", "cluster"

PARENT, COORDINATORS, DEFAULT_ACCOUNT, LEVEL = "Parent", "Coordinators", "DefaultAccount", "AdminLevel"

Settings = Tuple[Tuple[str, str], ...]
KeyFields = Tuple[str, str, str, str]
Values = Dict[str, str]


class Place(NamedTuple):
    """Something that slurmdbd knows.

    Args:
        sort: `qos`, `account`, `association` (of a user with an account), `user` or `cluster`.
        name: its name; of an association, the account's.
        user: of an association, the user.
    """

    sort: str
    name: str
    user: str = ""

    def words(self) -> str:
        """As reports call it."""
        return "user %s in %s" % (self.user, self.name) if self.sort == ASSOCIATION else "%s %s" % self[:2]


class Wishes(NamedTuple):
    """What is wanted; see `account_tree.AccountTree` for the fields."""

    cluster: str
    qos_keys: Tuple[KeyFields, ...]
    keys: Tuple[KeyFields, ...]
    qos: Tuple[Tuple[str, str, Settings], ...]
    accounts: Tuple[Tuple[str, str, str, str, Tuple[str, ...], Settings], ...]
    users: Tuple[Tuple[str, str, Tuple[Tuple[str, Settings], ...]], ...]
    complete: Tuple[str, ...]

    def by_place(self) -> Dict[Place, Values]:
        """Everything that is declared, parents first, with what it is to be; the key of its existence is empty."""
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
        """An account's own coordinators, without those that it has from the accounts above it."""
        tree = {one[0]: one for one in self.accounts}
        own, above = frozenset(tree[account][4]), frozenset()  # type: FrozenSet[str], FrozenSet[str]
        while tree[account][1] in tree:
            account = tree[account][1]
            above |= frozenset(tree[account][4])
        return own - above

    def late_tres(self) -> FrozenSet[str]:
        """The TRES in these limits that slurmdbd hears of from slurmctld alone, such as `gres/gpu`."""
        settings = [one[-1] for one in self.qos] + [one[-1] for one in self.accounts]
        settings += [settings for one in self.users for _, settings in one[2]]
        named = frozenset(name for some in settings for key, value in some for name in self.tres(key, value))
        return named - frozenset(STATIC_TRES)

    def tres(self, key: str, value: str) -> FrozenSet[str]:
        """The TRES that a value names; none if it is no limit of TRES."""
        if "=" not in value:
            return frozenset()
        limits = {one[0] for one in (*self.qos_keys, *self.keys) if one[1] == TRES}
        return frozenset(tres_of(value)) if key in limits else frozenset()

    def as_found(self, found: Found) -> Dict[Place, Values]:
        """What slurmdbd has in each of these places; only a default where it has nothing."""
        return {
            place: {**dict.fromkeys(values, ""), **self.found(place, found)}
            for place, values in self.by_place().items()
        }

    def found(self, place: Place, found: Found) -> Values:
        """What it has in one place."""
        if place.sort == CLUSTER:
            return {"": MADE if place.name in found.clusters else ""}
        if place.sort == QOS:
            shown = found.qos.get(place.name)
            return {**defaults(self.qos_keys), **shown, "": MADE} if shown is not None else defaults(self.qos_keys)
        if place.sort == USER:
            return {
                DEFAULT_ACCOUNT: found.defaults.get(place.name, ""),
                LEVEL: found.levels.get(place.name, "None"),
            }
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

    def besides(self, found: Found) -> List[Place]:
        """What slurmdbd has and the cluster file does not name, as far as the file tells all: users first, QOS last.

        Never what slurmdbd has made itself. A user without any declared association is one place.
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
    """The value of each key where nobody has said any."""
    return {key.name: key.default for key in (Key(*fields) for fields in keys)}


def deepest_first(found: Found) -> List[str]:
    """The accounts but root, each before the one above it."""

    def depth(name: str) -> int:
        steps = 0
        while name in found.accounts and name != ROOT and steps < len(found.accounts):
            name, steps = found.accounts[name].parent, steps + 1
        return steps

    return sorted((name for name in found.accounts if name != ROOT), key=lambda name: (-depth(name), name))


def differing(wanted: Dict[Place, Values], actual: Dict[Place, Values]) -> Dict[Place, Values]:
    """What is wanted, where it differs from what is there."""
    found = {
        place: {key: value for key, value in values.items() if actual[place].get(key, "") != value}
        for place, values in wanted.items()
    }
    return {place: values for place, values in found.items() if values}
