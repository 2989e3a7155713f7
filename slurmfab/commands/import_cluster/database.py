"""slurmdbd and its database: the section `database`, and the keys of slurmdbd.conf that differ from slurmfab's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from slurmfab.base.ip_addresses import is_loopback
from slurmfab.cluster.inventory.accounting import DATABASE_PORT, ROOT
from slurmfab.cluster.inventory.slurm_settings import SLURMDBD_CONF_KEYS_OF_SLURMFAB
from slurmfab.cluster.slurm import accounting, keys
from slurmfab.cluster.slurm.conf_text import Settings, parse
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.import_cluster.draft import Overrides
from slurmfab.commands.import_cluster.old_cluster import SLURMDBD, OldCluster
from slurmfab.core.plan.phases.accounts import SLURM
from slurmfab.on_hosts.agent.database.slurmdbd_conf import DEFAULTS

FILE = "slurmdbd.conf"
DEFAULT_NAME, OUR_USER = "slurm_acct_db", "slurm"
ELSEWHERE = frozenset(key.lower() for key in SLURMDBD_CONF_KEYS_OF_SLURMFAB)
"""Keys that come from the section `database`."""

ALWAYS = ("", ROOT, SLURM)  # users of associations that are no people


def section(old: OldCluster) -> dict[str, str]:
    """The section `database`; empty for a cluster without slurmdbd, or whose slurmdbd cannot be managed."""
    host = old.database_host
    if not host or unmanageable(old):
        return {}
    conf = parse(old.text_of(host, FILE)).settings
    server = conf.get("storagehost", "localhost")
    found = {"host": host}
    if not is_local(old, server):
        port = conf.get("storageport", str(DATABASE_PORT))
        bracketed = f"[{server}]" if ":" in server else server
        found["external"] = server if port == str(DATABASE_PORT) else f"{bracketed}:{port}"
    found |= {
        key: conf[name]
        for key, name, default in (("user", "storageuser", OUR_USER), ("name", "storageloc", DEFAULT_NAME))
        if conf.get(name, default) != default
    }
    return {**found, "keep_password": "true"} if "external" in found else {**found, "settings": "false"}


def is_local(old: OldCluster, server: str) -> bool:
    """Whether a database server is slurmdbd's own host."""
    return is_loopback(server) or old.host_named(server) == old.database_host


def unmanageable(old: OldCluster) -> str:
    """Why slurmdbd stays as it is, outside of slurmfab; empty if slurmfab can manage it."""
    if old.setting("AccountingStorageType").lower() != SLURMDBD:
        return ""
    named = old.setting("AccountingStorageHost") or "localhost"
    host, text = old.database_host, old.text_of(old.database_host, FILE)
    is_node = host in old.conf.nodes and host not in {name for name, _ in old.controllers}
    has_backup = old.setting("AccountingStorageBackupHost") or parse(text).settings.get("dbdbackuphost")
    reasons = {
        f"AccountingStorageHost={named} is no host that the import knows": not host,
        f"{host}, the host of slurmdbd, did not answer": host not in old.found.facts,
        f"{host}, the host of slurmdbd, is a compute node": is_node,
        f"{host} has no slurmdbd.conf that could be read": not text,
        "there are two slurmdbd, a primary and a backup": bool(has_backup),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def remarks(old: OldCluster) -> Iterator[str]:
    """Yield what people should know of slurmdbd."""
    if why := unmanageable(old):
        yield (
            f"{why}, so slurmdbd stays as it is: slurm.conf goes on naming it (slurm_conf), and sacctmgr "
            "manages accounts. To have slurmfab manage it, set the key database."
        )
    for key, value in old_settings(old).items():
        if key in ("storagebackuphost", "storagepassscript"):
            yield f"{FILE}: {key}={value} is left out; slurmfab knows one database server, and one password in {FILE}."


def old_settings(old: OldCluster) -> Settings:
    """The settings of slurmdbd.conf by key in lower case, without the own name of its host, which is no choice."""
    found = dict(parse(old.text_of(old.database_host, FILE)).settings) if section(old) else {}
    if found.get("dbdaddr", "-").lower() in ("localhost", old.hostname(old.database_host)):
        del found["dbdaddr"]
    return found


def overrides(old: OldCluster) -> tuple[Overrides, Mapping[str, str]]:
    """The keys of slurmdbd.conf that differ from slurmfab's: as a section, and slurmfab's by key in lower case."""
    actual = old_settings(old)
    if not actual:
        return {}, {}
    ours = parse(text_of_ours(old.version)).settings
    found: dict[str, str | None] = {
        spelled(old, key): value
        for key, value in actual.items()
        if key not in ELSEWHERE and not is_same(key, value, ours.get(key, ""))
    }
    for key, value in ours.items():
        if key not in actual and key not in ELSEWHERE and not is_same(key, "", value):
            found[spelled(old, key)] = None
    return found, ours


def text_of_ours(version: SlurmVersion) -> str:
    """slurmdbd.conf as slurmfab writes it, for its keys."""
    return accounting.slurmdbd_conf(accounting.SlurmdbdConf("host", version, "localhost", 0, OUR_USER, DEFAULT_NAME))


def is_same(key: str, one: str, other: str) -> bool:
    """Whether two values of a key mean the same to slurmdbd; an empty one stands for the default."""
    first, second = (re.sub("^/var/run/", "/run/", value or DEFAULTS.get(key, "")) for value in (one, other))
    return first == second


def spelled(old: OldCluster, key: str) -> str:
    """A key of slurmdbd.conf as the manual spells it, or else as the file does."""
    known = keys.SLURMDBD_CONF.get(key)
    return known.name if known else parse(old.text_of(old.database_host, FILE)).spelled.get(key, key)


def of_people(answer: Mapping[str, Any], people: Collection[str] | None) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """What sacctmgr showed, without users whom the controller does not know, and the names of these.

    `people`: the users whom the controller knows; `None` if it was not asked.
    """
    if people is None:
        return answer, ()
    users = {user for _, user, _ in answer["associations"] if user not in ALWAYS}
    gone = users - {*people}
    accounts = [(head, coordinators) for *head, coordinators in answer["accounts"]]
    kept = {
        "associations": [one for one in answer["associations"] if one[1] not in gone],
        "accounts": [[*head, [one for one in coordinators if one not in gone]] for head, coordinators in accounts],
        "partitioned": [one for one in answer["partitioned"] if one[1] not in gone],
    }
    return {**answer, **kept}, tuple(sorted(gone))


def remark(gone: Collection[str], controller: str) -> str:
    """What people should know of the users that are left out."""
    return (
        f"Not in the cluster file, because {controller} knows no such user (getent passwd): {', '.join(gone)}. "
        "slurmdbd keeps them and their history; remove them there with sacctmgr, if they have left."
    )
