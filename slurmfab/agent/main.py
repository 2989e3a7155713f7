"""The agent's request loop: frames come in over stdin, JSON lines go out over stdout.

A frame is `<decimal byte count>` and a newline, then that many bytes of JSON. Requests of one session are worked on
one after another:

    {"op": "facts", ...}    -> {"facts": {...}}, {"done": true}
    {"op": "apply", ...}    -> {"outcome": {...}} per resource as it ends, {"done": true}
    {"op": "slurm", ...}    -> {"slurm": {...}}, {"done": true}
    {"op": "job-processes"} -> {"job_processes": {...}}, {"done": true}
    {"op": "node-jobs"}     -> {"node_jobs": {...}}, {"done": true}
    anything that crashes   -> {"error": "...", "traceback": "..."}, {"done": true}

While a request takes long, `{"alive": true}` comes every few seconds. The end of stdin means that the deployer is gone.
Then, and on SIGTERM, the resource at work is finished, for half a dpkg run is worse than a late one; no other begins.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
from typing import TYPE_CHECKING, Any, BinaryIO, Mapping, Optional

if TYPE_CHECKING:
    from slurmfab.agent.resource import Outcome

HEARTBEAT = 5.0
"""Seconds between signs of life."""

LOCK = "/run/slurmfab.lock"
"""Held while a session changes a host. Not below /run/lock, where any user could hold a file of this name."""


class Gone(Exception):
    """The deployer does not listen any more, so nothing new is begun."""


class Refused(Exception):
    """A request that is not worked on; the text says why."""


class Answers:
    """The way back to the deployer: whole lines, from any thread.

    Args:
        stream: where the lines go.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.lock = threading.Lock()
        self.is_gone = False  # no Event: a signal handler sets it, and must not wait for a lock

    def send(self, **answer: Any) -> None:
        """Write one line; when nobody reads it any more, note that and go on."""
        line = json.dumps(answer, default=vars).encode("ascii") + b"\n"
        try:
            with self.lock:
                self.stream.write(line)
                self.stream.flush()
        except (OSError, ValueError):
            self.is_gone = True

    def check(self) -> None:
        """Raise `Gone` when the deployer is gone."""
        if self.is_gone:
            raise Gone


class Alive:
    """A context that says every few seconds that the agent still works.

    Args:
        answers: where to say it.
        seconds: how often.
    """

    def __init__(self, answers: Answers, seconds: float = HEARTBEAT) -> None:
        self.answers = answers
        self.seconds = seconds
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True)

    def beat(self) -> None:
        """Say it until the context ends."""
        while not self.ended.wait(self.seconds):
            self.answers.send(alive=True)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *exception: object) -> None:
        self.ended.set()
        self.thread.join()


class Lock:
    """The right to change this host, for one session at a time; it goes with the process that holds it."""

    def __init__(self) -> None:
        self.descriptor: Optional[int] = None

    def take(self, path: str, who: str) -> None:
        """Take the lock unless this session has it already.

        Args:
            path: the lock file.
            who: what others are told of this session.

        Raises:
            Refused: another session has it.
        """
        if self.descriptor is not None:
            return
        import fcntl  # noqa: PLC0415 - facts do without it

        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 500).decode(errors="replace").strip()
            os.close(descriptor)
            raise Refused("another run is at work here: %s" % (holder or "unknown")) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, who.encode())
        self.descriptor = descriptor


def serve(stdin: BinaryIO, stdout: BinaryIO) -> int:
    """Answer requests until the deployer is gone.

    Args:
        stdin: where frames come from; it is also the lifeline.
        stdout: where answers go.

    Returns:
        The exit code, 0.
    """
    answers = Answers(stdout)
    requests: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()

    def leave(*_: object) -> None:
        answers.is_gone = True
        requests.put(None)

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, leave)
    threading.Thread(target=listen, args=(stdin, requests, leave), daemon=True).start()
    lock = Lock()
    while True:
        frame = requests.get()
        if frame is None:
            return 0
        try:
            answer(frame, answers, lock)
        except Gone:
            return 0


def listen(stdin: BinaryIO, requests: queue.SimpleQueue[Optional[bytes]], leave: Any) -> None:
    """Read frames into a queue until there are no more, then call `leave`."""
    try:
        while True:
            size = int(stdin.readline())
            frame = stdin.read(size)
            if len(frame) != size:
                return
            requests.put(frame)
    except (OSError, ValueError):
        # An empty line is what readline() gives at the end, and text that is no number comes from no deployer.
        return
    finally:
        leave()


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
    """
    from slurmfab.agent.kinds import build  # noqa: PLC0415
    from slurmfab.agent.resource import Context  # noqa: PLC0415

    context = Context(request.get("root", "/"), bool(request["dry_run"]))
    resources = [build(fields) for fields in request["resources"]]
    if not context.dry_run:
        lock.take(context.path(LOCK), request.get("who", ""))
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


def timed(resource: Any, context: Any) -> Outcome:
    """The outcome of a resource, with the time that it took."""
    import dataclasses  # noqa: PLC0415
    import time  # noqa: PLC0415

    from slurmfab.agent.resource import apply  # noqa: PLC0415

    start = time.monotonic()
    try:
        outcome = apply(resource, context)
    except Exception as error:
        error.__dict__["resource"] = resource.id
        raise
    return dataclasses.replace(outcome, seconds=round(time.monotonic() - start, 3))


def read_other(request: Mapping[str, Any], answers: Answers, lock: Lock) -> None:  # noqa: ARG001
    """Tell what one of the modules finds that only read."""
    import importlib  # noqa: PLC0415

    from slurmfab.agent.resource import Context, ResourceFailed  # noqa: PLC0415

    module = importlib.import_module("slurmfab.agent." + READINGS[request["op"]])
    try:
        answers.send(**{request["op"].replace("-", "_"): module.read(request, Context(request.get("root", "/")))})
    except ResourceFailed as error:
        raise Refused(str(error)) from None


READINGS = {"slurm": "slurm_reading", "job-processes": "job_processes", "node-jobs": "node_jobs"}
"""What can be read besides facts, and the module whose `read` does it."""

OPERATIONS = {"facts": read_facts, "apply": apply_resources, **dict.fromkeys(READINGS, read_other)}


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
