"""What the hosts and their Slurm have to say to an account tree, before anything is changed for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmfab.agent.limit_values import STATIC_TRES, TRES, tres_of
from slurmfab.errors import InputError
from slurmfab.hostlist import fold
from slurmfab.situation import Situation
from slurmfab.slurm import limits


def refuse_unfit(situation: Situation) -> None:
    """Refuse accounts of people whom the controllers do not know, and limits that the installed Slurm does not.

    Raises:
        InputError: with all that is wrong, a line each; nothing was changed.
    """
    if situation.cluster.database is None:
        return
    found = [*strangers(situation), *unknown_tres(situation), *newer_limits(situation)]
    if found:
        raise InputError("\n".join((*found, "Change that in the cluster file; nothing was changed on any host.")))


def strangers(situation: Situation) -> Iterator[str]:
    """People of a directory service whom it does not know on a controller; slurmctld takes no jobs of theirs."""
    cluster = situation.cluster
    if cluster.unix_users:
        return
    for host in cluster.controllers:
        known = situation.facts[host].accounts if host in situation.facts else None
        unknown = [
            user.name for user in cluster.users if user.accounts and known is not None and user.name not in known
        ]
        if unknown:
            names = ", ".join(unknown)
            yield (
                f"{host}: users: {names}: no such user there (getent passwd {unknown[0]}). With unix_users: false "
                "a directory service has to know them: is the name spelled right, and SSSD or LDAP at work there?"
            )


def unknown_tres(situation: Situation) -> Iterator[str]:
    """Limits of what slurmctld does not count, so that they would hold nobody; not while some nodes are unknown."""
    if set(situation.compute_nodes) != set(situation.cluster.compute_nodes):
        return
    counted = situation.conf_wanted.settings.get("accountingstoragetres", "")
    known = {*STATIC_TRES, *(name.strip().lower() for name in counted.split(","))}
    for what, settings in entries(situation):
        for key, value in limits.normal(settings, {**limits.QOS_BY_NAME, **limits.USER_BY_NAME}):
            names = set(tres_of(value)) - known if kind(key) == TRES else set()
            for name in sorted(names):
                words = ", ".join(sorted(known - set(STATIC_TRES))) or "none besides Slurm's own"
                yield f"{what}: {key}: slurmctld counts no {name} (AccountingStorageTRES in slurm.conf: {words})."


def newer_limits(situation: Situation) -> Iterator[str]:
    """Limits that only later versions of Slurm know."""
    version = situation.slurm_version
    for what, settings in entries(situation):
        for key in settings:
            limit = limits.QOS_BY_NAME.get(key.lower()) if what.startswith("qos ") else None
            if limit and limit.since > (version.major, version.minor):
                since = "{}.{:02}".format(*limit.since)
                where = fold(situation.cluster.controllers[:1])
                yield f"{what}: {key} came with Slurm {since}, and {where} has {version}."


def entries(situation: Situation) -> Iterator[tuple[str, Mapping[str, str]]]:
    """All entries with limits, with how to call them."""
    for qos in situation.cluster.qos:
        yield f"qos {qos.name}", qos.settings
    for account in situation.cluster.accounts:
        yield f"account {account.name}", account.settings
    for user in situation.cluster.users:
        yield f"user {user.name}", user.settings
        for name, settings in user.associations.items():
            yield f"user {user.name} in {name}", settings


def kind(key: str) -> str:
    """The kind of values of a key."""
    limit = limits.QOS_BY_NAME.get(key.lower()) or limits.USER_BY_NAME.get(key.lower())
    return limit.key.kind if limit else ""
