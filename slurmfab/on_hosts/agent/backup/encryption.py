"""age(1) on the way of an archive's part into a file, which it writes itself: encryption or decryption."""

from __future__ import annotations

import contextlib
import subprocess
from typing import Sequence, Tuple

from slurmfab.on_hosts.agent.core.resource import ResourceFailed

PROGRAM = "age"
SUFFIX = ".age"  # the end of the name of an encrypted part

_MOST_SAID = 300


def encrypting(recipients: Sequence[str]) -> Tuple[str, ...]:
    """The command that encrypts to public keys; empty if there are none."""
    return (PROGRAM, "--encrypt", *(word for one in recipients for word in ("--recipient", one))) if recipients else ()


def decrypting(identity: str) -> Tuple[str, ...]:
    """The command that decrypts with a file of identities, whose passphrase age asks for at the terminal."""
    return (PROGRAM, "--decrypt", "--identity", identity)


class AgeProcess:
    """A running age that writes on into a descriptor; ResourceFailed if it does not start."""

    def __init__(self, command: Sequence[str], descriptor: int) -> None:
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=descriptor, stderr=subprocess.PIPE, bufsize=0
            )
        except FileNotFoundError:
            raise ResourceFailed("there is no program age, which encrypts backups; its package is age") from None
        except OSError as error:
            raise ResourceFailed("age does not start: %s" % error.strerror) from error

    def write(self, data: bytes) -> None:
        """Give age the next bytes. Raises ResourceFailed if age has ended before."""
        assert self.process.stdin is not None
        left = memoryview(data)
        try:
            while left:
                left = left[self.process.stdin.write(left) or 0 :]
        except BrokenPipeError:
            self.end()
            raise ResourceFailed("age ended before it had read all") from None

    def end(self) -> None:
        """Wait until age has written everything; ResourceFailed, in age's words, if it failed."""
        said = self.process.communicate()[1].decode(errors="replace")
        if self.process.returncode:
            lines = [line.strip() for line in said.splitlines() if line.startswith("age: error")]
            reason = lines[0] if lines else "age ended with exit code %d" % self.process.returncode
            raise ResourceFailed(reason[:_MOST_SAID])

    def stop(self) -> None:
        """End age, whatever it has written."""
        self.process.kill()
        with contextlib.suppress(OSError):
            self.process.communicate()
