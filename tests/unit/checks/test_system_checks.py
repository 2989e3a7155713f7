"""The checks of the operating system: what users may read, room on file systems, whole packages, python3."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest
from ruled_shells import RuledShell
from support import THREE_HOSTS, cluster

from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks import system, test_system
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.release import Remark
from slurmfab.commands.checks.shell import FORGET, CommandResult

ROOM = "74425442304 16777216 16144503 / {path}\n"
SOUND = {
    "user": f"{system.READS}\n{system.ENCODES}\n",
    "rooms": "Avail Inodes IFree Mounted on File\n" + ROOM.format(path="/var/log/slurm"),
    "packages": "",
    "journal": "",
    "selinux": "",
}
HEAD = "head: cannot open '/etc/slurm/slurm.conf' for reading: Permission denied\n"
WAY = "f: /etc/slurm/slurm.conf\n drwxr-xr-x /\n drwxr-xr-x etc\n drwx------ slurm\n -rw-r--r-- slurm.conf\n"
MUNGE = 'munge: Error: Unable to access "/run/munge/munge.socket.2": Permission denied\n'


def host(name: str = "n1", **parts: str) -> CheckedHost:
    """A host whose answer has these parts instead of the sound ones."""
    text = f"\n{system.GAP}\n".join({**SOUND, **parts}.values())
    return CheckedHost(name, RuledShell({"^conf=": text, "namei": WAY}))


def failure(check: Callable[..., None], *arguments: object) -> str:
    with pytest.raises(AssertionError) as caught:
        check(*arguments)
    return str(caught.value)


def test_a_sound_host_passes_all_checks(known: Inventory) -> None:
    test_system.test_users_can_read_slurm_conf(host(), {}, known.cluster, known.lock)
    for check in (
        test_system.test_users_get_credentials,
        test_system.test_python_is_there,
    ):
        check(host())
    test_system.test_packages_are_whole(host(), known.cluster)
    test_system.test_file_systems_have_room(host(), known.cluster, known.lock)


def test_a_closed_directory_is_named_with_the_words_of_the_host(known: Inventory) -> None:
    closed = host(user=f"{HEAD}{system.ENCODES}\n")
    told = failure(test_system.test_users_can_read_slurm_conf, closed, {}, known.cluster, known.lock)
    assert "cannot open '/etc/slurm/slurm.conf' for reading: Permission denied (/etc/slurm has the mode drwx" in told


def test_a_closed_socket_of_munge_is_told_in_its_own_words() -> None:
    told = failure(test_system.test_users_get_credentials, host(user=f"{system.READS}\n{MUNGE}"))
    assert "munge: Error: Unable to access" in told


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        pytest.param("n1", "0 100 50 /var/log /var/log/slurmd", "/var/log is full (0 KiB left): ", id="logs"),
        pytest.param("n1", "0 100 50 /var/log /var/log/slurm", "", id="logs of slurmctld on a node"),
        pytest.param(
            "ctl", "0 100 50 /var/log /var/log/slurm", "/var/log is full (0 KiB left): ", id="logs of slurmctld"
        ),
        pytest.param("n1", "9999999 100 0 /run /run", "/run is full (no inodes left): ", id="inodes"),
        pytest.param("n1", "0 100 50 /disk /var/lib/slurm/slurmctld", "", id="state, not on the controller"),
        pytest.param("ctl", "0 100 50 /disk /var/lib/slurm/slurmctld", "slurmctld writes its jobs", id="state"),
        pytest.param("ctl", "0 100 50 /disk /var/lib/slurm/slurmd", "", id="spool, not on a compute node"),
        pytest.param("n1", "9999999 0 0 /run /run", "", id="a file system without a limit of files"),
        pytest.param("n1", "9999999 - - /run /run", "", id="a file system that tells of no files"),
        pytest.param("n1", "0 100 50 /two words /run", "/two is full", id="a name with a space"),
    ],
)
def test_a_full_file_system_is_named_if_the_hosts_daemons_write_there(
    known: Inventory, name: str, line: str, words: str
) -> None:
    found = host(name, rooms=f"Avail\n{line}\n")
    if not words:
        test_system.test_file_systems_have_room(found, known.cluster, known.lock)
    else:
        assert words in failure(test_system.test_file_systems_have_room, found, known.cluster, known.lock)


def test_packages_that_dpkg_has_not_finished_are_named() -> None:
    found = host(packages="tar half-configured\n", journal="0001\n")
    told = failure(test_system.test_packages_are_whole, found, cluster())
    assert told.startswith("tar half-configured; dpkg was interrupted: no package can be installed")
    assert "dpkg --configure -a" in told


def test_packages_that_a_killed_dnf_has_left_when_checked_then_they_are_named() -> None:
    wanted = cluster(THREE_HOSTS + 'slurm: {packages: el-smd, version: "24.11.*"}\n')
    told = failure(test_system.test_packages_are_whole, host(packages="slurm unfinished\n"), wanted)
    assert told.startswith("slurm unfinished: dnf was killed, and their scripts have not run. Repair: ")
    assert "dnf reinstall of them there" in told


def test_a_host_without_python_is_told() -> None:
    assert "there is no python3" in failure(
        test_system.test_python_is_there, of("n1", "^command -v python3", CommandResult(127))
    )


def of(name: str, pattern: str, text: str | CommandResult) -> CheckedHost:
    """A host that answers one command so."""
    return CheckedHost(name, RuledShell({pattern: text}))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("missing     /usr/sbin/slurmstepd-wlm", "/usr/sbin/slurmstepd-wlm is missing, says dpkg --verify"),
        ("??5??????   /usr/sbin/slurmd-wlm", "/usr/sbin/slurmd-wlm is another file, says dpkg --verify"),
        ("unlinked /usr/sbin/slurmstepd", "/usr/sbin/slurmstepd is missing, the link of update-alternatives"),
        ("??5?????? c /etc/default/slurmd", ""),
        ("missing     /usr/share/doc/slurmd/copyright", ""),
        ("missing     /etc/slurm/plugstack.conf.d", ""),
        ("", ""),
    ],
)
def test_a_file_of_a_package_that_is_gone_or_another_is_named(line: str, words: str) -> None:
    host = of("n1", "dpkg --verify", f"{line}\n")
    if words:
        assert words in failure(test_system.test_package_files_are_there, host, cluster())
    else:
        test_system.test_package_files_are_there(host, cluster())


def test_a_file_of_an_rpm_that_is_gone_when_checked_then_the_words_are_dnfs() -> None:
    wanted = cluster(THREE_HOSTS + 'slurm: {packages: el-smd, version: "24.11.*"}\n')
    host = of("n1", "rpm --verify", "missing     /usr/sbin/slurmd\n")
    told = failure(test_system.test_package_files_are_there, host, wanted)
    assert "/usr/sbin/slurmd is missing, says rpm --verify" in told
    assert "dnf reinstall $(rpm --query --file --queryformat '%{NAME}' FILE) there" in told


@pytest.mark.parametrize(
    ("mode", "space", "words"),
    [
        ("1777", "999999999 100 50 /", ""),
        ("755", "999999999 100 50 /", "/tmp has the mode 755: programs of users and of jobs fail"),
        ("777", "999999999 100 50 /", "/tmp has the mode 777: users can remove files of others"),
        ("1777", "0 100 50 /tmp", "/tmp is full (0 KiB left)"),
        ("1777", "999999999 100 0 /tmp", "/tmp is full (no inodes left)"),
    ],
)
def test_a_tmp_that_takes_no_files_is_told(mode: str, space: str, words: str) -> None:
    host = CheckedHost("n1", RuledShell({"^stat -Lc %a /tmp$": mode, "^df": space}))
    if words:
        assert words in failure(test_system.test_tmp_takes_files_of_all, host)
    else:
        test_system.test_tmp_takes_files_of_all(host)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("passwd: files systemd\ngroup: files\nhosts: files dns\n", ""),
        ("passwd: compat\nhosts: resolve dns\n", ""),
        ("", ""),
        ("passwd: sss\n", "passwd in /etc/nsswitch.conf (sss) leaves out /etc/passwd"),
        ("hosts: dns\n", "hosts in /etc/nsswitch.conf (dns) leaves out /etc/hosts"),
    ],
)
def test_names_that_are_not_looked_up_in_files_are_told(known: Inventory, lines: str, words: str) -> None:
    host = of("n1", "nsswitch", lines)
    if words:
        assert words in failure(test_system.test_names_are_looked_up_in_files, host, known.cluster)
    else:
        test_system.test_names_are_looked_up_in_files(host, known.cluster)


def test_a_variable_that_leads_elsewhere_is_told_and_others_are_named() -> None:
    test_system.test_no_variable_leads_slurm_elsewhere(of("n1", "environment", "SLURM_CONF='/etc/slurm/slurm.conf'\n"))
    elsewhere = CheckedHost("n1", RuledShell({"environment": "SLURM_CONF=/opt/x\n", r"^\[ /opt/x -ef ": "other\n"}))
    told = failure(test_system.test_no_variable_leads_slurm_elsewhere, elsewhere)
    assert "/etc/environment sets SLURM_CONF=/opt/x" in told
    with pytest.raises(Remark, match="/etc/environment sets SBATCH_ACCOUNT for all logins"):
        test_system.test_no_variable_leads_slurm_elsewhere(of("n1", "environment", "SBATCH_ACCOUNT=a\n"))


RUN = "20231114T221320.000000Z-deploy"  # 1700000000 seconds since 1970
AVC = (
    "type=AVC msg=audit({}.123:456): avc:  denied  {{ {} }} for  pid=1 {} scontext=a:b:c:s0 tcontext=u:o:{}:s0 "
    "tclass={} permissive={}"
)
KEYS = AVC.format(1700000001, "open read", 'comm="sshd" path="/var/lib/slurm/home/.ssh/a"', "var_lib_t", "file", 0)
NAME = AVC.format(1700000001, "write", 'comm="slurmctld" name="state"', "default_t", "file", 0)
PORT = AVC.format(1700000001, "name_bind", 'comm="sshd" src=2222', "port_t", "tcp_socket", 0)
HOME = AVC.format(1700000001, "read", 'comm="sshd-session" name="authorized_keys"', "nfs_t", "file", 0)
EARLIER, ALLOWED = KEYS.replace("1700000001", "1699999999"), KEYS.replace("permissive=0", "permissive=1")


@pytest.mark.parametrize(
    ("line", "words", "repair"),
    [
        (KEYS, "sshd may not open, read /var/lib/slurm/home/.ssh/a (var_lib_t)", "restorecon -v /var/lib/slurm/home/"),
        (NAME, "slurmctld may not write state (default_t)", "restorecon -v its path"),
        (PORT, "sshd may not name_bind port 2222 (port_t)", "semanage port -a -t ssh_port_t -p tcp 2222"),
        (HOME, "sshd-session may not read authorized_keys (nfs_t)", "setsebool -P use_nfs_home_dirs on"),
    ],
)
def test_a_denial_of_selinux_when_it_is_newer_than_the_last_run_then_it_is_told_once_with_a_repair(
    line: str, words: str, repair: str
) -> None:
    denied = host(selinux=f"mode 1 {RUN}\n{EARLIER}\n{line}\n{line}\nno line of the audit\n")
    told = failure(test_system.test_selinux_denies_nothing, denied)
    assert told.startswith(f"{words}. Repair: on n1, {repair}")


def test_denials_of_selinux_when_it_does_not_enforce_then_they_are_a_remark() -> None:
    with pytest.raises(Remark, match=r"would deny this if it enforced: sshd may not open, read /var/lib/slurm/home"):
        test_system.test_selinux_denies_nothing(host(selinux=f"mode 0\n{ALLOWED}\n"))


def test_a_host_with_selinux_when_it_denied_nothing_of_late_then_it_passes_and_one_without_is_left_out() -> None:
    test_system.test_selinux_denies_nothing(host(selinux=f"mode 1 {RUN}\n{EARLIER}\n"))
    with pytest.raises(DoesNotApply):
        test_system.test_selinux_denies_nothing(host())


def test_a_path_of_a_user_in_a_denial_when_repaired_then_no_shell_takes_it_for_a_command() -> None:
    odd = KEYS.replace("/.ssh/a", "/$(reboot)")
    told = failure(test_system.test_selinux_denies_nothing, host(selinux=f"mode 1\n{odd}\n"))
    assert "restorecon -v '/var/lib/slurm/home/$(reboot)'" in told


def test_commands_of_checks_inherit_no_variable_of_slurms() -> None:
    script = f"{FORGET}; env"
    odd = {
        "SLURM_CONF": "/x",
        "SBATCH_ACCOUNT": "a",
        "SQUEUE_FORMAT": "it's\nSLURM_ODD x",
        "HOME": "/root",
        "PATH": "/bin",
    }
    for shell in (["sh"], ["bash", "--posix"]):
        done = subprocess.run([*shell, "-c", script], env=odd, capture_output=True, text=True, check=True)
        assert not re.findall("^(?:SLURM|SBATCH|SQUEUE)_.*", done.stdout, re.MULTILINE), done.stdout
        assert "HOME=/root" in done.stdout
