"""Users and groups from a real directory (slapd) by real SSSD, from bare hosts on: logins, homes, jobs, accounts.

One lab goes through all of it, in this order. slapd is on n3, which is no host of the cluster.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import directory_server
import pytest
from directory_server import DirectoryServer
from lab_cluster import ExtendedLab
from lab_user import words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

HOSTS = ("ctl", "n1", "n2")
BEFORE = "database: ctl\nlogin: [ctl]\naccounts: [{name: staff}, {name: physics, from_groups: phys}]\n"
HOSTILE = {
    "toor": (0, 6000), "admin1": (1000, 6000), "cloudy": (20001, 6000), "nobodys": (65534, 6000), "minus": (-1, 6000),
    "most": (4294967295, 6000), "wrapped": (4294967296, 6000), "alike": (64030, 6000), "dynamic": (61200, 6000),
    "below": (300005, 6000), "primary": (20005, 27), "root2": (20006, 0), "0": (20010, 6000), "1000": (20011, 6000),
    "CLOUD": (20012, 6000),
}  # fmt: skip
"""Users who would be root, a user of a host, slurm, nobody, or one of systemd's; by name UID and primary GID."""

GROUPS = {"printers": 27, "logs": 999, "keepers": 42, "wheels": 0, "huge": 4294967323, "cloudy": 20001, "cloud": 20014,
          "ssl-cert": 20015}  # fmt: skip
"""Groups with bob as a member, who would be in sudo, in one of a package, or in one of a host; their GIDs."""

LOCAL = (
    "echo cloud:x:20001:20001::/home/cloud:/bin/bash >>/etc/passwd; echo cloud:x:20001: >>/etc/group; "
    "echo cloud:300000:65536 | tee -a /etc/subuid >>/etc/subgid"
)
RULES = "%nettop ALL=(ALL) ALL\n#0020698 ALL=(ALL) ALL\n%#20699 ALL=(ALL) ALL\n%gq\\ uo ALL=(ALL) ALL\n"
"""Rules of sudo that name groups and a user of nobody's, by name and by number."""

SUDO_AND_NUL = (
    f"\ndn: cn=SUDO\\00,{directory_server.BASE}\nobjectClass: posixGroup\ncn:: U1VETwA=\ngidNumber: 20500\n"
    "memberUid: bob\n"
)
NO_LOCAL = "sed -i /^cloud:/d /etc/passwd /etc/group /etc/subuid /etc/subgid"
SEEN = """
for name in {users}; do id -u -- "$name" 2>/dev/null; getent -s sss passwd "$name"; done
for name in {groups}; do getent -s sss group "$name"; done
for number in 0 27 42 999 1000 20001 20014 61200 64030 65534; do
    getent -s sss passwd $number; getent -s sss group $number
done; true
"""
"""Prints what a host knows of the users and groups, by name and by number."""

AS_UBUNTU_26_04 = """\
getent group sssd >/dev/null || groupadd --system sssd
cp -a /etc/sssd /root/sssd-before
mkdir -p /run/systemd/system/sssd.service.d
cat > /run/systemd/system/sssd.service.d/as-ubuntu.conf <<'END'
[Service]
Type=simple
ExecStartPre=
ExecStartPre=+/bin/chown -f -R root:sssd /etc/sssd
ExecStartPre=+/bin/chmod -f -R g+r /etc/sssd
ExecStart=
ExecStart=/bin/sleep infinity
END
systemctl daemon-reload && systemctl restart sssd
"""
"""A STAND-IN for SSSD from 2.11 on, whose unit gives its files to the user sssd, as on Ubuntu 26.04."""

AS_IT_WAS = """\
rm /run/systemd/system/sssd.service.d/as-ubuntu.conf && systemctl daemon-reload
rm -rf /etc/sssd && mv /root/sssd-before /etc/sssd && systemctl restart sssd
"""

LEFT = (
    "ls -d /etc/sssd/sssd.conf /etc/sssd/slurmfab* /usr/share/pam-configs/slurmfab* /var/lib/sss/db/*_directory.ldb "
    "/var/lib/slurmfab/owned/directory* /etc/systemd/system/sssd.service.d /var/lib/slurmfab/earlier-logins* "
    "/usr/sbin/sssd 2>/dev/null; "
    "grep -lE 'pam_sss|mkhomedir' /etc/pam.d/common-*; grep -E ' sss( |$)' /etc/nsswitch.conf; true"
)


@dataclass
class Site(ExtendedLab):
    """A cluster, its directory, and the text of its file without that."""

    directory: DirectoryServer

    def refused(self, more: str) -> str:
        """What a deployment says that fails on all hosts."""
        self.write(more)
        done = self.lab.slurmfab("deploy")
        assert done.returncode in (1, 3), words_of(done)
        return words_of(done)

    def enter(self, user: str, command: str, host: str = "ctl") -> str:
        """Log in from n2 with the user's password, and run a command there."""
        return directory_server.enter(self.lab, user, "n2", host, command)

    def checks(self, *words: str) -> dict[str, dict[str, Any]]:
        """The checks by name and host."""
        return {f"{one['check']}/{one['host']}": one for one in self.lab.checks(*words)}

    def users_of(self, account: str) -> set[str]:
        told = self.lab.on("ctl", f"sacctmgr -nP show assoc account={account} format=user")
        return set(told.split())


@pytest.fixture(scope="module", params=in_turn("directory"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.bare(request.param, nodes=3, shared=("/home",)) as lab:
        text = lab.inventory_path.read_text().replace("hosts: n[1-3]", "hosts: n[1-2]")
        text = text.replace(f", n3: {lab.lab.host('n3').address}", "")
        yield Site(lab, text + BEFORE, directory_server.serve(lab, "n3"))


def test_a_wrong_password_or_authority_is_told_with_its_cause_and_changes_no_login(site: Site) -> None:
    beside = site.lab.inventory_path.parent
    own = (beside / "directory-ca.pem").read_text()
    (beside / "directory.password").write_text("another word\n")
    told = site.refused(directory_server.keys())
    assert "does not accept the password of cn=reader,dc=example,dc=org (password_file)" in told
    (beside / "directory.password").write_text(f"{directory_server.PASSWORD}\n")
    other = beside / "other"
    other.mkdir()
    directory_server.made(other)
    (beside / "directory-ca.pem").write_text((other / "directory-ca.pem").read_text())
    told = site.refused(directory_server.keys())
    assert "its certificate is not accepted" in told
    (beside / "directory-ca.pem").write_text(own)
    for host in HOSTS:
        assert "sssd.conf" not in site.lab.on(host, LEFT)


def test_entries_with_numbers_of_hosts_are_refused_by_name_and_change_nothing(site: Site) -> None:
    site.directory.add(directory_server.user("toor", 0), directory_server.user("alike", 64030))
    site.directory.add(directory_server.group("printers", 27, "ann"))
    told = site.refused(directory_server.keys(more=""))
    assert "user toor has the UID 0 of root of this host" in told
    assert "user alike has the UID 64030 of slurm" in told
    assert "group printers has the GID 27 of sudo of this host" in told
    assert "user ann has the UID 5001, which is below min_id" in told
    for host in HOSTS:
        assert "sssd.conf" not in site.lab.on(host, LEFT)
    site.directory.remove("uid=toor", "uid=alike", "cn=printers")
    told = site.refused(directory_server.keys(more=""))
    assert "user ann has the UID 5001, which is below min_id" in told, "and would be cut off without a word"


def test_from_bare_hosts_on_all_know_the_users_and_the_groups_are_accounts(site: Site) -> None:
    site.deploy(directory_server.keys())
    for host in HOSTS:
        assert site.lab.on(host, "id -u ann; id -G ann | tr ' ' '\\n' | sort -n | xargs") == "5001\n6000 6001 6002"
        assert (
            site.lab.on(host, "systemctl is-active sssd; systemctl --failed --no-legend --plain | wc -l") == "active\n0"
        )
        assert site.lab.on(host, "id -u munge") == site.lab.on(host, "grep ^munge: /etc/passwd | cut -d: -f3")
    assert site.users_of("physics") == {"ann"}
    failed = {name: one["cause"] for name, one in site.checks().items() if one["outcome"] == "failed"}
    assert not failed, failed


def test_a_user_of_the_group_logs_in_gets_a_home_and_runs_jobs_as_herself(site: Site) -> None:
    assert site.enter("ann", "pwd; stat -c %U:%a .") == "/home/ann\nann:700\nexit 0"
    told = site.enter("ann", 'srun -N2 -l sh -c "id -u; pwd; id -G"')
    lines = [line.partition(": ") for line in told.splitlines()]
    words = {task: {word for one, _, said in lines if one == task for word in said.split()} for task in "01"}
    wanted = {"5001", "/home/ann", "6000", "6001", "6002"}
    assert words == {"0": wanted, "1": wanted}, told


def test_a_user_outside_of_the_group_is_refused_and_root_is_not(site: Site) -> None:
    assert "exit 255" in site.enter("eve", "true")
    assert site.enter("bob", "true") == "exit 0"
    assert site.lab.slurmfab("plan").returncode == 0


def test_entries_with_numbers_and_names_of_hosts_when_they_come_later_then_no_host_sees_them(site: Site) -> None:
    for host in ("n1", "n2"):  # most hosts of the cluster
        site.lab.on(host, LOCAL)
    site.deploy(directory_server.keys())
    users = [directory_server.user(name, uid, gid) for name, (uid, gid) in HOSTILE.items()]
    groups = [directory_server.group(name, gid, "bob") for name, gid in GROUPS.items()]
    folder = f"\ndn: ou=x,{directory_server.BASE}\nobjectClass: organizationalUnit\nou: x\n\n"
    case = directory_server.group("SUDO", 20500, "bob").replace("dn: cn=SUDO,", "dn: cn=SUDO,ou=x,")
    site.directory.add(*users, *groups, folder, case)
    asked = SEEN.format(users=" ".join(one for one in HOSTILE if one.isalpha()), groups=f"{' '.join(GROUPS)} SUDO")
    for host in HOSTS:
        site.lab.on(host, "sss_cache -E")
        assert site.lab.on(host, asked) == ""
        assert site.lab.on(host, "id -G bob") == "6000 6001"
        assert site.lab.on(host, "id -u 0; id -u 1000 2>/dev/null; true") == "0", "a number is no name"
    told = {name: one for name, one in site.checks("directory").items() if one["outcome"] == "failed"}
    assert set(told) == {f"numbers_of_hosts_are_nobodys_in_the_directory/{host}" for host in HOSTS}
    for host in HOSTS:
        cause = told[f"numbers_of_hosts_are_nobodys_in_the_directory/{host}"]["cause"]
        assert "user toor has the UID 0 of root of this host" in cause
    assert "user cloudy has the UID 20001 of cloud" in site.refused(directory_server.keys(more=", min_id: 5001"))
    site.directory.remove(
        *(f"uid={name}" for name in HOSTILE), *(f"cn={name}" for name in GROUPS), "cn=SUDO,ou=x", "ou=x"
    )
    for host in ("n1", "n2"):
        site.lab.on(host, NO_LOCAL)
    site.deploy(directory_server.keys())
    assert site.checks("directory")["numbers_of_hosts_are_nobodys_in_the_directory/n1"]["outcome"] == "passed"


def test_a_group_whose_name_ends_for_programs_where_it_does_not_for_the_directory_then_no_host_sees_it(
    site: Site,
) -> None:
    # A NUL byte: no filter for `sudo` finds it, and the library's group is SUDO.
    site.directory.add(SUDO_AND_NUL)
    for host in HOSTS:
        site.lab.on(host, "sss_cache -E")
        seen = "getent -s sss group SUDO 20500; id -G bob; sudo -n -l -U bob 2>/dev/null | grep ALL; true"
        assert site.lab.on(host, seen) == "6000 6001"
        cause = site.checks("directory")[f"numbers_of_hosts_are_nobodys_in_the_directory/{host}"]["cause"]
        assert "group SUDO? has a name with characters that mean something else to programs" in cause
    assert "group SUDO? has a name with characters" in site.refused(directory_server.keys(more=", min_id: 5001"))
    site.directory.change(f"dn: cn=SUDO\\00,{directory_server.BASE}\nchangetype: delete")
    site.deploy(directory_server.keys())
    assert site.checks("directory")["numbers_of_hosts_are_nobodys_in_the_directory/n1"]["outcome"] == "passed"


def test_a_name_to_which_a_host_gives_rights_without_having_it_then_nobody_of_the_directory_gets_them(
    site: Site,
) -> None:
    site.lab.on("n1", f"sed -i 's/^sudo:.*/&alice/' /etc/group; cat >/etc/sudoers.d/site <<'END'\n{RULES}END")
    netgroup = f"\ndn: cn=ng,{directory_server.BASE}\nobjectClass: nisNetgroup\ncn: ng\nnisNetgroupTriple: (,bob,)\n\n"
    groups = [directory_server.group(name, 20500 + number, "bob") for number, name in enumerate(("staff", "nettop"))]
    site.directory.add(
        directory_server.user("alice", 20020), directory_server.user("numbered", 20698), *groups, netgroup,
        directory_server.group("leads", 20699, "bob"), directory_server.group("gq uo", 20520, "bob"),
    )  # fmt: skip
    told = site.refused(directory_server.keys())
    for one in ("user alice", "group nettop", "group staff", "group gq uo"):
        assert f"{one} has the name of a host's own or of a package's, or of one whom its groups or rules of" in told
    assert "user numbered has the UID 20698 of a rule of sudo or doas of n1" in told
    assert "group leads has the GID 20699 of a rule of sudo or doas of n1" in told
    others = "staff, numbered, leads, gq uo"
    site.deploy(directory_server.keys(more=f", min_id: 5000, ignored: [alice, nettop, {others}]"))
    for host in HOSTS:
        site.lab.on(host, "sss_cache -E")
        seen = (
            "getent -s sss passwd alice numbered 20698; getent -s sss group staff nettop leads 20699 'gq uo'; "
            "getent netgroup ng; true"
        )
        assert site.lab.on(host, seen) == ""
        assert site.lab.on(host, "id -G bob") == "6000 6001"
    site.deploy(directory_server.keys(more=f", min_id: 5000, ignored: [{others}], admins: [alice, nettop]"))
    site.lab.on("n1", "sss_cache -E")
    found = [{*site.lab.on("n1", f"id -Gn {user}").split()} for user in ("alice", "bob")]
    assert found == [{"people", "sudo"}, {"people", "hpc", "nettop"}]
    site.directory.remove("uid=alice", "uid=numbered", "cn=staff", "cn=nettop", "cn=ng", "cn=leads", "'cn=gq uo'")
    site.lab.on("n1", "sed -i '/^sudo:/s/alice//' /etc/group; rm /etc/sudoers.d/site")
    site.deploy(directory_server.keys())


def test_a_rule_of_sudo_in_other_letters_than_the_directorys_group_when_hosts_vouch_for_users_then_refuses_its_members(
    site: Site,
) -> None:
    site.lab.on("n1", "echo '%netadmins ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/letters")
    site.directory.add(directory_server.group("NetAdmins", 20530, "bob"))
    site.deploy(directory_server.keys(more=", min_id: 5000, admins: [netadmins, NetAdmins]") + "user_ssh: hostbased\n")
    site.lab.on("n1", "sss_cache -E")
    assert "NOPASSWD: ALL" in site.lab.on("n1", "sudo -n -l -U bob")
    asked = "sshd -T -C user=%s,host=n2,addr=127.0.0.1 | grep -i ^hostbasedauth"
    assert site.lab.on("n1", asked % "bob") == "hostbasedauthentication no"
    assert site.lab.on("n1", asked % "ann") == "hostbasedauthentication yes"
    site.directory.remove("cn=NetAdmins")
    site.lab.on("n1", "rm /etc/sudoers.d/letters")
    site.deploy(directory_server.keys())


def test_a_user_whom_a_host_makes_itself_with_a_number_of_the_directory_then_a_deployment_names_both(
    site: Site,
) -> None:
    site.lab.on("n2", "echo late:x:5003:5003::/:/bin/sh >>/etc/passwd")
    assert "user eve has the UID 5003 of late of this host" in site.refused(directory_server.keys())
    # What one node says is in the way there alone.
    assert [site.lab.on(host, "id -u eve") for host in ("ctl", "n1")] == ["5003", "5003"]
    found = site.checks("directory")["numbers_of_hosts_are_nobodys_in_the_directory/n2"]
    assert "eve has the UID 5003 of late" in found["cause"]
    site.lab.on("n2", "sed -i /^late:/d /etc/passwd")
    site.deploy(directory_server.keys())


def test_a_home_elsewhere_or_behind_a_link_of_a_user_is_not_made(site: Site) -> None:
    site.enter("ann", "ln -s /etc link")
    for home in ("/etc/systemd/system/x.service.d", "/home/ann/link/x", "/home/ann/../../etc/x", "/home/.x/bob"):
        site.directory.change(
            f"dn: uid=bob,{directory_server.BASE}\nchangetype: modify\nreplace: homeDirectory\nhomeDirectory: {home}"
        )
        site.lab.on("ctl", "sss_cache -E")
        site.lab.until("ctl", "getent passwd bob | cut -d: -f6", home)
        assert site.enter("bob", "true").endswith("exit 0")
        assert site.lab.on("ctl", f"ls -d {home} /etc/x 2>/dev/null; true") == ""
    site.directory.change(
        f"dn: uid=bob,{directory_server.BASE}\nchangetype: modify\nreplace: homeDirectory\nhomeDirectory: /home/bob"
    )
    for host in HOSTS:
        site.lab.on(host, "sss_cache -E")


def test_who_comes_and_goes_in_a_group_is_shown_before_it_is_done(site: Site) -> None:
    site.directory.members("phys", "bob", "Zed", "zed\vphys", "a:b", "x\ny")
    for host in HOSTS:
        site.lab.on(host, "sss_cache -E")
    shown = words_of(site.lab.slurmfab("plan"))
    assert r"from_groups: 'x\ny', 'zed\x0bphys', Zed, a:b of phys gets no account" in shown
    assert "user bob in physics" in shown
    assert "user ann" in shown
    assert "--prune" in shown
    site.lab.deploy()
    assert site.users_of("physics") == {"ann", "bob"}
    job = site.enter("ann", 'sbatch --parsable -o /dev/null --wrap "sleep 300"').split()[0]
    told = words_of(site.lab.slurmfab("deploy", "--prune"))
    assert "ann" in told
    site.lab.on("ctl", f"scancel {job}")
    site.lab.until("ctl", "squeue -h", "")
    site.lab.deploy("--prune")
    assert site.users_of("physics") == {"bob"}
    site.directory.members("phys", "ann")
    for host in HOSTS:
        site.lab.on(host, "sss_cache -E")
    site.deploy(directory_server.keys(), "--prune")


def test_while_the_directory_is_down_users_work_and_a_check_names_the_cause(site: Site) -> None:
    site.directory.stop()
    try:
        assert site.enter("ann", "srun -N2 id -u") == "5001\n5001\nexit 0"
        found = site.checks("directory")
        one = found["servers_of_the_directory_answer/n1"]
        assert one["outcome"] == "failed"
        assert "cannot be reached: Connection refused" in one["cause"]
        assert found["users_are_the_same_everywhere/n1"]["outcome"] == "passed"
        site.lab.on("n1", "systemctl restart sssd")
        assert site.lab.on("n1", "id -u ann") == "5001", "after a start without the server"
    finally:
        site.directory.start()


def test_starttls_does_as_well(site: Site) -> None:
    site.deploy(directory_server.keys("ldap"))
    site.lab.on("n1", "sss_cache -E")
    site.lab.until("n1", "id -u bob", "5002", patience=90)  # SSSD asks a server that was silent again after a minute
    assert {one["outcome"] for one in site.checks("directory").values()} == {"passed"}


def test_sssds_files_when_its_unit_gives_them_to_the_user_sssd_then_are_as_wanted(site: Site) -> None:
    site.lab.on("n1", AS_UBUNTU_26_04)
    try:
        assert "root:sssd 640" in site.lab.on("n1", "stat -c '%U:%G %a' /etc/sssd/sssd.conf")
        assert site.lab.deploy()["steps"] == []
    finally:
        site.lab.on("n1", AS_IT_WAS)


def test_when_the_key_goes_then_sssd_goes_and_homes_stay(site: Site) -> None:
    site.write("")
    site.text = site.text.replace(", {name: physics, from_groups: phys}", "")
    site.deploy("")
    for host in HOSTS:
        assert site.lab.on(host, LEFT) == ""
        assert (
            site.lab.on(host, f"grep -rlF {shlex.quote(directory_server.PASSWORD)} /etc/sssd /var/lib/sss || :") == ""
        )
        assert site.lab.on(host, "id ann >/dev/null 2>&1 || echo unknown") == "unknown"
    assert site.lab.on("ctl", "stat -c '%u %n' /home/ann") == "5001 /home/ann"
