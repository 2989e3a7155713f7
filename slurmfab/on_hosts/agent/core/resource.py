"""The base class of resources: a wanted state that the agent compares with the host's, and converges."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Mapping, Optional, Sequence

from slurmfab.on_hosts.agent.core.differences import difference, digests, text
from slurmfab.on_hosts.agent.core.failure_reasons import reason
from slurmfab.on_hosts.agent.core.language import ENGLISH, SITE_SETTINGS, SYSTEM_PATH
from slurmfab.on_hosts.agent.core.record import Record

if TYPE_CHECKING:
    import subprocess

OK = "ok"
CHANGED = "changed"
WOULD_CHANGE = "would change"
FAILED = "failed"
SKIPPED = "skipped"

PAUSE_SECONDS = 0.1  # time between two looks at a resource that settles

State = Mapping[str, Any]
"""The actual or the wanted state of a resource: JSON values by name; `None` for something absent."""


class ResourceFailed(Exception):
    """A resource that could not be read or converged; the text says why and what to try."""


class LeftAsItWas(Exception):
    """A resource that differs and cannot be changed, which is no failure of the host; the text is the remark about it.

    Files in the home of a user are such resources: what a user does there must not stop anything else.
    """


class OtherHostsFailed(Exception):
    """Other hosts are not as wanted, each with why and what to try; no failure of the host that tells it."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__("; ".join("%s: %s" % pair for pair in reasons.items()))
        self.reasons = reasons


class Change(Record):
    """One difference between the actual and the wanted state."""

    name: str  # what differs, such as `mode` or `content`
    actual: str = ""  # the actual value as text; empty when it is absent or a secret
    wanted: str = ""
    diff: str = ""
    # For a saved plan, digests of both values where they are not shown in full: secrets and long texts.
    digest: str = ""


class Outcome(Record):
    """The result of applying one resource on one host."""

    id: str  # the resource's id, such as `user:slurm`
    status: str  # `ok`, `changed`, `would change`, `failed` or `skipped`
    # The differences that were found; for `ok`, those that were left as they were, with a remark.
    changes: tuple[Change, ...] = ()
    message: str = ""  # why it failed or was skipped, and what to try; for `ok` and `changed`, a remark
    seconds: float = 0.0  # time that it took on the host
    drift: str = ""  # the kind of drift, which the deployer determines
    # Other hosts that are not as wanted, with the reason; the deployer makes them outcomes of these hosts.
    others: tuple[tuple[str, str], ...] = ()


class Context:
    """Data that the resources of one request share on a host.

    Args:
        root: where the file system begins; other than `/` only in tests.
        dry_run: whether this request only compares.
        digest_key: key for digests of differences; empty for no digests.
        run_id: id of the run, under which the undo store keeps the state before its changes; empty for no undo.

    Attributes:
        touched: absolute paths that an earlier resource changed, or would have changed in a dry run.
        gone: those of them that it would have removed in a dry run.
        stopped: units that an earlier resource would have stopped in a dry run, and a later one would start again.
        starting: units that an earlier resource would have started in a dry run; they cannot answer questions yet.
        units: units of all resources of the request.
        units_shown: their properties in a dry run, see `slurmfab.on_hosts.agent.services.service.show`.
        keep: puts the state before a change into the undo store, given the resource, this context, and the names that
            differ.
        remark: a remark of the present resource for its outcome; empty for none.
        tell: tells the deployer what the present resource is waiting for, in one line.
    """

    def __init__(self, root: str = "/", dry_run: bool = False, digest_key: str = "", run_id: str = "") -> None:
        self.root = root
        self.dry_run = dry_run
        self.digest_key = digest_key
        self.run_id = run_id
        self.touched: set[str] = set()
        self.gone: set[str] = set()
        self.stopped: set[str] = set()
        self.starting: set[str] = set()
        self.units: tuple[str, ...] = ()
        self.units_shown: dict[str, dict[str, str]] = {}
        self.keep: Callable[[Resource, Context, frozenset[str]], None] = lambda *_: None
        self.remark = ""
        self.tell: Callable[[str], None] = lambda _: None

    def path(self, path: str) -> str:
        """An absolute path of the host, below the root of this context."""
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))

    def run(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        seconds: float = 60.0,
        env: Optional[Mapping[str, str]] = None,
        account: Optional[tuple[int, int]] = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program without the agent's input; exit code and output, ResourceFailed if missing or too slow.

        `argv`, `env`: never a secret. `account`: UID and GID to run it as, without supplementary groups.
        """
        import subprocess  # many requests run no program

        inherited = {name: value for name, value in os.environ.items() if not name.startswith(SITE_SETTINGS)}
        environment = {**inherited, **ENGLISH, "PATH": SYSTEM_PATH, **(env or {})}
        try:
            return subprocess.run(
                argv,
                input=stdin,
                capture_output=True,
                timeout=seconds,
                env=environment,
                check=False,
                start_new_session=True,
                **identity(account),
            )
        except FileNotFoundError as error:
            raise ResourceFailed("%s is not installed" % argv[0]) from error
        except subprocess.TimeoutExpired as error:
            raise ResourceFailed("%s did not end within %.0f s" % (" ".join(argv), seconds)) from error

    def must(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        seconds: float = 60.0,
        env: Optional[Mapping[str, str]] = None,
        account: Optional[tuple[int, int]] = None,
    ) -> str:
        """Run a program that must succeed, as `run`; its output, ResourceFailed with its last lines."""
        done = self.run(argv, stdin, seconds, env=env, account=account)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            last = " | ".join(lines[-4:]) or "no message"
            if "cannot lock /etc/" in last:
                last += " Is its file system read-only or full, or is another program changing users there?"
            raise ResourceFailed("%s ended with exit code %d: %s" % (" ".join(argv), done.returncode, last))
        return done.stdout.decode(errors="replace")


def identity(account: Optional[tuple[int, int]]) -> dict[str, Any]:
    """The arguments with which subprocess runs a program as another user; empty for the agent's own account."""
    if account is None or account == (os.geteuid(), os.getegid()):
        return {}
    return {"user": account[0], "group": account[1], "extra_groups": []}


class Resource(Record):
    """The base class of all resource types.

    A resource type is a record whose fields describe the wanted state. It MUST define `kind`; one of `named_by`,
    `only_name` and `name()`; `wanted_state` or `wanted()`; `actual()` and `converge()`. It MAY define the other
    methods, and a `deadline` of its own.
    """

    kind: ClassVar[str] = ""
    named_by: ClassVar[str] = ""  # the field that distinguishes a resource from others of its kind on a host
    only_name: ClassVar[str] = ""  # the name where a host has one resource of this kind at most
    wanted_state: ClassVar[State] = {}  # the wanted state where it is always the same
    file_in: ClassVar[str] = ""  # the field with the path of the file that converging changes, if it is one alone
    own_units: ClassVar[tuple[str, ...]] = ()  # the systemd units that converging changes, where they never vary
    deadline: ClassVar[float] = 300.0
    """Seconds after which a run goes on without a host that is still at work on it; a field `seconds` adds to it."""
    settling_seconds: ClassVar[float] = 0.0
    """How long the state may still differ after it was converged, as other hosts write the same file meanwhile."""

    @property
    def id(self) -> str:
        """The name of this resource in reports, logs and errors, such as `file:/etc/hosts`."""
        return f"{self.kind}:{self.name()}"

    def name(self) -> str:
        """The part of the id that distinguishes this resource from others of its kind; several values with commas."""
        value = getattr(self, self.named_by) if self.named_by else self.only_name
        return ",".join(value) if isinstance(value, tuple) else str(value)

    def wanted(self, context: Context) -> State:  # noqa: ARG002 - part of the contract
        """The wanted state; only the names in it are compared with the actual state."""
        return self.wanted_state

    def actual(self, context: Context) -> State:
        """The present state of the host; this reads and never changes anything."""
        raise NotImplementedError

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Change the differing names (never none); ResourceFailed, leaving what the next run can start from."""
        raise NotImplementedError

    def secrets(self) -> frozenset[str]:
        """The names in the state whose values no report may show."""
        return frozenset()

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The files whose ctime converging changes: services watch them, and the undo store copies them before."""
        return (getattr(self, self.file_in),) if self.file_in and differing - {"leftovers"} else ()

    def removes(self, context: Context) -> tuple[str, ...]:  # noqa: ARG002 - part of the contract
        """Those of the files of `touches` that are not there any more once it is converged."""
        return ()

    def labelled(self, context: Context) -> tuple[str, ...]:
        """The files and directories that get the label of SELinux's policy (`applying`)."""
        return self.touches(frozenset(self.wanted(context)))

    def folders(self) -> tuple[str, ...]:
        """The directories whose owner, group or mode converging changes, which the undo store keeps."""
        return ()

    def units(self) -> tuple[str, ...]:
        """The systemd units that converging changes, whose state the undo store keeps."""
        return self.own_units

    def holds_secret(self, path: str) -> bool:  # noqa: ARG002 - part of the contract
        """Whether a file of `touches` holds a secret, so that no report may show its copy in the undo store."""
        return bool(self.secrets())


def apply(resource: Resource, context: Context) -> Outcome:
    """Read a resource's state, compare, converge unless this is a dry run, and read again.

    `context`: the request's context; the paths that were or would be changed are added to `touched`. Returns the
    outcome; `changed` means that the state was read again and is the wanted one.
    """
    changes: tuple[Change, ...] = ()
    context.remark = ""
    try:
        changes = compare(resource, context)
        if not changes:
            return Outcome(resource.id, OK, message=context.remark)
        differing = frozenset(change.name for change in changes)
        context.touched.update(resource.touches(differing))
        if context.dry_run:
            context.gone.update(resource.removes(context))
            context.starting.update(resource.units() if differing & {"running", "answers"} else ())
            return Outcome(resource.id, WOULD_CHANGE, changes, context.remark)
        return converge(resource, context, changes)
    except LeftAsItWas as remark:
        return Outcome(resource.id, OK, changes, str(remark))
    except (ResourceFailed, OSError) as error:
        return Outcome(resource.id, FAILED, changes, reason(error))


def converge(resource: Resource, context: Context, changes: tuple[Change, ...]) -> Outcome:
    """Converge a resource, and read its state again; raises what the resource raises."""
    differing = frozenset(change.name for change in changes)
    context.keep(resource, context, differing)
    try:
        resource.converge(context, differing)
    except OtherHostsFailed as failed:
        done = tuple(change for change in changes if change.name not in failed.reasons)
        return Outcome(resource.id, CHANGED if done else OK, done, context.remark, others=tuple(failed.reasons.items()))
    remaining = compare(resource, context)
    deadline = time.monotonic() + resource.settling_seconds
    while remaining and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
        remaining = compare(resource, context)
    if remaining:
        states = ("%s is %s" % (one.name, one.actual) if one.actual else one.name + " differs" for one in remaining)
        return Outcome(resource.id, FAILED, changes, "after the change, %s" % ", ".join(states))
    return Outcome(resource.id, CHANGED, changes, context.remark)


def compare(resource: Resource, context: Context) -> tuple[Change, ...]:
    """The differences between the actual and the wanted state of a resource, without the values of secrets."""
    wanted, actual, secrets = resource.wanted(context), resource.actual(context), resource.secrets()
    return tuple(
        describe(name, actual.get(name), value, is_secret=name in secrets, key=context.digest_key)
        for name, value in wanted.items()
        if actual.get(name) != value
    )


def describe(name: str, actual: Any, wanted: Any, *, is_secret: bool = False, key: str = "") -> Change:
    """One difference as text: a unified diff for several lines; for a secret only the fact that it differs.

    Args:
        is_secret: whether the values must not be shown.
        key: key for digests, see `slurmfab.on_hosts.agent.core.differences.digests`.
    """
    if is_secret:
        return Change(name, wanted="differs", digest=digests(actual, wanted, key))
    before, after = text(actual), text(wanted)
    if "\n" in before or "\n" in after:
        return Change(name, diff=difference(before, after), digest=digests(actual, wanted, key))
    return Change(name, before, after)


def as_request(resource: Resource) -> dict[str, Any]:
    """A resource as JSON values, in the form in which it is sent to a host."""
    return {"kind": resource.kind, **{name: getattr(resource, name) for name in resource.FIELDS}}
