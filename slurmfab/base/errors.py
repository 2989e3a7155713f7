"""All errors that slurmfab shows to its users, as one tree.

    SlurmfabError                   exit code 1
    +-- InputError                  exit code 2: the command line or one of the user's files is wrong
    |   +-- ClusterFileError        all mistakes in the cluster file at once
    |   +-- BrokenFile              a file is not what its format says
    |   +-- HostlistError           a text that is not a hostlist
    |   +-- Refused                 words of a site's task that name no hosts (slurmfab.hosts.groups)
    |   +-- KeysRefused             the installed Slurm refuses keys or values of the file (core.plan.preflight)
    +-- HostError                   an error of one host, with its name
    |   +-- Unreachable             no SSH connection
    |   |   +-- NameUnknown         its name does not resolve
    |   |   +-- HostKeyUnknown      its SSH host key is not in known_hosts or the lock
    |   |   +-- HostKeyChanged      its SSH host key differs from the pinned one
    |   |   +-- HostKeyRevoked      its SSH host key is revoked
    |   |   +-- LoginRefused        sshd refused the login
    |   |   +-- Asleep              Slurm has powered it down
    |   |   +-- ConnectionLost      the connection ended during the run
    |   |   +-- TooSlow             checks of a host waited too long in sum (slurmfab.commands.checks.shell)
    |   +-- BecomeRefused           the user cannot become root with sudo
    |   |   +-- SudoPasswordNeeded  sudo asks for a password, and none is known
    |   |   +-- SudoPasswordWrong   sudo rejected the password
    |   +-- AgentFailed             the agent did not start or did not complete its answer
    |   +-- PythonMissing           python3 is not installed
    |   +-- AnotherRun              another run is in progress on the host
    |   +-- HostFailed              the host answers but could not be configured
    |   +-- HostDown                a host of a site's task cannot be reached (slurmfab.hosts.groups)
    |   +-- NoAnswer                a check's command took too long (slurmfab.commands.checks.shell)
    +-- IdConflict                  another user or group on a host has a UID or GID that the cluster needs
    +-- JobsInTheWay                a change would disrupt jobs and was not allowed
    +-- FilesChanged                somebody else changed the cluster file or its lock while the run waited
    +-- PlanOutdated                the hosts have changed since a plan was saved (slurmfab.core.engine.saved_plan)
    +-- NotSubmitted                acceptance jobs could not be submitted (slurmfab.commands.accept.queue)
    +-- DeployFailed                a step failed on the controller, so the other hosts were not started
    +-- NoSignature                 ssh-keygen cannot sign or look at a signature (slurmfab.base.signatures)
    +-- LabError                    the lab could not be created, read or removed

A message is one or more full sentences: what happened, where, why, and what to try.
"""

from collections.abc import Iterable
from typing import Any

from slurmfab.base.exit_codes import FAILURE, WRONG_INPUT
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import hang, without_middle

COMPLAINT_LENGTH = 500  # the most characters of one complaint about a cluster file


class SlurmfabError(Exception):
    """The root of all errors that users see; they see its text and no traceback."""

    exit_code = FAILURE
    objections: tuple[Any, ...] = ()  # those of `objections.Objection` on which it rests
    ways: tuple[str, ...] = ()  # the ways out of these

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is made again in another process: subclasses have other arguments than a text."""
        return made_again, (type(self), self.args, self.__dict__)


def made_again(kind: type[SlurmfabError], arguments: tuple[object, ...], attributes: dict[str, Any]) -> SlurmfabError:
    """An error from another process."""
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(attributes)
    return error


class InputError(SlurmfabError):
    """A mistake in the command line or in one of the user's files; nothing was changed."""

    exit_code = WRONG_INPUT


UNCHANGED = "Nothing was changed on any host."


def refuse(complaints: Iterable[str]) -> None:
    """Stop, by InputError with a line for each complaint, if there are any."""
    lines = [*complaints]
    if lines:
        raise InputError("\n".join((*lines, UNCHANGED)))


class ClusterFileError(InputError):
    """One or more mistakes in a cluster file.

    Args:
        complaints: one line each, `FILE:LINE: KEY: what is wrong (what to try)`; very long ones lose their middle.
    """

    def __init__(self, complaints: tuple[str, ...]) -> None:
        self.complaints = tuple(without_middle(complaint, COMPLAINT_LENGTH) for complaint in complaints)
        super().__init__("\n".join(self.complaints))


class BrokenFile(InputError):
    """A file that is not what its format says: its name, the reason, and the line where that is known.

    Args:
        reason: what is wrong, with the key in front where there is one; one line without a full stop.
        line: the line, from 1; 0 for none.
    """

    def __init__(self, where: object, reason: str, line: int = 0) -> None:
        self.where = str(where)
        self.reason = f"{reason}, in line {line}" if line else reason
        super().__init__(f"{self.where}: {self.reason}.")


class HostlistError(InputError):
    """A text that Slurm does not accept as a hostlist."""


class HostError(SlurmfabError):
    """An error of one host.

    Args:
        host: the host's name as the user knows it.
        reason: what happened, why, and what to try, without the host's name.
    """

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"{host}: {hang(reason)}")
        self.host = host
        self.reason = reason


class Unreachable(HostError):
    """No SSH connection to a host."""


class NameUnknown(Unreachable):
    """No SSH connection, because the host's name does not resolve."""


class HostKeyUnknown(Unreachable):
    """A host whose SSH host key is not in known_hosts or the lock.

    Args:
        key_type: such as `ssh-ed25519`.
        key: the public key in base64.
        fingerprint: `SHA256:…`, as OpenSSH prints it.
        has_authority: whether known_hosts has a certificate authority for it, by which ssh(1) may trust it.
    """

    def __init__(self, host: str, key_type: str, key: str, fingerprint: str, *, has_authority: bool = False) -> None:
        self.note = "known_hosts has a certificate authority for it, but slurmfab cannot verify host certificates. "
        self.note = self.note if has_authority else ""
        super().__init__(
            host,
            f"its SSH host key is unknown: {key_type} {fingerprint}. {self.note}"
            f"Compare it with the one on the host's console, then accept it: {FAB} deploy --accept-new-host-keys.",
        )
        self.key_type = key_type
        self.key = key
        self.fingerprint = fingerprint


class HostKeyChanged(Unreachable):
    """A host whose SSH host key differs from the pinned one."""


class HostKeyRevoked(Unreachable):
    """A host whose SSH host key is revoked; it is never accepted, not even if it is pinned.

    Args:
        key_type: such as `ssh-ed25519`.
        fingerprint: `SHA256:…`, as OpenSSH prints it.
        file: the file that revokes it.
    """

    def __init__(self, host: str, key_type: str, fingerprint: str, file: str) -> None:
        super().__init__(
            host,
            f"its SSH host key is revoked: {key_type} {fingerprint}, by {file} (@revoked in known_hosts, or "
            "RevokedHostKeys in ssh_config, which revokes all keys if its file cannot be read). Somebody else may have "
            "this key, so it is never accepted. Make a new one on the host's console, and remove its host_keys from "
            "the cluster's lock file.",
        )


class LoginRefused(Unreachable):
    """A host whose sshd refused the login."""


class Asleep(Unreachable):
    """A node that Slurm has powered down until a job needs it, or is powering down or up."""


class ConnectionLost(Unreachable):
    """A connection that ended, or on which no data arrived for 30 s."""


class BecomeRefused(HostError):
    """A host on which the user cannot become root with sudo."""


class SudoPasswordNeeded(BecomeRefused):
    """A host whose sudo asks for a password when none is known."""


class SudoPasswordWrong(BecomeRefused):
    """A host whose sudo rejected the password."""


class AgentFailed(HostError):
    """A host on which the agent did not start, or did not complete its answer."""


class PythonMissing(HostError):
    """A host without python3, which the agent needs; the package manager can install it."""


class AnotherRun(HostError):
    """A host on which another run is in progress.

    Args:
        holder: who runs it, since when and what, such as `ann@laptop since 2026-11-21 09:00:00 +0100, fab deploy`.
    """

    def __init__(self, host: str, holder: str) -> None:
        super().__init__(host, f"another run is in progress here: {holder}.")
        self.holder = holder


class HostFailed(HostError):
    """A host that answers but could not be configured, so that the run continued without it."""


class IdConflict(SlurmfabError):
    """Another user or group on a host has a UID or GID that the cluster needs."""


class JobsInTheWay(SlurmfabError):
    """A change that would disrupt jobs and that the user did not allow; it was not started."""


class FilesChanged(SlurmfabError):
    """A cluster file or lock that somebody else has changed since the run read it."""


class DeployFailed(SlurmfabError):
    """A deployment that stopped because a step failed on the controller."""


class LabError(SlurmfabError):
    """A lab that could not be created, read or removed."""
