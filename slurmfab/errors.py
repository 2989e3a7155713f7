"""Every error that slurmfab raises for people, as one tree.

    SlurmfabError                   exit code 1
    +-- InputError                  exit code 2: the command line or a file of the user's is wrong
    |   +-- ClusterFileError        all complaints about the cluster file at once
    |   +-- HostlistError           a hostlist that is none
    +-- HostError                   one host; carries its name
    |   +-- Unreachable             no SSH connection
    |   |   +-- HostKeyUnknown      nobody has vouched for this host key yet
    |   |   +-- HostKeyChanged      not the key that is pinned
    |   |   +-- LoginRefused        the host does not let this user in
    |   |   +-- ConnectionLost      it was there, and then it was not
    |   +-- BecomeRefused           no root there: sudo refused, or wants another password
    |   |   +-- SudoPasswordNeeded  sudo wants a password and none is known yet
    |   +-- AgentFailed             the agent did not start or did not answer to the end
    |   +-- PythonMissing           no python3 there, which is easily mended
    |   +-- AnotherRun              another run is at work there
    |   +-- HostFailed              it could not be made as wanted
    |   +-- NoAnswer                a check's command took too long (slurmfab.checks.shell)
    +-- IdConflict                  a UID or GID is taken by somebody else on some host
    +-- JobsInTheWay                a change would hurt jobs, and nobody has agreed to that
    +-- PlanOutdated                what a saved plan shows is no longer so (slurmfab.saved_plan)
    +-- DeployFailed                something on the controller failed, so the rest was not started
    +-- LabError                    the lab could not be made or removed

A message is one or more full sentences: what happened, where, why, and what to try.
"""


class SlurmfabError(Exception):
    """The root of all errors that are meant for people; its text is all that they see."""

    exit_code = 1


class InputError(SlurmfabError):
    """Something that the user wrote is wrong; nothing was touched."""

    exit_code = 2


class ClusterFileError(InputError):
    """A cluster file with mistakes.

    Args:
        complaints: one line each, `FILE:LINE: KEY: what is wrong (what to try)`.
    """

    def __init__(self, complaints: tuple[str, ...]) -> None:
        super().__init__("\n".join(complaints))
        self.complaints = complaints


class HostlistError(InputError):
    """A hostlist that Slurm would not understand."""


class HostError(SlurmfabError):
    """Something went wrong with one host.

    Args:
        host: the host's name as the user knows it.
        reason: what happened, why, and what to try, without the host's name.
    """

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"{host}: {reason}")
        self.host = host
        self.reason = reason


class Unreachable(HostError):
    """A host that gives no SSH connection."""


class HostKeyUnknown(Unreachable):
    """A host whose SSH key nobody has vouched for.

    Args:
        host: the host's name.
        key_type: as in `ssh-ed25519`.
        key: the public key in base64.
        fingerprint: `SHA256:…`, as OpenSSH prints it.
    """

    def __init__(self, host: str, key_type: str, key: str, fingerprint: str) -> None:
        super().__init__(
            host,
            f"its SSH host key is unknown: {key_type} {fingerprint}. "
            "Compare it with the host's console, then use --accept-new-host-keys.",
        )
        self.key_type = key_type
        self.key = key
        self.fingerprint = fingerprint


class HostKeyChanged(Unreachable):
    """A host that shows another SSH key than the pinned one."""


class LoginRefused(Unreachable):
    """A host that does not let the user in."""


class ConnectionLost(Unreachable):
    """A host that answered at first and then went away or fell silent."""


class BecomeRefused(HostError):
    """A host on which the user cannot become root."""


class SudoPasswordNeeded(BecomeRefused):
    """A host whose sudo asks for a password that nobody has given yet."""


class AgentFailed(HostError):
    """A host on which the agent did not start, or did not answer to the end."""


class PythonMissing(HostError):
    """A host without python3, which is easily mended."""


class AnotherRun(HostError):
    """A host on which another run is at work.

    Args:
        host: its name.
        holder: who that is, as `ann@laptop since 2026-11-21 09:00:00 +0100, fab deploy`.
    """

    def __init__(self, host: str, holder: str) -> None:
        super().__init__(host, f"another run is at work here: {holder}.")
        self.holder = holder


class HostFailed(HostError):
    """A host that answers and cannot be made as wanted, so that the run went on without it."""


class IdConflict(SlurmfabError):
    """A UID or GID that the cluster needs is taken by somebody else on some host."""


class JobsInTheWay(SlurmfabError):
    """A change that would hurt jobs, and that nobody has agreed to; it was not begun."""


class DeployFailed(SlurmfabError):
    """A deployment that stopped because the controller could not go on."""


class LabError(SlurmfabError):
    """A lab that could not be made, looked at or removed."""
