"""What every resource is: a wanted state that a host can read, compare, converge and read again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Mapping, Optional, Sequence

from slurmfab.agent.differences import difference, digests, text
from slurmfab.agent.reasons import reason
from slurmfab.agent.record import Record

if TYPE_CHECKING:
    import subprocess

OK = "ok"
CHANGED = "changed"
WOULD_CHANGE = "would change"
FAILED = "failed"
SKIPPED = "skipped"

State = Mapping[str, Any]
"""One side of a comparison: JSON values by name; `None` stands for what is absent."""


class ResourceFailed(Exception):
    """A resource that could not be read or converged; the text says why and what to try."""


class Change(Record):
    """One difference between a host and what is wanted there.

    Args:
        name: what differs, such as `mode` or `content`.
        actual: what the host has, as text; empty when it has nothing, or when it is a secret.
        wanted: what it should have, likewise.
        diff: a unified diff instead, for text of more than one line.
        digest: for a saved plan, digests of both sides of what is not shown in full: a secret, or a long text.
    """

    name: str
    actual: str = ""
    wanted: str = ""
    diff: str = ""
    digest: str = ""


class Outcome(Record):
    """What became of one resource on one host.

    Args:
        id: the resource's id, such as `user:slurm`.
        status: `ok`, `changed`, `would change`, `failed` or `skipped`.
        changes: the differences that were found.
        message: why it failed or was skipped, and what to try; of what is right, something worth knowing all the same.
        seconds: how long it took on the host.
        drift: what kind of drift it is; the deployer finds that out.
    """

    id: str
    status: str
    changes: tuple[Change, ...] = ()
    message: str = ""
    seconds: float = 0.0
    drift: str = ""


class Context:
    """What resources of one request share on a host.

    Args:
        root: where the file system begins; other than `/` only in tests.
        dry_run: whether this request changes nothing.
        digest_key: what digests of differences are keyed with; empty where none are wanted.
        run_id: of the run that asks, under which the state before its changes is kept; empty where none is kept.

    Attributes:
        touched: absolute paths that an earlier resource changed, or would have changed in a dry run.
        stopped: units that an earlier resource would have stopped in a dry run, for a later one to start again.
        starting: units that an earlier resource would have started in a dry run, so that nobody can be asked yet.
        units: all that the request's resources are about.
        units_shown: what systemd has said of them in a dry run, see `slurmfab.agent.service.show`.
        keep: keeps that state, given the resource, this context, and the names that differ.
        remark: what the resource at work has found worth knowing besides what differs; empty for nothing.
    """

    def __init__(self, root: str = "/", dry_run: bool = False, digest_key: str = "", run_id: str = "") -> None:
        self.root = root
        self.dry_run = dry_run
        self.digest_key = digest_key
        self.run_id = run_id
        self.touched: set[str] = set()
        self.stopped: set[str] = set()
        self.starting: set[str] = set()
        self.units: tuple[str, ...] = ()
        self.units_shown: dict[str, dict[str, str]] = {}
        self.keep: Callable[[Resource, Context, frozenset[str]], None] = lambda *_: None
        self.remark = ""

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
        """Run a program to its end and return it, whatever its exit code; it never reads the agent's own input.

        Args:
            argv: the program and its arguments; secrets never belong here.
            stdin: what it reads.
            seconds: after how long it is killed.
            env: more environment variables; secrets never belong here either.
            account: UID and GID to run it as, without other groups; the agent's own when left out.

        Raises:
            ResourceFailed: the program is missing or took too long.
        """
        import subprocess  # noqa: PLC0415 - many requests run no program

        environment = {**os.environ, "LC_ALL": "C.UTF-8", "PATH": SYSTEM_PATH, **(env or {})}
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
        """Run a program that has to succeed, and return what it printed.

        Raises:
            ResourceFailed: as `run` does, or with the program's last words when its exit code is not 0.
        """
        done = self.run(argv, stdin, seconds, env, account)
        if done.returncode != 0:
            words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            last = " | ".join(words[-4:]) or "no message"
            if "cannot lock /etc/" in last:
                last += " Is its file system read-only or full, or is another program changing users there?"
            raise ResourceFailed("%s ended with exit code %d: %s" % (" ".join(argv), done.returncode, last))
        return done.stdout.decode(errors="replace")


def identity(account: Optional[tuple[int, int]]) -> dict[str, Any]:
    """The arguments with which subprocess runs a program as somebody else; none when that is ourselves already."""
    if account is None or account == (os.geteuid(), os.getegid()):
        return {}
    return {"user": account[0], "group": account[1], "extra_groups": []}


SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Resource(Record):
    """The base of every resource type.

    A type is a record whose fields are the wanted state. It MUST define `kind`, `name()`, `wanted()`,
    `actual()` and `converge()`; it MAY name fields whose values are secret, and touch paths.
    """

    kind: ClassVar[str] = ""

    @property
    def id(self) -> str:
        """How reports, logs and errors call this resource, such as `file:/etc/hosts`."""
        return f"{self.kind}:{self.name()}"

    def name(self) -> str:
        """What tells this resource from others of its kind on a host."""
        raise NotImplementedError

    def wanted(self, context: Context) -> State:
        """The wanted state; only the names in it are compared."""
        raise NotImplementedError

    def actual(self, context: Context) -> State:
        """The state that the host is in now; reads, never changes."""
        raise NotImplementedError

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make the actual state the wanted one.

        Args:
            context: the request's context.
            differing: the names that differ; never empty.

        Raises:
            ResourceFailed: it cannot be done; nothing is left half done.
        """
        raise NotImplementedError

    def secrets(self) -> frozenset[str]:
        """Names in the state whose values no report may show."""
        return frozenset()

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:  # noqa: ARG002 - part of the contract
        """The files that converging changes, for the services that watch them, and to be kept as they were before.

        Args:
            differing: the names that differ.
        """
        return ()

    def units(self) -> tuple[str, ...]:
        """The systemd units that converging changes, whose state is kept as it was before."""
        return ()

    def holds_secret(self, path: str) -> bool:  # noqa: ARG002 - part of the contract
        """Whether a file that it touches holds a secret, so that no report may show what is kept of it."""
        return bool(self.secrets())


def apply(resource: Resource, context: Context) -> Outcome:
    """Read a resource's state, compare, converge unless this is a dry run, and read again.

    Args:
        resource: what is wanted.
        context: the request's context; `touched` grows by what changed or would change.

    Returns:
        The outcome; "changed" means that the state was read again and seen to be right.
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
            context.starting.update(resource.units() if "running" in differing else ())
            return Outcome(resource.id, WOULD_CHANGE, changes, context.remark)
        context.keep(resource, context, differing)
        resource.converge(context, differing)
        remaining = compare(resource, context)
        if remaining:
            still = ", ".join("%s is %s" % (change.name, change.actual or "not as wanted") for change in remaining)
            return Outcome(resource.id, FAILED, changes, "after the change, %s" % still)
        return Outcome(resource.id, CHANGED, changes, context.remark)
    except (ResourceFailed, OSError) as error:
        return Outcome(resource.id, FAILED, changes, reason(error))


def compare(resource: Resource, context: Context) -> tuple[Change, ...]:
    """The differences between a resource's actual and wanted state, without the values of secrets."""
    wanted, actual, secrets = resource.wanted(context), resource.actual(context), resource.secrets()
    return tuple(
        describe(name, actual.get(name), value, is_secret=name in secrets, key=context.digest_key)
        for name, value in wanted.items()
        if actual.get(name) != value
    )


def describe(name: str, actual: Any, wanted: Any, *, is_secret: bool = False, key: str = "") -> Change:
    """One difference in words; as a unified diff where a side has several lines; of a secret, only that it differs."""
    if is_secret:
        return Change(name, wanted="differs", digest=digests(actual, wanted, key))
    before, after = text(actual), text(wanted)
    if "\n" in before or "\n" in after:
        return Change(name, diff=difference(before, after), digest=digests(actual, wanted, key))
    return Change(name, before, after)


def as_request(resource: Resource) -> dict[str, Any]:
    """A resource as JSON values, the way it travels to a host."""
    return {"kind": resource.kind, **{name: getattr(resource, name) for name in resource.FIELDS}}
