"""Whether the controllers know the users of the account tree, and their Slurm its limits: judged from facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmfab.base.objections import Objection, objected
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.accounting import is_name
from slurmfab.cluster.slurm import limits
from slurmfab.core.plan.phases import accounts
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.accounting.limit_values import STATIC_TRES, TRES
from slurmfab.on_hosts.agent.client.amounts import tres_of
from slurmfab.on_hosts.agent.people.directory_service import OF

MOST = 5  # how many names a line has


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse, by one InputError, users that controllers do not know, and limits that Slurm does not."""
    if plan_input.cluster.database is None:
        return
    judges = (unknown_users, unfit_groups, unknown_tres, newer_limits)
    found = [line for judge in judges for line in judge(plan_input)]
    objected(found, ("Change that in the cluster file; nothing was changed on any host.",))


def unknown_users(plan_input: PlanInput) -> Iterator[Objection | str]:
    """Users that a directory service does not know on a controller: slurmctld refuses their jobs. A line each."""
    cluster = plan_input.cluster
    if cluster.unix_users:
        return
    for host in cluster.controllers:
        if is_to_come(plan_input, host):
            continue
        known = plan_input.facts[host].accounts if host in plan_input.facts else None
        unknown = [
            user.name for user in cluster.users if user.accounts and known is not None and user.name not in known
        ]
        if unknown:
            names = ", ".join(unknown)
            yield Objection(
                (host,),
                f"users: {names}: no such user there (getent passwd {unknown[0]}). With unix_users: false "
                "a directory service must know them: is the name spelled right, and does SSSD or LDAP run there?",
            )


def is_to_come(plan_input: PlanInput, host: str) -> bool:
    """Whether a host is to ask a directory and does not do so yet: what it has to know then shows after that."""
    wanted, facts = plan_input.cluster.directory is not None, plan_input.facts.get(host)
    return wanted and (facts is None or OF not in facts.owned)


def unfit_groups(plan_input: PlanInput) -> Iterator[str]:
    """Groups of accounts that the primary controller does not know, a line each."""
    host = plan_input.cluster.controller
    for group in accounts.unknown_groups(plan_input) if not is_to_come(plan_input, host) else ():
        yield (
            f"{host}: accounts: from_groups: there is no group {group} (getent group {group}). Is the name spelled "
            f"right, and does the directory answer? See: systemctl status sssd; {FAB} check-cluster --only directory"
        )


def left_out_members(plan_input: PlanInput) -> Iterator[tuple[str, str]]:
    """The members of groups whom slurmdbd cannot have, and who get no account: the controller, and a line each."""
    for group in plan_input.cluster.member_groups:
        odd = [name for name in plan_input.controller_facts.members.get(group, ()) if not is_name(name)]
        if odd:
            more = f" and {len(odd) - MOST} more" if len(odd) > MOST else ""
            yield (
                plan_input.cluster.controller,
                f"accounts: from_groups: {', '.join(odd[:MOST])}{more} of {group} gets no account: slurmdbd takes "
                "names of at most 40 lower-case letters, digits, _, . and -",
            )


def unknown_tres(plan_input: PlanInput) -> Iterator[str]:
    """Limits on TRES that slurmctld does not count, a line each; none while some nodes are unknown."""
    if set(plan_input.compute_nodes) != set(plan_input.cluster.compute_nodes):
        return
    counted = plan_input.conf_wanted.settings.get("accountingstoragetres", "")
    known = {*STATIC_TRES, *(name.strip().lower() for name in counted.split(","))}
    for what, settings in entries(plan_input):
        for key, value in limits.normal(settings, {**limits.QOS_BY_NAME, **limits.USER_BY_NAME}):
            names = set(tres_of(value)) - known if kind(key) == TRES else set()
            for name in sorted(names):
                others = ", ".join(sorted(known - set(STATIC_TRES))) or "none besides Slurm's own"
                yield f"{what}: {key}: slurmctld does not count {name} (AccountingStorageTRES in slurm.conf: {others})."


def newer_limits(plan_input: PlanInput) -> Iterator[str]:
    """Limits that only later versions of Slurm know, a line each."""
    version = plan_input.slurm_version
    for what, settings in entries(plan_input):
        for key in settings:
            limit = limits.QOS_BY_NAME.get(key.lower()) if what.startswith("qos ") else None
            if limit and limit.since > (version.major, version.minor):
                since = "{}.{:02}".format(*limit.since)
                yield f"{what}: {key} came with Slurm {since}, and {plan_input.cluster.controller} has {version}."


def entries(plan_input: PlanInput) -> Iterator[tuple[str, Mapping[str, str]]]:
    """All entries with limits: pairs of a title, such as `qos long`, and their settings."""
    for qos in plan_input.cluster.qos:
        yield f"qos {qos.name}", qos.settings
    for account in plan_input.cluster.accounts:
        yield f"account {account.name}", account.settings
    for user in plan_input.cluster.users:
        yield f"user {user.name}", user.settings
        for name, settings in user.associations.items():
            yield f"user {user.name} in {name}", settings


def kind(key: str) -> str:
    """The kind of values of a limit; empty for an unknown key."""
    limit = limits.QOS_BY_NAME.get(key.lower()) or limits.USER_BY_NAME.get(key.lower())
    return limit.key.kind if limit else ""
