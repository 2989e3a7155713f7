"""The commands of sacctmgr(1) that make the difference, in the order that Slurm wants.

QOS come first, then accounts from the root on, then users; a default QOS is taken away before the list that allows it
changes and given after that, since sacctmgr refuses to leave anybody with a default that he may not use.
"""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, Sequence, Tuple

from slurmfab.agent import account_wishes as wishes
from slurmfab.agent.account_wishes import Place, Values, Wishes
from slurmfab.agent.accounting_reading import Found, Key
from slurmfab.agent.limit_values import TRES, tres_of

AT_ONCE = 200
"""How many names one command gets."""

DEFAULT_QOS = "DefaultQOS"
NOT_LIMITS = ("", wishes.PARENT, wishes.COORDINATORS, DEFAULT_QOS)
"""Keys that have commands of their own."""

Command = List[str]


class Commands:
    """The commands for one difference.

    Args:
        wanted: all that is wanted.
        actual: what slurmdbd has in the same places.
        changes: what is wanted, where it differs.
    """

    def __init__(self, wanted: Wishes, actual: Dict[Place, Values], changes: Dict[Place, Values]) -> None:
        self.cluster = "cluster=" + wanted.cluster
        self.name = wanted.cluster
        self.actual = actual
        self.changes = changes
        self.keys = {wishes.QOS: keys_by_name(wanted.qos_keys), "": keys_by_name(wanted.keys)}

    def all(self) -> Iterator[Command]:
        """All of them, in their order."""
        if self.of(wishes.CLUSTER):
            yield ["add", "cluster", self.name]
        yield from batches(["add", "qos"], "", [place.name for place in self.new(wishes.QOS)])
        yield from self.accounts()
        yield from self.users()
        yield from self.grouped({place: {DEFAULT_QOS: "-1"} for place in self.without_default()})
        for sort in (wishes.QOS, wishes.ACCOUNT, wishes.ASSOCIATION):
            yield from self.grouped({place: self.assignments(place) for place in self.of(sort)})
        defaults = {place: values[DEFAULT_QOS] for place, values in self.changes.items() if values.get(DEFAULT_QOS)}
        yield from self.grouped({place: {DEFAULT_QOS: name} for place, name in defaults.items()})
        yield from self.coordinators()

    def of(self, sort: str) -> List[Place]:
        """The places of a sort where something differs, parents first."""
        return [place for place in self.changes if place.sort == sort]

    def new(self, sort: str) -> List[Place]:
        """Those of them that are not there yet."""
        return [place for place in self.of(sort) if "" in self.changes[place]]

    def accounts(self) -> Iterator[Command]:
        """Accounts made or moved, from the root on, so that no account's parent is missing."""
        for place in self.of(wishes.ACCOUNT):
            values = self.changes[place]
            texts = ["%s=%s" % (key, values[key]) for key in ("Description", "Organization") if key in values]
            if "" in values:
                yield ["add", "account", place.name, self.cluster, "parent=" + values[wishes.PARENT], *texts]
            elif wishes.PARENT in values:
                yield [
                    "modify", "account", "where", "name=" + place.name, self.cluster,
                    "set", "parent=" + values[wishes.PARENT],
                ]  # fmt: skip

    def users(self) -> Iterator[Command]:
        """Users made, those with the same accounts at once; then their default accounts and levels."""
        missing: Dict[str, List[str]] = {}
        for place in self.new(wishes.ASSOCIATION):
            missing.setdefault(place.user, []).append(place.name)
        alike: Dict[Tuple[str, ...], List[str]] = {}
        for user, accounts in missing.items():
            alike.setdefault(tuple(accounts), []).append(user)
        for accounts_of_some, users in alike.items():
            yield from batches(["add", "user"], "", users, "account=" + ",".join(accounts_of_some), self.cluster)
        yield from self.grouped({place: self.changes[place] for place in self.of(wishes.USER)})

    def without_default(self) -> List[Place]:
        """The associations that lose a default QOS, for another or for none."""
        return [
            place
            for place, values in self.changes.items()
            if DEFAULT_QOS in values and self.actual[place].get(DEFAULT_QOS)
        ]

    def assignments(self, place: Place) -> Values:
        """What to set of a place's limits; what is to have none is cleared, of TRES each that has one."""
        keys = self.keys.get(place.sort, self.keys[""])
        is_new = "" in self.changes[place]
        assignments = {}
        for name, value in self.changes[place].items():
            if name in NOT_LIMITS or (is_new and place.sort == wishes.ACCOUNT and name not in keys):
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
        """Commands that set values, one for all places that get the same."""
        groups: Dict[Tuple[str, str, Tuple[Tuple[str, str], ...]], List[str]] = {}
        for place, values in assignments.items():
            if values:
                account = place.name if place.sort == wishes.ASSOCIATION else ""
                group = (place.sort, account, tuple(values.items()))
                groups.setdefault(group, []).append(place.user or place.name)
        for (sort, account, items), names in groups.items():
            entity = wishes.USER if sort == wishes.ASSOCIATION else sort
            where = [self.cluster] if sort != wishes.QOS else []
            where += ["account=" + account] if account else []
            values_set = ["%s=%s" % item for item in items]
            yield from batches(["modify", entity, "where"], "name=", names, *where, "set", *values_set)

    def coordinators(self) -> Iterator[Command]:
        """Coordinators taken away and appointed."""
        for place in self.of(wishes.ACCOUNT):
            if wishes.COORDINATORS in self.changes[place]:
                wanted = set(self.changes[place][wishes.COORDINATORS].split(",")) - {""}
                actual = set(self.actual[place].get(wishes.COORDINATORS, "").split(",")) - {""}
                account = "account=" + place.name
                for verb, names in (("delete", actual - wanted), ("add", wanted - actual)):
                    yield from batches([verb, "coordinator"], "names=", sorted(names), account)


def keys_by_name(fields: Iterable[Tuple[str, str, str, str]]) -> Dict[str, Key]:
    """Keys by their names."""
    return {one[0]: Key(*one) for one in fields}


def batches(before: Sequence[str], prefix: str, names: Sequence[str], *after: str) -> Iterator[Command]:
    """A command for many names, as several with some each; none for no names."""
    for first in range(0, len(names), AT_ONCE):
        yield [*before, prefix + ",".join(names[first : first + AT_ONCE]), *after]


def removals(wanted: Wishes, found: Found, places: Sequence[Place]) -> Iterator[Command]:
    """The commands that remove what the cluster file does not name, users first, then accounts, then QOS.

    Whoever belongs to another cluster as well stays there; where there is no other, not even the name is left.
    """
    cluster = "cluster=" + wanted.cluster
    ours = [] if found.clusters == (wanted.cluster,) else [cluster]
    yield from batches(
        ["delete", "user", "where"], "name=", [one.name for one in places if one.sort == wishes.USER], *ours
    )
    for place in places:
        if place.sort == wishes.ASSOCIATION:
            yield ["delete", "user", "where", "name=" + place.user, "account=" + place.name, cluster]
        if place.sort == wishes.ACCOUNT:
            yield ["delete", "account", "where", "name=" + place.name, *ours]
    yield from batches(["delete", "qos"], "", [one.name for one in places if one.sort == wishes.QOS])


def difference(wanted: Wishes, found: Found) -> Tuple[Dict[Place, Values], Dict[Place, Values]]:
    """What slurmdbd has in the places that are wanted, and what is wanted, where that differs."""
    actual = wanted.as_found(found)
    return actual, wishes.differing(wanted.by_place(), actual)
