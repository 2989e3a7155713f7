"""Who may become root on a host, as notebooks ask it; `test_hostbased_logins.py` has the rules of sudo and doas."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.identities.powerful_users import Powerful, why_powerful

MORE = Powerful({"boss"}, {"docker", "sudo"})


@pytest.fixture
def host(tmp_path: Path) -> Context:
    (tmp_path / "etc/sudoers.d").mkdir(parents=True)
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\n")
    (tmp_path / "etc/group").write_text("root:x:0:\nops:x:2000:ann\n")
    return Context(str(tmp_path))


@pytest.mark.parametrize(
    ("user", "groups", "rule", "why"),
    [
        (("ann", 1000), (), "", ""),
        (("ann", 1000), ("users",), "bob ALL=ALL", ""),
        (("ann", 999), (), "", "system user"),
        (("boss", 1000), (), "", "cluster file"),
        (("alias", 1000), (), "ann ALL=ALL", "sudo or doas"),
        (("ann", 1000), ("users", "docker"), "", "in the group docker"),
        (("ann", 1000), (), "ann ALL=(ALL) /usr/bin/less", "sudo or doas"),
        (("ann", 1000), (), "#1000 ALL=ALL", "sudo or doas"),
        (("ann", 1000), (), "ALL ALL=ALL", "sudo or doas"),
        (("ann", 1000), (), r"AD\\ann ALL=ALL", ""),
        ((r"AD\ann", 1000), (), r"AD\\ann ALL=ALL", "sudo or doas"),
        (("ann", 1000), ("ops",), "%ops ALL=ALL", "in the group ops"),
        (("ann", 1000), ("domain admins",), r"%domain\ admins ALL=ALL", "in the group domain admins"),
        (("ann", 1000), ("domain admins",), '"%:domain admins" ALL=ALL', "in the group domain admins"),
        (("ann", 1000), ("Ops",), "%ops ALL=ALL", "in the group Ops"),
        (("a.n", 1000), (), "axn ALL=ALL", ""),
    ],
)  # fmt: skip
def test_a_user_when_something_lets_it_become_root_then_the_reason_is_told(
    host: Context, user: tuple[str, int], groups: tuple[str, ...], rule: str, why: str
) -> None:
    Path(host.path("/etc/sudoers")).write_text(f"{rule}\n")
    entry = pwd.struct_passwd((user[0], "x", user[1], user[1], "", "/", "/bin/sh"))
    told = why_powerful(host, entry, groups, MORE)
    assert why in told if why else told == ""
