"""The sacctmgr(1) commands that change slurmdbd to the wanted accounts, users and QOS, in a valid order.

QOS come first, then accounts from the root down, then users. A default QOS is removed before the list of allowed QOS
changes and set afterwards, since sacctmgr refuses to leave a user with a default QOS that is not allowed.
"""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, Sequence, Tuple

from slurmfab.on_hosts.agent.accounting import wanted_tree as tree
from slurmfab.on_hosts.agent.accounting.limit_values import TRES, tres_of
from slurmfab.on_hosts.agent.accounting.reading import ActualTree, Key
from slurmfab.on_hosts.agent.accounting.wanted_tree import Place, Values, WantedTree

NAMES_PER_COMMAND = 200  # highest number of names in one command

DEFAULT_QOS = "DefaultQOS"
OWN_COMMANDS = ("", tree.PARENT, tree.COORDINATORS, DEFAULT_QOS)
"""Keys that are not limits and have commands of their own."""

Command = List[str]


class Commands:
    """The commands that make one difference disappear. `changes`: the wanted values that differ."""

    def __init__(self, wanted: WantedTree, actual: Dict[Place, Values], changes: Dict[Place, Values]) -> None:
        self.cluster = "cluster=" + wanted.cluster
        self.name = wanted.cluster
        self.actual = actual
        self.changes = changes
        self.keys = {tree.QOS: keys_by_name(wanted.qos_keys), "": keys_by_name(wanted.keys)}

    def all(self) -> Iterator[Command]:
        """All commands, in their order."""
        if self.places(tree.CLUSTER):
            yield ["add", "cluster", self.name]
        yield from batches(["add", "qos"], "", [place.name for place in self.new(tree.QOS)])
        yield from self.accounts()
        yield from self.users()
        yield from self.grouped({place: {DEFAULT_QOS: "-1"} for place in self.without_default()})
        for sort in (tree.QOS, tree.ACCOUNT, tree.ASSOCIATION):
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
        for place in self.places(tree.ACCOUNT):
            values = self.changes[place]
            texts = ["%s=%s" % (key, values[key]) for key in ("Description", "Organization") if key in values]
            if "" in values:
                yield ["add", "account", place.name, self.cluster, "parent=" + values[tree.PARENT], *texts]
            elif tree.PARENT in values:
                yield [
                    "modify", "account", "where", "name=" + place.name, self.cluster,
                    "set", "parent=" + values[tree.PARENT],
                ]  # fmt: skip

    def users(self) -> Iterator[Command]:
        """Create users, those with the same accounts by one command; then set default accounts and admin levels."""
        missing: Dict[str, List[str]] = {}
        for place in self.new(tree.ASSOCIATION):
            missing.setdefault(place.user, []).append(place.name)
        alike: Dict[Tuple[str, ...], List[str]] = {}
        for user, accounts in missing.items():
            alike.setdefault(tuple(accounts), []).append(user)
        for accounts_of_some, users in alike.items():
            yield from batches(["add", "user"], "", users, "account=" + ",".join(accounts_of_some), self.cluster)
        yield from self.grouped({place: self.changes[place] for place in self.places(tree.USER)})

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
            if name in OWN_COMMANDS or (is_new and place.sort == tree.ACCOUNT and name not in keys):
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
                account = place.name if place.sort == tree.ASSOCIATION else ""
                group = (place.sort, account, tuple(values.items()))
                groups.setdefault(group, []).append(place.user or place.name)
        for (sort, account, items), names in groups.items():
            entity = tree.USER if sort == tree.ASSOCIATION else sort
            where = [self.cluster] if sort != tree.QOS else []
            where += ["account=" + account] if account else []
            values_set = ["%s=%s" % item for item in items]
            yield from batches(["modify", entity, "where"], "name=", names, *where, "set", *values_set)

    def coordinators(self) -> Iterator[Command]:
        """Remove and add coordinators."""
        for place in self.places(tree.ACCOUNT):
            if tree.COORDINATORS in self.changes[place]:
                wanted = set(self.changes[place][tree.COORDINATORS].split(",")) - {""}
                actual = set(self.actual[place].get(tree.COORDINATORS, "").split(",")) - {""}
                account = "account=" + place.name
                for verb, names in (("delete", actual - wanted), ("add", wanted - actual)):
                    yield from batches([verb, "coordinator"], "names=", sorted(names), account)


def keys_by_name(fields: Iterable[Tuple[str, str, str, str]]) -> Dict[str, Key]:
    """Keys by their names."""
    return {one[0]: Key(*one) for one in fields}


def batches(before: Sequence[str], prefix: str, names: Sequence[str], *after: str) -> Iterator[Command]:
    """The same command for many names, split into several commands; none for no names.

    `before`: the arguments before the names. `prefix`: directly before the names, such as `name=`. `after`: the
    arguments after the names.
    """
    for first in range(0, len(names), NAMES_PER_COMMAND):
        yield [*before, prefix + ",".join(names[first : first + NAMES_PER_COMMAND]), *after]


def removals(wanted: WantedTree, found: ActualTree, places: Sequence[Place]) -> Iterator[Command]:
    """The commands that remove what the cluster file does not name: users, then accounts, then QOS.

    With several clusters in slurmdbd, users and accounts are removed from this cluster only. `found`: what slurmdbd
    has.
    """
    cluster = "cluster=" + wanted.cluster
    ours = [] if found.clusters == (wanted.cluster,) else [cluster]
    yield from batches(
        ["delete", "user", "where"], "name=", [one.name for one in places if one.sort == tree.USER], *ours
    )
    for place in places:
        if place.sort == tree.ASSOCIATION:
            yield ["delete", "user", "where", "name=" + place.user, "account=" + place.name, cluster]
        if place.sort == tree.ACCOUNT:
            yield ["delete", "account", "where", "name=" + place.name, *ours]
    yield from batches(["delete", "qos"], "", [one.name for one in places if one.sort == tree.QOS])


def difference(wanted: WantedTree, found: ActualTree) -> Tuple[Dict[Place, Values], Dict[Place, Values]]:
    """Compare the wanted tree with slurmdbd's: its values in the wanted places, and the wanted ones that differ."""
    actual = wanted.actual_values(found)
    return actual, tree.differing(wanted.by_place(), actual)
