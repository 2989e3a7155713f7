"""`fab drill`: brings faults about one after the other, measures what Slurm makes of them, and takes them back."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurmfab.base import atomic_file
from slurmfab.base.errors import HostError, InputError, SlurmfabError
from slurmfab.base.exit_codes import DONE
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import columns, table, write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.drill.drills import DRILLS, FAILOVER, ON_CONTROLLER, SPARE, Drill, Script
from slurmfab.commands.drill.results import COMMAND, NOT_PASSED, NOT_RUN, PASSED, Result, Verdict, alerts, as_step
from slurmfab.commands.nodes import node_proof
from slurmfab.commands.nodes.drain import compute_nodes
from slurmfab.core.engine import record, requests, session
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.job_waiting import format_jobs, jobs_by_node, jobs_on, nodes_and_jobs
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.impact.job_tally import running
from slurmfab.core.status import snapshot
from slurmfab.core.status.snapshot import Job, Node, Snapshot, ask_up
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import FAILED
from slurmfab.on_hosts.agent.nodes.acceptance import SLURM
from slurmfab.on_hosts.agent.nodes.awake import SLEEPS
from slurmfab.on_hosts.agent.nodes.registered import SILENT
from slurmfab.on_hosts.agent.nodes.resume import NodeResume
from slurmfab.on_hosts.agent.nodes.timed_fault import TimedFault

RESERVATION = "slurmfab_drill"
HOLD = "hold"  # the name of the reservation among faults: it ends by itself as they do
POLL_SECONDS = 0.5
PATIENCE = 2.0  # seconds: Slurm's commands wait for half of SlurmctldTimeout where a controller is on standby
SAME_BOOT_SECONDS = 10.0  # by so much two times of one boot may differ
INTERRUPTED = (
    "the drill ends early, and its fault with it. If the node is down, Slurm may leave it so for half an hour, or for "
    "good. To have it back:"
)
MOST_NAMED, MOST_TRIED = 6, 6  # so many nodes are named with why they are not fit, and tried to be reserved


class NotFit(Exception):
    """A drill that cannot be done; the text says why. Nothing was changed, or it was taken back."""


class NotHeld(NotFit):
    """A node that Slurm does not reserve, as because a job has just begun there."""


@dataclass(frozen=True)
class DrillOptions:
    """The options of `fab drill`."""

    names: tuple[str, ...] = ()  # names of drills; empty to list them
    node: str = ""  # the compute node for faults of nodes; empty for one that is idle
    junit: str = ""  # file for the results as JUnit XML; empty for none
    asks: bool = True  # whether the user is asked, on a terminal, before it begins


@dataclass
class Measured:
    """What is measured while a fault lasts and afterwards; seconds since its beginning, or since its end."""

    begun: float = field(default_factory=time.monotonic)
    noticed: float | None = None
    out: float | None = None
    back: float | None = None
    lasted: float = 0.0
    sign: str = ""
    has_booted: bool = False  # whether the node was in service again before it was down
    is_resumed: bool = False  # whether the node had to be resumed
    trouble: str = ""  # why not all is well again


def drill(cluster: str, options: DrillOptions, output: session.Output) -> int:
    """Carry out drills, or list them; returns the exit code of `Verdict`. Raises InputError for wrong options."""
    known = loading.load_named(cluster)
    if not options.names:
        if options.node or options.junit or output.json:
            raise InputError(f"Name the drills: {', '.join(DRILLS)}.")
        write("\n".join(listed(known, columns(output.stream))), output.stream)
        return DONE
    wanted = [named(name) for name in options.names]
    node = only_node(known, options.node)
    if options.junit:
        atomic_file.require_writable(Path(options.junit), "--junit")
    run = session.start(known, "", output, RunOptions(COMMAND, asks=options.asks))
    with session.ending(run):
        verdict = carry_out(run, wanted, node, lambda text: write(text, output.stream))
    write(verdict.headline, output.stream)
    if options.junit:
        atomic_file.write(Path(options.junit), verdict.as_junit(), through_link=True)
    output.write_json(verdict)
    return verdict.exit_code


def named(name: str) -> Drill:
    """A drill by its name. Raises InputError if there is none."""
    if name not in DRILLS:
        raise InputError(f"{name!a} is no drill. There are {', '.join(DRILLS)}; {FAB} drill tells what they do.")
    return DRILLS[name]


def only_node(known: Inventory, node: str) -> str:
    """The node that the user named, if so; InputError if it is not one compute node."""
    names = compute_nodes(known, node) if node else ()
    if len(names) > 1:
        raise InputError(f"--node {node}: these are {len(names)} nodes. A drill is for one.")
    return names[0] if names else ""


def listed(known: Inventory, width: int) -> list[str]:
    """A table of all drills: what each does, where, and why not here if so."""
    rows = [("DRILL", "WHERE", "WHAT HAPPENS", "HERE")]
    for one in DRILLS.values():
        whys = {host: why_not_by_file(known, one, host) for host in hosts_for(known.cluster, one)}
        is_here = not all(whys.values())
        unless = f", unless it is {one.unless}" if one.unless else ""
        rows.append((one.name, one.where, one.what, f"yes{unless}" if is_here else f"no: {reasons(whys)}"))
    return table(rows, width)


def hosts_for(cluster: Cluster, one: Drill) -> tuple[str, ...]:
    """The hosts on which a drill may be, without asking them."""
    return (cluster.controller,) if one.where == ON_CONTROLLER else cluster.compute_nodes


def why_not_by_file(known: Inventory, one: Drill, host: str) -> str:
    """Why a drill is not for a host, by the cluster file and the lock; empty if it is."""
    cluster = known.cluster
    if one.where != ON_CONTROLLER and (cluster.roles(host) != ("compute",) or host in cluster.servers):
        return "is more than a compute node"
    return one.why_not(known, host)


def why_not_now(node: Node | None, jobs: Sequence[Job]) -> str:
    """Why a node is not free for a drill, as Slurm knows it and its jobs; empty if it is. One with a job never is."""
    if node is None:
        return "slurmctld does not know it"
    if jobs or not node.is_empty:
        return f"has jobs: {format_jobs(jobs) or 'they are completing'}"
    if node.state.flags & SLEEPS:
        return "is asleep"
    if not node.is_free:
        return f"is {node.state.with_reason}"
    return "is reserved" if "RESERVED" in node.state.flags else ""


def reasons(whys: Mapping[str, str]) -> str:
    """Why hosts are not fit, in one line, folded; of many reasons the first."""
    lines = fold_lines(whys.items())
    return "; ".join(lines[:MOST_NAMED]) + (f"; and {len(lines) - MOST_NAMED} more" if len(lines) > MOST_NAMED else "")


def fit_nodes(known: Inventory, seen: Snapshot, one: Drill, node: str) -> tuple[str, ...]:
    """The nodes on which a drill can be done, only `node` unless that is empty. Raises NotFit if there is none."""
    candidates = (node,) if node else known.cluster.compute_nodes
    nodes, jobs = seen.by_name, jobs_by_node(seen)
    whys = {
        host: why_not_by_file(known, one, host) or why_not_now(nodes.get(host), jobs.get(host, ()))
        for host in candidates
    }
    fit = tuple(host for host, why in whys.items() if not why)
    if not fit:
        raise NotFit(reasons(whys))
    return fit


def carry_out(run: Run, wanted: Sequence[Drill], node: str, tell: Callable[[str], None]) -> Verdict:
    """Carry out drills one after the other, telling each result, and keep them in the record of the run."""
    begun, results = time.monotonic(), list[Result]()
    lines = [f"{one.name}: {one.what} ({node or one.where})." for one in wanted]
    run.confirm("\n".join(["On purpose, one after the other:", *lines, "Each is taken back."]), "Begin?")
    try:
        requests.require_claim(run)
        for one in wanted:
            results.append(result_of(run, one, node))
            run.progress.end()
            if results[-1].host:
                run.record_steps(as_step(results[-1]))
            tell(results[-1].line)
    except SlurmfabError as error:
        record.finish(run, str(error))
        raise
    except BaseException:
        run.update_record()
        raise
    record.finish(run)
    return Verdict(run.inventory.cluster.name, tuple(results), time.monotonic() - begun)


def result_of(run: Run, one: Drill, node: str) -> Result:
    """Carry out one drill. Raises HostError if the controller does not answer before it begins."""
    try:
        seen = nodes_and_jobs(run)
        if one.where != ON_CONTROLLER:
            return on_node(run, one, fit_nodes(run.inventory, seen, one, node))
        if why := one.why_not(run.inventory, run.controller):
            raise NotFit(why)
        return on_controller(run, one, seen)
    except NotFit as why:
        return Result(one.name, "", NOT_RUN, cause=str(why))


def on_node(run: Run, one: Drill, nodes: Sequence[str]) -> Result:
    """A drill on the first of these nodes that Slurm reserves. Raises NotFit if it is not fit, or none is reserved."""
    whys = {}
    for node in nodes[:MOST_TRIED]:
        try:
            with held(run, one, node):
                return drilled(run, one, node)
        except NotHeld as why:
            whys[node] = str(why)
    raise NotFit(reasons(whys))


@contextmanager
def held(run: Run, one: Drill, node: str) -> Iterator[None]:
    """While in this context no job but slurmfab's own gets the node. Raises NotHeld if it has one."""
    cluster = run.inventory.cluster
    most = int(one.noticed(cluster) + one.back(cluster)) + 10 * SPARE
    gone = shlex.join(commands.delete_reservation(RESERVATION))
    reserve = shlex.join(commands.reserve_idle(RESERVATION, SLURM, node, most // 60 + 1))
    script = Script(f"{gone} 2>/dev/null || :\n{reserve}\n", f"{gone}\n")
    with ExitStack() as stack:
        try:
            stack.enter_context(fault(run, run.controller, HOLD, script, most))
        except NotFit as error:
            raise NotHeld(f"is not reserved: {error}") from error
        if jobs := jobs_on(nodes_and_jobs(run), [node]):
            raise NotHeld(f"has jobs: {format_jobs(jobs)}")
        yield


@contextmanager
def fault(run: Run, host: str, name: str, script: Script, most: int) -> Iterator[Callable[[], str]]:
    """A fault on a host; NotFit if it does not begin. It ends with the context, by itself after `most` seconds.

    Yields a function that ends it before, and returns why that did not work, if so.
    """
    is_ended = False

    def end() -> str:
        nonlocal is_ended
        try:
            trouble = "" if is_ended else applied(run, host, TimedFault(name))
        except HostError as error:
            trouble = error.reason.rstrip(".")
        is_ended = not trouble
        return trouble and f"{name} is not taken back yet ({trouble}). It ends by itself, in {most} s at the latest"

    try:
        trouble = applied(run, host, TimedFault(name, script.begin, script.end or ":", most))
    except HostError as error:  # should it have begun, it ends by itself
        trouble = error.reason
    if trouble:
        raise NotFit(f"{host}: {trouble.rstrip('.')}")
    try:
        yield end
    finally:
        if trouble := end():
            run.progress.line(f"{host}: {trouble}.")


def applied(run: Run, host: str, wanted: TimedFault) -> str:
    """Begin or end a fault; why that failed, if so. Raises HostError if the host does not answer."""
    (outcome,) = requests.request_apply(run, host, [wanted], dry_run=False)
    return outcome.message.rstrip(".") if outcome.status == FAILED else ""


def drilled(run: Run, one: Drill, node: str) -> Result:
    """A drill on a node that is held: the fault, what Slurm makes of it, and its return."""
    cluster, found = run.inventory.cluster, Measured()
    limit, before, script = one.noticed(cluster), nodes_and_jobs(run).by_name[node], one.script(run.inventory, node)
    run.progress.begin(f"drill {one.name}", [node])
    with fault(run, node, one.name, script, int(limit) + SPARE) as end:
        found.begun = time.monotonic()
        try:
            until(limit, lambda: is_over(found, node_now(run, node), before))
            found.lasted = time.monotonic() - found.begun
            is_late = bool(end()) and bool(script.end)  # a machine that boots does not answer now, and has no fault
            watch_return(run, one, node, found)
        except BaseException:
            run.progress.line(f"{node}: {INTERRUPTED} {FAB} resume {node}")
            raise
        found.trouble = found.trouble or end()
        if is_late and not found.trouble:
            found.back, found.trouble = None, "it did not answer when the fault was to end, which then ended by itself"
    return judged(cluster, one, node, found)


def node_now(run: Run, node: str) -> Node | None:
    """A node as Slurm knows it now; `None` if no controller tells."""
    with suppress(HostError, KeyError):
        return ask_up(run.transport, run.controller, ("nodes",)).by_name[node]
    return None


def is_over(found: Measured, now: Node | None, before: Node) -> bool:
    """Whether a node is drained or down, or was back before; notes the times of this and of the first sign."""
    if now is None or (now.state.is_in_service and not has_booted(now, before)):
        return False
    seconds = time.monotonic() - found.begun
    found.noticed = seconds if found.noticed is None else found.noticed
    found.sign = now.state.with_reason
    if now.state.is_drained or now.state.flags & {"DOWN", "FAIL"}:
        found.out = seconds
    elif now.state.is_in_service:
        found.has_booted, found.sign = True, "it booted, and was back before Slurm had it down"
    return found.out is not None or found.has_booted


def has_booted(now: Node, before: Node) -> bool:
    """Whether a node has booted since; its slurmd tells the time since the boot, so that the same boot varies a bit."""
    earlier, later = commands.moment(before.boot), commands.moment(now.boot)
    return earlier is not None and later is not None and later - earlier > SAME_BOOT_SECONDS


def until(limit: float, holds: Callable[[], bool]) -> bool:
    """Poll until a condition holds, for so many seconds at most; whether it did."""
    deadline = time.monotonic() + limit
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def watch_return(run: Run, one: Drill, node: str, found: Measured) -> None:
    """Wait until a node is in service and has run a job; resume one that Slurm leaves down."""
    ended = found.begun + found.lasted

    def is_back(*, is_late: bool = False) -> bool:
        now = node_now(run, node)
        if now is None:
            return False
        if "DOWN" in now.state.flags and is_left_down(now, is_late=is_late):
            found.is_resumed = True
            requests.request_apply(run, run.controller, [NodeResume((node,))], dry_run=False)
        return now.state.is_in_service

    # The second question is whether the resumption has helped.
    if not (until(one.back(run.inventory.cluster), is_back) or is_back(is_late=True) or is_back()):
        now = node_now(run, node)
        words = now.state.with_reason if now else "unknown, since slurmctld does not answer"
        found.trouble = f"{time.monotonic() - ended:.0f} s after its end the node is {words}"
        return
    try:
        node_proof.run_jobs(run, (node,), lambda _, why: setattr(found, "trouble", why), RESERVATION)
    except HostError as error:
        found.trouble = error.reason
    found.back = None if found.trouble else time.monotonic() - ended


def is_left_down(now: Node, *, is_late: bool) -> bool:
    """Whether Slurm leaves a node down: after a reboot that it did not ask for, or one that was silent.

    One that answers again stays down if it has been silent twice without a job in between: only the reason `SILENT`
    itself lets it return, and Slurm appends it to the one of the first time. slurmctld pings no node that it has set
    down: it asks some of them, in turn, with each of its rounds, so that one waits for up to 20 rounds of a third of
    SlurmdTimeout, more in clusters with more than 320 nodes (ping_nodes.c).
    """
    if not now.state.answers:
        return is_late and now.state.reason.startswith(SILENT)
    return "unexpectedly rebooted" in now.state.reason or now.state.reason.startswith(SILENT)


def on_controller(run: Run, one: Drill, seen: Snapshot) -> Result:
    """A drill of slurmctld, with the jobs of before counted afterwards."""
    cluster, host, found = run.inventory.cluster, run.controller, Measured()
    silent = [controller.host for controller in seen.controllers if not controller.is_up]
    if silent:
        raise NotFit(f"slurmctld does not answer on {fold(silent)}")
    limit, takes_over = one.noticed(cluster), one.name == FAILOVER
    nodes = tuple(node.name for node in seen.nodes if node.state.is_in_service)
    run.progress.begin(f"drill {one.name}", [host])
    with fault(run, host, one.name, one.script(run.inventory, host), int(limit) + SPARE) as end:
        found.begun = time.monotonic()
        if until(limit, lambda: is_served(run, needs_primary=not takes_over)):
            found.noticed = time.monotonic() - found.begun
        found.lasted = time.monotonic() - found.begun
        found.trouble = end()
        if until(one.back(cluster), lambda: is_served(run, nodes, needs_primary=True)):
            found.back = time.monotonic() - found.begun - found.lasted
    if found.back is None:
        late = "slurmctld does not answer there, or not all nodes that were in service are"
        found.trouble = found.trouble or f"{one.back(cluster):.0f} s later {late}"
    found.trouble = lost_jobs(run, seen) or found.trouble
    return judged(cluster, one, host, found)


def is_served(run: Run, nodes: Sequence[str] = (), *, needs_primary: bool) -> bool:
    """Whether a slurmctld, perhaps the primary, is in charge, with these nodes in service; one on standby is not."""
    with suppress(HostError, KeyError):
        # A controller on standby answers a ping, but tells no partitions.
        seen = snapshot.ask(run.transport, run.controller, ())
        if needs_primary and not any(one.role == "primary" and one.is_up for one in seen.controllers):
            return False
        ask_up(run.transport, run.controller, ("partitions",), PATIENCE)
        by_name = nodes_and_jobs(run).by_name if nodes else {}
        return all(by_name[node].state.is_in_service for node in nodes)
    return False


def lost_jobs(run: Run, before: Snapshot) -> str:
    """What became of the jobs of before, if some did not go on; empty if all did."""
    safety = JobSafety(run)
    safety.counted_at, safety.jobs_before = time.monotonic(), {job.number: job for job in before.jobs}
    safety.running_before = len(running(before.jobs))
    safety.count_jobs_again()
    tally = safety.impact.tally
    run.set_job_impact(replace(safety.impact, tally=None))
    return " ".join(tally.lines) if tally and tally.is_broken else ""


def judged(cluster: Cluster, one: Drill, host: str, found: Measured) -> Result:
    """The verdict about what was measured."""
    limit, is_node = one.noticed(cluster), one.where != ON_CONTROLLER
    cause, repair = found.trouble, ""
    if found.noticed is None:
        late = "Slurm did not notice it" if is_node else "no slurmctld answered"
        cause, repair = f"{late} within {limit:.0f} s{f'; {cause}' if cause else ''}", one.advice
    elif is_node and found.out is None and not (cause or found.has_booted):
        cause, repair = f"after {limit:.0f} s the node was neither drained nor down: {found.sign}", one.advice
    elif cause and is_node:
        repair = f"{FAB} explain {host}, and then {FAB} resume {host}"
    times = (found.noticed, found.out, found.back, found.lasted)
    told = alerts(cluster, one, found.lasted + (found.back or 0))
    outcome = NOT_PASSED if cause else PASSED
    return Result(one.name, host, outcome, *times, found.sign, cause, repair, told, found.is_resumed)
