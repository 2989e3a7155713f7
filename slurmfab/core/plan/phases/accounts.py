"""Accounting in slurmdbd: the cluster, QOS, accounts and users, before a slurm.conf that enforces them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slurmfab.base.grouping import grouped
from slurmfab.base.ip_addresses import IPV6
from slurmfab.cluster.inventory.accounting import ROOT, Account, User, is_name
from slurmfab.cluster.slurm import limits
from slurmfab.core.plan.phases.slurm_conf import is_another
from slurmfab.core.plan.plan_input import PlanInput, families_of
from slurmfab.on_hosts.agent.accounting.tree import AccountTree, RestOfAccounts
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.database.registration import ClusterId

SLURM = "slurm"  # the user that slurmfab runs test jobs and checks as


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The account tree, on slurmdbd's host, and the cluster's ID as slurmctld's state has it."""
    database = plan_input.cluster.database
    if database is None or host != database.host:
        return ()
    known, (server, port) = plan_input.controller_facts.cluster_id, database.server
    own = (server or "localhost", port, database.user, database.name)
    ids = (ClusterId(plan_input.cluster.name, known, *own),) if known and not is_another(plan_input) else ()
    return (AccountTree(**tree(plan_input)), *ids)


def rest(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The changes that wait until slurmctld runs with the new slurm.conf.

    These are limits of TRES that slurmctld reports to slurmdbd, such as GPUs, and with `prune` the removals.
    """
    if host not in plan_input.cluster.database_hosts:
        return ()
    wanted = RestOfAccounts(**tree(plan_input), prune=plan_input.prune)
    return (wanted,) if wanted.complete or wanted.users else ()


def tree(plan_input: PlanInput) -> Mapping[str, Any]:
    """The fields of the `AccountTree` of this cluster, by name."""
    cluster = plan_input.cluster
    # sacctmgr runs on slurmdbd's host, which is upgraded before slurmctld.
    version = plan_input.slurm_of(cluster.database.host) if cluster.database else plan_input.slurm_version
    sections = {"qos": cluster.qos, "accounts": cluster.accounts}
    return {
        "cluster": cluster.name,
        "conf": private_conf(plan_input),
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
        "users": users(plan_input),
        # While a group is not known, nobody counts as not declared, so that no user goes because of that.
        "complete": tuple(
            name for name, some in sections.items() if some and (name == "qos" or not unknown_groups(plan_input))
        ),
    }


def private_conf(plan_input: PlanInput) -> str:
    """The text of a slurm.conf for sacctmgr, see `private_conf_text`."""
    cluster = plan_input.cluster
    here = plan_input.host(cluster.database.host).addresses if cluster.database else ()
    controller = plan_input.host(cluster.controller).hostname
    return private_conf_text(
        cluster.name, controller, here, plan_input.accounting_server["accounting_port"], cluster.slurm_user
    )


def private_conf_text(
    cluster: str, controller: str, addresses: Iterable[str] = (), port: int = 0, user: str = SLURM
) -> str:
    """The text of a slurm.conf for sacctmgr, because the host may have none yet, or one without slurmdbd.

    `controller`: the primary controller's own hostname; sacctmgr does not contact it. `addresses`: of slurmdbd's host.
    On a host without IPv4, Slurm finds `localhost` with IPv6 alone. `port`: slurmdbd's; 0 for Slurm's default.
    """
    own_port = f"AccountingStoragePort={port}\n" if port else ""
    ipv6 = "CommunicationParameters=EnableIPv6\n" if families_of(addresses) == {IPV6} else ""
    return (
        f"ClusterName={cluster}\nSlurmctldHost={controller}\nSlurmUser={user}\nAuthType=auth/munge\n"
        "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=localhost\n"
        f"{own_port}{ipv6}"
    )


def users(
    plan_input: PlanInput,
) -> tuple[tuple[str, str, tuple[tuple[str, tuple[tuple[str, str], ...]], ...]], ...]:
    """`AccountTree.users`: name, AdminLevel (empty: kept) and associations, of the file, by groups, and of slurm."""
    cluster = plan_input.cluster
    ours = ((SLURM, "", ((ROOT, ()),)),) if cluster.has_accounts else ()
    named, by_group = {one.name: one for one in cluster.users}, accounts_by_group(plan_input)
    own = (
        one.model_copy(update={"accounts": tuple(dict.fromkeys((*one.accounts, *by_group.get(one.name, ()))))})
        for one in (*cluster.users, *(User.model_construct(name=name) for name in by_group if name not in named))
    )
    return (*ours, *(user(one) for one in own if one.accounts))


def accounts_by_group(plan_input: PlanInput) -> dict[str, tuple[str, ...]]:
    """The accounts of each user by the groups that the primary controller knows; names that Slurm takes alone."""
    found: dict[str, dict[str, None]] = {}
    for account in plan_input.cluster.accounts:
        for group in account.from_groups:
            for name in plan_input.controller_facts.members.get(group, ()):
                if is_name(name) and name not in (ROOT, SLURM):
                    found.setdefault(name, {})[account.name] = None
    return {name: tuple(accounts) for name, accounts in sorted(found.items())}


def unknown_groups(plan_input: PlanInput) -> tuple[str, ...]:
    """The groups of accounts that the primary controller does not know, or not yet."""
    return tuple(one for one in plan_input.cluster.member_groups if one not in plan_input.controller_facts.members)


def user(one: User) -> tuple[str, str, tuple[tuple[str, tuple[tuple[str, str], ...]], ...]]:
    """An entry of `AccountTree.users`: name, AdminLevel (or `None`), account and settings, default first."""
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
    """Settings of an account, as name and value; root always gets a QOS list, which all accounts inherit."""
    settings = limits.normal(one.settings, limits.ASSOCIATION_BY_NAME)
    is_root = one.name == ROOT and limits.QOS_LIST not in dict(settings)
    return (*settings, (limits.QOS_LIST, limits.NORMAL)) if is_root else settings


def parents_first(accounts: tuple[Account, ...]) -> tuple[Account, ...]:
    """The accounts in breadth-first order from root; accounts with the same parent stay in the file's order."""
    below = grouped((account.parent, account) for account in accounts if account.name != ROOT)
    ordered, waiting = [account for account in accounts if account.name == ROOT], [ROOT]
    while waiting:
        children = below.pop(waiting.pop(0), [])
        ordered += children
        waiting += [child.name for child in children]
    return tuple(ordered)
