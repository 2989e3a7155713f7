"""Slurm's files that somebody made by hand: which are read, what stays on the host, and what nobody learns."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hostile_directory import give_away

from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.slurm import found_files
from slurmfab.on_hosts.agent.slurm.member_addresses import addresses

CONF = """\
ClusterName=Alpha
SlurmctldHost=ctl
Include nodes.conf
include %c.conf
Prolog=/etc/slurm/prolog.d/*
Epilog=epilog.sh # and no more
RebootProgram="/sbin/reboot -f"
HealthCheckProgram=/usr/sbin/nhc
JobCompPass=one
#AccountingStoragePass=two
PartitionName=all Nodes=ALL
"""


def write(root: Path, path: str, text: str, mode: int = 0o644) -> Path:
    """A file below the scratch root, with its directories."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


def read(root: Path) -> dict[str, Any]:
    """What the host answers, as the deployer takes it."""
    said = json.loads(json.dumps(found_files.read({}, Context(str(root)))))
    found: dict[str, Any] = answer_value("ctl", ({"found_files": said},), "found_files")
    return found


def has_slurm_user_of_its_own(root: Path) -> None:
    """Make the slurm user another one than the user of this process."""
    (root / "etc/passwd").write_text("slurm:x:64030:64030::/nonexistent:/bin/sh\n")


def texts(found: dict[str, Any]) -> dict[str, str]:
    """Texts by path."""
    return {one[0]: one[1] for one in found["files"]}


def test_a_host_without_slurm_when_asked_then_has_no_slurm_conf_and_no_file(root: Path) -> None:
    found = read(root)
    assert (found["places"]["conf"], found["places"]["program"], found["files"]) == ("", "", [])


def test_a_slurm_conf_when_read_then_comes_first_with_its_includes_and_all_that_belongs_to_it(root: Path) -> None:
    write(root, "etc/slurm/slurm.conf", CONF)
    write(root, "etc/slurm/nodes.conf", "NodeName=n1\n")
    write(root, "etc/slurm/alpha.conf", "KillWait=60\n")
    write(root, "etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia0\n")
    write(root, "etc/slurm/job_submit.lua", "return slurm.SUCCESS\n")
    write(root, "etc/slurm/plugstack.conf", "include /etc/slurm/plugstack.conf.d/*.conf\n")
    write(root, "etc/slurm/plugstack.conf.d/a.conf", "optional a.so\n")
    write(root, "etc/slurm/prolog.d/10-scratch", "#!/bin/sh\n", 0o755)
    write(root, "etc/slurm/epilog.sh", "#!/bin/sh\n", 0o755)
    write(root, "etc/slurm/notes.txt", "nothing of Slurm's\n")
    found = read(root)
    assert [one[0].removeprefix("/etc/slurm/") for one in found["files"]] == [
        "slurm.conf",
        "nodes.conf",
        "alpha.conf",
        "gres.conf",
        "plugstack.conf",
        "job_submit.lua",
        "plugstack.conf.d/a.conf",
        "prolog.d/10-scratch",
        "epilog.sh",
    ]
    assert {one[0]: one[2] for one in found["files"]}["/etc/slurm/epilog.sh"] == 0o755
    assert dict(found["left"]) == {"/sbin/reboot": "there is no such file", "/usr/sbin/nhc": "there is no such file"}


def test_passwords_when_files_have_them_then_are_not_sent_and_their_keys_are_told(root: Path) -> None:
    write(root, "etc/slurm/slurm.conf", CONF)
    write(root, "etc/slurm/slurmdbd.conf", 'DbdHost=ctl\nStoragePass="three and"\nstoragepass =\\\n four\n', 0o600)
    write(root, "etc/slurm/acct_gather.conf", "ProfileInfluxDBPass=five\nProfileInfluxDBHost=h\n")
    found = read(root)
    said = repr(found)
    assert not [word for word in ("=one", "two", "three", "four", "five") if word in said]
    assert texts(found)["/etc/slurm/slurmdbd.conf"].startswith("DbdHost=ctl\nStoragePass=(not-shown)\n")
    assert dict(found["left"])["/etc/slurm/acct_gather.conf"].startswith("it has a password (ProfileInfluxDBPass)")
    assert {tuple(one) for one in found["hidden"]} >= {
        ("/etc/slurm/slurm.conf", "JobCompPass"),
        ("/etc/slurm/slurmdbd.conf", "StoragePass"),
    }


def test_the_socket_of_munge_when_slurm_conf_names_it_as_a_password_then_is_no_secret(root: Path) -> None:
    (root / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as munge:
        munge.bind(f"/proc/self/fd/{os.open(root / 'run', os.O_RDONLY)}/munge.socket")
    write(root, "etc/slurm/slurm.conf", "AccountingStoragePass=/run/munge.socket\n")
    assert texts(read(root))["/etc/slurm/slurm.conf"] == "AccountingStoragePass=/run/munge.socket\n"


def test_a_program_that_not_everybody_may_read_then_stays_on_the_host(root: Path) -> None:
    write(root, "etc/slurm/slurm.conf", "Prolog=/etc/slurm/prolog.sh\n")
    write(root, "etc/slurm/prolog.sh", "#!/bin/sh\ntoken=abc\n", 0o750)
    found = read(root)
    assert "token" not in repr(found)
    assert dict(found["left"]) == {"/etc/slurm/prolog.sh": found_files.PRIVATE}


def test_the_scripts_of_a_directory_when_a_program_of_slurmfab_runs_them_then_are_read(root: Path) -> None:
    write(root, "etc/slurm/slurm.conf", "Prolog=/usr/local/lib/slurmfab/prolog\n")
    write(root, "etc/slurm/prolog.d/10-here", "#!/bin/sh\n", 0o755)
    assert dict(read(root)["left"]) == {"/usr/local/lib/slurmfab/prolog": found_files.MISSING}
    write(root, "usr/local/lib/slurmfab/prolog", "#!/bin/sh\n", 0o755)
    assert texts(read(root))["/etc/slurm/prolog.d/10-here"] == "#!/bin/sh\n"
    assert read(root)["left"] == []


def test_a_directory_on_another_file_system_when_linked_to_by_root_then_is_read_and_the_link_is_told(
    root: Path,
) -> None:
    write(root, "shared/slurm.conf", "ClusterName=alpha\n")
    (root / "etc/slurm").mkdir()
    (root / "etc/slurm/slurm.conf").symlink_to("../../shared/slurm.conf")
    assert read(root)["files"] == [("/etc/slurm/slurm.conf", "ClusterName=alpha\n", 0o644, "/shared/slurm.conf")]
    status = (root / "shared/slurm.conf").stat()
    assert read(root)["mark"] == f"{status.st_ino} {status.st_ctime_ns}"


def test_links_of_another_user_when_slurms_directory_is_theirs_then_lead_to_no_secret(root: Path) -> None:
    has_slurm_user_of_its_own(root)
    write(root, "etc/shadow", "root:secret:\n", 0o600)
    write(root, "etc/slurm/slurm.conf", "Include /etc/shadow\nInclude hidden.conf\nProlog=/etc/slurm/prolog.sh\n")
    (root / "etc/slurm/hidden.conf").symlink_to("../shadow")
    (root / "etc/slurm/prolog.sh").symlink_to("../shadow")
    give_away(root / "etc/slurm")
    found = read(root)
    assert "root:secret" not in repr(found)
    assert "/etc/slurm/hidden.conf" in dict(found["left"])


def test_a_file_that_only_root_may_read_when_another_user_can_change_its_directory_then_stays(root: Path) -> None:
    has_slurm_user_of_its_own(root)
    write(root, "srv/site/slurm.conf", "ClusterName=alpha\n")
    write(root, "srv/site/gres.conf", "Name=gpu\n", 0o600)
    write(root, "etc/default/slurmctld", "SLURMCTLD_OPTIONS='-f /srv/site/slurm.conf'\n")
    give_away(root / "srv/site")
    found = read(root)
    assert (found["places"]["conf"], list(texts(found))) == ("/srv/site/slurm.conf", ["/srv/site/slurm.conf"])
    assert dict(found["left"]) == {"/srv/site/gres.conf": found_files.PRIVATE}


def test_files_that_are_traps_when_read_then_nobody_waits_and_nothing_grows(root: Path) -> None:
    write(root, "etc/slurm/slurm.conf", "Include slurm.conf\nInclude fifo\nInclude zero\nInclude large\n")
    os.mkfifo(root / "etc/slurm/fifo")
    (root / "etc/slurm/zero").symlink_to("/dev/zero")
    write(root, "etc/slurm/large", "x" * (found_files.MOST_BYTES + 1))
    found = read(root)
    assert list(texts(found)) == ["/etc/slurm/slurm.conf"]
    assert set(dict(found["left"])) == {"/etc/slurm/fifo", "/etc/slurm/zero", "/etc/slurm/large"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("usr/local/etc/slurm.conf", ""),
        ("opt/slurm/etc/slurm.conf", ""),
        ("data/slurm.conf", "etc/default/slurmd"),
        ("run/slurm/conf/slurm.conf", ""),
    ],
)
def test_a_slurm_conf_in_another_place_when_looked_for_then_is_found(root: Path, path: str, text: str) -> None:
    write(root, path, "ClusterName=alpha\n")
    if text:
        write(root, text, f'# -f /none\nSLURMD_OPTIONS="-f /{path}"\n')
    found = read(root)["places"]
    assert (found["conf"], found["configless"]) == (f"/{path}", path.startswith("run/"))


def test_names_when_resolved_then_addresses_of_the_host_alone_are_left_out() -> None:
    assert addresses("localhost") == []
    assert addresses("192.0.2.1") == ["192.0.2.1"]
    assert addresses("no such name") == []


def test_a_directory_to_which_etc_slurm_leads_when_daemons_name_it_then_is_etc_slurm(root: Path) -> None:
    write(root, "opt/slurm/etc/slurm.conf", "ClusterName=alpha\n")
    write(root, "etc/default/slurmctld", "SLURMCTLD_OPTIONS='-f /opt/slurm/etc/slurm.conf'\n")
    assert read(root)["places"]["conf"] == "/opt/slurm/etc/slurm.conf"
    (root / "etc/slurm").symlink_to(root / "opt/slurm/etc")
    found = read(root)
    assert (found["places"]["conf"], list(texts(found))) == ("/etc/slurm/slurm.conf", ["/etc/slurm/slurm.conf"])
