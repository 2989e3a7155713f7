"""Members of a package's group in a scratch root: added, taken out, and never those of others."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, WOULD_CHANGE, Context, Outcome, apply
from slurmfab.on_hosts.agent.people.group_members import GroupMembers, members_of


class Host(Context):
    """A scratch root with a gpasswd that changes its /etc/group."""

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        program, option, user, group = argv
        assert program == "gpasswd"
        names = set(members_of(self, group))
        names = names | {user} if option == "--add" else names - {user}
        self.write(",".join(sorted(names)))
        return subprocess.CompletedProcess(list(argv), 0, b"", b"")

    def write(self, members: str) -> None:
        Path(self.path("/etc/group")).write_text(f"root:x:0:\ndocker:x:103:{members}\n")


@pytest.fixture
def host(root: Path) -> Host:
    made = Host(str(root))
    made.write("eve")
    return made


def have(host: Host, *users: str) -> Outcome:
    return apply(GroupMembers("docker", users), host)


def test_members_when_the_file_names_them_then_they_are_added_beside_others(host: Host) -> None:
    dry = Host(host.root, dry_run=True)
    assert have(dry, "ann").status == WOULD_CHANGE
    assert members_of(host, "docker") == {"eve"}
    assert have(host, "ann", "bob").status == CHANGED
    assert have(host, "ann", "bob").status == OK
    assert members_of(host, "docker") == {"ann", "bob", "eve"}


def test_members_when_the_file_no_longer_names_them_then_only_they_leave(host: Host) -> None:
    have(host, "ann", "bob", "eve")
    assert have(host, "bob").status == CHANGED
    assert members_of(host, "docker") == {"bob", "eve"}
    assert have(host).status == CHANGED
    assert members_of(host, "docker") == {"eve"}
    assert not Path(host.path(f"{OWNED}/group-docker.json")).exists()
    assert have(host).status == OK


def test_members_when_one_was_taken_out_by_hand_then_the_record_forgets_it(host: Host) -> None:
    have(host, "ann")
    host.write("eve")
    assert have(host).status == CHANGED
    assert not Path(host.path(f"{OWNED}/group-docker.json")).exists()


def test_members_when_there_is_no_group_then_it_is_a_failure_with_its_name(host: Host) -> None:
    Path(host.path("/etc/group")).write_text("root:x:0:\n")
    outcome = have(host, "ann")
    assert (outcome.status, outcome.message) == (FAILED, "there is no group docker; is its package installed?")
    assert have(host).status == OK
