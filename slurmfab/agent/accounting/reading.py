"""QOS, accounts, users and limits of one cluster, as slurmdbd has them."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Mapping, NamedTuple, Sequence, Set, Tuple

from slurmfab.agent.accounting.limit_values import normal
from slurmfab.agent.accounting.sacctmgr import BROKEN_TEXT, SHOWN_CHARACTERS, Sacctmgr
from slurmfab.agent.core.record import Record
from slurmfab.agent.core.resource import Context, ResourceFailed

NO_TEXTS: Tuple[str, str, FrozenSet[str]] = ("", "", frozenset())


class Key(NamedTuple):
    """A key of sacctmgr(1) that slurmfab compares.

    Args:
        name: as in `set` and in `format=`.
        kind: of its values, one of the kinds in `limit_values`.
        default: its value, in normal form, where none was set.
        clear: the text that sets it back to the default; for TRES, the amount of each one.
    """

    name: str
    kind: str
    default: str
    clear: str


class ActualAccount(NamedTuple):
    """An account: parent, texts, and coordinators, including those of its parents."""

    parent: str
    description: str
    organization: str
    coordinators: FrozenSet[str]


class ActualTree(Record):
    """Everything that slurmdbd has for one cluster.

    Args:
        clusters: all registered clusters.
        qos: by name, then values by key.
        accounts: the cluster's accounts, by name.
        associations: by account and user (empty user: the account itself), then values by key.
        defaults: default account by user.
        levels: AdminLevel by user.
        partitioned: users' associations with single partitions, as account, user and partition.
    """

    clusters: Tuple[str, ...]
    qos: Dict[str, Dict[str, str]]
    accounts: Dict[str, ActualAccount]
    associations: Dict[Tuple[str, str], Dict[str, str]]
    defaults: Dict[str, str]
    levels: Dict[str, str]
    partitioned: Tuple[Tuple[str, str, str], ...]

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
    """The TRES that slurmdbd knows, such as `cpu` and `gres/gpu`.

    Raises:
        ResourceFailed: slurmdbd does not answer.
    """
    shown = sacctmgr.rows(("type", "name"), "tres")
    return frozenset("/".join(filter(None, row)).lower() for row in shown)


def read_all(sacctmgr: Sacctmgr, cluster: str, qos_keys: Sequence[Key], keys: Sequence[Key]) -> ActualTree:
    """Read everything of one cluster from slurmdbd; nothing is changed.

    Args:
        sacctmgr: runs the queries.
        cluster: the ClusterName.
        qos_keys: the keys of QOS to read.
        keys: the keys of associations to read.

    Raises:
        ResourceFailed: slurmdbd does not answer.
    """
    ours = ("where", "cluster=" + cluster)
    shown, defaults, qos, accounts, clusters, users = sacctmgr.tables(
        (("account", "user", "partition", "parentname", *(key.name for key in keys)), ("assoc", "woplimits", *ours)),
        (("account", "user"), ("assoc", "woplimits", "onlydefaults", *ours)),
        (("name", *(key.name for key in qos_keys)), ("qos",)),
        (("account", "coordinators", "organization", "description"), ("account", "withcoord")),
        (("cluster",), ("cluster",)),
        (("user", "adminlevel"), ("user",)),
    )
    refuse_forged(accounts)
    texts = {row[0]: (row[3], row[2], frozenset(filter(None, row[1].split(",")))) for row in accounts}
    return ActualTree(
        clusters=tuple(row[0] for row in clusters),
        qos={row[0]: values(qos_keys, row[1:]) for row in qos},
        accounts={row[0]: ActualAccount(row[3], *texts.get(row[0], NO_TEXTS)) for row in shown if not row[1]},
        associations={(row[0], row[1]): values(keys, row[4:]) for row in shown if not row[2]},
        defaults={row[1]: row[0] for row in defaults},
        levels={row[0]: row[1] for row in users},
        partitioned=tuple((row[0], row[1], row[2]) for row in shown if row[2]),
    )


def refuse_forged(accounts: Sequence[Sequence[str]]) -> None:
    """Refuse rows of accounts of which one is the rest of a description with a line break.

    Raises:
        ResourceFailed: an account has two rows.
    """
    seen: Set[str] = set()
    for row in accounts:
        if row[0] in seen:
            raise ResourceFailed(BROKEN_TEXT % ascii("|".join(row)[:SHOWN_CHARACTERS]))
        seen.add(row[0])


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
        context: runs the program.

    Returns:
        `clusters`, `qos`, `defaults` and `levels` as in `ActualTree`; `accounts`: lists of name, parent, description,
        organization and coordinators; `associations`: lists of account, user and values; `partitioned`: lists.

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
            [name, one.parent, one.description, one.organization, sorted(found.coordinators(name))]
            for name, one in found.accounts.items()
        ],
        "associations": [[*place, shown] for place, shown in found.associations.items()],
        "defaults": found.defaults,
        "levels": found.levels,
        "partitioned": [list(one) for one in found.partitioned],
    }
