"""`fab accounts-export`: prints QOS, accounts and users of slurmdbd as sections of a cluster file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slurmfab.base.errors import HostFailed
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.accounting import ROOT, User
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.rules.people import OF_THE_HOSTS
from slurmfab.cluster.slurm import limits
from slurmfab.cluster.slurm.limits import NORMAL, QOS_LIST
from slurmfab.cluster.slurm.places import slurmdbd_port
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.engine import session
from slurmfab.core.engine.requests import ask_facts
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.plan.phases.accounts import SLURM, private_conf_text
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.accounting.reading import Key
from slurmfab.on_hosts.agent.core.differences import one_line

if TYPE_CHECKING:
    from slurmfab.hosts.transport import Transport

WIDTH = 110  # entries up to this many characters are written on one line

_ACCOUNT_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,39}")
_LOGIN = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PLAIN = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_./=-]*(:\d[\d:]*)?")
_NOT_PLAIN = ("true", "false", "null")

Entry = Mapping[str, Any]


def export(cluster: str, output: session.Output) -> int:
    """Print the sections `qos`, `accounts` and `users`; HostError without slurmdbd, or if it lacks the cluster."""
    known = loading.load_named(cluster)
    run = session.start(known, "", output, RunOptions("accounts-export"))
    with session.ending(run, tells=False):
        found = ask(known, run.transport)
    sys.stdout.write(text(known, found))
    return 0


def ask(known: Inventory, transport: Transport) -> Mapping[str, Any]:
    """Ask slurmdbd: on its own host, or on the controller if the cluster file has no database yet.

    Returns the answer of `slurmfab.on_hosts.agent.accounting.reading`. Raises HostFailed if slurmdbd does not answer,
    or does not know the cluster; HostError if the host does not answer.
    """
    host = (*known.cluster.database_hosts, known.cluster.controller)[0]
    facts = ask_facts(transport, host, with_secrets=False)
    if not facts.slurm_version:
        raise HostFailed(host, "Slurm is not installed there, so there are no accounts.")
    values = (known.cluster.name, facts.hostname, facts.addresses, slurmdbd_port(known.cluster.slurmdbd_conf))
    conf = private_conf_text(*values) if known.cluster.database else ""
    return ask_host(transport, host, known.cluster.name, SlurmVersion.parse(facts.slurm_version), conf)


def ask_host(transport: Transport, host: str, cluster: str, version: SlurmVersion, conf: str = "") -> Mapping[str, Any]:
    """Ask slurmdbd as `ask`, for a ClusterName in lower case; an empty `conf` is the host's own slurm.conf."""
    request = {
        "op": "accounts",
        "cluster": cluster,
        "conf": conf,
        "qos_keys": [list(key) for key in limits.keys(limits.QOS, (version.major, version.minor))],
        "keys": [list(key) for key in limits.keys(limits.ASSOCIATION, (version.major, version.minor))],
    }
    lines = transport.call(host, request)
    found = answer_value(host, lines, "accounts")
    if cluster not in found["clusters"]:
        clusters = ", ".join(found["clusters"])
        raise HostFailed(host, f"its slurmdbd does not know the cluster {cluster} (known: {clusters or 'none'}).")
    return dict(found)


def text(known: Inventory, found: Mapping[str, Any]) -> str:
    """The sections as YAML; the same database content gives the same text.

    Args:
        known: the cluster; users in its file keep their properties on hosts, such as keys.
        found: the agent's answer, see `ask`.
    """
    database = known.cluster.database_hosts or ("HOST",)
    lines = [
        f"# QOS, accounts and users of {known.cluster.name} in slurmdbd, without Slurm's default values.",
        "" if known.cluster.database else f"database: {database[0]}        # the slurmdbd host; fill in",
        ""
        if known.cluster.users and known.cluster.unix_users
        else "unix_users: false     # these users exist on the hosts already",
    ]
    sections = {"qos": list(qos(found)), "accounts": list(accounts(found)), "users": list(users(known, found))}
    for name, entries in sections.items():
        if entries:
            lines += [f"{name}:", *(line for entry in entries for line in written(entry))]
    return "\n".join([*(line for line in lines if line), *unfit(found)]) + "\n"


def qos(found: Mapping[str, Any]) -> Iterator[Entry]:
    """The entries of QOS, sorted by name; `normal` only if it differs from Slurm's defaults."""
    for name, shown in sorted(found["qos"].items()):
        settings = changed(shown, [limit.key for limit in limits.QOS])
        if (settings or name != NORMAL) and _ACCOUNT_NAME.fullmatch(name):
            yield {"name": name, **settings}


def accounts(found: Mapping[str, Any]) -> Iterator[Entry]:
    """The entries of accounts, each after its parent; root only if it differs from Slurm's defaults."""
    below: dict[str, list[Sequence[Any]]] = {}
    for account in sorted(found["accounts"], key=lambda one: str(one[0])):
        if account[0] != ROOT:
            below.setdefault(account[1], []).append(account)
    shown = {(account, user): values for account, user, values in found["associations"]}
    of_root = changed(shown.get((ROOT, ""), {}), [limit.key for limit in limits.ASSOCIATION])
    if {**of_root, QOS_LIST: of_root.get(QOS_LIST, NORMAL)} != {QOS_LIST: NORMAL}:
        yield {"name": ROOT, **of_root}
    waiting = below.pop(ROOT, [])
    while waiting:
        name, parent, description, organization, coordinators = waiting.pop(0)
        children = below.pop(name, [])
        if not _ACCOUNT_NAME.fullmatch(name):
            waiting += [[one[0], parent, *one[2:]] for one in children]
            continue
        waiting += children
        coordinators = [one for one in coordinators if _LOGIN.fullmatch(one)]
        yield {
            "name": name,
            **({"parent": parent} if parent != ROOT else {}),
            **({"description": description} if description not in ("", name) else {}),
            **({"organization": organization} if organization not in ("", name, parent) else {}),
            **({"coordinators": coordinators} if coordinators else {}),
            **changed(shown.get((name, ""), {}), [limit.key for limit in limits.ASSOCIATION]),
        }


def users(known: Inventory, found: Mapping[str, Any]) -> Iterator[Entry]:
    """The entries of users, sorted by name, with their properties on hosts if the cluster file has them."""
    mentioned = {user.name: user for user in known.cluster.users} if known.cluster.unix_users else {}
    associations: dict[str, dict[str, Mapping[str, str]]] = {name: {} for name in mentioned}
    for account, user, values in found["associations"]:
        if user not in ("", ROOT, SLURM) and _ACCOUNT_NAME.fullmatch(account):
            associations.setdefault(user, {})[account] = values
    for name, by_account in sorted(associations.items()):
        if _LOGIN.fullmatch(name):
            level = found["levels"].get(name, "None")
            yield {
                "name": name,
                **(on_hosts(mentioned[name]) if name in mentioned else {}),
                **in_accounts(by_account, found["defaults"].get(name, "")),
                **({limits.LEVEL: level} if level != "None" else {}),
            }


def in_accounts(by_account: Mapping[str, Mapping[str, str]], default: str) -> Entry:
    """A user's accounts, default first: shared settings once, the others under `associations`."""
    keys = [limit.key for limit in limits.ASSOCIATION]
    settings = {account: changed(values, keys) for account, values in by_account.items()}
    names = sorted(settings, key=lambda name: (name != default, name))
    shared = settings[names[0]].items() if names else ()
    everywhere = {key: value for key, value in shared if all(one.get(key) == value for one in settings.values())}
    special = {name: {key: value for key, value in settings[name].items() if key not in everywhere} for name in names}
    special = {name: values for name, values in special.items() if values}
    return {**({"accounts": names} if names else {}), **({"associations": special} if special else {}), **everywhere}


def on_hosts(user: User) -> Entry:
    """A user's properties on hosts in the cluster file, such as UID and keys."""
    values = {key: getattr(user, key) for key in OF_THE_HOSTS if key in user.model_fields_set}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def changed(shown: Mapping[str, str], keys: Iterable[Key]) -> dict[str, str]:
    """The values that differ from Slurm's defaults, in the order of the keys."""
    return {key.name: shown[key.name] for key in keys if shown.get(key.name, key.default) != key.default}


def unfit(found: Mapping[str, Any]) -> Iterator[str]:
    """Comments for entries of slurmdbd that a cluster file cannot have."""
    names = {*found["qos"], *(one[0] for one in found["accounts"])}
    people = {user for _, user, _ in found["associations"] if user}
    odd = [name for name in sorted(names) if not _ACCOUNT_NAME.fullmatch(name)]
    odd += [name for name in sorted(people) if not _LOGIN.fullmatch(name)]
    for name in odd:
        yield f"# Left out, because such a name is not valid in a cluster file: {one_line(name)}"
    for account, user, partition in sorted(found["partitioned"]):
        yield one_line(f"# Left out: {user} in {account}, for the partition {partition} alone")


def written(entry: Entry) -> Iterator[str]:
    """The lines of an entry: one line if it fits into `WIDTH`, otherwise one for each key."""
    pairs = [f"{key}: {scalar(value)}" for key, value in entry.items()]
    line = f"  - {{{', '.join(pairs)}}}"
    if len(line) <= WIDTH:
        yield line
    else:
        yield f"  - {pairs[0]}"
        yield from (f"    {pair}" for pair in pairs[1:])


def scalar(value: Any) -> str:
    """A value as YAML that means the same on its own line and inside braces.

    >>> scalar("low,normal"), scalar("1-00:00:00"), scalar(["a", "b c"]), scalar({"x": {"MaxJobs": "1"}})
    ('"low,normal"', '1-00:00:00', '[a, "b c"]', '{x: {MaxJobs: 1}}')
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {scalar(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(scalar, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    plain = str(value)
    if _PLAIN.fullmatch(plain) and plain.lower() not in _NOT_PLAIN:
        return plain
    # Its text in JSON is one in YAML, too: no line break in it ends the line.
    return json.dumps(plain, ensure_ascii=not plain.isprintable())
