"""Rules about the database, and between qualities of service, accounts, users and partitions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import HIGHEST_PORT
from slurmfab.base.ip_addresses import is_link_local
from slurmfab.cluster.inventory.accounting import ROOT
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.reading import MOST_COMPLAINTS
from slurmfab.cluster.inventory.slurm_settings import Complaints, Place, setting
from slurmfab.cluster.inventory.values import is_address
from slurmfab.cluster.slurm import limits
from slurmfab.cluster.slurm.limits import NORMAL, Limit

_SLURMDBD = "accounting_storage/slurmdbd"
_PARTITION_KEYS = ("qos", "allowaccounts", "allowqos", "denyaccounts", "denyqos")


def external_is_whole(cluster: Cluster) -> Complaints:
    """An external database needs an address and one password; slurmfab's own needs neither."""
    database = cluster.database
    if database is None:
        return
    given = database.model_fields_set
    if database.external is None:
        for key in sorted({"password_file", "keep_password"} & given):
            reason = "it is only for an external database; the password of slurmfab's own database stays on its host"
            yield ("database", key), reason
        return
    if not database.settings:
        yield ("database", "settings"), "slurmfab never writes the settings of an external database; remove this key"
    if database.keep_password and database.password_file:
        yield ("database", "keep_password"), "the password comes from password_file; remove one of the two"
    if not database.keep_password and database.password_file is None:
        yield (
            ("database",),
            (
                "an external database needs the key password_file: a file here, mode 0600, with the password of "
                f'the database user "{database.user}"; or keep_password: true, if slurmdbd.conf on '
                f"{database.host} has it already"
            ),
        )
    address, port = database.server
    if is_link_local(address):
        yield ("database", "external"), f'"{database.external}" is an IPv6 address of one link; write another one'
    elif not is_address(address) or not 0 < port <= HIGHEST_PORT:
        reason = (
            f'"{database.external}" is not address:port; write it as db.example.org, 10.0.0.9:3307 or [fd00::9]:3306'
        )
        yield ("database", "external"), reason


def slurmdbd_conf_has_a_slurmdbd(cluster: Cluster) -> Complaints:
    """Only the host of slurmdbd has a slurmdbd.conf."""
    if cluster.slurmdbd_conf and cluster.database is None:
        yield ("slurmdbd_conf",), "it needs an accounting database; set its host: database: HOST"


def database_is_where_no_jobs_run(cluster: Cluster) -> Complaints:
    """Jobs would take the database's memory; on a controller that is also a compute node it is allowed."""
    if cluster.database and cluster.roles(cluster.database.host) in (("database", "compute"), ("database", "login")):
        kind = "a compute node, where jobs run" if cluster.database.host in cluster.compute_nodes else "a login host"
        yield (
            ("database", "host"),
            f'"{cluster.database.host}" is {kind}; the database belongs on a controller, or on a host of its own',
        )


def partitions_need_a_database(cluster: Cluster) -> Complaints:
    """Without slurmdbd there are no QOS and accounts, and slurmctld does not start if a partition names one."""
    if cluster.database or setting(cluster.slurm_conf, "AccountingStorageType").lower() == _SLURMDBD:
        return
    for number, partition in enumerate(cluster.partitions):
        for key in partition.settings:
            if key.lower() in _PARTITION_KEYS:
                yield (
                    ("partitions", number, "settings", key),
                    "it needs an accounting database; set its host: database: HOST",
                )


_WRITE_INSTEAD = {
    "description": "write it in lower case: description",
    "organization": "write it in lower case: organization",
    "parent": "write it in lower case: parent",
    "defaultaccount": "the first of accounts is the default",
    "grpcpus": "write GrpTRES: cpu=…",
    "grpmem": "write GrpTRES: mem=…",
    "grpnodes": "write GrpTRES: node=…",
    "grpcpumins": "write GrpTRESMins: cpu=…",
    "grpcpurunmins": "write GrpTRESRunMins: cpu=…",
    "maxcpus": "write MaxTRESPerJob: cpu=…",
    "maxnodes": "write MaxTRESPerJob: node=…",
    "maxcpumins": "write MaxTRESMinsPerJob: cpu=…",
    "maxcpusperuser": "write MaxTRESPerUser: cpu=…",
    "maxnodesperuser": "write MaxTRESPerUser: node=…",
}

_NOT_OF_ROOT = frozenset({"parent", "description", "organization", "coordinators"})
_OF_ACCOUNTS = ("allowaccounts", "denyaccounts")
_OF_QOS = ("allowqos", "denyqos", "qos")


def the_tree_needs_a_database(cluster: Cluster) -> Complaints:
    """QOS and accounts are stored by slurmdbd only."""
    if cluster.database is None:
        for key, entries in (("qos", cluster.qos), ("accounts", cluster.accounts)):
            if entries:
                yield (key,), "slurmdbd stores these, and the cluster has none; set its host: database: HOST"


def names_differ(cluster: Cluster) -> Complaints:
    """Names of accounts and of QOS are unique."""
    sections = {"qos": [one.name for one in cluster.qos], "accounts": [one.name for one in cluster.accounts]}
    for key, names in sections.items():
        first: dict[str, int] = {}
        for number, name in enumerate(names):
            if first.setdefault(name, number) != number:
                yield (key, number, "name"), f'"{name}" is already the name of {key}[{first[name]}]'


def parents_are_accounts(cluster: Cluster) -> Complaints:
    """The accounts are a tree below root."""
    parents = {account.name: account.parent for account in cluster.accounts}
    loops = _loops({name: () if name == ROOT else (parent,) for name, parent in parents.items()})
    for number, account in enumerate(cluster.accounts):
        place: Place = ("accounts", number, "parent")
        if account.name == ROOT:
            for key in _NOT_OF_ROOT & account.model_fields_set:
                yield ("accounts", number, key), "slurmdbd makes root itself; only its limits can be set"
            continue
        if account.parent not in (ROOT, *parents):
            yield place, _unknown("account", account.parent, parents)
        elif account.name in loops:
            yield place, f"the accounts form a loop: {' below '.join(loops[account.name])}"


def users_have_known_accounts(cluster: Cluster) -> Complaints:
    """Users have accounts of the tree, and limits of associations are for accounts that the user has."""
    known = {ROOT, *(account.name for account in cluster.accounts)}
    for number, user in enumerate(cluster.users):
        for name in dict.fromkeys(user.accounts):
            if name not in known:
                yield ("users", number, "accounts"), _unknown("account", name, known)
        for name in user.associations:
            if name not in user.accounts:
                yield ("users", number, "associations", name), f'"{name}" is not among the accounts of {user.name}'
        if user.settings and not user.accounts:
            key = next(iter(user.settings))
            yield ("users", number, "settings", key), f"limits need an account, and {user.name} has none"
        if len(set(user.accounts)) < len(user.accounts):
            yield ("users", number, "accounts"), "an account is listed twice"


def coordinators_are_users(cluster: Cluster) -> Complaints:
    """For slurmdbd a coordinator is a user with an account."""
    known = {user.name for user in cluster.users if user.accounts}
    for number, account in enumerate(cluster.accounts):
        for name in account.coordinators:
            if name not in known:
                yield ("accounts", number, "coordinators"), _unknown("user with accounts", name, known)


def limits_are_known(cluster: Cluster) -> Complaints:
    """Each key is a limit of sacctmgr, with a valid value."""
    sections: tuple[tuple[str, Mapping[str, Limit], Iterable[Mapping[str, str]]], ...] = (
        ("qos", limits.QOS_BY_NAME, [one.settings for one in cluster.qos]),
        ("accounts", limits.ASSOCIATION_BY_NAME, [one.settings for one in cluster.accounts]),
        ("users", limits.USER_BY_NAME, [one.settings for one in cluster.users]),
    )
    for section, known, entries in sections:
        for number, settings in enumerate(entries):
            yield from _mistakes(settings, known, (section, number, "settings"))
    for number, user in enumerate(cluster.users):
        for account, settings in user.associations.items():
            yield from _mistakes(settings, limits.ASSOCIATION_BY_NAME, ("users", number, "associations", account))


def qos_are_known(cluster: Cluster) -> Complaints:
    """Each QOS that is named is in the file; slurmctld does not start if a partition's QOS is unknown."""
    known = {NORMAL, *(qos.name for qos in cluster.qos)}
    for place, settings in _settings(cluster):
        of_partition = place[0] == "partitions"
        for key, value in settings.items():
            names_qos = key.lower() in (_OF_QOS if of_partition else ("preempt", "qos", "qoslevel", "defaultqos"))
            is_known_section = not of_partition or cluster.qos
            for name in _names(value) if names_qos and is_known_section else ():
                if name not in known and not (of_partition and name == "all"):
                    yield (*place, key), _unknown("QOS", name, known)


def accounts_of_partitions_are_known(cluster: Cluster) -> Complaints:
    """Accounts of partitions exist: a partition for an unknown account runs no jobs."""
    known = {ROOT, *(account.name for account in cluster.accounts)}
    for number, partition in enumerate(cluster.partitions if cluster.accounts else ()):
        for key, value in partition.settings.items():
            for name in _names(value) if key.lower() in _OF_ACCOUNTS else ():
                if name not in (*known, "all"):
                    yield ("partitions", number, "settings", key), _unknown("account", name, known)


def default_qos_is_allowed(cluster: Cluster) -> Complaints:
    """A default QOS is in the list of allowed QOS, their own or that of the nearest account above."""
    accounts = {account.name: account for account in cluster.accounts}

    known: dict[str, tuple[str, ...]] = {}

    def allowed(name: str) -> tuple[str, ...]:
        way: list[str] = []
        while name in accounts and name not in known:
            way.append(name)
            known[name] = _qos_of(accounts[name].settings)  # empty until its own end, if it is part of a loop
            if known[name]:
                break
            name = accounts[name].parent
        known.update(dict.fromkeys(way, found := known.get(name, ())))
        return found

    for number, account in enumerate(cluster.accounts):
        yield from _default_not_in(account.settings, allowed(account.name), ("accounts", number, "settings"))
    for number, user in enumerate(cluster.users):
        for name in user.accounts:
            special = user.associations.get(name, {})
            own = _qos_of(special) or _qos_of(user.settings) or allowed(name)
            is_special = any(key.lower() == "defaultqos" for key in special)
            place: Place = ("users", number, "associations", name) if is_special else ("users", number, "settings")
            yield from _default_not_in(special if is_special else user.settings, own, place)


def preemption_is_no_circle(cluster: Cluster) -> Complaints:
    """QOS do not preempt each other in a loop, as their jobs would preempt each other for ever."""
    preempts = {
        qos.name: tuple(
            name for key, value in qos.settings.items() if key.lower() == "preempt" for name in _names(value)
        )
        for qos in cluster.qos
    }
    loops = _loops(preempts)
    for number, qos in enumerate(cluster.qos):
        if loop := loops.get(qos.name, ()):
            key = next(key for key in qos.settings if key.lower() == "preempt")
            reason = "it preempts itself" if len(loop) == 2 else f"the QOS form a loop: {' preempts '.join(loop)}"  # noqa: PLR2004
            advice = "; for jobs of the same QOS, write PreemptMode: within" if len(loop) == 2 else ""  # noqa: PLR2004
            yield ("qos", number, "settings", key), reason + advice


def _settings(cluster: Cluster) -> Iterator[tuple[Place, Mapping[str, str]]]:
    """Yield all settings that may name a QOS, with their places."""
    entries: Mapping[str, Iterable[Mapping[str, str]]] = {
        "qos": [one.settings for one in cluster.qos],
        "accounts": [one.settings for one in cluster.accounts],
        "users": [one.settings for one in cluster.users],
        "partitions": [one.settings for one in cluster.partitions],
    }
    for section, some in entries.items():
        for number, settings in enumerate(some):
            yield (section, number, "settings"), settings
    for number, user in enumerate(cluster.users):
        for account, settings in user.associations.items():
            yield ("users", number, "associations", account), settings


def _mistakes(settings: Mapping[str, str], known: Mapping[str, Limit], place: Place) -> Iterator[tuple[Place, str]]:
    """Yield unknown keys, keys that are repeated under another name, and invalid values."""
    seen: dict[str, str] = {}
    for key, value in settings.items():
        limit = known.get(key.lower())
        if limit is None:
            yield (*place, key), _unknown_limit(key, known)
            continue
        name = limit.key.name
        if seen.setdefault(name, key) != key:
            yield (*place, key), f"it is the same key as {seen[name]}"
        try:
            limits.normal_value(limit, value)
        except ValueError as error:
            yield (*place, key), str(error)


def _unknown_limit(key: str, known: Mapping[str, Limit]) -> str:
    """The complaint about a key that sacctmgr does not have, with the most similar one."""
    if key.lower() in _WRITE_INSTEAD:
        return f"unknown key; {_WRITE_INSTEAD[key.lower()]}"
    if key.lower() in limits.QOS_BY_NAME:
        return "only a QOS has this limit in Slurm; set it on a QOS, and assign that with the key QOS"
    spelled = {name.lower(): name for limit in known.values() for name in (limit.key.name, *limit.others)}
    near = difflib.get_close_matches(key.lower(), spelled, n=1)
    hint = (
        f"did you mean {spelled[near[0]]}?"
        if near
        else "the keys are those of `sacctmgr modify … set`, see sacctmgr(1)"
    )
    return f"Slurm has no such limit here; {hint}"


def _unknown(sort: str, name: str, known: Iterable[str]) -> str:
    """The complaint about an unknown name, with the known names or the most similar one."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    most = 8
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names[:most]) or 'none'}"
    return f'"{name}" is not a known {sort} ({hint}{", …" if not near and len(names) > most else ""})'


def _names(value: str) -> tuple[str, ...]:
    return tuple(name.strip().lower() for name in value.split(",") if name.strip() not in ("", "-1"))


def _qos_of(settings: Mapping[str, str]) -> tuple[str, ...]:
    return next((_names(value) for key, value in settings.items() if key.lower() in ("qos", "qoslevel")), ())


def _default_not_in(settings: Mapping[str, str], allowed: tuple[str, ...], place: Place) -> Iterator[tuple[Place, str]]:
    """Yield a default QOS that is not allowed. Without a list only `normal` is, which slurmdbd gives to root."""
    for key, value in settings.items():
        name = value.strip().lower()
        if key.lower() == "defaultqos" and name not in ("", "-1") and name not in (allowed or (NORMAL,)):
            choices = ", ".join(allowed) if allowed else f"{NORMAL}, which all have; set a list with QOS"
            yield (*place, key), f'"{name}" is not among the QOS allowed there: {choices}'


def _loops(following: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """The names from which a path through `following` leads back to themselves, or the first of many, and the path."""
    found = ((name, _loop(name, following)) for name in _with_ways_on(following))
    return dict(islice(((name, loop) for name, loop in found if loop), MOST_COMPLAINTS))


def _with_ways_on(following: Mapping[str, Iterable[str]]) -> list[str]:
    """The names from which a path never ends, in their order: those of loops, and those before loops."""
    before = grouped((after, name) for name, names in following.items() for after in set(names))
    left = {name: sum(after in following for after in set(names)) for name, names in following.items()}
    ended = [name for name, count in left.items() if not count]
    while ended:
        for name in before.get(ended.pop(), ()):
            left[name] -= 1
            if not left[name]:
                ended.append(name)
    return [name for name, count in left.items() if count]


def _loop(name: str, following: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """The path from a name back to itself; empty if there is none."""
    came_from: dict[str, str] = {}
    ways = [name]
    while ways:
        last = ways.pop()
        for after in following.get(last, ()):
            if after == name:
                path = [name, last]
                while path[-1] != name:
                    path.append(came_from[path[-1]])
                return tuple(reversed(path))
            if after not in came_from:
                came_from[after] = last
                ways.append(after)
    return ()
