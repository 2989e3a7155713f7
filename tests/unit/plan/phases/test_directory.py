"""A directory: what SSSD gets on all hosts, who may log in by it, whose accounts come from its groups, the way back."""

from __future__ import annotations

import configparser
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.base.errors import InputError
from slurmfab.base.paths import SSSD_CONF
from slurmfab.cluster.inventory.rules.people import SERVICES
from slurmfab.core.plan.phases import accounts, directory, packages
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight.accounts import left_out_members, refuse_unfit
from slurmfab.core.plan.preflight.directory import refuse_unfit as refuse_others
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.people.directory_service import CA, HOMES_FILE, DirectoryService
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

SSSD = """\
database: c1
unix_users: false
directory:
  sssd:
    servers: [ldaps://ldap1.example.org, "ldaps://[fd99::1]:1636"]
    base: dc=example,dc=org
    ca_file: ca.pem
    bind_dn: cn=reader,dc=example,dc=org
    password_file: reader.password
    groups: [hpc, hpc guests]
"""
FROM_GROUPS = "accounts: [{name: physics, from_groups: [phys]}, {name: theory, from_groups: [phys, theo]}]\n"
MEMBERS = {"phys": ("ann", "j.doe"), "theo": ("ann", "eve", "root")}
SECRET = "pass # word"
TEMPLATES = Path(__file__).parents[4] / "templates"
MOUNT = "mounts: [{path: /shared, source: 'fs:/shared', type: nfs}]\n"


def wanted(more: str, **facts: Any) -> PlanInput:
    known = prepared_input(THREE_HOSTS + more, **facts)
    return dataclasses.replace(known, directory_password=SECRET, directory_ca="CA\n")


def domain(known: PlanInput, host: str = "n1") -> dict[str, str]:
    """The settings of the domain, as a reader of such files has them."""
    text = next(one.text for one in directory.files(known, host) if one.path == SSSD_CONF)
    parser = configparser.RawConfigParser(delimiters=("=",))
    parser.read_string(text)
    return dict(parser["domain/directory"])


def test_all_hosts_have_the_same_settings_under_the_guard_of_logins() -> None:
    known = wanted(SSSD)
    for host in ("c1", "n1", "n2"):
        guard, files = directory.resources(known, host)
        order, *loaded = directory.service(known, host)
        assert guard == LoginGuard(proved=False)
        assert isinstance(files, DirectoryService)
        assert isinstance(order, OwnedFiles)
        assert "Before=slurmctld.service" in order.by_path()[directory.DROP_IN].text
        last = Service("sssd", watches=(SSSD_CONF, CA))
        assert loaded == [UnitsLoaded("directory-order", ("sssd",), (directory.DROP_IN,)), last]
        found = files.by_path()
        assert set(found) == {SSSD_CONF, CA, HOMES_FILE}
        assert (found[SSSD_CONF].mode, found[SSSD_CONF].owner, found[SSSD_CONF].secret) == (0o600, "root", True)
        assert {"sssd-ldap", "libnss-sss", "libpam-sss"} <= packages.wanted(known, host)
    assert SECRET not in repr(known)


def test_servers_are_proved_and_members_of_the_groups_alone_log_in() -> None:
    found = domain(wanted(SSSD))
    assert found["ldap_uri"] == "ldaps://ldap1.example.org, ldaps://[fd99::1]:1636"
    assert (found["ldap_tls_reqcert"], found["ldap_tls_cacert"]) == ("demand", CA)
    assert (found["access_provider"], found["simple_allow_groups"]) == ("simple", "hpc, hpc guests")
    assert (found["ldap_default_authtok"], found["ldap_id_use_start_tls"]) == (SECRET, "false")
    assert (found["enumerate"], found["cache_credentials"], found["min_id"]) == ("false", "true", "10000")
    assert (found["sudo_provider"], found["autofs_provider"], found["ldap_deref_threshold"]) == ("none", "none", "0")


@pytest.mark.parametrize("having", ["c1", "n1"])
def test_numbers_and_names_of_any_host_are_left_out_on_all(having: str) -> None:
    known = wanted(SSSD)
    own = (("uid", 20001, 20001, "cloud"),)
    facts = {
        host: dataclasses.replace(one, own_numbers=own if host == having else ()) for host, one in known.facts.items()
    }
    known = dataclasses.replace(known, facts=facts, lock=pin(known.cluster, known.lock, facts))
    for host in facts:
        users = domain(known, host)["ldap_user_search_base"]
        for taken in ("(uidNumber<=9999)", "(gidNumber<=9999)", "(uidNumber>=2147483648)"):
            assert taken in users
        assert "(uidNumber=64030)" in users, "slurm's"
        assert "(&(uidNumber>=61184)(uidNumber<=65519))" in users, "of services that systemd starts"
        assert "(uidNumber=20001)" in users
        assert "(uid=cloud)" in users
        asked = json.loads(directory.guard(known.cluster, known.lock, host))
        assert any(row[0] == 20001 for row in asked["uid"])
        assert "cloud" in asked["names"]["user"]


@pytest.mark.parametrize(("value", "is_group"), [("true", True), ("hybrid", True), ("False", False), ("", False)])
def test_numbers_of_users_when_they_are_those_of_groups_too_then_are_no_groups_of_a_host(
    value: str, is_group: bool
) -> None:
    option = f"    options: {{auto_private_groups: '{value}'}}\n" if value else ""
    known = wanted(SSSD + option, own_numbers=(("gid", 20050, 20050, "proj"),))
    known = dataclasses.replace(known, lock=pin(known.cluster, known.lock, known.facts))
    assert ("(uidNumber=20050)" in domain(known, "n1")["ldap_user_search_base"]) is is_group
    asked = json.loads(directory.guard(known.cluster, known.lock, "n1", known.facts["n1"]))
    assert any(row[0] == 20050 for row in asked["uid"]) is is_group


def test_names_that_hosts_give_rights_to_are_left_out_on_all_hosts_unless_the_file_means_them() -> None:
    own = (("uid", 0, 0, "alice"), ("gid", 0, 0, "netdev"), ("gid", 0, 0, "admins"))
    known = wanted(SSSD + "    admins: [admins]\n", gids={0: "root", 50: "staff", 100: "users"}, own_numbers=own)
    known = dataclasses.replace(known, lock=pin(known.cluster, known.lock, known.facts))
    found = domain(known, "n1")
    assert "(uid=alice)" in found["ldap_user_search_base"]
    assert "(uidNumber=0)" not in found["ldap_user_search_base"], "it is below min_id"
    for name in ("netdev", "staff", "users"):
        assert f"(cn={name})" in found["ldap_group_search_base"]
    assert "(cn=admins)" not in found["ldap_group_search_base"]
    asked = json.loads(directory.guard(known.cluster, known.lock, "n1", known.facts["n1"]))
    assert "alice" in asked["names"]["user"]
    assert {"netdev", "staff", "users"} <= {*asked["names"]["group"]}
    assert {"sudo", "root"} <= {*asked["silent"]["group"]}
    assert not {"admins", "sudo"} & {*asked["names"]["group"]}
    assert "alice" in json.loads(directory.guard(known.cluster, known.lock))["names"]["user"], (
        "of the check, by the lock"
    )


def test_numbers_in_rules_are_numbers_and_names_in_them_any_names() -> None:
    own = (
        ("uid", 20698, 20698, "a rule of sudo or doas"),
        ("gid", 20699, 20699, "a rule of sudo or doas"),
        ("uid", 0, 0, "quo te(*)?"),
        ("gid", 0, 0, "größe, all"),
    )
    known = wanted(SSSD, own_numbers=own)
    known = dataclasses.replace(known, lock=pin(known.cluster, known.lock, known.facts))
    users, groups = (domain(known)[f"ldap_{kind}_search_base"] for kind in ("user", "group"))
    assert "(uidNumber=20698)" in users
    assert "(gidNumber=20699)" in users
    assert "(gidNumber=20699)" in groups
    assert "(uid=20698)" not in users
    assert "rule" not in users + groups
    assert r"(uid=quo\20te\28\2a\29\3f)" in users
    assert r"(cn=gr\c3\b6\c3\9fe\2c\20all)" in groups
    assert users.count("?") == 2, "it parts a base from its scope and filter"
    asked = json.loads(directory.guard(known.cluster, known.lock))
    assert [20698, 20698, "a rule of sudo or doas of c1"] in asked["uid"]
    text = next(one.text for one in directory.files(known, "n1") if one.path == SSSD_CONF)
    assert "größe" not in text, "SSSD takes a comma for the end of a name in a list"
    meant = wanted(SSSD + "    admins: ['#20698', '#20699']\n", own_numbers=own)
    assert "Number=2069" not in domain(meant)["ldap_user_search_base"]


def test_names_that_programs_read_otherwise_than_a_directory_are_left_out() -> None:
    found = domain(wanted(SSSD))
    for base, name in (("ldap_user_search_base", "uid"), ("ldap_group_search_base", "cn")):
        for part in (r"*\00*", r"*\1f*", r"*\7f*", r"*\3a*", r"*\2f*", r"*\5c*", "-*", ".*", "_*", "systemd-*"):
            assert f"({name}={part})" in found[base], part
        assert f"({name}=*\\20*)" not in found[base], "a name may have blanks inside"
    found = domain(wanted(SSSD + "    admins: [o'brien, _ssh]\n"))
    assert r"*\27*" not in found["ldap_user_search_base"]
    assert r"(uid=*\00*)" in found["ldap_user_search_base"]
    assert "(&(uid=_*)(!(uid=_ssh)))" in found["ldap_user_search_base"]


def test_groups_that_packages_make_later_are_left_out_and_told_unless_the_file_means_them() -> None:
    for name in ("ssl-cert", "crontab", "postdrop", "polkitd", "netdev", "kvm", "render", "input", "sgx", "mock",
                 "rdma", "lxd", "libvirt", "libvirt-qemu", "wireshark", "sambashare", "uucp"):  # fmt: skip
        known = wanted(SSSD)
        assert f"(cn={name})" in domain(known)["ldap_group_search_base"], name
        told = json.loads(directory.guard(known.cluster, known.lock))
        assert name in told["names"]["group"] + told["silent"]["group"]
    known = wanted(SSSD + "    admins: [render]\n")
    assert "(cn=render)" not in domain(known)["ldap_group_search_base"]
    assert "render" not in json.loads(directory.guard(known.cluster, known.lock))["names"]["group"]


def test_netgroups_and_services_are_none_of_the_directorys_unless_the_file_asks_for_them() -> None:
    for kind in ("netgroup", "service"):
        key = f"ldap_{kind}_search_base"
        assert domain(wanted(SSSD))[key] == "dc=example,dc=org?base?(!(objectClass=*))"
        assert domain(wanted(SSSD + f"    options: {{{key}: 'ou=x,dc=y'}}\n"))[key] == "ou=x,dc=y"


def test_a_host_that_does_not_answer_keeps_its_numbers_and_one_that_lies_has_some_of_them() -> None:
    known = wanted(SSSD)
    own = tuple(("uid", 20000 + one, 20000 + one, "x") for one in range(1000))
    facts = {"n1": dataclasses.replace(known.facts["n1"], own_numbers=own)}
    lock = pin(known.cluster, known.lock, {**known.facts, **facts})
    assert len(lock.hosts["n1"].own_numbers) == 256
    silent = pin(known.cluster, lock, {name: one for name, one in known.facts.items() if name != "n1"})
    assert silent.hosts["n1"].own_numbers == lock.hosts["n1"].own_numbers


@pytest.mark.parametrize(
    ("base", "found"),
    [
        ("ou=x", [("ou=x", "subtree", "")]),
        ("ou=x?onelevel?(host=a)", [("ou=x", "onelevel", "(host=a)")]),
        ("ou=x?onelevel?host=a", [("ou=x", "onelevel", "(host=a)")]),
        ("ou=x?sub??ou=y?sub?(a=b)", [("ou=x", "sub", ""), ("ou=y", "sub", "(a=b)")]),
    ],
)
def test_a_search_base_of_the_site_keeps_its_own_filter_beside_slurmfabs(base: str, found: list[Any]) -> None:
    known = wanted(SSSD + f"    options: {{ldap_user_search_base: '{base}', ldap_user_uid_number: number}}\n")
    sssd = known.cluster.directory.sssd  # type: ignore[union-attr]
    assert directory.searches(sssd, "user") == found
    written = domain(known)["ldap_user_search_base"].split("?")
    assert written[::3] == [one[0] for one in found]
    for (_, _, more), filtered in zip(found, written[2::3], strict=True):
        assert filtered.startswith(f"(&{more}(!(|(number<=9999)")


def test_entries_below_the_lowest_number_are_told_unless_the_file_says_it() -> None:
    told, silent = (json.loads(directory.guard(one.cluster, one.lock)) for one in (
        wanted(SSSD), wanted(SSSD + "    min_id: 20000\n    ignored: [printers]\n")
    ))  # fmt: skip
    assert any(first <= 5001 <= last and not whose for first, last, whose in told["uid"])
    assert not any(first <= 5001 <= last for first, last, _ in silent["uid"])
    assert silent["ignored"] == ["printers"]


@pytest.mark.parametrize(
    ("more", "folders"),
    [
        ("", ("/home",)),
        ("    homes: [/home/staff, /data]\n", ("/home/staff", "/data")),
        ("    homes: server\n", ()),
        (
            "    options: {override_homedir: /data/%u}\nhomes: /shared/home\n" + MOUNT,
            ("/home", "/shared/home", "/data"),
        ),
    ],
)
def test_homes_are_made_in_folders_that_the_cluster_file_names(more: str, folders: tuple[str, ...]) -> None:
    known = wanted(SSSD + more)
    assert directory.homes(known, known.cluster.directory.sssd) == folders  # type: ignore[union-attr]


def test_starttls_active_directory_and_own_options_are_said_to_sssd() -> None:
    more = (
        "unix_users: false\ndirectory: {sssd: {servers: ldap://dc1.example.org, base: 'dc=example,dc=org', ca_file: c, "
        "type: ad, homes: server, options: {default_shell: /bin/zsh, ldap_user_search_base: 'ou=x,dc=y'}}}\n"
    )
    found = domain(wanted(more))
    assert (found["ldap_id_use_start_tls"], found["ldap_schema"], found["ldap_id_mapping"]) == ("true", "ad", "true")
    assert found["access_provider"] == "permit"
    assert found["ldap_user_search_base"] == "ou=x,dc=y", "numbers come from SIDs, and are no values of entries"
    assert "ldap_default_bind_dn" not in found
    assert HOMES_FILE not in {one.path for one in directory.files(wanted(more), "n1")}
    assert "default_shell = /bin/zsh\n" in directory.files(wanted(more), "n1")[1].text


@pytest.mark.parametrize("is_ours", [True, False])
def test_without_the_key_files_go_and_sssd_ends_if_it_was_slurmfabs(is_ours: bool) -> None:
    known = wanted("", owned=("directory", "directory-order"), added_packages=("sssd-ldap",) if is_ours else ())
    assert directory.resources(known, "n1") == (LoginGuard(proved=False), DirectoryService("directory", ()))
    ended = (Service("sssd", running=False),) if is_ours else ()
    order = OwnedFiles("directory-order", ()), UnitsLoaded("directory-order", ("sssd",))
    assert directory.service(known, "n1") == (*ended, *order)
    assert directory.resources(wanted(""), "n1") == directory.service(wanted(""), "n1") == ()
    assert not {"sssd-ldap"} & packages.wanted(known, "n1")


def test_members_of_groups_are_users_of_the_accounts_with_those_of_the_file() -> None:
    known = wanted(SSSD + FROM_GROUPS + "users: [{name: bob, accounts: physics}]\n", members=MEMBERS)
    found = {name: [account for account, _ in some] for name, _, some in accounts.tree(known)["users"]}
    assert found == {
        "slurm": ["root"],
        "bob": ["physics"],
        "ann": ["physics", "theory"],
        "eve": ["theory"],
        "j.doe": ["physics", "theory"],
    }
    assert accounts.tree(known)["complete"] == ("accounts",)


def test_while_a_group_is_unknown_nobody_is_taken_for_gone() -> None:
    known = wanted(SSSD + FROM_GROUPS, members={"phys": ("ann",)})
    assert accounts.tree(known)["complete"] == ()
    refuse_unfit(known)  # the directory comes with this run
    with pytest.raises(InputError, match=r"c1: accounts: from_groups: there is no group theo"):
        refuse_unfit(wanted(SSSD + FROM_GROUPS, members={"phys": ("ann",)}, owned=("directory",)))


def test_a_member_whom_slurm_cannot_have_is_left_out_and_named() -> None:
    known = wanted(SSSD + FROM_GROUPS, members={"phys": ("Ann Lee", "bob", r"'x\x0by'"), "theo": ()})
    refuse_unfit(known)
    ((host, told),) = left_out_members(known)
    assert (host, told.partition(":")[0]) == ("c1", "accounts")
    assert r"Ann Lee, 'x\x0by' of phys gets no account: slurmdbd takes names" in told
    assert {name for name, _, _ in accounts.users(known)} == {"slurm", "bob"}


def test_users_of_the_file_are_asked_for_when_the_directory_is_there() -> None:
    named = SSSD + "accounts: [{name: physics}]\nusers: [{name: ann, accounts: physics}]\n"
    refuse_unfit(wanted(named))
    with pytest.raises(InputError, match="c1: users: ann: no such user"):
        refuse_unfit(wanted(named, owned=("directory",)))


def test_another_service_that_asks_a_directory_is_refused_with_its_hosts() -> None:
    with pytest.raises(InputError, match=r"c1,n\[1-2\]: directory: it has libnss-ldapd"):
        refuse_others(wanted(SSSD, packages={"slurm-client": "24.11.5-1", "libnss-ldapd": "1"}))
    refuse_others(wanted(SSSD))


@pytest.mark.parametrize("kind", ["ldap", "ad"])
def test_an_entry_that_refers_to_another_server_leads_nobody_there(kind: str) -> None:
    assert domain(wanted(SSSD + f"    type: {kind}\n"))["ldap_referrals"] == "false"


def test_users_of_services_are_none_of_the_directorys_whose_name_systemd_would_take() -> None:
    dynamic = {path for path in TEMPLATES.glob("*.j2") if "DynamicUser=yes" in path.read_text()}
    assert {path.name.partition(".")[0] for path in dynamic} <= {*SERVICES}
    text = next(one.text for one in directory.files(wanted(SSSD), "n1") if one.path == SSSD_CONF)
    filters = [line for line in text.splitlines() if line.startswith("filter_")]
    assert all("slurmfab-jupyter" in line and "slurmrestd" in line for line in filters)
