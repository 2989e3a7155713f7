"""Logins that other hosts vouch for: whom a host adds to those who are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.files.hostbased_logins import REFUSED_HERE, HostbasedLogins, refusals
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.identities.powerful_users import MOST_FILES, members_of

PASSWD = "root:x:0:0::/:/bin/sh\nold:x:999:999::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\nodd,name*:x:2:2::/:/bin/sh\n"
GROUP = "root:x:0:\nops:x:2000:ann\n"


@pytest.fixture
def host(tmp_path: Path) -> Context:
    (tmp_path / "etc/sudoers.d").mkdir(parents=True)
    (tmp_path / "etc/passwd").write_text(PASSWD)
    (tmp_path / "etc/group").write_text(GROUP)
    return Context(str(tmp_path))


def refused(host: Context, kind: str) -> set[str]:
    """The users, or the groups, that a host refuses."""
    found = [line.split()[2] for line in refusals(host).splitlines() if line.startswith(f"Match {kind} ")]
    return {name for one in found for name in one.split(",")}


def test_users_below_1000_are_refused_and_odd_names_are_patterns(host: Context) -> None:
    assert refusals(host) == "Match User odd?name?,old,root\n    HostbasedAuthentication no\n"


@pytest.mark.parametrize(
    ("rule", "users", "groups"),
    [
        ("bob ALL=(ALL:ALL) NOPASSWD: ALL", {"bob"}, set()),
        ("bob, carl ALL = /bin/dd", {"bob", "carl"}, set()),
        ("%ops\tALL=(ALL) ALL", set(), {"ops"}),
        ("#1000 ALL=ALL\n%#2000 ALL=ALL", {"ann"}, {"ops"}),
        ("User_Alias ADMINS = bob, %ops : OTHERS = carl\nADMINS ALL=ALL", {"bob", "carl"}, {"ops"}),
        ("bob\\\n  ALL=(ALL) ALL # not dora", {"bob"}, set()),
        (r"AD\\bob ALL=ALL", {r"AD\bob"}, set()),
        (r"%domain\ admins ALL=ALL", set(), {"domain?admins"}),
        ('"%domain admins" ALL=ALL', set(), {"domain?admins"}),
        ("Defaults:bob !lecture\nCmnd_Alias X = /bin/ls\n# bob ALL=ALL", set(), set()),
        ("!bob, +no-such-netgroup, #12x ALL=ALL", set(), set()),
    ],
)  # fmt: skip
def test_whom_a_rule_of_sudo_names_is_refused(host: Context, rule: str, users: set[str], groups: set[str]) -> None:
    Path(host.path("/etc/sudoers")).write_text("Defaults env_reset\n@includedir /etc/sudoers.d\n")
    Path(host.path("/etc/sudoers.d/site")).write_text(f"{rule}\n")
    assert refused(host, "User") - {"odd?name?", "old", "root"} - {"ADMINS"} == users
    assert refused(host, "Group") == groups


@pytest.mark.parametrize(
    "rule",
    ["ALL ALL=(root) /bin/true", "bob , ALL web = /bin/true", "User_Alias X = bob, ALL, !carl\nX ALL=ALL"],
)
def test_a_rule_of_sudo_for_all_refuses_everybody(host: Context, rule: str) -> None:
    Path(host.path("/etc/sudoers")).write_text(f"{rule}\n")
    assert refusals(host) == "Match User *\n    HostbasedAuthentication no\n"


def test_whom_a_rule_of_doas_permits_is_refused(host: Context) -> None:
    Path(host.path("/etc/doas.conf")).write_text(
        "# permit x\npermit bob\npermit persist setenv { A=1 -B } :ops as root cmd dd\n"
        'deny carl\n  permit nopass \\\n keepenv "dora" # y\npermit 1000\n'
    )
    assert refused(host, "User") == {"odd?name?", "old", "root", "bob", "dora", "ann"}
    assert refused(host, "Group") == {"ops"}


@pytest.mark.parametrize(
    ("shown", "users"),
    [
        ("admins                ( ,ruth,) (web,bob,example)", {"ruth", "bob"}),
        ("admins                (web,-,)", set()),
        ("admins                (web,,)", {"*"}),
        ("", set()),
    ],
)
def test_the_users_of_a_netgroup_are_those_that_getent_prints(shown: str, users: set[str]) -> None:
    assert members_of(shown) == users


def test_files_that_sudo_includes_are_read_and_others_are_not(host: Context) -> None:
    Path(host.path("/etc/sudoers")).write_text("#includedir /etc/sudoers.d\n@include sudoers.more\n")
    for name, user in (
        ("sudoers.more", "bob"),
        ("sudoers.d/a", "carl"),
        ("sudoers.d/b.old", "x"),
        ("sudoers.d/c~", "y"),
    ):
        Path(host.path(f"/etc/{name}")).write_text(f"{user} ALL=ALL\n")
    assert refused(host, "User") >= {"bob", "carl"}
    assert not refused(host, "User") & {"x", "y"}


def test_files_that_include_each_other_when_read_then_that_ends(host: Context) -> None:
    Path(host.path("/etc/sudoers")).write_text("@include /etc/sudoers\n" * 3)
    assert MOST_FILES < 10_000
    assert refused(host, "User") == {"odd?name?", "old", "root"}


def test_the_names_of_the_host_come_before_those_who_are_let_in(host: Context) -> None:
    path = "/etc/ssh/sshd_config.d/mine.conf"
    wanted = HostbasedLogins("user-ssh", (OwnedFile(path, f"{REFUSED_HERE}Match User *\n"),)).wanted(host)
    assert str(wanted[path]).index("Match User odd?name?,old,root") < str(wanted[path]).index("Match User *")
