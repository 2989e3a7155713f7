"""Requests to the agents on hosts: for facts, and to compare or change resources."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from slurmfab.base.answers import ADVICE
from slurmfab.base.errors import (
    AgentFailed,
    AnotherRun,
    ConnectionLost,
    HostError,
    HostFailed,
    InputError,
    PythonMissing,
    SlurmfabError,
    Unreachable,
)
from slurmfab.cluster.facts import HostFacts, clock_of, from_answer
from slurmfab.cluster.inventory import hostnames
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import is_new_to
from slurmfab.cluster.inventory.mounts import CLIENTS
from slurmfab.cluster.inventory.people_ids import names_of
from slurmfab.cluster.inventory.rules.people import POWERFUL_GROUPS
from slurmfab.cluster.inventory.slurm_settings import slurmd_parameters
from slurmfab.cluster.slurm import software
from slurmfab.cluster.slurm.gres import named_files
from slurmfab.cluster.slurm.platform import PLATFORMS
from slurmfab.cluster.slurm.software import FIREWALLD
from slurmfab.core.engine import changed_files, missing_lock
from slurmfab.core.engine.actor import who
from slurmfab.core.engine.hearing import hear
from slurmfab.core.engine.report import UNKNOWN, Step, outcome_from
from slurmfab.core.engine.run import Run
from slurmfab.hosts.fan_out import PendingAnswers, on_each
from slurmfab.hosts.session import Line, answer_value
from slurmfab.hosts.transport import Transport
from slurmfab.on_hosts.agent.core.resource import Outcome, as_request

FACT_SELECTION = {
    "users": ("slurm", "munge"),
    "packages": (
        *dict.fromkeys(name for one in PLATFORMS.values() for name in one.asked),
        "sudo",
        *sorted(set(CLIENTS.values())),
        *software.ASKED,
    ),
    "plugin_directories": tuple(one.plugin_directory for one in PLATFORMS.values()),
    "slurm_programs": tuple(dict.fromkeys(path for one in PLATFORMS.values() for path in one.telling_programs)),
    "namespace_programs": tuple(dict.fromkeys(one for some in software.NAMESPACE_PROGRAMS.values() for one in some)),
    "services": (
        "slurmctld",
        "slurmdbd",
        "slurmd",
        "munge",
        "slurmfab-backup.timer",
        "slurmfab-containers.timer",
        "slurmfab-gpu-check.service",
        "slurmfab-gpu-check.timer",
        "slurmfab-idle-gpus.service",
        "slurmfab-idle-gpus-policy.timer",
        "slurmfab-mig.service",
        "slurmfab-power.timer",
        "slurmfab-recovery.timer",
    ),
}
"""The users, packages, services and programs that a plan depends on."""

LATE_SSHD = 30.0  # seconds that sshd may need until it listens, on a host whose slurmd has answered since the boot
POLL_SECONDS = 1.0  # time between two questions to a host that is booting
CLOCK_MARGIN = 1.0  # seconds by which the clocks of two hosts may differ when they measure the same period


def ask_ahead(run: Run) -> None:
    """Ask a run's hosts for facts without waiting; its hosts and inventory stay until `gather` takes them."""
    hosts = run.remaining(hosts_to_ask(run))
    run.pending.answers[hosts] = begin_asking(run, hosts)


def begin_asking(run: Run, hosts: Iterable[str]) -> PendingAnswers[HostFacts]:
    """Ask hosts for their facts now, and return the pending answers."""
    run.pending.asked_at = time.monotonic()
    return on_each(hosts, lambda host: ask_facts_of(run, host))


def hosts_to_ask(run: Run) -> tuple[str, ...]:
    """The hosts that a survey asks: the controller, whose facts every plan needs, and the hosts of the run."""
    return tuple(dict.fromkeys((run.controller, *run.hosts)))


def gather(run: Run, hosts: tuple[str, ...], *, may_prepare: bool = True) -> dict[str, HostFacts]:
    """The facts of those hosts that answer, in their order, all asked at once; `may_prepare` may install python3.

    Raises InputError if SSH works for none, a new host is another cluster's while one lacks python3, or only the
    controller has the lock; DeployFailed if the controller does not answer. Nothing was changed.
    """
    run.progress.begin("asking", hosts)
    answers = run.pending.answers.pop(hosts, None) or begin_asking(run, hosts)
    facts, without_python, silent = collect_facts(run, answers)
    facts.update(without_sleepers(run, facts, silent, may_wake=may_prepare))
    if not (may_prepare and run.options.installs_python):
        exclude_all(run, without_python)
    run.require_controller()
    if run.controller in facts and missing_lock.is_missing(run.inventory):
        missing_lock.refuse_kept(run)
    if run.remaining(without_python):
        facts = without_foreign(run, facts)
    # The controller comes first: a run changes other hosts only when it has the controller's lock, and a controller
    # without python3 has no agent that could take that lock.
    for group in ((run.controller,), hosts):
        lacking = [host for host in run.remaining(group) if host in without_python and host not in facts]
        if lacking and run.controller not in lacking:
            require_claim(run)
        prepared = collect_facts(run, on_each(lacking, lambda host: install_python(run, host)))
        exclude_all(run, prepared.silent)
        facts.update(prepared.facts)
        run.require_controller()
    for host, reason in hostnames.taken(run.inventory.cluster, run.inventory.lock, facts).items():
        run.exclude(host, HostFailed(host, reason))
        del facts[host]
    run.require_controller()
    return {host: facts[host] for host in hosts if host in facts}


def without_foreign(run: Run, facts: Mapping[str, HostFacts]) -> dict[str, HostFacts]:
    """The facts of hosts that are no other cluster's; such ones are left out.

    Raises InputError if most hosts, or the controller, are another cluster's.
    """
    from slurmfab.core.plan.preflight import other_clusters  # hosts without python3 are rare

    inventory, allowed = run.inventory, run.options.approvals.allowed

    def own() -> dict[str, HostFacts]:
        found = {host: fact for host, fact in facts.items() if host not in run.failed_hosts}
        other_clusters.refuse_in_use(inventory.cluster, inventory.lock, found, allowed)
        return found

    return hear(run, own, facts)


class CollectedFacts(NamedTuple):
    """Answers of hosts that were asked for facts."""

    facts: dict[str, HostFacts]  # by host
    without_python: dict[str, PythonMissing]  # the errors of hosts that have no python3, by host
    silent: dict[str, HostError]  # the errors of hosts that may only be asleep, by host


def collect_facts(run: Run, answers: Iterable[tuple[str, HostFacts | SlurmfabError]]) -> CollectedFacts:
    """Wait for the answers of hosts that were asked for facts.

    `run`: the run; excludes hosts that do not answer, but not those without python3 or that may be asleep. `answers`:
    each host with its facts or its error. Raises InputError if the ssh section cannot work for any host.
    """
    facts: dict[str, HostFacts] = {}
    without_python: dict[str, PythonMissing] = {}
    silent: dict[str, HostError] = {}
    for host, answer in answers:
        if isinstance(answer, InputError):
            raise answer
        if isinstance(answer, PythonMissing):
            without_python[host] = answer
        elif isinstance(answer, HostError) and may_be_asleep(run, host, answer):
            silent[host] = answer
        elif isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        else:
            facts[host] = answer
            run.progress.host_done(host)
    return CollectedFacts(facts, without_python, silent)


def may_be_asleep(run: Run, host: str, error: HostError) -> bool:
    """Whether a host may be silent because Slurm has powered it down.

    Args:
        host: a host that did not answer.
        error: how that showed; a host that refuses a login, or shows another key, is awake.
    """
    return type(error) is Unreachable and run.inventory.cluster.roles(host) == ("compute",)


def without_sleepers(
    run: Run, facts: Mapping[str, HostFacts], silent: Mapping[str, HostError], *, may_wake: bool
) -> dict[str, HostFacts]:
    """Exclude silent hosts, those that Slurm has powered down as sleepers, and return the facts of those woken.

    `silent`: hosts that did not answer, each with its error. `may_wake`: whether nodes may be woken. Raises
    SlurmfabError if another run is changing the cluster, and nodes would have to be woken.
    """
    if not silent:
        return {}
    from slurmfab.core.engine import sleeping  # few runs have silent nodes

    asleep = sleeping.find(run, facts, silent)
    woken = sleeping.wake(run, asleep, apply_step) if may_wake else ()
    again = ask_woken(run, woken, LATE_SSHD if woken and not run.steps[-1].has_failed else 0.0)
    errors = {**silent, **asleep, **again.without_python, **again.silent}
    exclude_all(run, {host: error for host, error in errors.items() if host not in again.facts})
    return again.facts


def ask_woken(run: Run, hosts: tuple[str, ...], seconds: float) -> CollectedFacts:
    """Ask hosts that have just booted for facts, silent ones for so long: slurmd may be up before sshd listens."""
    deadline = time.monotonic() + seconds
    facts, without_python, silent = collect_facts(run, begin_asking(run, hosts) if hosts else ())
    while silent and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        later = collect_facts(run, begin_asking(run, tuple(silent)))
        facts.update(later.facts)
        without_python.update(later.without_python)
        silent = later.silent
    return CollectedFacts(facts, without_python, silent)


def exclude_all(run: Run, errors: Mapping[str, HostError]) -> None:
    """Go on without these hosts; those that are excluded already keep their errors."""
    for host in run.remaining(errors):
        run.exclude(host, errors[host])


def install_python(run: Run, host: str) -> HostFacts:
    """Install python3 on a host, and return the host's facts; HostError if it fails, or gives no answer."""
    begun = time.monotonic()
    run.before_change()
    try:
        run.transport.install_python(host)
        facts = ask_facts_of(run, host)
    except PythonMissing as error:
        raise HostFailed(host, error.reason) from error
    run.record_steps(Step("python", host, (Outcome("packages:python3", "changed"),), time.monotonic() - begun))
    return facts


def fact_selection(known: Inventory, node: str = "") -> dict[str, tuple[str, ...]]:
    """The users, groups, packages, services and GPU device files that a plan for this cluster depends on.

    `node`: the host, or for a new host a compute node with the same settings, which may name device files of GPUs.
    Returns names by kind: `users`, `groups`, `packages`, `services`, `gpu_files`, `site_files`, `state_directories`
    and so on.
    """
    users, groups = names_of(known.cluster, known.lock.ids)
    is_node = "compute" in known.cluster.roles(node)
    files = named_files(known.cluster.settings_of(node)) if is_node else ()
    own = known.cluster.packages.of_host(node, known.cluster.roles(node))
    return {
        **FACT_SELECTION,
        "users": tuple(dict.fromkeys((*FACT_SELECTION["users"], known.cluster.slurm_user, *users))),
        "groups": groups,
        "packages": tuple(dict.fromkeys((*FACT_SELECTION["packages"], *(one.name for one in own)))),
        "gpu_files": files,
        "members": known.cluster.member_groups if node == known.cluster.controller else (),
        "own_numbers": POWERFUL_GROUPS if known.cluster.directory else (),
        "site_files": known.cluster.site_file_names,
        "services": (*FACT_SELECTION["services"], *((FIREWALLD,) if known.cluster.firewall else ())),
        "state_directories": (known.cluster.state_directory,),
        "slurmd_parameters": slurmd_parameters(known.cluster.slurm_conf),
    }


def ask_facts_of(run: Run, host: str) -> HostFacts:
    """Ask one host of a run for its facts. Raises HostError if the host does not answer."""
    names = fact_selection(run.inventory, host)
    is_new = is_new_to(run.inventory.lock, host)
    return ask_facts(run.transport, host, with_secrets=host == run.controller, names=names, is_new=is_new)


def ask_facts(
    transport: Transport,
    host: str,
    *,
    with_secrets: bool,
    names: Mapping[str, tuple[str, ...]] = FACT_SELECTION,
    is_new: bool = False,
) -> HostFacts:
    """Ask one host for its facts; with secrets (munge key, slurm.conf) the controller alone.

    `names`: to look up, by kind. `is_new`: new to the lock, so that it tells whether a cluster uses it. Raises
    HostError.
    """
    request = {"op": "facts", **names, "with_munge_key": with_secrets, "with_slurm_conf": with_secrets}
    request |= {"is_new": True} if is_new else {}
    before = time.time()
    lines = transport.call(host, request)
    after = time.time()
    answer = next((line["facts"] for line in lines if "facts" in line), None)
    if answer is None:
        raise AgentFailed(host, "the agent's answer contains no facts. This is a bug; please report it.")
    facts = from_answer(host, answer, clock_of(host, answer, after) - (before + after) / 2)
    require_shown_key(host, facts, transport.host_key(host))
    reached, way = transport.ends(host)
    return replace(facts, reached=reached, way=way)


def require_shown_key(host: str, facts: HostFacts, shown: tuple[str, str] | None) -> None:
    """Make sure that the SSH host keys which a host tells of include the one by which it was reached.

    `shown`: type and base64 of the key that it showed; `None` if the transport knows none. Raises HostFailed if the key
    is not among them, so others would be told to trust keys that nobody has checked.
    """
    if shown is not None and facts.ssh_host_keys and shown not in facts.ssh_host_keys.items():
        raise HostFailed(
            host,
            f"its {shown[0]} host key in /etc/ssh is not the one that it shows to SSH, so its keys are not passed on "
            "to other hosts. Does its sshd use the keys there (HostKey in sshd_config)?",
        )


def apply_step(run: Run, phase: str, host: str, resources: Iterable[Any]) -> Step:
    """Have a host's agent change what differs; if the host is lost meanwhile, what it did until then is kept.

    The step is not in the run yet. Raises SlurmfabError for another run; HostError if the host was lost.
    """
    wanted = tuple(resources)
    require_claim(run)
    begun = time.monotonic()
    heard: list[Line] = []
    try:
        outcomes = request_apply(run, host, wanted, dry_run=False, heard=heard.append)
    except HostError as error:
        step = Step(phase, host, outcomes_until(wanted, heard, error), time.monotonic() - begun)
        if step.differs:
            run.record_steps(step)
        raise
    return Step(phase, host, tuple(outcomes), time.monotonic() - begun)


def outcomes_until(resources: Sequence[Any], lines: Iterable[Line], error: HostError) -> tuple[Outcome, ...]:
    """The outcomes that a host sent before it was lost, and an unknown one for the resource at work then.

    `resources`: what the host was to have, in order.
    """
    if not isinstance(error, (AgentFailed, ConnectionLost)):
        return ()  # the agent was never given the resources, or refused them
    known: tuple[Outcome, ...] = ()
    # A host may be lost because of its very lines: those that are no outcomes tell nothing.
    with suppress(SlurmfabError, TypeError, ValueError, AttributeError):
        for line in lines:
            known += (outcome_from(line["outcome"]),) if "outcome" in line else ()
    if len(known) >= len(resources):
        return known
    message = "no outcome came, so it may have been changed: an agent ends what it is at"
    return (*known, Outcome(resources[len(known)].id, UNKNOWN, message=message))


def request_apply(
    run: Run, host: str, resources: Iterable[Any], *, dry_run: bool, heard: Callable[[Line], None] = lambda _: None
) -> list[Outcome]:
    """Have a host's agent compare resources, or change what differs: an outcome for each, in order.

    `heard`: gets each line as it arrives. Raises SlurmfabError if another run changes the cluster, and this is no dry
    run; HostError if the host does not answer.
    """
    if not dry_run:
        require_claim(run)
    wanted = [*resources]
    lines = run.transport.call(host, apply_request(run, wanted, dry_run=dry_run), telling_waits(run, host, heard))
    return outcomes_of(host, lines, wanted)


def telling_waits(run: Run, host: str, heard: Callable[[Line], None] = lambda _: None) -> Callable[[Line], None]:
    """What gets a host's lines as they arrive: those that say what it waits for are shown, and others go to `heard`."""

    def hear(line: Line) -> None:
        if "waiting" in line:
            run.progress.host_waits(host, line["waiting"])
        else:
            heard(line)

    return hear


def outcomes_of(host: str, lines: Iterable[Line], wanted: Sequence[Any]) -> list[Outcome]:
    """The outcomes of wanted resources in a host's answer, in order; AgentFailed if it reports others."""
    outcomes = [outcome_from(line["outcome"], host) for line in lines if "outcome" in line]
    if len(outcomes) != len(wanted):
        raise AgentFailed(
            host, f"the agent reported {len(outcomes)} of {len(wanted)} resources. This is a bug; please report it."
        )
    for outcome, resource in zip(outcomes, wanted, strict=True):
        if outcome.id != resource.id:
            raise AgentFailed(host, f"the agent reported another resource in the place of {resource.id}. {ADVICE}")
        if {name for name, _ in outcome.others} - {*getattr(resource, "nodes", ())}:
            raise AgentFailed(host, f"{resource.id} reports hosts that it is not about. {ADVICE}")
    return outcomes


def apply_request(run: Run, resources: Iterable[Any], *, dry_run: bool) -> dict[str, Any]:
    """A request to compare resources, or to change what differs.

    Args:
        resources: what the host shall have; without any, the agent only takes the lock on its host.
        dry_run: whether the agent only compares.
    """
    request = {
        "op": "apply",
        "dry_run": dry_run,
        "who": f"{who()}, fab {run.options.command}",
        "run": run.id,
        "resources": [as_request(resource) for resource in resources],
    }
    return {**request, "digest_key": run.options.digest_key} if dry_run and run.options.digest_key else request


def require_claim(run: Run) -> None:
    """Make sure that no other run changes the cluster; called before anything is changed on any host.

    Raises SlurmfabError if another run is changing the cluster. Raises HostError if the controller does not answer.
    """
    with run.claim.mutex:
        if not run.claim.is_held:
            take_claim(run)


def refuse_beside_another(run: Run) -> tuple[Line, ...]:
    """What the primary controller says of its lock; SlurmfabError while another run has it, HostError of the host."""
    try:
        request = apply_request(run, (), dry_run=False)
        return run.transport.call(run.controller, request, telling_waits(run, run.controller))
    except AnotherRun as error:
        raise SlurmfabError(
            f"{error.host}: another run is changing this cluster: {error.holder}. This run changed nothing. "
            "Run the same command again when that run has ended."
        ) from None


def take_claim(run: Run) -> bool:
    """Take the lock on the primary controller for this run, before the run changes anything on any host.

    Every run takes this lock first. So of two runs that begin at the same moment, one changes nothing. A run that
    waited for it does not undo what another has written into its files. Returns whether another run had it after the
    facts, which may be outdated. Raises SlurmfabError while another run has it; FilesChanged; HostError.
    """
    lines = refuse_beside_another(run)
    changed_files.refuse(run)
    run.before_change()
    run.claim.mark_taken()
    idle = answer_value(run.controller, lines, "lock")["idle"] if lines else None
    return idle is not None and idle < time.monotonic() - run.pending.asked_at + CLOCK_MARGIN
