"""The agent's request loop: frames come in over stdin, JSON lines go out over stdout.

What frames and lines are is in `slurmfab.agent.lifeline`. Requests of one session are worked on one after another:

    {"op": "facts", ...}    -> {"facts": {...}}, {"done": true}
    {"op": "apply", ...}    -> {"outcome": {...}} per resource as it ends, {"done": true}
    {"op": "slurm", ...}    -> {"slurm": {...}}, {"done": true}
    {"op": "job-processes"} -> {"job_processes": {...}}, {"done": true}
    {"op": "node-health"} -> {"node_health": {...}}, {"done": true}
    {"op": "node-jobs"}     -> {"node_jobs": {...}}, {"done": true}
    {"op": "kept", ...}     -> {"kept": {...}}, {"done": true}
    {"op": "munge", ...}    -> {"munge": {...}}, {"done": true}
    {"op": "accounts", ...} -> {"accounts": {...}}, {"done": true}
    {"op": "backup", ...}   -> {"backup": {...}}, {"done": true}
    {"op": "save", ...}     -> {"piece": "..."} again and again, {"saved": {...}}, {"done": true}
    {"op": "stage", ...}    -> {"done": true}
    {"op": "collect", ...}  -> {"file": "..."}, {"piece": "..."} ..., {"collected": {...}}, {"done": true}
    {"op": "bundle", ...}   -> {"bundle": {...}}, {"done": true}
    anything that crashes   -> {"error": "...", "traceback": "..."}, {"done": true}
    modules, newline, ...   -> nothing: further modules of the agent, for the request behind it

The end of stdin means that the deployer is gone, and so does a minute without a word from it. Then, and on SIGTERM, the
resource at work is finished, for half a dpkg run is worse than a late one; no other begins, and the lock is let go.
"""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Mapping

from slurmfab.agent.host_lock import LOCK, Held, Lock
from slurmfab.agent.lifeline import SILENCE, Alive, Answers, Gone, Lifeline

if TYPE_CHECKING:
    from slurmfab.agent.resource import Context, Outcome, Resource


class Refused(Exception):
    """A request that is not worked on; the text says why."""


MODULES = b"modules\n"
"""How a frame begins that brings further modules of the agent, for the request behind it; it is not answered."""


def serve(
    stdin: BinaryIO, stdout: BinaryIO, silence: float = SILENCE, learn: Callable[[bytes], None] = lambda _: None
) -> int:
    """Answer requests until the deployer is gone.

    Args:
        stdin: where frames come from; it is also the lifeline.
        stdout: where answers go.
        silence: after how many seconds without a word the deployer counts as gone.
        learn: takes further modules in, packed.

    Returns:
        The exit code, 0.
    """
    answers, lock = Answers(stdout), Lock()

    def leave(*_: object) -> None:
        answers.is_gone = True
        lock.cut_off()
        lifeline.frames.put(None)

    lifeline = Lifeline(stdin, leave, silence)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, leave)
    lifeline.start()
    while True:
        frame = lifeline.frames.get()
        try:
            if frame is None:
                raise Gone
            if frame.startswith(MODULES):
                learn(frame[len(MODULES) :])
                continue
            answer(frame, answers, lock)
        except Gone:
            lock.let_go()
            return 0


def answer(frame: bytes, answers: Answers, lock: Lock) -> None:
    """Work on one request.

    Raises:
        Gone: the deployer went away meanwhile.
    """
    request: Mapping[str, Any] = {}
    try:
        with Alive(answers):
            request = json.loads(frame)
            OPERATIONS[request["op"]](request, answers, lock)
    except Gone:
        raise
    except Refused as error:
        answers.send(error=str(error), traceback="")
    except Held as error:
        answers.send(error="another run is at work here: %s" % error, traceback="", holder=str(error))
    except Exception as error:  # the loop survives whatever one request does
        answers.send(**crash(error, has_secrets(request)))
    answers.send(done=True)


def read_facts(request: Mapping[str, Any], answers: Answers, lock: Lock) -> None:  # noqa: ARG001
    """Tell what this host is; only root can tell it all, and whoever is not would fail at the first change."""
    from slurmfab.agent import facts  # noqa: PLC0415 - only what a request needs is imported

    if os.geteuid() != 0 and request.get("root", "/") == "/":
        raise Refused("this login is not root there; log in as root, or become root: ssh: {become: sudo}")
    answers.send(facts=facts.read(request))


def apply_resources(request: Mapping[str, Any], answers: Answers, lock: Lock) -> None:
    """Converge resources in their order, or only compare them in a dry run.

    After a failure the later ones are skipped; a dry run goes on, because it changes nothing that they could build on.
    Without any resources the host's lock is taken, and nothing else is done.
    """
    from slurmfab.agent.kinds import build  # noqa: PLC0415
    from slurmfab.agent.resource import Context  # noqa: PLC0415

    context = Context(
        request.get("root", "/"),
        bool(request["dry_run"]),
        digest_key=request.get("digest_key", ""),
        run_id=request.get("run", ""),
    )
    if not context.dry_run:
        from slurmfab.agent.kept import keep  # noqa: PLC0415 - most requests change nothing

        context.keep = keep
    resources = [build(fields) for fields in request["resources"]]
    context.units = tuple(dict.fromkeys(unit for resource in resources for unit in resource.units()))
    if not context.dry_run:
        lock.take(context.path(LOCK), request.get("who", ""))
        if not resources:
            answers.send(lock={"idle": lock.idle()})
    failed = ""
    for resource in resources:
        answers.check()
        outcome = skipped(resource.id, failed) if failed else timed(resource, context)
        if outcome.status == "failed" and not context.dry_run:
            failed = resource.id
        answers.send(outcome=vars(outcome))


def skipped(resource_id: str, failed: str) -> Outcome:
    """The outcome of a resource whose forerunner failed."""
    from slurmfab.agent.resource import SKIPPED, Outcome  # noqa: PLC0415

    return Outcome(resource_id, SKIPPED, message="not tried, because %s failed" % failed)


def timed(resource: Resource, context: Context) -> Outcome:
    """The outcome of a resource, with the time that it took."""
    import time  # noqa: PLC0415

    from slurmfab.agent.resource import Outcome, apply  # noqa: PLC0415

    start = time.monotonic()
    try:
        outcome = apply(resource, context)
    except Exception as error:
        error.__dict__["resource"] = resource.id
        raise
    return Outcome(**{**vars(outcome), "seconds": round(time.monotonic() - start, 3)})


def read_other(request: Mapping[str, Any], answers: Answers, lock: Lock) -> None:  # noqa: ARG001
    """Tell what one of the modules finds that only read."""
    import importlib  # noqa: PLC0415

    from slurmfab.agent.resource import Context, ResourceFailed  # noqa: PLC0415

    module = importlib.import_module("slurmfab.agent." + READINGS[request["op"]])
    try:
        answers.send(**{request["op"].replace("-", "_"): module.read(request, Context(request.get("root", "/")))})
    except ResourceFailed as error:
        raise Refused(str(error)) from None


def save_part(request: Mapping[str, Any], answers: Answers, lock: Lock) -> None:  # noqa: ARG001
    """Send a part of a backup, piece by piece."""
    from slurmfab.agent import backup_stream  # noqa: PLC0415
    from slurmfab.agent.resource import Context, ResourceFailed  # noqa: PLC0415

    try:
        backup_stream.stream(request, Context(request.get("root", "/")), answers)
    except (ResourceFailed, OSError) as error:
        raise Refused(str(error)) from None


def stage_part(request: Mapping[str, Any], answers: Answers, lock: Lock) -> None:  # noqa: ARG001
    """Take a piece of a part of a backup that is about to be restored."""
    from slurmfab.agent import staged_parts  # noqa: PLC0415
    from slurmfab.agent.resource import Context, ResourceFailed  # noqa: PLC0415

    context = Context(request.get("root", "/"))
    lock.take(context.path(LOCK), request.get("who", ""))
    try:
        staged_parts.stage(request, context)
    except (ResourceFailed, OSError) as error:
        raise Refused(str(error)) from None


def collect_packages(request: Mapping[str, Any], answers: Answers, lock: Lock) -> None:  # noqa: ARG001
    """Send packages and all that they need, for a bundle."""
    from slurmfab.agent import bundle_making  # noqa: PLC0415
    from slurmfab.agent.reasons import reason  # noqa: PLC0415
    from slurmfab.agent.resource import Context, ResourceFailed  # noqa: PLC0415

    try:
        bundle_making.stream(request, Context(request.get("root", "/")), answers)
    except (ResourceFailed, OSError) as error:
        raise Refused(reason(error)) from None


def stage_packages(request: Mapping[str, Any], answers: Answers, lock: Lock) -> None:
    """Take packages of a bundle that are about to be installed."""
    from slurmfab.agent import bundle_staging  # noqa: PLC0415
    from slurmfab.agent.reasons import reason  # noqa: PLC0415
    from slurmfab.agent.resource import Context, ResourceFailed  # noqa: PLC0415

    context = Context(request.get("root", "/"))
    lock.take(context.path(LOCK), request.get("who", ""))
    try:
        answers.send(bundle=bundle_staging.stage(request, context))
    except (ResourceFailed, OSError) as error:
        raise Refused(reason(error)) from None


READINGS = {
    "slurm": "slurm_reading",
    "job-processes": "job_processes",
    "node-health": "node_health",
    "node-jobs": "node_jobs",
    "kept": "kept",
    "munge": "munge_credentials",
    "backup": "backup_reading",
    "accounts": "accounting_reading",
}
"""What can be read besides facts, and the module whose `read` does it."""

OPERATIONS = {
    "facts": read_facts,
    "apply": apply_resources,
    "save": save_part,
    "stage": stage_part,
    "collect": collect_packages,
    "bundle": stage_packages,
    **dict.fromkeys(READINGS, read_other),
}


def has_secrets(request: Any) -> bool:
    """Whether a request carries values that no message may show; one that cannot be read is taken for such a one."""
    try:
        return not request or any(fields.get("secret") for fields in request.get("resources", ()))
    except AttributeError:
        return True


def crash(error: BaseException, is_secret: bool) -> Mapping[str, str]:
    """An unexpected error as an answer: no values of variables, and no text of the error where secrets are near.

    Args:
        error: what happened.
        is_secret: whether the request carried secrets, which an error's text could repeat.
    """
    import traceback  # noqa: PLC0415 - only for the rare case

    words = type(error).__name__ if is_secret else "%s: %s" % (type(error).__name__, error)
    where = vars(error).get("resource")
    lines = ["Traceback (most recent call last):\n", *traceback.format_tb(error.__traceback__), words]
    return {"error": "%s: %s" % (where, words) if where else words, "traceback": "".join(lines)}
