"""QOS, accounts, users and limits of one cluster, as slurmdbd has them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Sequence, Tuple

from slurmfab.on_hosts.agent.accounting import odd_texts
from slurmfab.on_hosts.agent.accounting.limit_values import normal
from slurmfab.on_hosts.agent.accounting.sacctmgr import NAME_BYTES, Sacctmgr, is_cut_off
from slurmfab.on_hosts.agent.core.differences import one_line
from slurmfab.on_hosts.agent.core.record import Record
from slurmfab.on_hosts.agent.core.resource import Context

PLACES = {"id": 20, **dict.fromkeys(("account", "user", "partition", "parentname"), NAME_BYTES)}
ACCOUNTS = {"account": NAME_BYTES, "coordinators": 2 * NAME_BYTES, "organization": NAME_BYTES, "description": 512}
USERS = {"user": NAME_BYTES, "adminlevel": 20}
"""What is asked about associations, accounts and users whose names and texts coordinators choose, with their bytes."""

MOST_ALONE = 50  # the number of long texts that are asked for one by one; further ones are cut off

NO_TEXTS: Tuple[str, str, FrozenSet[str]] = ("", "", frozenset())


class Key(NamedTuple):
    """A key of sacctmgr(1) that slurmfab compares."""

    name: str  # as in `set` and in `format=`
    kind: str  # of its values, one of the kinds in `limit_values`
    default: str  # its value, in normal form, where none was set
    clear: str  # the text that sets it back to the default; for TRES, the amount of each one


class ActualAccount(NamedTuple):
    """An account: parent, texts, and coordinators, including those of its parents."""

    parent: str
    description: str
    organization: str
    coordinators: FrozenSet[str]


class ActualTree(Record):
    """Everything that slurmdbd has for one cluster."""

    clusters: Tuple[str, ...]  # all registered clusters
    qos: Dict[str, Dict[str, str]]  # by name, then values by key
    accounts: Dict[str, ActualAccount]  # the cluster's accounts, by name
    # By account and user (empty user: the account itself), then values by key.
    associations: Dict[Tuple[str, str], Dict[str, str]]
    defaults: Dict[str, str]  # default account by user
    levels: Dict[str, str]  # AdminLevel by user
    # Users' associations with single partitions, as account, user and partition.
    partitioned: Tuple[Tuple[str, str, str], ...]
    odd: Tuple[str, ...] = ()  # names and texts with line breaks and the like, in words, with who set them

    def coordinators(self, account: str) -> FrozenSet[str]:
        """An account's own coordinators: sacctmgr prints those of its parents too."""
        found = self.accounts.get(account)
        if found is None:
            return frozenset()
        above = self.accounts.get(found.parent)
        return found.coordinators - (above.coordinators if above else frozenset())

    def accounts_of(self, user: str) -> Tuple[str, ...]:
        """The accounts with which a user has an association."""
        return tuple(account for account, name in self.associations if name == user)


def tres(sacctmgr: Sacctmgr) -> FrozenSet[str]:
    """The TRES that slurmdbd knows, such as `cpu` and `gres/gpu`. Raises ResourceFailed if slurmdbd does not answer."""
    shown = sacctmgr.rows(("type", "name"), "tres")
    return frozenset("/".join(filter(None, row)).lower() for row in shown)


def read_all(sacctmgr: Sacctmgr, cluster: str, qos_keys: Sequence[Key], keys: Sequence[Key]) -> ActualTree:
    """Read everything of one cluster from slurmdbd, changing nothing; ResourceFailed if it does not answer."""
    ours = ("assoc", "woplimits", "where", "cluster=" + cluster)
    defaults = ("assoc", "woplimits", "onlydefaults", "where", "cluster=" + cluster)
    with ThreadPoolExecutor(7) as pool:  # each query mostly waits for slurmdbd
        places = pool.submit(sacctmgr.records, PLACES, *ours)
        limits = pool.submit(sacctmgr.rows, ("id", *(key.name for key in keys)), *ours)
        first = pool.submit(sacctmgr.rows, ("id",), *defaults)
        qos = pool.submit(sacctmgr.rows, ("name", *(key.name for key in qos_keys)), "qos")
        texts = pool.submit(whole_texts, sacctmgr)
        clusters = pool.submit(sacctmgr.rows, ("cluster",), "cluster")
        users = pool.submit(sacctmgr.records, USERS, "user")
    shown = {row[0]: row[1:] for row in places.result()}
    known = {row[0]: values(keys, row[1:]) for row in limits.result()}
    about = {row[0]: (row[3], row[2], frozenset(filter(None, row[1].split(",")))) for row in texts.result()}
    return ActualTree(
        clusters=tuple(row[0] for row in clusters.result()),
        qos={row[0]: values(qos_keys, row[1:]) for row in qos.result()},
        accounts={row[0]: ActualAccount(row[3], *about.get(row[0], NO_TEXTS)) for row in shown.values() if not row[1]},
        associations={(row[0], row[1]): known.get(one, {}) for one, row in shown.items() if not row[2]},
        defaults={shown[one][1]: shown[one][0] for (one,) in first.result() if one in shown},
        levels={row[0]: row[1] for row in users.result()},
        partitioned=tuple((row[0], row[1], row[2]) for row in shown.values() if row[2]),
        odd=odd_texts.described(sacctmgr, shown, about),
    )


def whole_texts(sacctmgr: Sacctmgr) -> List[List[str]]:
    """The rows of `ACCOUNTS`, with long texts in full: each of these is asked for alone, so it is the whole answer."""
    rows, alone = sacctmgr.records(ACCOUNTS, "account", "withcoord"), 0
    for row in rows:
        for number, (field, width) in list(enumerate(ACCOUNTS.items()))[1:]:
            if is_cut_off(row[number], width) and alone < MOST_ALONE:
                alone += 1
                asked = ["-nP", "show", "account", "withcoord", "where", "name=" + row[0], "format=" + field]
                row[number] = sacctmgr.run(asked)[:-1]
    return rows


def values(keys: Sequence[Key], row: Sequence[str]) -> Dict[str, str]:
    """A row's values by key, in normal form; a value that cannot be parsed is kept as printed."""
    found = {}
    for key, value in zip(keys, row):  # noqa: B905 - Python 3.9
        try:
            found[key.name] = normal(key.kind, value) or key.default
        except ValueError:
            found[key.name] = value
    return found


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Everything as JSON values, for `fab accounts-export`.

    Args:
        request: `cluster`, `conf` (of `Sacctmgr`), and `qos_keys` and `keys`, each a list of the four fields of `Key`.

    Returns:
        `clusters`, `qos`, `defaults` and `levels` as in `ActualTree`; `accounts`: lists of name, parent, description,
        organization and coordinators; `associations`: lists of account, user and values; `partitioned`: lists. Line
        breaks in names are written out.

    Raises:
        ResourceFailed: slurmdbd does not answer.
    """
    qos_keys, keys = ([Key(*fields) for fields in request[name]] for name in ("qos_keys", "keys"))
    with Sacctmgr(context, request["conf"]) as sacctmgr:
        found = read_all(sacctmgr, request["cluster"], qos_keys, keys)
    return {
        "clusters": list(found.clusters),
        "qos": found.qos,
        "accounts": [
            [*map(one_line, (name, one.parent)), one.description, one.organization,
             sorted(map(one_line, found.coordinators(name)))]
            for name, one in found.accounts.items()
        ],
        "associations": [[*map(one_line, place), shown] for place, shown in found.associations.items()],
        "defaults": {one_line(user): one_line(account) for user, account in found.defaults.items()},
        "levels": {one_line(user): level for user, level in found.levels.items()},
        "partitioned": [list(map(one_line, one)) for one in found.partitioned],
    }  # fmt: skip
