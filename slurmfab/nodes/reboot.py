"""`reboot`: compute nodes restarted through Slurm, a few at a time, each seen to be back before the next begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurmfab import asking, inventory, operations
from slurmfab.agent.node_reboot import FLAGS, NodeReboot
from slurmfab.agent.node_states import SLURMS_OWN, NodeState
from slurmfab.agent.resource import CHANGED, FAILED, Outcome
from slurmfab.errors import HostError, InputError
from slurmfab.hostlist import fold
from slurmfab.inventory import Inventory
from slurmfab.nodes import draining
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.signature import stamp
from slurmfab.ssh.fan_out import on_each
from slurmfab.status import snapshot
from slurmfab.status.snapshot import Snapshot

PARTS = ("nodes", "jobs")
POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Wish:
    """How nodes are to be restarted.

    Args:
        text: why, without who and when.
        at_once: how many at a time.
        minutes: how long a node may be away, from the end of its jobs to its return.
    """

    text: str = "reboot"
    at_once: int = 1
    minutes: float = 20


@dataclass
class Restart:
    """A node that is being restarted.

    Args:
        boot: what told its old boot from others.
        begun: when Slurm was asked.
        away: since when it is being restarted, `None` while its jobs end.
        told: what was last said of it.
    """

    boot: str
    begun: float = field(default_factory=time.monotonic)
    away: float | None = None
    told: str = ""


def reboot(cluster: str, hosts: str, wish: Wish, output: operations.Output) -> int:
    """Restart compute nodes and see each come back; jobs that run there end first.

    Args:
        cluster: the cluster file's path, empty for the default one.
        hosts: hostlist of compute nodes.
        wish: how.
        output: what to tell.

    Returns:
        The exit code; 1 when a node did not come back, after which no other was begun.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    names = draining.compute_nodes(known, hosts)
    refuse_unfit(known, names, wish)
    run = operations.start(known, hosts, output, command="reboot")
    return operations.perform(run, output, lambda run: roll(run, names, wish))


def refuse_unfit(known: Inventory, names: Sequence[str], wish: Wish) -> None:
    """Refuse what cannot work, before anybody is asked.

    Raises:
        InputError: with the reason.
    """
    draining.checked_reason(wish.text)
    if wish.at_once < 1 or wish.minutes < 1:
        raise InputError(f"--at-once {wish.at_once} --timeout {wish.minutes}: both are at least 1.")
    if known.cluster.controller in names:
        raise InputError(
            f"{known.cluster.controller} is the primary controller, which Slurm cannot restart. "
            "Reboot it by hand when it suits you."
        )
    program = {key.lower(): value for key, value in known.cluster.slurm_conf.items()}.get("rebootprogram", "")
    if program is None:
        raise InputError(f"{known.path}: slurm_conf leaves RebootProgram out, so Slurm cannot restart nodes.")


def roll(run: Run, names: Sequence[str], wish: Wish, pause: Callable[[float], None] = time.sleep) -> None:
    """Restart nodes one after the other, or as many at a time as wished, until one does not come back.

    Args:
        run: the run; it gains a step for each node that is back, and loses the one that is not.
        names: compute nodes.
        wish: how.
        pause: waits for that many seconds.

    Raises:
        HostError: the controller or a node does not answer before anything was begun, or the controller for too long.
        InputError: a node is out of service; nothing was begun.
    """
    seen = snapshot.ask_up(run.transport, run.controller, PARTS)
    draining.refuse_unknown(run.controller, seen, names)
    refuse_out_of_service(seen, names)
    boots = boots_of(run, names)
    run.progress.begin("rebooting", names)
    waiting = list(names)
    under_way: dict[str, Restart] = {}
    heard = time.monotonic()
    while under_way or (waiting and not run.lost):
        while waiting and not run.lost and len(under_way) < wish.at_once:
            host = waiting.pop(0)
            under_way[host] = Restart(boots[host])
            ask_for(run, host, wish.text)
        pause(POLL_SECONDS)
        try:
            seen, heard = snapshot.ask_up(run.transport, run.controller, PARTS), time.monotonic()
        except HostError:
            if time.monotonic() - heard > draining.SILENCE_SECONDS:
                raise
            continue
        under_way = {
            host: one
            for host, one in under_way.items()
            if host not in run.lost and not is_through(run, seen, host, one, wish.minutes)
        }
    if waiting:
        run.progress.line(f"Not begun: {fold(waiting)}.")


def refuse_out_of_service(seen: Snapshot, names: Sequence[str]) -> None:
    """Refuse nodes that somebody has drained, or that are down: a restart through Slurm would bring them into service.

    Raises:
        InputError: with each of them, its state and its reason.
    """
    states = {name: seen.by_name[name].state for name in names}
    out = [
        f"{name}: it is {state.words}{draining.given(state)}"
        for name, state in states.items()
        if not state.is_in_service and not is_slurms_drain(state)
    ]
    if out:
        raise InputError(
            "\n".join(
                [
                    *out,
                    "A reboot would bring that back into service. Leave it out, or first: "
                    "fab resume. Nothing was rebooted.",
                ]
            )
        )


def is_slurms_drain(state: NodeState) -> bool:
    """Whether Slurm itself has drained a node that answers, as for processes that did not end; a reboot cures that."""
    is_away = state.flags & {"DOWN", *FLAGS}
    return state.is_drained and state.answers and not is_away and state.reason.startswith(SLURMS_OWN)


def boots_of(run: Run, names: Sequence[str]) -> dict[str, str]:
    """What tells the present boot of each node from others.

    Raises:
        HostError: one cannot be reached, so nobody could see it come back; nothing was begun.
    """
    run.progress.begin("asking", names)
    boots = {}
    for host, answer in on_each(names, lambda host: boot_of(run, host)):
        if not isinstance(answer, str):
            raise answer
        boots[host] = answer
    return boots


def boot_of(run: Run, host: str) -> str:
    """What tells a host's present boot from others.

    Raises:
        HostError: it does not answer.
    """
    return asking.ask_facts(run.transport, host, with_secrets=False).boot


def ask_for(run: Run, host: str, text: str) -> None:
    """Ask Slurm for a node's restart; where it refuses, the node is lost to the run."""
    wanted = NodeReboot(host, text, stamp())
    (outcome,) = asking.request_apply(run, run.controller, [wanted], dry_run=False)
    if outcome.status == FAILED:
        run.lose(host, HostError(host, f"Slurm does not reboot it: {outcome.message}."))


def is_through(run: Run, seen: Snapshot, host: str, one: Restart, minutes: float) -> bool:
    """Whether nothing is left to wait for: the node is back and seen to be, or it is lost to the run.

    Args:
        run: the run.
        seen: Slurm at this moment.
        host: the node.
        one: its restart, which remembers since when the node is away.
        minutes: how long it may be.
    """
    state = seen.by_name[host].state
    if "REBOOT_REQUESTED" in state.flags:
        tell(run, host, one, f"waits for jobs: {draining.job_words(draining.jobs_on(seen, [host])) or 'ending'}")
        return False
    if one.away is None:
        one.away = time.monotonic()
        tell(run, host, one, "restarts")
    trouble = f"Slurm has it {state.words}{draining.given(state)}"
    if not state.flags & FLAGS and state.is_in_service:
        trouble = unchanged(run, host, one.boot)
        if not trouble:
            done = Outcome(f"reboot:{host}", CHANGED, seconds=time.monotonic() - one.begun)
            run.steps.append(Step("reboot", host, (done,), done.seconds))
            run.progress.host_done(host, run.steps[-1])
            return True
    if time.monotonic() - one.away < minutes * 60:
        return False
    run.lose(
        host,
        HostError(
            host,
            f"it is not back {minutes:g} min after its reboot began: {trouble}. "
            "Look at its console; no other node is begun.",
        ),
    )
    return True


def unchanged(run: Run, host: str, boot: str) -> str:
    """Why a node that Slurm counts as back is not, empty when it is: it answers, and runs since another boot."""
    try:
        if boot_of(run, host) != boot:
            return ""
    except HostError as error:
        return f"Slurm has it back, but {error.reason}"
    return "Slurm has it in service, but the machine was not restarted. Does RebootProgram work there?"


def tell(run: Run, host: str, one: Restart, words: str) -> None:
    """Say something of a node, unless it was the last that was said."""
    if words != one.told:
        one.told = words
        run.progress.line(f"{host}: {words}.")
