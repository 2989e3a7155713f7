"""Logins that other hosts vouch for: whom a host adds to those who are refused."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.files.hostbased_logins import REFUSED_HERE, HostbasedLogins, block, refusals
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.identities.powerful_users import members_of

PASSWD = "root:x:0:0::/:/bin/sh\nold:x:999:999::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\nodd,name*:x:2:2::/:/bin/sh\n"
GROUP = "root:x:0:\nops:x:2000:ann\n"


@pytest.fixture
def host(tmp_path: Path) -> Context:
    """A host without sudo."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(PASSWD)
    (tmp_path / "etc/group").write_text(GROUP)
    return Context(str(tmp_path))


def refused(host: Context, kind: str) -> set[str]:
    """The users, or the groups, that a host refuses, in small letters."""
    return {name.lower() for name in patterns(host, kind)}


def patterns(host: Context, kind: str) -> list[str]:
    """The patterns by which a host refuses users, or groups."""
    found = [line.split()[2] for line in refusals(host).splitlines() if line.startswith(f"Match {kind} ")]
    return [name for one in found for name in one.split(",")]


def test_users_below_1000_are_refused_and_odd_names_are_patterns(host: Context) -> None:
    assert refusals(host) == "Match User odd?name*,old,root\n    HostbasedAuthentication no\n"


def told_by_sudo(host: Context, *members: dict[str, object]) -> None:
    """Has the host's cvtsudoers(1) tell of one rule with these members."""
    Path(host.path("/etc/sudoers")).touch()
    rules = {"Defaults": [], "User_Specs": [{"User_List": [*members], "Host_List": [{"hostname": "n9"}]}]}
    host.must = lambda argv, **_: json.dumps(rules) if argv[-1] == host.path("/etc/sudoers") else ""  # type: ignore[assignment,method-assign]


@pytest.mark.parametrize(
    ("members", "users", "groups"),
    [
        ([{"username": "bob"}, {"username": r"AD\bob"}], {"bob", r"ad\bob"}, set()),
        ([{"usergroup": "ops"}, {"nonunixgroup": "domain admins"}], set(), {"ops", "domain?admins"}),
        ([{"userid": 1000}, {"usergid": 2000}, {"nonunixgid": 2000}], {"ann"}, {"ops"}),
        ([{"username": "bob", "negated": True}, {"netgroup": "no-such-netgroup"}], {"bob"}, set()),
    ],
)  # fmt: skip
def test_whom_a_rule_of_sudo_names_is_refused(
    host: Context, members: list[dict[str, object]], users: set[str], groups: set[str]
) -> None:
    told_by_sudo(host, *members)
    assert refused(host, "User") - {"odd?name*", "old", "root"} == users
    assert refused(host, "Group") == groups


ACCOUNTS = "Cara:x:3001:3001::/:/bin/sh\ncara2:x:3001:3001::/:/bin/sh\nclara:x:3002:3002::/:/bin/sh\n"


@pytest.mark.parametrize(
    ("member", "kind", "named", "other"),
    [
        ({"username": "CARA"}, "User", {"CARA", "Cara", "cara2"}, "clara"),  # cara2 has the same UID
        ({"useralias": "CARA"}, "User", {"CARA", "Cara", "cara2"}, "clara"),  # which is no alias
        ({"username": "DORA"}, "User", {"DORA"}, "dora"),  # nobody has such a name
        ({"usergroup": "OPS"}, "Group", {"OPS", "ops"}, "Ops"),
        ({"usergroup": "Domänen-Admins"}, "Group", {"Dom??nen-Admins"}, "dom?nen-admins"),
        ({"username": "jörg"}, "User", {"j??rg"}, "j?rg"),
    ],
)
def test_whom_a_rule_names_when_its_letters_are_others_than_the_accounts_then_is_refused_in_those_of_the_account(
    host: Context, member: dict[str, object], kind: str, named: set[str], other: str
) -> None:
    Path(host.path("/etc/passwd")).write_text(PASSWD + ACCOUNTS)
    told_by_sudo(host, member)
    found = {*patterns(host, kind)}
    assert named <= found
    assert other not in found


def test_users_and_groups_of_sshds_file_when_others_have_their_numbers_then_these_are_refused_too(
    host: Context,
) -> None:
    Path(host.path("/etc/passwd")).write_text(PASSWD + "adm1:x:3001:1::/:/bin/sh\nadm2:x:3001:1::/:/bin/sh\n")
    Path(host.path("/etc/group")).write_text("shadowx:x:42:dan\nshadow:x:42:\nops:x:2000:\n")
    text = f"Match Group shadow,sudo\nx\nMatch User adm1,root\n{REFUSED_HERE}Match User *\n"
    lines = refusals(host, text).splitlines()
    assert lines[0::2] == ["Match User adm2,odd?name*,old", "Match Group shadowx"]


@pytest.mark.parametrize(
    ("member", "kind", "refused_names", "others"),
    [
        (
            {"usergroup": "linuxadmins"},
            "Group",
            ["LinuxAdmins", "LINUXADMINS", "lInUxAdMiNs"],
            ["linuxusers", "admins"],
        ),
        (
            {"usergroup": "geo-Admins"},
            "Group",
            ["geo-admins", "Geo-Admins"],
            ["geo-logins", "bio-admins"],
        ),
        ({"usergroup": "Domänen-Admins"}, "Group", ["DOMäNEN-ADMINS"], ["Domänen-Nutzer"]),
        ({"username": "adm1"}, "User", ["ADM1", "Adm1", "ann.admin@example.org", r"AD\adm1"], ["adm2", "xadm1"]),
    ],
)
def test_whom_a_rule_names_when_a_directory_may_spell_the_name_otherwise_then_is_refused_in_all_letters(
    host: Context, member: dict[str, object], kind: str, refused_names: list[str], others: list[str]
) -> None:
    Path(host.path("/etc/nsswitch.conf")).write_text("passwd: files systemd sss\ngroup: files [SUCCESS=merge] ldap\n")
    told_by_sudo(host, member)
    found = [re.compile(re.escape(one).replace(r"\?", ".").replace(r"\*", ".*")) for one in patterns(host, kind)]
    # sshd compares bytes.
    as_bytes = {name: name.encode().decode("latin-1") for name in (*refused_names, *others)}
    hit = [name for name, text in as_bytes.items() if any(one.fullmatch(text) for one in found)]
    assert hit == refused_names


def test_rules_of_sudo_when_a_plugin_tells_of_groups_then_refuse_everybody(host: Context) -> None:
    told_by_sudo(host, {"nonunixgroup": "fileadmins"})
    assert refusals(host) != EVERYBODY
    Path(host.path("/etc/sudoers")).touch()
    rules = {"Defaults": [{"Options": [{"group_plugin": "group_file.so /etc/x"}]}], "User_Specs": []}
    host.must = lambda *_, **__: json.dumps(rules)  # type: ignore[method-assign]
    assert refusals(host) == EVERYBODY


@pytest.mark.skipif(not Path("/usr/sbin/sshd").exists(), reason="asks sshd")
@pytest.mark.parametrize(("user", "is_refused"), [("jörg", True), ("jorg", False)])
def test_sshd_when_a_name_has_letters_outside_of_ascii_then_compares_the_pattern_with_it(
    tmp_path: Path, user: str, is_refused: bool
) -> None:
    key, conf = tmp_path / "key", tmp_path / "conf"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    conf.write_text(f"HostKey {key}\nHostbasedAuthentication yes\n{block('User', {'jörg'})}")
    asked = ["/usr/sbin/sshd", "-T", "-f", conf, "-C", f"user={user},host=h,addr=127.0.0.1"]
    shown = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert ("hostbasedauthentication no" in shown) is is_refused


@pytest.mark.parametrize("member", [{"username": "ALL"}, {"a new kind": "bob"}, {"usergid": "many"}, {}])
def test_a_rule_of_sudo_for_all_or_one_that_nobody_understands_refuses_everybody(
    host: Context, member: dict[str, object]
) -> None:
    told_by_sudo(host, member or {"username": "ALL"})
    assert refusals(host) == EVERYBODY


EVERYBODY = "Match User *\n    HostbasedAuthentication no\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/nsswitch.conf", "passwd: files\nsudoers: files sss\n"),
        ("/etc/nsswitch.conf", "Sudoers: SSS\n"),
        ("/etc/sudo.conf", "# x\nPlugin sudoers_policy sudoers.so sudoers_file=/etc/other\n"),
        ("/etc/sudo.conf", "plugin sudoers_policy sudoers.so \\\n  sudoers_file=/etc/other\n"),
    ],
)
def test_rules_of_sudo_from_elsewhere_refuse_everybody(host: Context, path: str, text: str) -> None:
    Path(host.path(path)).write_text(text)
    assert refusals(host) != EVERYBODY, "without sudo, nobody reads them"
    told_by_sudo(host)
    assert refusals(host) == EVERYBODY
    Path(host.path(path)).write_text("passwd: files\nsudoers: files # sss\n#Plugin x sudoers_file=y\n")
    assert refusals(host) != EVERYBODY


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ((), "cvtsudoers"),
        (("/usr/bin/cvtsudoers",), "cvtsudoers"),
        (("/usr/bin/cvtsudoers.ws",), "cvtsudoers.ws"),
        (("/usr/bin/cvtsudoers.ws", "/usr/bin/cvtsudoers"), "cvtsudoers"),
    ],
)
def test_rules_of_sudo_when_its_program_has_another_name_then_that_one_is_asked(
    host: Context, there: tuple[str, ...], asked: str
) -> None:
    Path(host.path("/etc/sudoers")).touch()
    Path(host.path("/usr/bin")).mkdir(parents=True)
    for path in there:
        Path(host.path(path)).touch(mode=0o755)
    rules = {"User_Specs": [{"User_List": [{"username": "bob"}]}]}
    host.must = lambda argv, **_: json.dumps(rules) if argv[0] == asked else ""  # type: ignore[assignment,method-assign]
    assert refused(host, "User") == {"odd?name*", "old", "root", "bob"}


def test_rules_of_sudo_when_sudo_cannot_tell_of_them_then_refuse_everybody(host: Context) -> None:
    Path(host.path("/etc/sudoers")).touch()
    for answer in ("", "[]", "no JSON", '{"User_Specs": [{}]}', '{"User_Specs": [{"User_List": ["bob"]}]}'):
        host.must = lambda *_, answer=answer, **__: answer  # type: ignore[method-assign]
        assert refusals(host) == EVERYBODY


def test_whom_a_rule_of_doas_permits_is_refused(host: Context) -> None:
    Path(host.path("/etc/doas.conf")).write_text(
        "# permit x\npermit bob\npermit persist setenv { A=1 -B } :ops as root cmd dd\n"
        'deny carl\n  permit nopass \\\n keepenv "dora" # y\npermit 1000\n'
        '# not \\\npermit b"e"n\npermit em\\\nma\npermit ":wheels"\npermit f\\red\n'
        "permit nopass setenv { A }gus\npermit setenv{A}hal\n"
    )
    found = {"bob", "dora", "ann", "ben", "emma", "fred", "gus", "hal"}
    assert refused(host, "User") == {"odd?name*", "old", "root", *found}
    assert refused(host, "Group") == {"ops", "wheels"}
    Path(host.path("/etc/doas.conf")).write_text('permit setenv { A="}" } bob\n')
    assert refusals(host) == EVERYBODY


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


def test_the_names_of_the_host_come_before_those_who_are_let_in(host: Context) -> None:
    path = "/etc/ssh/sshd_config.d/mine.conf"
    wanted = HostbasedLogins("user-ssh", (OwnedFile(path, f"{REFUSED_HERE}Match User *\n"),)).wanted(host)
    assert str(wanted[path]).index("Match User odd?name*,old,root") < str(wanted[path]).index("Match User *")
