"""`fab reboot`: reboots compute nodes through Slurm, a few at a time; each must be back before the next one begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slurmfab.base.errors import HostError, InputError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.nodes import drain, node_proof
from slurmfab.core.engine import job_waiting, requests, session
from slurmfab.core.engine.actor import stamp
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.status.snapshot import Snapshot
from slurmfab.hosts.fan_out import on_each
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, Outcome
from slurmfab.on_hosts.agent.nodes.awake import SLEEPS
from slurmfab.on_hosts.agent.nodes.reboot import REBOOT_FLAGS, NodeReboot
from slurmfab.on_hosts.agent.nodes.states import SLURMS_OWN, NodeState

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class RebootOptions:
    """The options of `fab reboot`."""

    text: str = "reboot"  # the reason, without user and time
    at_once: int = 1  # how many nodes are rebooted at a time; at least 1
    minutes: float = 20  # how long a reboot may take, from the end of the node's jobs; at least 1


@dataclass
class Restart:
    """A node that is being rebooted; times are those of `time.monotonic`."""

    boot: str  # boot id before the reboot
    begun: float = field(default_factory=time.monotonic)  # when Slurm was asked to reboot the node
    away: float | None = None  # when the reboot began; `None` while the node's jobs end
    last_line: str = ""  # the last progress that was printed


def reboot(cluster: str, hosts: str, options: RebootOptions, output: session.Output) -> int:
    """Reboot compute nodes after their jobs have ended, and wait until each is back in service.

    Returns the exit code; 1 if a node did not come back. No other node is rebooted after that. Raises InputError if a
    node cannot be rebooted, or an option has a wrong value. Raises HostError if the controller or a node does not
    answer.
    """
    known = loading.load_named(cluster)
    names = drain.compute_nodes(known, hosts)
    refuse_unfit(known, names, options)
    run = session.start(known, hosts, output, RunOptions("reboot"))
    return session.perform(run, output, lambda run: roll(run, names, options))


def refuse_unfit(known: Inventory, names: Sequence[str], options: RebootOptions) -> None:
    """Refuse wrong options, the controller, and a cluster without RebootProgram, by InputError, before contact."""
    drain.checked_reason(options.text)
    if options.at_once < 1 or options.minutes < 1:
        raise InputError(f"--at-once {options.at_once} --timeout {options.minutes}: both must be at least 1.")
    if known.cluster.controller in names:
        raise InputError(
            f"{known.cluster.controller} is the primary controller, which Slurm cannot reboot. Reboot it by hand."
        )
    program = {key.lower(): value for key, value in known.cluster.slurm_conf.items()}.get("rebootprogram", "")
    if program is None:
        raise InputError(f"{known.path}: slurm_conf removes RebootProgram, so Slurm cannot reboot nodes.")


def roll(run: Run, names: Sequence[str], options: RebootOptions, pause: Callable[[float], None] = time.sleep) -> None:
    """Reboot nodes, a few at a time, until one of them does not come back, and is excluded.

    Raises HostError if a host, or later the controller for `job_waiting.SILENCE_SECONDS`, does not answer; InputError,
    before any reboot, if a node is out of service.
    """
    seen = job_waiting.nodes_and_jobs(run)
    drain.refuse_unknown(run.controller, seen, names)
    refuse_out_of_service(seen, names)
    boots = boot_ids(run, names)
    run.progress.begin("rebooting", names)
    waiting = list(names)
    under_way: dict[str, Restart] = {}
    heard = time.monotonic()
    while under_way or (waiting and not run.failed_hosts):
        while waiting and not run.failed_hosts and len(under_way) < options.at_once:
            host = waiting.pop(0)
            under_way[host] = Restart(boots[host])
            wanted = NodeReboot(host, options.text, stamp())
            (outcome,) = requests.request_apply(run, run.controller, [wanted], dry_run=False)
            if outcome.status == FAILED:
                run.exclude(host, HostError(host, f"Slurm does not reboot it: {outcome.message}."))
        pause(POLL_SECONDS)
        try:
            seen, heard = job_waiting.nodes_and_jobs(run), time.monotonic()
        except HostError:
            if time.monotonic() - heard > job_waiting.SILENCE_SECONDS:
                raise
            continue
        under_way = {
            host: one
            for host, one in under_way.items()
            if host not in run.failed_hosts and not is_finished(run, seen, host, one, options.minutes)
        }
    if waiting:
        run.progress.line(f"Not rebooted: {fold(waiting)}.")


def refuse_out_of_service(seen: Snapshot, names: Sequence[str]) -> None:
    """Refuse, by InputError, nodes that are down, asleep or drained by a user: after a reboot Slurm would use them."""
    states = {name: seen.by_name[name].state for name in names}
    asleep = [name for name, state in states.items() if state.flags & SLEEPS]
    if asleep:
        raise InputError(f"{fold(asleep)}: asleep, so it boots anyway when a job needs it. Nothing was rebooted.")
    out = [
        f"{name}: it is {state.description}{drain.format_reason(state)}"
        for name, state in states.items()
        if not state.is_in_service and not is_slurms_drain(state)
    ]
    if out:
        raise InputError(
            "\n".join(
                [
                    *out,
                    "A reboot would put this into service. Do not name such nodes, or first: "
                    f"{FAB} resume. Nothing was rebooted.",
                ]
            )
        )


def is_slurms_drain(state: NodeState) -> bool:
    """Whether Slurm drained a node that answers, for example because job processes did not end."""
    is_away = state.flags & {"DOWN", *REBOOT_FLAGS}
    return state.is_drained and state.answers and not is_away and state.reason.startswith(SLURMS_OWN)


def boot_ids(run: Run, names: Sequence[str]) -> dict[str, str]:
    """The boot ids of nodes; HostError if one cannot be reached, so that its return could not be verified."""
    run.progress.begin("asking", names)
    boots = {}
    for host, answer in on_each(names, lambda host: boot_id(run, host)):
        if not isinstance(answer, str):
            raise answer
        boots[host] = answer
    return boots


def boot_id(run: Run, host: str) -> str:
    """The boot id of a host, which is another one after each boot. Raises HostError if the host does not answer."""
    return requests.ask_facts(run.transport, host, with_secrets=False).boot


def is_finished(run: Run, seen: Snapshot, host: str, one: Restart, minutes: float) -> bool:
    """Whether a node is back in service after a reboot, or was excluded after so many minutes."""
    state = seen.by_name[host].state
    if "REBOOT_REQUESTED" in state.flags:
        jobs = job_waiting.format_jobs(job_waiting.jobs_on(seen, [host])) or "jobs that are completing"
        print_progress(run, host, one, f"waits for jobs: {jobs}")
        return False
    if one.away is None:
        one.away = time.monotonic()
        print_progress(run, host, one, "reboots")
    problem = f"in Slurm it is {state.description}{drain.format_reason(state)}"
    if not state.flags & REBOOT_FLAGS and state.is_in_service:
        problem = unfinished_reason(run, host, one.boot)
        if not problem and not node_proof.run_jobs(
            run, (host,), lambda node, why: run.exclude(node, HostError(node, f"{why}. No other node is rebooted."))
        ):
            return True
        if not problem:
            done = Outcome(f"reboot:{host}", CHANGED, seconds=time.monotonic() - one.begun)
            run.record_steps(Step("reboot", host, (done,), done.seconds))
            run.progress.host_done(host, run.steps[-1])
            return True
    if time.monotonic() - one.away < minutes * 60:
        return False
    run.exclude(
        host,
        HostError(
            host,
            f"it is not back {minutes:g} min after its reboot began: {problem}. "
            "Look at its console. No other node is rebooted.",
        ),
    )
    return True


def unfinished_reason(run: Run, host: str, boot: str) -> str:
    """Why a node that is in service in Slurm is not back; empty if it answers and has another boot id."""
    try:
        if boot_id(run, host) != boot:
            return ""
    except HostError as error:
        return f"it is in service in Slurm, but {error.reason}"
    return "it is in service in Slurm, but the machine was not rebooted. Check RebootProgram there"


def print_progress(run: Run, host: str, one: Restart, text: str) -> None:
    """Print the progress of a reboot, unless it is the same as before."""
    if text != one.last_line:
        one.last_line = text
        run.progress.line(f"{host}: {text}.")
