"""What slurmdbd knows: the cluster, qualities of service, accounts and users, before slurm.conf holds anybody to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurmfab.agent.account_tree import AccountTree, RestOfAccounts
from slurmfab.agent.resource import Resource
from slurmfab.cluster import Cluster
from slurmfab.clusterfile.accounting import ROOT, Account, User
from slurmfab.situation import Situation
from slurmfab.slurm import limits

SLURM = "slurm"
"""The user as whom slurmfab runs jobs on new nodes and in its checks."""


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """The account tree, on the database's host."""
    return (AccountTree(**tree(situation)),) if host in situation.cluster.database_hosts else ()


def rest(situation: Situation, host: str) -> tuple[Resource, ...]:
    """What of it has to wait until slurmctld runs with the new slurm.conf, and what goes."""
    if host not in situation.cluster.database_hosts:
        return ()
    wanted = RestOfAccounts(**tree(situation), prune=situation.prune)
    return (wanted,) if wanted.complete or wanted.users else ()


def tree(situation: Situation) -> Mapping[str, Any]:
    """The fields of an `AccountTree` in which this cluster's file ends."""
    cluster, version = situation.cluster, situation.slurm_version
    sections = {"qos": cluster.qos, "accounts": cluster.accounts}
    return {
        "cluster": cluster.name,
        "conf": private_conf(situation),
        "qos_keys": tuple(map(tuple, limits.keys(limits.QOS, (version.major, version.minor)))),
        "keys": tuple(map(tuple, limits.keys(limits.ASSOCIATION, (version.major, version.minor)))),
        "qos": tuple((one.name, "", limits.normal(one.settings, limits.QOS_BY_NAME)) for one in cluster.qos),
        "accounts": tuple(
            (
                one.name,
                one.parent if one.name != ROOT else "",
                one.description,
                one.organization,
                one.coordinators,
                account_settings(one),
            )
            for one in parents_first(cluster.accounts)
        ),
        "users": users(cluster),
        "complete": tuple(name for name, entries in sections.items() if entries),
    }


def private_conf(situation: Situation) -> str:
    """A slurm.conf for sacctmgr alone."""
    return private_conf_text(situation.cluster.name, situation.host(situation.cluster.controller).hostname)


def private_conf_text(cluster: str, controller: str) -> str:
    """A slurm.conf for sacctmgr alone: the host may have none yet, or one that knows no slurmdbd.

    Args:
        cluster: the ClusterName.
        controller: what the controller calls itself; it is not asked.
    """
    return (
        f"ClusterName={cluster}\nSlurmctldHost={controller}\nSlurmUser={SLURM}\nAuthType=auth/munge\n"
        "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=localhost\n"
    )


def users(cluster: Cluster) -> tuple[tuple[str, str, tuple[tuple[str, tuple[tuple[str, str], ...]], ...]], ...]:
    """The users of accounts; the slurm user among them, since Slurm runs jobs of nobody without an account."""
    ours = ((SLURM, "", ((ROOT, ()),)),) if cluster.has_accounts else ()
    return (*ours, *(user(one) for one in cluster.users if one.accounts))


def user(one: User) -> tuple[str, str, tuple[tuple[str, tuple[tuple[str, str], ...]], ...]]:
    """A user with an association for each account."""
    everywhere = dict(limits.normal(one.settings, limits.USER_BY_NAME))
    level = everywhere.pop(limits.LEVEL, "None")
    return (
        one.name,
        level,
        tuple(
            (
                account,
                tuple(
                    {
                        **everywhere,
                        **dict(limits.normal(one.associations.get(account, {}), limits.ASSOCIATION_BY_NAME)),
                    }.items()
                ),
            )
            for account in one.accounts
        ),
    )


def account_settings(one: Account) -> tuple[tuple[str, str], ...]:
    """An account's limits; root has a list of QOS in any case, which all inherit."""
    settings = limits.normal(one.settings, limits.ASSOCIATION_BY_NAME)
    is_root = one.name == ROOT and limits.QOS_LIST not in dict(settings)
    return (*settings, (limits.QOS_LIST, limits.NORMAL)) if is_root else settings


def parents_first(accounts: tuple[Account, ...]) -> tuple[Account, ...]:
    """The accounts from the root on, those of one parent in the file's order."""
    below: dict[str, list[Account]] = {}
    for account in accounts:
        if account.name != ROOT:
            below.setdefault(account.parent, []).append(account)
    ordered, waiting = [account for account in accounts if account.name == ROOT], [ROOT]
    while waiting:
        children = below.pop(waiting.pop(0), [])
        ordered += children
        waiting += [child.name for child in children]
    return tuple(ordered)
