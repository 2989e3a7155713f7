"""Check that hosts are reachable."""

from __future__ import annotations

from slurmfab.base.errors import LoginRefused
from slurmfab.commands.checks.applies import foundation
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.shell import NoAnswer


@foundation
def test_host_is_reachable(host: CheckedHost) -> None:
    """SSH login with the pinned host key works, and gives root"""
    # If the connection failed, the plugin reports its error and does not call this function. A login that runs no
    # command counts as a failed connection: the host is asked nothing more.
    try:
        done = host.run("true")
    except NoAnswer as error:
        raise LoginRefused(
            host.name,
            "SSH login works, but its shell runs no command: `true` gave no answer. See the login user's start files "
            "there, such as .bashrc: one of them waits for something.",
        ) from error
    if done.rc != 0:
        raise LoginRefused(host.name, f"SSH login works, but its shell cannot run `true`: {last_words(done)}.")
