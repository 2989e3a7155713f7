"""What the checks of mounts find on stand-in hosts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ruled_shells import Rule, RuledShell, unit
from support import THREE_HOSTS, cluster

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.checks import test_storage
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.shell import CommandResult

MOUNTED = cluster(
    THREE_HOSTS
    + "mounts:\n"
    + "  - {path: /home, source: 'nas:/home', type: nfs4, roles: [compute, controller]}\n"
    + "  - {path: /archive, source: 'nas:/archive', type: nfs4, automount: true, hosts: n1}\n"
    + "users: [{name: ann}]\n"
)
ROOT = "20 1 0:18 / / rw - ext4 /dev/sda1 rw\n"
HOME = "30 20 0:44 / /home rw shared:1 - nfs4 nas:/home rw\n"
WAITING = "31 20 0:45 / /archive rw shared:1 - autofs systemd-1 rw\n"
TABLE = "^cat /proc/self/mountinfo"
LATE = CommandResult(124)


def look(table: str) -> None:
    test_storage.test_mounts_are_there(CheckedHost("n1", RuledShell({TABLE: table})), MOUNTED)


def share(own: dict[str, Rule], other: dict[str, Rule]) -> tuple[RuledShell, RuledShell]:
    shells = RuledShell({TABLE: ROOT + HOME, **own, "timeout": ""}), RuledShell({**other, "timeout": ""})
    host, reader = CheckedHost("n1", shells[0]), CheckedHost("n2", shells[1])
    test_storage.test_files_are_shared(host, {"n1": host, "n2": reader}, MOUNTED)
    return shells


def test_mounts_that_are_there_or_wait_for_their_first_use_pass() -> None:
    look(ROOT + HOME + WAITING)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (ROOT + WAITING, "/home is not mounted"),
        (ROOT + HOME, "/archive is not mounted"),
        (ROOT + WAITING + HOME.replace("nas:", "old:"), r"/home is old:/home \(nfs4\), not nas:/home \(nfs4\)"),
        (ROOT + WAITING + HOME.replace("rw shared", "ro shared"), "/home is mounted read-only"),
    ],
)
def test_a_mount_that_is_not_the_wanted_one_is_told(table: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        look(table)


def test_a_mount_that_failed_at_boot_is_mounted_by_its_use() -> None:
    shell = RuledShell({TABLE: ROOT + HOME.replace("nas:", "gone:") + WAITING})

    def use(_: str) -> str:
        shell.rules[TABLE] = ROOT + HOME + WAITING
        return ""

    shell.rules["stat -c %m /home/."] = use
    test_storage.test_mounts_are_there(CheckedHost("n1", shell), MOUNTED)


def test_files_are_written_on_one_host_and_read_on_the_next_by_root_and_a_user_and_removed() -> None:
    writer, reader = share({}, {})
    assert any("su -s /bin/sh ann" in one and "/home/ann/.slurmfab-check-" in one for one in writer.commands)
    assert any("su -s /bin/sh ann" in one for one in reader.commands)
    assert [one for one in writer.commands if "rm -" in one] != []
    assert all("timeout -k 1 10" in one for one in (*writer.commands[1:], *reader.commands))


@pytest.mark.parametrize(
    ("own", "other", "why"),
    [
        ({"mkdir": LATE}, {}, "root cannot write there: no answer within 10 s; is its server up"),
        ({}, {"su -s": CommandResult(1, b"", b"cat: x: No such file\n")}, "n2 does not see what ann writes here: cat"),
        ({"su -s": CommandResult(1, b"", b"sh: cannot create\n")}, {}, "ann cannot write to /home/ann: sh: cannot"),
    ],
)
def test_files_that_do_not_arrive_are_told_with_the_hosts_words(
    own: dict[str, Rule], other: dict[str, Rule], why: str
) -> None:
    with pytest.raises(AssertionError, match=why):
        share(own, other)


def carried_out(command: str) -> CommandResult:
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    return CommandResult(done.returncode, done.stdout, done.stderr)


def test_a_link_in_place_of_what_root_makes_on_a_mount_is_told_and_not_followed(tmp_path: Path) -> None:
    secret, made = tmp_path / "secret", tmp_path / "made"
    writer, reader = (CheckedHost(name, RuledShell({"": carried_out})) for name in ("n1", "n2"))
    secret.write_text("of root\n")
    made.symlink_to(secret)
    told = test_storage.root_is_not_shared(writer, reader, str(made))
    assert told.startswith("root cannot write there: ")
    assert "File exists" in told
    late = CheckedHost("n1", RuledShell({"mkdir": ""}))  # the link comes after the directory
    assert test_storage.root_is_not_shared(late, reader, str(made)) == "n2 does not see what root makes here"
    assert (secret.read_text(), made.is_symlink()) == ("of root\n", True)


def test_a_server_that_denies_root_is_right_where_users_can_write() -> None:
    share({"mkdir": CommandResult(1, b"", b"mkdir: Permission denied\n")}, {})


def test_homes_elsewhere_than_on_their_mount_are_told() -> None:
    host = CheckedHost("n1", RuledShell({"findmnt": "/ /home/ann\n"}))
    with pytest.raises(AssertionError, match="/home/ann is on /, where other hosts do not see it"):
        test_storage.test_homes_are_on_their_mount(host, MOUNTED)


def test_the_partner_is_the_next_host_that_has_the_mount() -> None:
    hosts = {name: CheckedHost(name, RuledShell({})) for name in ("c1", "n1", "n2")}
    home, archive = MOUNTED.mounts
    found = {name: test_storage.partner(MOUNTED, name, hosts, home) for name in hosts}
    assert {name: one and one.name for name, one in found.items()} == {"c1": "n1", "n1": "n2", "n2": "c1"}
    assert test_storage.partner(MOUNTED, "n1", hosts, archive) is None


SCRATCH = cluster(f"{THREE_HOSTS}scratch: {{size: 100G}}\n")
RIGHT = "directory, root, 755\n/dev/sdb1 209715200 1 209715199 1% /scratch\n"


def look_at_scratch(printed: str, found: Cluster = SCRATCH) -> None:
    test_storage.test_scratch_has_its_place(CheckedHost("n1", RuledShell({"stat -c": printed})), found)


def test_scratch_that_is_there_passes() -> None:
    look_at_scratch(RIGHT)


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("stat: cannot statx '/scratch': No such file or directory\n", "/scratch is missing"),
        (RIGHT.replace("755", "1777"), "is not root's directory with mode 755, but: directory, root, 1777"),
        (RIGHT.replace("directory", "symbolic link"), "but: symbolic link"),
        (RIGHT.replace("209715200", "52428800"), r"may reserve 100 GB below /scratch .* the file system has 50 GB"),
    ],
)
def test_scratch_that_is_not_right_is_told(printed: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        look_at_scratch(printed)


def test_scratch_whose_disk_is_not_mounted_is_told() -> None:
    disk = "mounts: [{path: /scratch, source: /dev/sdb1, type: xfs, roles: compute}]\n"
    with pytest.raises(AssertionError, match="/scratch is on /, as /scratch is not mounted"):
        look_at_scratch(RIGHT.replace("% /scratch", "% /"), cluster(f"{THREE_HOSTS}scratch: {{size: 100G}}\n{disk}"))


SERVING = cluster(THREE_HOSTS + "exports: [{path: /srv/home, host: c1, mount: /home, to: compute}]\n")
KNOWN = Lock(hosts={name: HostLock(hostname=name) for name in SERVING.hosts})
SERVED = "".join(f"/srv/home  {SERVING.addresses.get(name) or name}(sync,rw)\n" for name in SERVING.compute_nodes)


def serve(state: str = "active", **found: str) -> None:
    server = unit("nfs-server", ActiveState=state)
    rules: dict[str, Rule] = {**server, "threads": "8\n", "exportfs": SERVED, **found}
    test_storage.test_exports_are_served(CheckedHost("c1", RuledShell(rules)), SERVING, KNOWN)


def test_exports_that_are_served_pass() -> None:
    serve()


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"state": "inactive"}, "nfs-server is inactive"),
        ({"threads": "0\n"}, "the NFS server has no threads"),
        ({"exportfs": SERVED.splitlines(keepends=True)[0]}, "/srv/home is not exported to"),
        ({"exportfs": ""}, "Repair: .*deploy --hosts c1.*systemctl status nfs-server"),
    ],
)
def test_exports_that_are_not_served_are_told(found: dict[str, str], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        serve(**found)


def test_a_server_and_a_client_of_its_export_are_partners() -> None:
    everywhere = cluster(THREE_HOSTS + "exports: [{path: /srv/home, host: c1, mount: /home}]\n")
    hosts = {name: CheckedHost(name, RuledShell({})) for name in ("c1", "n1")}
    here, elsewhere = everywhere.served[0].here, everywhere.served[0].elsewhere
    assert here is not None
    assert test_storage.partner(everywhere, "n1", hosts, elsewhere) is hosts["c1"]
    assert test_storage.partner(everywhere, "c1", hosts, here) is hosts["n1"]


def test_the_directory_of_homes_itself_has_to_be_on_its_mount() -> None:
    text = THREE_HOSTS + "homes: /home\nmounts: [{path: /home, source: 'nas:/home', type: nfs4}]\n"
    with pytest.raises(AssertionError, match="/home is on /, where other hosts do not see it"):
        test_storage.test_homes_are_on_their_mount(
            CheckedHost("n1", RuledShell({"findmnt": "/ /home\n"})), cluster(text)
        )


LIMITED = cluster(
    THREE_HOSTS
    + "exports: [{path: /srv/home, host: c1, mount: /home}]\n"
    + "quota: {path: /home, soft: 1G, hard: 2G}\nusers: [{name: ann}, {name: bob, quota: false}]\n"
)
REPORT = "User,...\n#2000,ok,ok,4,{soft},2097152,,1,0,0,\n"


def limit(report: Rule) -> None:
    shell = RuledShell({"findmnt": "/srv\n", "repquota -u -n -O csv -- /srv": report})
    test_storage.test_quotas_are_set(CheckedHost("c1", shell), LIMITED, Lock(ids={"ann.uid": 2000, "bob.uid": 2001}))


def test_quotas_that_are_set_pass() -> None:
    limit(REPORT.format(soft=1048576))


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (REPORT.format(soft=0), "ann has soft none, hard 2097152 KiB instead of soft 1048576 KiB, hard 2097152 KiB"),
        ("", "ann has soft none, hard none instead of"),
        (
            CommandResult(1, b"", b"repquota: no quota enabled.\n"),
            "/srv cannot limit users: .*no quota enabled.*usrquota",
        ),
    ],
)
def test_quotas_that_are_not_set_are_told(report: Rule, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        limit(report)
