"""A new munge key on all hosts: staged everywhere, switched at one moment, and proved on every node.

munged knows one key at a time. While hosts have different ones they believe each other nothing, so that is kept as
short as a restart of munged. slurmctld is away meanwhile: what nobody hears is told again, and what is refused is not.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from slurmfab import inventory, operations
from slurmfab.agent.munge_key import NEW_SIZE
from slurmfab.agent.munge_rotation import MungeKeySwitch, StagedMungeKey, digest
from slurmfab.agent.resource import FAILED, Resource
from slurmfab.agent.slurmctld_pause import SlurmctldPause
from slurmfab.asking import gather, request_apply, require_claim
from slurmfab.errors import HostError, HostFailed, SlurmfabError, Unreachable
from slurmfab.facts import HostFacts
from slurmfab.hostlist import fold
from slurmfab.munge import key_proof
from slurmfab.munge.key_proof import Before
from slurmfab.nodes.draining import job_words, jobs_on
from slurmfab.phases.daemons import runs_slurmctld
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.situation import Situation
from slurmfab.ssh.fan_out import on_each

COMMAND = "rotate-munge-key"

GRACE_SECONDS = 1.0
"""How long the old key stays after slurmctld has gone: whoever was just given a job step launches it in that time."""

NO_CHANGE = "All hosts keep the munge key that they have."
OLD_KEY = "It holds the old munge key. When it is back: fab deploy gives it the new one."
EITHER_KEY = "It holds the old munge key or the new one. When that is mended: fab deploy gives it the new one."

Result = TypeVar("Result")


def rotate_munge_key(cluster: str, output: operations.Output) -> int:
    """Give all hosts of a cluster a new munge key.

    Args:
        cluster: the cluster file's path, empty for the default one.
        output: what to tell.

    Returns:
        The exit code; 3 when hosts could not be reached, which hold the old key.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    return operations.perform(operations.start(known, "", output, command=COMMAND), output, rotate)


def rotate(run: Run) -> None:
    """Rotate the key on the hosts that can be reached; the others are lost to the run.

    Raises:
        DeployFailed: the controller does not answer; nothing was changed.
        SlurmfabError: a host that answers cannot take part, and no host has the new key; or nothing can be proved.
    """
    facts = gather(run, run.hosts, may_prepare=False)
    refuse_undeployed(run, facts)
    require_claim(run)
    together(run, "locking", run.well(run.hosts), lambda host: request_apply(run, host, [], dry_run=False))
    situation = Situation(run.inventory.cluster, run.inventory.lock, facts)
    before = key_proof.before(run, situation)
    key = os.urandom(NEW_SIZE)
    stage(run, base64.b64encode(key).decode())
    without = tuple(run.lost)
    exchange(run, digest(key), [name for name in situation.cluster.controllers if runs_slurmctld(situation, name)])
    for host in without:
        run.lost[host] = with_words(run.lost[host], f"{OLD_KEY}{jobs_hurt(before, host)}")
    if run.controller in run.lost:
        raise SlurmfabError(
            f"{run.controller} is the controller, so the new key could not be proved. Other hosts have it already. "
            f"When {run.controller} is well, fab deploy makes its key, old or new, the key of all hosts."
        )
    key_proof.prove(run, before)


def refuse_undeployed(run: Run, facts: Mapping[str, HostFacts]) -> None:
    """Refuse hosts that have no munge yet, and a controller without a key.

    Raises:
        SlurmfabError: there are some; nothing was changed.
    """
    bare = [host for host, fact in facts.items() if "munge" not in fact.packages or "munge" not in fact.accounts]
    if bare:
        raise SlurmfabError(f"{fold(bare)}: munge is not installed there yet. First: fab deploy. {NO_CHANGE}")
    if not facts[run.controller].munge_key:
        raise SlurmfabError(f"{run.controller}: there is no munge key yet. First: fab deploy. {NO_CHANGE}")


def stage(run: Run, content: str) -> None:
    """Write the new key beside the old one on all hosts, or on none that answers.

    Args:
        run: the run.
        content: the key in base64.

    Raises:
        SlurmfabError: it cannot be written on some host.
    """
    try:
        together(run, "staging", run.well(run.hosts), lambda host: applied(run, host, StagedMungeKey(content)))
    except SlurmfabError:
        unstage(run)
        raise


def unstage(run: Run) -> None:
    """Remove staged keys from all hosts that answer; what stays elsewhere the next deployment removes."""
    for host, answer in on_each(run.well(run.hosts), lambda host: applied(run, host, StagedMungeKey(""))):
        if isinstance(answer, SlurmfabError):
            run.lose(host, answer)


def exchange(run: Run, key_digest: str, controllers: Sequence[str]) -> None:
    """Switch to the staged key while no slurmctld is there, and tell how long that took.

    Args:
        run: the run.
        key_digest: of the new key.
        controllers: the hosts on which slurmctld runs.

    Raises:
        SlurmfabError: slurmctld cannot be stopped for a moment; no host has the new key.
    """
    begun = time.monotonic()
    try:
        pause = SlurmctldPause(grace=GRACE_SECONDS)
        together(run, "stopping slurmctld", run.well(controllers), lambda host: applied(run, host, pause))
        window = switch(run, key_digest)
    except SlurmfabError:
        unstage(run)
        raise
    finally:
        resume(run, controllers)
    measured = {"keys differed": window, **({"slurmctld away": time.monotonic() - begun} if controllers else {})}
    run.steps += [Step(what, run.controller, (), seconds) for what, seconds in measured.items()]
    words = ", slurmctld was away for {slurmctld away:.1f} s" if controllers else ""
    run.progress.line(("The hosts' keys differed for {keys differed:.2f} s at most" + words + ".").format(**measured))


def switch(run: Run, key_digest: str) -> float:
    """Put the staged key in its place on all hosts at once; a host on which that fails is lost, the others go on.

    Returns:
        For how many seconds hosts can have had different keys: from the first request to the last answer of a host
        that has the new one.
    """
    hosts, window, begun = run.well(run.hosts), 0.0, time.monotonic()

    def ask(host: str) -> Step:
        outcomes = request_apply(run, host, [MungeKeySwitch(key_digest)], dry_run=False)
        return Step("munge key", host, tuple(outcomes), time.monotonic() - begun)

    run.progress.begin("switching", hosts)
    for host, answer in on_each(hosts, ask, len(hosts)):
        if isinstance(answer, SlurmfabError):
            run.lose(host, HostError(host, f"{sentence(getattr(answer, 'reason', str(answer)))} {EITHER_KEY}"))
            continue
        run.steps.append(answer)
        run.progress.host_done(host, answer)
        if answer.has_failed:
            run.lose(host, HostError(host, f"{failure(host, answer).reason}. {EITHER_KEY}"))
        else:
            window = max(window, answer.seconds)
    return window


def resume(run: Run, controllers: Iterable[str]) -> None:
    """Let slurmctld run again; where that fails, it is a failed step, and systemd tries as well."""
    for host, answer in on_each(
        run.well(controllers), lambda host: request_apply(run, host, [SlurmctldPause(paused=False)], dry_run=False)
    ):
        if isinstance(answer, SlurmfabError):
            run.lose(host, answer)
        elif any(outcome.status == FAILED for outcome in answer):
            run.steps.append(Step("slurmctld", host, tuple(answer)))


def together(run: Run, doing: str, hosts: Sequence[str], ask: Callable[[str], Result]) -> dict[str, Result]:
    """Ask hosts at once for what all of them have to do before any key is switched.

    Args:
        run: the run; hosts that cannot be reached are lost to it, and the others go on.
        doing: what they are asked for, in words.
        hosts: whom to ask.
        ask: asks one.

    Raises:
        DeployFailed: the controller cannot be reached.
        SlurmfabError: a host that answers does not do it, as when another run is at work there.
    """
    answers = {}
    refusing = []
    run.progress.begin(doing, hosts)
    for host, answer in on_each(hosts, ask):
        if isinstance(answer, SlurmfabError):
            run.lose(host, answer)
            refusing += [] if isinstance(answer, Unreachable) else [host]
        else:
            answers[host] = answer
            run.progress.host_done(host)
    if refusing:
        raise SlurmfabError(
            f"{fold(refusing)}: no new munge key can be put there. {NO_CHANGE} Mend that, and rotate again."
        )
    run.require_controller()
    return answers


def applied(run: Run, host: str, resource: Resource) -> None:
    """Have a host converge a resource.

    Raises:
        HostError: it cannot, or cannot be reached.
    """
    step = Step("", host, tuple(request_apply(run, host, [resource], dry_run=False)))
    if step.has_failed:
        raise failure(host, step)


def failure(host: str, step: Step) -> HostFailed:
    """Why a host did not converge."""
    failed = step.with_status(FAILED)[0]
    return HostFailed(host, f"{failed.id}: {failed.message}")


def with_words(error: HostError, words: str) -> HostError:
    """The error of a host that was left out, with more to say."""
    kind = Unreachable if isinstance(error, Unreachable) else HostFailed
    return kind(error.host, f"{sentence(error.reason)} {words}")


def sentence(text: str) -> str:
    """A text that ends as sentences do."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def jobs_hurt(before: Before, host: str) -> str:
    """What becomes of the jobs on a node that is left with the old key, empty where it has none."""
    jobs = jobs_on(before.snapshot, [host])
    if not jobs:
        return ""
    return f" Until then Slurm does not hear of the end of its jobs; scancel those that have ended: {job_words(jobs)}."
