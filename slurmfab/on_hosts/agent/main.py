"""The agent's request loop: it reads requests from stdin as frames and writes answers to stdout as JSON lines.

`slurmfab.on_hosts.agent.core.lifeline` describes frames and lines. The requests of a session are handled one after
another:

    {"op": "facts", ...}    -> {"facts": {...}}, {"done": true}
    {"op": "apply", ...}    -> {"outcome": {...}} per resource as it ends, {"done": true}
    {"op": "slurm", ...}    -> {"slurm": {...}}, {"done": true}
    {"op": "neighbours", ...} -> {"neighbours": {...}}, {"done": true}
    {"op": "job-processes"} -> {"job_processes": {...}}, {"done": true}
    {"op": "ended-jobs", ...} -> {"ended_jobs": {...}}, {"done": true}
    {"op": "node-health"} -> {"node_health": {...}}, {"done": true}
    {"op": "node-jobs"}     -> {"node_jobs": {...}}, {"done": true}
    {"op": "kept", ...}     -> {"kept": {...}}, {"done": true}
    {"op": "lock-copy"}     -> {"lock_copy": {...}}, {"done": true}
    {"op": "munge", ...}    -> {"munge": {...}}, {"done": true}
    {"op": "tokens", ...}   -> {"tokens": {...}}, {"done": true}
    {"op": "accounts", ...} -> {"accounts": {...}}, {"done": true}
    {"op": "directory-sizes", ...} -> {"directory_sizes": {...}}, {"done": true}
    {"op": "usage", ...}    -> {"usage": {...}}, {"done": true}
    {"op": "job-shapes", ...} -> {"job_shapes": {...}}, {"done": true}
    {"op": "runaway-jobs", ...} -> {"runaway_jobs": {...}}, {"done": true}
    {"op": "found-files"}   -> {"found_files": {...}}, {"done": true}
    {"op": "addresses", ...} -> {"addresses": {...}}, {"done": true}
    {"op": "owners", ...}   -> {"owners": [...]}, {"done": true}
    {"op": "logs", ...}     -> {"logs": {...}}, {"done": true}
    {"op": "daemon-errors", ...} -> {"daemon_errors": {...}}, {"done": true}
    {"op": "job", ...}      -> {"job": {...}}, {"done": true}
    {"op": "evidence", ...} -> {"evidence": {...}}, {"done": true}
    {"op": "support", ...}  -> {"support": {...}}, {"done": true}
    {"op": "upgrade-rows", ...} -> {"upgrade_rows": {...}}, {"done": true}
    {"op": "conversion", ...} -> {"conversion": {...}}, {"done": true}
    {"op": "trial-jobs", ...} -> {"trial_jobs": {...}}, {"done": true}
    {"op": "user-jobs", ...} -> {"user_jobs": {...}}, {"done": true}
    {"op": "upgrade", ...}  -> {"upgrade": {...}}, {"done": true}
    {"op": "upgrade-offer", ...} -> {"upgrade_offer": {...}}, {"done": true}
    {"op": "backup", ...}   -> {"backup": {...}}, {"done": true}
    {"op": "save", ...}     -> {"piece": "..."} repeated, {"saved": {...}}, {"done": true}
    {"op": "stage", ...}    -> {"done": true}
    {"op": "collect", ...}  -> {"file": "..."}, {"piece": "..."} ..., {"collected": {...}}, {"done": true}
    {"op": "bundle", ...}   -> {"bundle": {...}}, {"done": true}
    {"op": "updates", ...}  -> {"updates": {...}}, {"done": true}
    any request that fails  -> {"error": "...", "traceback": "..."}, {"done": true}
    modules, newline, ...   -> no answer: further modules of the agent, for the next request

At the end of stdin, or after a minute without data, the deployer counts as disconnected. Then, and on SIGTERM, the
agent finishes the present resource, because a killed dpkg is worse than a late one, starts no other and exits, which
releases the host's lock.
"""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Mapping, Optional, Tuple

from slurmfab.on_hosts.agent.core.host_lock import LOCK, Lock, LockHeld
from slurmfab.on_hosts.agent.core.language import ENGLISH, SITE_SETTINGS, SYSTEM_PATH
from slurmfab.on_hosts.agent.core.lifeline import SILENCE, Answers, Disconnected, KeepAlive, Lifeline

if TYPE_CHECKING:
    from slurmfab.on_hosts.agent.core.resource import Outcome


class Refused(Exception):
    """A request that the agent refuses, or that failed for an expected reason; the text says why."""


class Refusing:
    """A context that turns expected failures, such as a full disk, into `Refused` with advice for the operator."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: Optional[BaseException], traceback: object) -> None:
        from slurmfab.on_hosts.agent.core.failure_reasons import reason
        from slurmfab.on_hosts.agent.core.resource import ResourceFailed

        if isinstance(error, (ResourceFailed, OSError)):
            raise Refused(reason(error)) from None


MODULES = b"modules\n"
"""The first bytes of a frame with further modules of the agent, for the next request; it is not answered."""


def serve(
    stdin: BinaryIO, stdout: BinaryIO, silence: float = SILENCE, learn: Callable[[bytes], None] = lambda _: None
) -> int:
    """Answer requests until the input's frames end, or are silent for so many seconds."""
    answers, lock = Answers(stdout), Lock()

    def leave(*_: object) -> None:
        answers.is_disconnected = True
        lock.note_interruption()
        lifeline.frames.put(None)

    lifeline = Lifeline(stdin, leave, silence)
    forget(SITE_SETTINGS)
    os.environ.update(ENGLISH, PATH=SYSTEM_PATH)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, leave)
    lifeline.start()
    while True:
        frame = lifeline.frames.get()
        try:
            if frame is None:
                raise Disconnected
            if frame.startswith(MODULES):
                learn(frame[len(MODULES) :])
                continue
            answer(frame, answers, lock)
        except Disconnected:
            lock.note_release()
            return 0


def forget(beginnings: Tuple[str, ...]) -> None:
    """Remove the variables whose names begin so, so that no program inherits them."""
    for name in [name for name in os.environ if name.startswith(beginnings)]:
        del os.environ[name]


def answer(frame: bytes, answers: Answers, lock: Lock) -> None:
    """Handle one request. `frame`: the request as JSON. Raises Disconnected if the deployer disconnected meanwhile."""
    request: Mapping[str, Any] = {}
    try:
        with KeepAlive(answers):
            request = json.loads(frame)
            answers.begin(request["op"])
            OPERATIONS[request["op"]](request, answers, lock)
    except Disconnected:
        raise
    except Refused as error:
        answers.send(error=str(error), traceback="")
    except LockHeld as error:
        answers.send(error="another run is in progress here: %s" % error, traceback="", holder=str(error))
    except Exception as error:  # the loop goes on after a request that crashed
        answers.send(**crash(error, has_secrets(request)))
    answers.send(done=True)


def read_facts(request: Mapping[str, Any], answers: Answers, lock: Lock) -> None:  # noqa: ARG001
    """Send this host's facts; Refused without root, which could not read all, nor change anything."""
    from slurmfab.on_hosts.agent.facts import facts  # a host gets only the modules that its request needs

    if os.geteuid() != 0 and request.get("root", "/") == "/":
        raise Refused("the login is not root on this host; log in as root, or set ssh: {become: sudo}")
    if request.get("own_numbers"):
        import importlib

        module, root = importlib.import_module("slurmfab.on_hosts.agent." + OF_OWN_NUMBERS), request.get("root", "/")
        refusal: str = module.refusal(root)
        if refusal:
            raise Refused(refusal)
        request = {**request, "found_numbers": module.own_numbers(root, request["own_numbers"])}
    answers.send(facts=facts.read(request))


OF_OWN_NUMBERS = "facts.own_numbers"  # the module that facts need besides where there is a directory


def apply_resources(request: Mapping[str, Any], answers: Answers, lock: Lock) -> None:
    """Converge resources in their order, or only compare them in a dry run.

    After a failure the later ones are skipped, because they may depend on it; a dry run continues.
    A request without resources only takes the host's lock.
    """
    from slurmfab.on_hosts.agent.core.applying import apply_timed
    from slurmfab.on_hosts.agent.core.resource import Context
    from slurmfab.on_hosts.agent.kinds import build

    context = Context(
        request.get("root", "/"),
        bool(request["dry_run"]),
        digest_key=request.get("digest_key", ""),
        run_id=request.get("run", ""),
    )
    context.tell = answers.tell
    if not context.dry_run:
        from slurmfab.on_hosts.agent.undo.undo_store import keep  # a dry run does not get this module

        context.keep = keep
    resources = [build(fields) for fields in request["resources"]]
    context.units = tuple(dict.fromkeys(unit for resource in resources for unit in resource.units()))
    if not context.dry_run:
        from slurmfab.on_hosts.agent.core.lock_taking import take_lock

        take_lock(lock, context.path(LOCK), request.get("who", ""), answers.tell)
        if not resources:
            answers.send(lock={"idle": lock.idle()})
    failed = ""
    for resource in resources:
        answers.check()
        answers.begin(resource.id)
        outcome = skipped(resource.id, failed) if failed else apply_timed(resource, context)
        if outcome.status == "failed" and not context.dry_run:
            failed = resource.id
        answers.send(outcome=vars(outcome))


def skipped(resource_id: str, failed: str) -> Outcome:
    """The outcome of a resource after one that failed."""
    from slurmfab.on_hosts.agent.core.resource import SKIPPED, Outcome

    return Outcome(resource_id, SKIPPED, message="not tried, because %s failed" % failed)


def answer_by_module(request: Mapping[str, Any], answers: Answers, lock: Lock) -> None:
    """Have one of the modules in `MODULE_OF` answer: by its function `read`, or as `STREAMED` and `STAGED` say."""
    import importlib

    from slurmfab.on_hosts.agent.core.resource import Context

    operation, context = request["op"], Context(request.get("root", "/"))
    module = importlib.import_module("slurmfab.on_hosts.agent." + MODULE_OF[operation])
    if operation in STAGED or request.get("fetch"):
        from slurmfab.on_hosts.agent.core.lock_taking import take_lock

        take_lock(lock, context.path(LOCK), request.get("who", ""), answers.tell)
    with Refusing():
        if operation in STREAMED:
            module.stream(request, context, answers)
            return
        answer = (module.stage if operation in STAGED else module.read)(request, context)
        if answer is not None:
            answers.send(**{operation.replace("-", "_"): answer})


MODULE_OF = {
    "neighbours": "facts.neighbours",
    "slurm": "slurm.reading",
    "job-processes": "nodes.job_processes",
    "ended-jobs": "nodes.ended_jobs",
    "node-health": "nodes.health",
    "node-jobs": "nodes.jobs",
    "kept": "undo.undo_store",
    "lock-copy": "undo.lock_copy",
    "munge": "munge.rotation",
    "tokens": "munge.tokens",
    "backup": "backup.reading",
    "accounts": "accounting.reading",
    "directory-sizes": "people.directory_sizes",
    "usage": "accounting.job_records",
    "runaway-jobs": "nodes.lost_jobs",
    "job-shapes": "accounting.job_shapes",
    "found-files": "slurm.found_files",
    "addresses": "slurm.member_addresses",
    "owners": "files.owners",
    "logs": "logs.reading",
    "daemon-errors": "services.daemon_log",
    "job": "logs.job_record",
    "evidence": "logs.evidence",
    "support": "support.reading",
    "upgrade-rows": "upgrade.proved_dump",
    "conversion": "upgrade.conversion",
    "trial-jobs": "upgrade.trial_jobs",
    "user-jobs": "nodes.user_jobs",
    "upgrade": "upgrade.reading",
    "upgrade-offer": "upgrade.offer",
    "updates": "upgrade.host_updates",
    "save": "backup.stream",
    "collect": "upgrade.host_bundles",
    "stage": "backup.staged_parts",
    "bundle": "upgrade.host_bundles",
}
"""The module that answers each operation besides `facts` and `apply`; `updates` takes the host's lock if it fetches."""

STREAMED = ("save", "collect")  # operations whose modules' `stream` sends a part of a backup, or packages for a bundle
STAGED = ("stage", "bundle")  # those whose modules' `stage` receives such pieces, with the host's lock

OPERATIONS = {
    "facts": read_facts,
    "apply": apply_resources,
    **dict.fromkeys(MODULE_OF, answer_by_module),
}


def has_secrets(request: Any) -> bool:
    """Whether a request has values that no message may show; a request that cannot be parsed counts as one."""
    try:
        return not request or any(fields.get("secret") for fields in request.get("resources", ()))
    except AttributeError:
        return True


def crash(error: BaseException, is_secret: bool) -> Mapping[str, str]:
    """The answer for an unexpected error, without values of variables, and without its text beside secrets."""
    import traceback  # slow to import

    text = type(error).__name__ if is_secret else "%s: %s" % (type(error).__name__, error)
    resource_id = vars(error).get("resource")
    lines = ["Traceback (most recent call last):\n", *traceback.format_tb(error.__traceback__), text]
    return {"error": "%s: %s" % (resource_id, text) if resource_id else text, "traceback": "".join(lines)}
