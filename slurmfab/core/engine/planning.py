"""From the hosts' facts to the input of a plan: which hosts are excluded, what is refused, and what the lock gains."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from slurmfab.base.errors import UNCHANGED, HostFailed, InputError, Unreachable, refuse
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import (
    deb_files,
    file_contents,
    job_scripts,
    people_ids,
    repository_key,
    slurm_files,
    slurm_package_files,
    system_ids,
)
from slurmfab.cluster.inventory.loading import Inventory, with_lines
from slurmfab.core.engine import older_copy, passwords, requests
from slurmfab.core.engine.actor import stamp
from slurmfab.core.engine.hearing import hear
from slurmfab.core.engine.notices import newly_trusted
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run
from slurmfab.core.impact.approvals import Approvals
from slurmfab.core.impact.disruptive_changes import LOST_LIMITS
from slurmfab.core.plan import mig, registry_authority
from slurmfab.core.plan.phases import rest
from slurmfab.core.plan.phases.database import require_slurmdbd
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan_input import LocalInput, PlanInput
from slurmfab.core.plan.preflight import addresses, judging
from slurmfab.core.plan.preflight.configuration import KeysRefused

Taken = TypeVar("Taken")


def read_local_input(inventory: Inventory, *, with_scripts: bool = True) -> LocalInput:
    """Read the files that the cluster file names.

    `with_scripts`: whether the scripts that nodes run around jobs, and the site's own files, are read too. Raises
    InputError if a file is missing or not fit for use.
    """
    cluster, beside, all_of = inventory.cluster, inventory.path.parent, Readings()
    secrets = LocalInput(
        stamp=stamp(),
        database_password=all_of.take(lambda: passwords.database_password(cluster.database, beside), ""),
        power_password=all_of.take(lambda: passwords.power_password(cluster.power, beside), ""),
        mail_password=all_of.take(lambda: passwords.mail_password(cluster.mail, beside), ""),
        directory_password=all_of.take(lambda: passwords.directory_password(cluster.directory, beside), ""),
        directory_ca=all_of.take(lambda: passwords.directory_ca(cluster.directory, beside), ""),
        registry_users=all_of.take(lambda: passwords.registry_users(cluster.registry, beside), ""),
    )
    if not with_scripts:
        all_of.refuse()
        return secrets
    read = replace(
        secrets,
        scripts=all_of.take(lambda: job_scripts.read(cluster, beside), {}),
        slurm_files=all_of.take(lambda: slurm_files.read(cluster.slurm_files, beside), ()),
        own_files=all_of.take(lambda: file_contents.read_whole(cluster, beside), ()),
        deb_files=all_of.take(lambda: deb_files.read(inventory), {}),
        slurm_keys=all_of.take(lambda: repository_key.read(inventory), {}),
        slurm_package_files=all_of.take(lambda: slurm_package_files.read(inventory), {}),
    )
    all_of.refuse()
    return read


class Readings:
    """Readings of files of which all are tried, so that one run names every file that is missing or not fit for use."""

    def __init__(self) -> None:
        self.complaints: dict[str, None] = {}

    def take(self, read: Callable[[], Taken], otherwise: Taken) -> Taken:
        """What a reading returns, or another value where it fails."""
        try:
            return read()
        except InputError as error:
            self.complaints |= dict.fromkeys(str(error).splitlines())
            return otherwise

    def refuse(self) -> None:
        """Raise an InputError with the complaints of all readings, if there are any."""
        refuse(line for line in self.complaints if line != UNCHANGED)


def exclude_unfit_hosts(run: Run, facts: Mapping[str, HostFacts], *, with_scripts: bool = True) -> PlanInput:
    """Exclude the hosts that are not fit for the plan, and return what the plan for the others is made from.

    `with_scripts`: whether it takes nodes' scripts from the deployer's machine. Raises DeployFailed without controller
    or needed slurmdbd's host; IdConflict; InputError for what Slurm or hosts cannot do, another cluster's host, or a
    cluster file older than what hosts have.
    """
    inventory, approvals = run.inventory, run.options.approvals
    local = read_local_input(inventory, with_scripts=with_scripts)
    facts = requests.without_foreign(run, facts)
    for host, reason in judging.left_out(inventory.cluster, inventory.lock, facts, approvals.allowed).items():
        run.exclude(host, HostFailed(host, reason))
    run.require_controller()

    def judged() -> PlanInput:
        """The input of a plan for the hosts that are left; refuses it by an error that may rest on hosts' word."""
        fit = {host: fact for host, fact in facts.items() if host not in run.failed_hosts}
        files_stay = not run.takes("slurm.conf")
        found = make_plan_input(inventory, fit, local, approvals, files_stay=files_stay, doubted=dict(run.doubted))
        if doubtful := doubtful_authority(run, found):
            run.require_controller()
            fit = {host: fact for host, fact in fit.items() if host != doubtful}
            found = make_plan_input(inventory, fit, local, approvals, files_stay=files_stay, doubted=dict(run.doubted))
        older_copy.refuse(run, found.conf_before.nodes)
        refuse_keys_for_some(run, found)
        refuse_unfit(inventory, found, hosts=run.hosts, failed=run.failed_hosts, allowed=approvals.allowed)
        return found

    plan_input = hear(run, judged, facts)
    if silent := [host for host, error in run.failed_hosts.items() if isinstance(error, Unreachable)]:
        addresses.refuse_lost(plan_input, silent)
    for line in fold_lines(newly_trusted(plan_input, inventory.lock.hosts)):
        run.progress.line(f"{line}.")
    run.update_lock(plan_input.lock)
    return plan_input


def of_run(run: Run, facts: Mapping[str, HostFacts]) -> PlanInput:
    """The input of a plan that nothing is changed by, from facts of hosts that are fit."""
    local, approvals = read_local_input(run.inventory), run.options.approvals
    return make_plan_input(run.inventory, facts, local, approvals, files_stay=not run.takes("slurm.conf"))


def doubtful_authority(run: Run, plan_input: PlanInput) -> str:
    """The host of the image registry if it is excluded, as other hosts cannot trust its authority; empty for none.

    Tells what becomes of the authority: taken for the first time or anew, or not taken, and then put right by its host.
    """
    registry, known = plan_input.cluster.registry, run.inventory.lock.registry_ca
    if registry is None:
        return ""
    before = replace(plan_input, lock=replace(plan_input.lock, registry_ca=known))
    taken = registry_authority.judge(before, run.options.approvals.allowed)
    was_told = any(step.phase == "registry certificate" for step in run.steps)
    if taken.is_other or (taken.doubt and was_told):
        run.exclude(registry.host, HostFailed(registry.host, taken.doubt))
        return registry.host
    if taken.doubt:
        run.progress.line(f"{registry.host}: {taken.doubt}; {FAB} deploy has the host put it right.")
    elif taken.certificate not in ("", known):
        which = registry_authority.fingerprint(taken.certificate)
        run.progress.line(
            f"All hosts get to trust the authority of the image registry on {registry.host}, SHA-256 {which}."
        )
    return ""


def exclude_lying_authority(run: Run, plan_input: PlanInput, steps: Iterable[Step]) -> None:
    """Exclude the registry's host if it tells of a certificate that is not taken, and then of none that differs."""
    registry = plan_input.cluster.registry
    host = registry.host if registry else ""
    told = plan_input.facts[host].registry_ca if host in plan_input.facts else ""
    own = [step for step in steps if (step.host, step.phase) == (host, "registry certificate")]
    if own and told not in ("", plan_input.lock.registry_ca) and not any(step.differs for step in own):
        run.exclude(
            host, HostFailed(host, "it told of a certificate of its image registry's authority that is not there")
        )
        run.require_controller()


def make_plan_input(
    inventory: Inventory,
    facts: Mapping[str, HostFacts],
    local: LocalInput,
    approvals: Approvals,
    *,
    files_stay: bool = False,
    doubted: Mapping[str, str] | None = None,
) -> PlanInput:
    """The input of a plan, with the lock as the facts complete it.

    Args:
        inventory: the cluster file, and the lock before.
        facts: of the hosts that are fit.
        files_stay: whether the run leaves Slurm's files as they are.
        doubted: see `PlanInput`.

    Raises:
        IdConflict: the hosts' UIDs and GIDs contradict each other.
        InputError: a decision in the lock is in the way.
    """
    may_move, may_lose = approvals.move_ids, LOST_LIMITS in approvals.allowed
    lock = pin(inventory.cluster, inventory.lock, facts, move_ids=may_move, may_lose=may_lose)
    found = PlanInput(
        cluster=inventory.cluster,
        lock=lock,
        facts=facts,
        move_ids=may_move,
        prune=approvals.prune,
        files_stay=files_stay,
        doubted=doubted or {},
        **vars(local),
    )
    if not inventory.cluster.registry and not lock.registry_ca:
        return found
    taken = registry_authority.judge(found, approvals.allowed)
    return replace(found, lock=replace(lock, registry_ca=taken.certificate))


def refuse_keys_for_some(run: Run, plan_input: PlanInput) -> None:
    """Refuse, by InputError, a run without some of the hosts that share a key, if the controller is to make a new one.

    These hosts would keep another key; and without the controller, the others would get none.
    """
    facts = plan_input.controller_facts
    shared = (
        ("munge", "munge key", facts.munge_key, plan_input.members),
        ("token keys", "key of tokens", facts.jwt_key, rest.proving(plan_input)),
    )
    for phase, what, key, hosts in shared:
        outside = [host for host in hosts if host not in run.hosts]
        if outside and not key and run.takes(phase):
            if run.options.command == "deploy":
                requests.refuse_beside_another(run)  # which may be about to make the key
            raise InputError(
                f"{run.controller} has no {what}. All hosts that share it have to get the new one, and this run is not "
                f"about {fold(outside)}. First, without --hosts or --retry-failed: {FAB} deploy. Nothing was changed."
            )


def refuse_unfit(
    before: Inventory,
    plan_input: PlanInput,
    *,
    hosts: tuple[str, ...],
    failed: Collection[str],
    allowed: Collection[str],
) -> None:
    """Refuse what the installed Slurm, or the hosts, cannot do, or cannot do while hosts are missing.

    Raises DeployFailed if needed slurmdbd's host is excluded; IdConflict if numbers would change on missing hosts;
    InputError for what Slurm or hosts cannot do.
    """
    cluster, ids, facts = plan_input.cluster, plan_input.lock.ids, plan_input.facts
    people_ids.refuse_partial(cluster, {*facts, *failed}, before.lock.ids, ids)
    if plan_input.move_ids:
        system_ids.refuse_partial_move(hosts, cluster.hosts, before.lock.ids, ids, facts)
    try:
        judging.refuse_unfit(plan_input, hosts, allowed)
    except KeysRefused as refused:
        told = KeysRefused(with_lines(before, refused.mistakes), refused.way)
        told.objections = refused.objections
        raise told from None
    mig.refuse_partial(before.lock, plan_input, hosts)
    require_slurmdbd(plan_input, failed)


def exclude_without_packages(run: Run, plan_input: PlanInput) -> None:
    """Exclude the hosts that lack packages which the run's source of packages does not have.

    Raises:
        InputError: a bundle that is needed is missing, damaged or another one than before.
        DeployFailed: the controller is among these hosts.
    """
    for host, reason in run.packages.refusals(run.inventory, plan_input, run.remaining(run.hosts)).items():
        run.exclude(host, HostFailed(host, reason))
    run.require_controller()
