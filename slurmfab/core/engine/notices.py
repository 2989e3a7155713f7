"""Notices about hosts that need no change, or that a deployment does not change; printed once in a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.ip_addresses import canonical
from slurmfab.base.paths import FORMER_SPOOL, JWT_KEY, MUNGE_KEY, SLURM_HOME, SLURM_SPOOL
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.cluster.inventory.trusted_addresses import in_networks, is_source
from slurmfab.cluster.slurm import mixed
from slurmfab.cluster.slurm.conf_text import Settings
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run
from slurmfab.core.impact import hardware_changes
from slurmfab.core.impact.hardware_changes import GPUS
from slurmfab.core.plan import mig
from slurmfab.core.plan.hand_made_files import ROOT_JOBS
from slurmfab.core.plan.phases import containers, logins, slurm_source
from slurmfab.core.plan.phases.logins import LIMITS
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import accounts, gres
from slurmfab.core.plan.preflight.cgroups import cgroup_notices
from slurmfab.on_hosts.agent.core.resource import CHANGED, OK, Outcome
from slurmfab.on_hosts.agent.files import apparmor_profiles
from slurmfab.on_hosts.agent.nodes.registered import LEFT_DRAINED

PRUNABLE = ("person-gone",)
"""Kinds of resources that --prune removes, and whose remarks are printed also after a change."""

KEEPING = ("export-files", "in-effect", "package-way", "root-log", "service")
"""Kinds of resources with remarks about what stays, for others or until a boot, what was there, or by which way; and
about errors that slurmctld logged when it read its files."""

LOGIN_BESIDE = (
    "is a login host, too, as the cluster file says: users' processes run beside slurmctld, and a disk that they fill "
    "or a crash of theirs stops all jobs from starting."
)

KEYS = {f"file:{MUNGE_KEY}": "munge key", f"file:{JWT_KEY}": "key of tokens"}
"""The keys that the primary controller makes and other hosts get, by the resources that write them there."""

SLURM_KEYS = f"block:{SLURM_HOME}/.ssh/authorized_keys#slurm keys"
KEY_LINE = re.compile(r"^([-+]).* slurm@(\S+)$", re.MULTILINE)
"""A line of authorized_keys that comes or goes, in a unified diff: which of both, and the hostname at its end."""

KEPT_SPOOL = (
    f"slurmd keeps its directory {FORMER_SPOOL}, by which it finds running steps. Upgrades of Debian's packages give "
    "the directory above it to slurm, until the next deployment. To move it: slurm_conf: {SlurmdSpoolDir: "
    f"{SLURM_SPOOL}}} in the cluster file, and {FAB} deploy --drain-first."
)

BESIDE = {"controller": "slurmctld", "database": "the accounting database"}
"""By role of a host, what users' jobs run beside if it is a compute node, too."""

ROOT_REFUSED = (
    f"slurm.conf gets {ROOT_JOBS}=YES: from then on Slurm refuses srun, sbatch and salloc of root (“Invalid user id”), "
    "and jobs of root that wait stay in the queue (PartitionConfig); those that run go on. Use another user, such as "
    "`runuser -u slurm -- srun hostname`. To keep jobs of root, write slurm_conf: {DisableRootJobs: NO}"
)

NAME_IT = "write the address under addresses, or its network under ssh as networks"

NOT_ITS_OWN = (
    "it lies in a network of ssh.networks, but another host tells of it, too, or it is a jump host's or this machine's"
)

UNTRIED_SELINUX = (
    "SELinux enforces its policy there. slurmfab gives its files the policy's labels, but was never tried where one "
    f"is enforced; {FAB} check-cluster tells what SELinux denied, and docs/enterprise-linux.md how to begin"
)

NOBODY = HostLock()


def tell(run: Run, plan_input: PlanInput, steps: Iterable[Step]) -> None:
    """Print all notices that a survey gives rise to."""
    tell_of_resources(run, steps)
    if others := with_other_slurm(plan_input):
        ours = plan_input.controller_facts.slurm_version
        run.progress.line(mixed.notice(others, plan_input.cluster.controller, ours))
    for line in cgroup_notices(plan_input.cluster, plan_input.lock, plan_input.facts, plan_input.slurm_version):
        run.progress.line(line)
    tell_folded(run, enforcing(plan_input))
    if not plan_input.files_stay:
        tell_folded(run, root_jobs(plan_input))
        tell_folded(run, counted_by_slurmd(plan_input))
    if run.takes("login hosts"):
        tell_folded(run, users_beside_slurmctld(plan_input))
    if run.takes("containers"):
        tell_folded(run, added_profiles(plan_input))
    if plan_input.cluster.database:
        tell_folded(run, accounts.left_out_members(plan_input))
    tell_folded(run, gres.remarks(plan_input, run.hosts))
    tell_folded(run, mig.notices(plan_input))
    tell_folded(run, slurm_source.unwanted_versions(plan_input))
    tell_folded(run, doubtful_addresses(plan_input, run.hosts))
    tell_folded(run, lost_logins(plan_input, steps))
    tell_folded(run, replaced_keys(plan_input.cluster.controller, steps))
    if plan_input.keeps_files:
        run.progress.line(kept_files(plan_input))
    if keeps_spool(plan_input):
        run.progress.line(KEPT_SPOOL)


def users_beside_slurmctld(plan_input: PlanInput) -> Iterator[tuple[str, str]]:
    """The controllers that become login hosts, each with what that means; said before they have their limits."""
    for host in plan_input.cluster.login:
        limits, facts = plan_input.cluster.limits_on(host), plan_input.facts.get(host)
        if host in plan_input.cluster.controllers and limits and facts and LIMITS not in facts.owned:
            yield host, f"{LOGIN_BESIDE} {logins.limits_line(limits).removesuffix('.')} (`login_limits` changes that)"


def with_other_slurm(plan_input: PlanInput) -> dict[str, str]:
    """The version of Slurm of each host that has another one than the controller."""
    facts = plan_input.facts
    there = {host: facts[host].slurm_version for host in plan_input.cluster.hosts if host in facts}
    ours = plan_input.controller_facts.slurm_version
    return {host: found for host, found in there.items() if found and ours and found != ours}


def enforcing(plan_input: PlanInput) -> Iterator[tuple[str, str]]:
    """The hosts where SELinux enforces, which no deployment was ever tried on."""
    for host, facts in plan_input.facts.items():
        if facts.enforces_selinux:
            yield host, UNTRIED_SELINUX


def counted_by_slurmd(plan_input: PlanInput) -> Iterator[tuple[str, str]]:
    """The nodes whose processors slurmd counts otherwise than the kernel; said when slurm.conf gets that count."""
    before, after = plan_input.conf_before.nodes, plan_input.conf_wanted.nodes
    for host, fact in plan_input.facts.items():
        told = hardware_changes.counted_otherwise(fact.hardware, fact.kernel, fact.ecores)
        if told and host in after and (host not in before or before[host].settings != after[host].settings):
            yield host, told


def added_profiles(plan_input: PlanInput) -> Iterator[tuple[str, str]]:
    """The hosts on which AppArmor gets its first profiles of slurmfab's, and why."""
    for host, facts in plan_input.facts.items():
        programs = " and ".join(one.path for one in containers.denied(plan_input, host) if not one.profile)
        if programs and apparmor_profiles.OF not in facts.owned:
            yield (
                host,
                "AppArmor denies user namespaces to programs of users there "
                f"(kernel.apparmor_restrict_unprivileged_userns is 1), and no package has a profile for {programs}; "
                "slurmfab adds one, so that users can run containers",
            )


def kept_files(plan_input: PlanInput) -> str:
    """Which files stay as they are because of `keep_files`, and what they say otherwise than the cluster file."""
    otherwise = "; ".join(f"{one.file}: {one}" for one in plan_input.kept_differences)
    says = f", where they say otherwise than the cluster file, too: {otherwise}" if otherwise else ""
    return f"{', '.join(plan_input.rendered)} stay as they are on the hosts (keep_files){says}."


def lost_logins(plan_input: PlanInput, steps: Iterable[Step]) -> list[tuple[str, str]]:
    """The controllers on which slurm users of other hosts can log in now, and cannot any more, each with a sentence."""
    if plan_input.cluster.slurm_ssh.logins != "from_controllers":
        return []
    members = {plan_input.host(name).hostname: name for name in plan_input.members}
    found = []
    for step in steps:
        if step.host not in plan_input.cluster.controllers:
            continue
        diffs = (one.diff for outcome in step.outcomes if outcome.id == SLURM_KEYS for one in outcome.changes)
        lines = [found.groups() for diff in diffs for found in KEY_LINE.finditer(diff)]
        before, after = ({name for sign, name in lines if sign == wanted} for wanted in "-+")
        gone = {members[name] for name in before - after if name in members} - {*plan_input.cluster.controllers}
        if gone:
            found.append((step.host, f"the slurm user of {fold(gone)} does not log in here any more; `slurm_ssh: both` "
                          "in the cluster file keeps these logins"))  # fmt: skip
    return found


def replaced_keys(controller: str, steps: Iterable[Step]) -> Iterator[tuple[str, str]]:
    """The hosts that have a key of the cluster, but another one than the controller, of which they get it."""
    for step in steps:
        for outcome in step.outcomes:
            what = KEYS.get(outcome.id)
            # A host without the key lacks its owner, too.
            if what and [change.name for change in outcome.changes] == ["content"]:
                yield (
                    step.host,
                    f"it has another {what} than {controller}, and gets that one; unless it was away while somebody of "
                    "yours changed the key, see who has changed one of the two",
                )


def keeps_spool(plan_input: PlanInput) -> bool:
    """Whether slurmd's directory stays where an earlier slurmfab had it, and the cluster file does not say so."""
    is_set = any(key.lower() == "slurmdspooldir" for key in plan_input.cluster.slurm_conf)
    return plan_input.lock.spool == FORMER_SPOOL and not is_set


def tell_of_resources(run: Run, steps: Iterable[Step]) -> None:
    """Print the messages of resources that are as wanted; `JobSafety` reports nodes that are still drained."""
    messages: list[tuple[str, str]] = []
    is_prunable = False
    for step in steps:
        for outcome in step.with_status(OK):
            if outcome.message and outcome.message != LEFT_DRAINED:
                messages.append((step.host, outcome.message))
                is_prunable |= outcome.id.partition(":")[0] in PRUNABLE
    tell_folded(run, messages)
    if is_prunable and not run.options.approvals.prune:
        run.progress.line(f"{FAB} deploy --prune removes such users; their files stay.")


def tell_after_change(run: Run, steps: Iterable[Step]) -> None:
    """Print the remarks of a changed phase: what was left, and what stays of removed users."""
    tell_folded(
        run,
        [
            (step.host, outcome.message)
            for step in steps
            for outcome in step.outcomes
            if outcome.message and (is_left(outcome) or is_removal(outcome) or keeps_something(outcome))
        ],
    )


def is_left(outcome: Outcome) -> bool:
    """Whether a resource differs and was left as it was."""
    return outcome.status == OK and bool(outcome.changes)


def is_removal(outcome: Outcome) -> bool:
    """Whether a user was removed."""
    return outcome.status == CHANGED and outcome.id.partition(":")[0] in PRUNABLE


def keeps_something(outcome: Outcome) -> bool:
    """Whether only the change showed what stays, for hosts outside of the run, or what was in a log's place."""
    return outcome.status in (OK, CHANGED) and outcome.id.partition(":")[0] in KEEPING


def print_other_hardware(run: Run, plan_input: PlanInput, steps: Iterable[Step]) -> None:
    """Print which nodes, by the steps of `drift.other_hardware`, have other hardware than the lock."""
    lines = []
    for step in steps:
        gpus = hardware_changes.changes(plan_input.host(step.host).gpus, plan_input.facts[step.host].gpus)
        descriptions = [change.description for change in gpus]
        for outcome in step.outcomes:
            descriptions += [
                f"{one.name} is {one.actual} instead of {one.wanted}" for one in outcome.changes if one.name != GPUS
            ]
            lines.append((step.host, f"other hardware: {'; '.join(descriptions)}; {outcome.message}"))
    for line in fold_lines(lines):
        run.progress.line(line)


def tell_folded(run: Run, notices: Iterable[tuple[str, str]]) -> None:
    """Print notices, pairs of a host and a text without its full stop, folded over the hosts with the same text."""
    for line in fold_lines(notices):
        run.progress.line(f"{line}.")


def root_jobs(plan_input: PlanInput) -> Iterator[tuple[str, str]]:
    """What a deployment changes about root, said when it comes: pairs of a host and a text without its full stop."""
    before, after = plan_input.conf_before, plan_input.conf_wanted
    comes = is_refused(before.settings) < is_refused(after.settings)
    if comes and plan_input.controller_facts.slurm_conf:
        yield plan_input.cluster.controller, ROOT_REFUSED
    for host in plan_input.compute_nodes:
        beside = [BESIDE[role] for role in plan_input.cluster.roles(host) if role in BESIDE]
        if beside and (comes or host not in before.nodes):
            yield host, computes_beside(" and ".join(beside), is_alone=len(plan_input.cluster.hosts) == 1)


def is_refused(settings: Settings) -> bool:
    """Whether slurm.conf, its keys in lower case, has Slurm refuse jobs of root."""
    return settings.get(ROOT_JOBS.lower(), "").lower() in ("yes", "up", "true", "1")


def computes_beside(what: str, *, is_alone: bool) -> str:
    """What it means that a host with another role computes. `is_alone`: whether it is the only host."""
    words = f"is a compute node, too, as the cluster file says, so users' jobs run beside {what}"
    return words if is_alone else f"{words}, and root of any other host of the cluster can become root here"


def newly_trusted(plan_input: PlanInput, before: Mapping[str, HostLock]) -> Iterator[tuple[str, str]]:
    """A host and a text for each name and address that others, by the new lock, trust because the host tells of it."""
    for host in plan_input.members:
        hostname = plan_input.host(host).hostname
        if hostname.lower() not in (host.lower(), before.get(host, NOBODY).hostname.lower()):
            yield host, f"it calls itself {hostname}, so on all hosts that name leads to it from now on"
        known = before.get(host, NOBODY).trusted
        for address in plan_input.host(host).trusted:
            if address not in known:
                yield (
                    host,
                    f"others trust its address {address}, which it tells of: it lies in a network of ssh.networks",
                )


def doubtful_addresses(plan_input: PlanInput, hosts: Collection[str]) -> Iterator[tuple[str, str]]:
    """A host and a text where its logins may be refused, or where it tells of an address of others."""
    cluster = plan_input.cluster
    if cluster.slurm_ssh.logins == "none" and cluster.user_ssh == "own":
        return
    owners = {address: host for host, address in cluster.addresses.items()}
    for host in plan_input.members:
        if host in hosts and host in plan_input.facts:
            own = [canonical(one) for one in plan_input.facts[host].addresses if is_source(one)]
            texts = (*claims(plan_input, host, own, owners), why_refused(plan_input, host, own))
            yield from ((host, text) for text in texts if text)


def claims(plan_input: PlanInput, host: str, own: Sequence[str], owners: Mapping[str, str]) -> Iterator[str]:
    """What is told of addresses that a host tells of and that are, or may be, those of others."""
    near, trusted = in_networks(plan_input.cluster, own), plan_input.trusted_addresses(host)
    for address in own:
        if owners.get(address, host) != host:
            yield f"it has the address {address} of {owners[address]}, where nobody trusts it"
        elif address in near and address not in trusted:
            yield f"others do not trust its address {address}: {NOT_ITS_OWN}"


def why_refused(plan_input: PlanInput, host: str, own: Collection[str]) -> str:
    """Why logins from a host may be refused; empty if one of its own addresses is trusted, or NAT is allowed for."""
    trusted = plan_input.trusted_addresses(host)
    if plan_input.cluster.slurm_ssh.also_from or not own or {*own} & {*trusted}:
        return ""
    tells = f"it tells of {', '.join(list(own)[:3])}"
    if trusted:
        only = f"logins from it are accepted from {trusted[0]} alone, which it does not have"
        return f"{only} ({tells}); {NAME_IT}, or slurm_ssh.also_from where a router changes addresses"
    return f"no login from it is accepted on other hosts: only itself knows its address ({tells}); {NAME_IT}"
