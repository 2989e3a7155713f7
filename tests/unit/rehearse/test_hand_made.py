"""The twin of a cluster made by hand: what its hosts get of the real ones, and that no secret is among it."""

from __future__ import annotations

import base64
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from found_clusters import KINDS

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.import_cluster.first_lock import first_lock
from slurmfab.commands.import_cluster.found import FoundCluster, FoundFile
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.import_cluster.survey import survey
from slurmfab.commands.rehearse import hand_made, programs, real_cluster, takeover
from slurmfab.commands.rehearse.hand_made import Making
from slurmfab.commands.rehearse.real_cluster import Real
from slurmfab.commands.rehearse.real_files import Changes
from slurmfab.commands.rehearse.stage import Stage
from slurmfab.commands.rehearse.twin import Twin, choose
from slurmfab.commands.rehearse.workload import Workload
from slurmfab.lab import Lab, LabSpec
from slurmfab.on_hosts.agent.accounting.job_shapes import Shape
from slurmfab.on_hosts.agent.files.owners import DIRECTORY, FILE, Owned
from slurmfab.on_hosts.agent.slurm.found_files import ELSEWHERE, HIDDEN, PRIVATE

ADA = Shape("ada", 1001, "physics", "gpu", "high", "", 1, 1, 0, "", 0, 1, 0, 0)
UNITS = "/etc/systemd/system"
NOTHING_OTHER = Changes(frozenset(), {})


def real_of(found: FoundCluster, **fields: Any) -> Real:
    """A cluster as its import has seen it."""
    old = OldCluster(found)
    cluster = loading.parse(survey(found).text, "cluster.yaml")
    known = Inventory(cluster, first_lock(cluster, old), Path("cluster.yaml"))
    return Real(old, known, **{"owners": {}, "workload": Workload((ADA,)), **fields})


def making_of(real: Real, *, with_programs: bool = False) -> Making:
    """Its twin, whose hosts have addresses from 172.16.0.1 on."""
    chosen = choose([(real.cluster, real.known.lock)])
    addresses = {host: f"172.16.0.{number}" for number, host in enumerate(chosen.hosts, 1)}
    made = Twin(chosen.hosts, chosen.standing_for, LabSpec(), (), addresses=addresses, ssh_key="/key")
    lab = Lab("twin", "trixie", (), Path("/lab"), Path("/key"), Path("/lab/lab.yaml"), LabSpec())
    return Making(real, Stage(lab, made, Path("/lab/twin/cluster.yaml")), made, with_programs)


def files_in(script: str) -> dict[str, str]:
    """The files that a script writes."""
    written = re.findall(r"base64 -d >(\S+)\) <<'END'\n(.*?)END$", script, re.MULTILINE | re.DOTALL)
    return {path: base64.b64decode(text).decode(errors="replace") for path, text in written}


def script_of(making: Making, host: str) -> str:
    return hand_made.host_script(making, host, NOTHING_OTHER)


@pytest.mark.parametrize("kind", ["plain", "accounts", "includes", "scripts"])
def test_a_twins_host_has_slurms_files_of_the_real_one_and_the_script_is_one_for_sh(kind: str) -> None:
    making = making_of(real_of(KINDS[kind]("24.11")), with_programs=True)
    for host in making.twin.hosts:
        script = script_of(making, host)
        written = files_in(script)
        for file in making.real.files(host).files:
            assert file.text.splitlines()[0] in written[file.path]
        assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0


def test_the_password_of_the_database_and_all_keys_of_a_twin_are_new_ones() -> None:
    found = KINDS["accounts"]("24.11")
    dbd = FoundFile("/etc/slurm/slurmdbd.conf", f"StorageHost=10.9.9.9\nStoragePass={HIDDEN}\n", 0o600)
    files = replace(found.hosts["db"], files=(found.hosts["db"].files[0], dbd))
    one, other = (making_of(real_of(replace(found, hosts={**found.hosts, "db": files}))) for _ in range(2))
    first, second = (files_in(script_of(making, "db")) for making in (one, other))
    assert first["/etc/munge/munge.key"] != second["/etc/munge/munge.key"]
    assert first["/etc/slurm/slurmdbd.conf"] == f"\nStoragePass={one.new.password}\n"
    assert one.new.password not in repr(one)


def test_the_addresses_of_a_cluster_are_those_of_its_twin_wherever_a_file_has_them() -> None:
    making = making_of(real_of(KINDS["accounts"]("24.11")))
    assert making.addresses["10.0.0.1"] == making.twin.addresses["ctl"]
    assert making.addresses["10.0.1.1"] == making.twin.addresses["g1"]


def test_an_address_when_a_host_says_that_another_ones_is_its_own_then_stays_that_of_the_other() -> None:
    found = KINDS["accounts"]("24.11")
    claimed = {"n1": ("10.0.0.1", "10.9.0.1", "10.9.0.9"), "g1": ("10.9.0.2", "10.9.0.9")}
    facts = {host: replace(one, addresses=claimed.get(host, one.addresses)) for host, one in found.facts.items()}
    making = making_of(real_of(replace(found, facts=facts)))
    on_twin = making.twin.addresses
    assert [making.addresses.get(one) for one in ("10.0.0.1", "10.9.0.1", "10.9.0.2", "10.9.0.9")] == [
        *(on_twin["ctl"], on_twin["n1"], on_twin["g1"], None)
    ]


def test_a_host_of_the_twin_is_known_by_every_name_that_files_have_for_it() -> None:
    found = KINDS["accounts"]("24.11")
    conf = found.facts["ctl"].slurm_conf.replace("AccountingStorageHost=db", "AccountingStorageHost=db.example.org")
    facts = {**found.facts, "ctl": replace(found.facts["ctl"], slurm_conf=conf)}
    old = OldCluster(replace(found, facts=facts))
    assert real_cluster.names_of(old, "db") == ("db", "db.example.org")
    assert real_cluster.names_of(old, "ctl") == ("ctl",)


def test_people_have_their_numbers_and_are_in_the_groups_of_partitions_in_which_they_ran_jobs() -> None:
    found = KINDS["accounts"]("24.11")
    conf = found.facts["ctl"].slurm_conf.replace("AllowAccounts=physics", "AllowAccounts=physics AllowGroups=theory")
    ctl = replace(found.facts["ctl"], slurm_conf=conf, uids={4711: "bob", 64030: "slurm"}, gids={2100: "theory"})
    lines = "".join(hand_made.user_lines(real_of(replace(found, facts={**found.facts, "ctl": ctl})), "n1"))
    assert "useradd --no-create-home --non-unique --uid 1001 ada\n" in lines
    assert "useradd --no-create-home --non-unique --uid 4711 bob\n" in lines
    assert "groupadd --non-unique --gid 2100 theory\nusermod -aG theory ada\n" in lines


def test_a_program_outside_slurms_directory_or_of_root_alone_is_a_stand_in_that_the_report_names() -> None:
    found = KINDS["scripts"]("24.11")
    left = {"/usr/local/sbin/epilog": ELSEWHERE, "/etc/slurm/root.sh": PRIVATE, "/etc/slurm/root.conf": PRIVATE}
    files = {**found.hosts, "n1": replace(found.hosts["n1"], left=left)}
    owners = {
        "n1": (
            Owned("/etc/slurm/root.sh", FILE, "root", "root", 0o700),
            Owned("/etc", DIRECTORY, "root", "root", 0o755),
        )
    }
    real = real_of(replace(found, hosts=files), owners=owners)
    assert real_cluster.stand_ins(real, "n1") == ("/usr/local/sbin/epilog", "/etc/slurm/root.sh")
    chosen = choose([(real.cluster, real.known.lock)])
    made = takeover.twin_of("twin", real, chosen, "trixie")
    assert (
        "programs of the site that do nothing on the twin: /etc/slurm/root.sh, /usr/local/sbin/epilog" in made.unknown
    )


def test_directories_and_logs_of_the_twin_have_the_owners_and_permissions_of_the_real_ones() -> None:
    rows = (
        Owned("/var/log/slurm", DIRECTORY, "slurm", "adm", 0o750),
        Owned("/var/log/slurm/a b", FILE, "slurm", "adm", 0o640),
    )
    folder, log = hand_made.owner_lines(rows, ())
    assert folder.splitlines() == [
        "[ -d /var/log/slurm ] || mkdir /var/log/slurm",
        "chown slurm:adm /var/log/slurm 2>/dev/null || :",
        "chmod 750 /var/log/slurm",
    ]
    assert log.splitlines()[0] == "[ -e '/var/log/slurm/a b' ] || : >'/var/log/slurm/a b'"


def test_a_host_that_lies_about_its_files_makes_no_program_of_them_and_nobody_another_user() -> None:
    found = KINDS["scripts"]("24.11")
    evil = "#!/bin/sh\nevil\n"
    there = found.hosts["n1"]
    more = (
        FoundFile("/etc/slurm/a.conf", evil, 0o755, "/etc/slurm/prolog.sh"),
        FoundFile("/opt/x.conf", "[Service]\nExecStartPre=/bin/evil\n", link=f"{UNITS}/slurmd.service.d/x.conf"),
    )
    lying = replace(there, files=(*there.files, *more))
    rows = [
        Owned(path, FILE, "root", "root", 0o6755)
        for path in ("/etc/slurm/a.conf", "/etc/slurm/prolog.sh", "/etc/slurm/slurm.conf", "/usr/bin/env")
    ]
    making = making_of(real_of(replace(found, hosts={**found.hosts, "n1": lying}), owners={"n1": rows}))
    script = script_of(making, "n1")
    assert [path for path, text in files_in(script).items() if "evil" in text and path != "/etc/slurm/prolog.sh"] == []
    assert files_in(script)["/etc/slurm/prolog.sh"] == programs.STAND_IN
    assert "chmod 644 /etc/slurm/slurm.conf\n" in script
    assert "/usr/bin/env" not in script
    assert "chmod 6" not in re.sub(r"chmod 6[04][04]\b", "", script)


def test_the_owners_that_are_asked_for_are_those_of_state_spool_logs_and_slurms_files() -> None:
    old = OldCluster(KINDS["own-ids"]("24.11"))
    asked = real_cluster.places(old, "n1", old.files("n1"))
    assert {
        "/srv/slurm/state",
        "/srv/slurm/spool",
        "/srv/slurm/log/n1.log",
        "/run/slurm-own",
        "/etc/slurm/slurm.conf",
    } <= {*asked}


def test_daemons_start_where_the_cluster_has_them() -> None:
    real = real_of(KINDS["accounts"]("24.11"))
    assert [real_cluster.units(real, host) for host in ("ctl", "db", "n1")] == [
        ("slurmctld",),
        ("slurmdbd",),
        ("slurmd",),
    ]


def test_a_twin_has_the_packages_that_the_real_hosts_have() -> None:
    real = real_of(KINDS["accounts"]("24.11"))
    entries = dict(entry.split(":") for entry in real_cluster.packages(real, making_of(real).twin))
    assert set(entries["ctl"].split(",")) == {"munge", "slurm-client", "slurm-wlm-basic-plugins"}
    assert "mariadb-server" in entries[making_of(real).twin.hosts["db"]]


def test_a_cluster_whose_slurmdbd_did_not_answer_cannot_be_rehearsed() -> None:
    real = real_of(replace(KINDS["accounts"]("24.11"), accounts=None))
    with pytest.raises(InputError, match=r"slurmdbd did not tell of its accounts.* Nothing was started\."):
        takeover.refuse_without_twin(real.old, real.known)


@pytest.mark.parametrize(
    "line",
    ["SlurmdLogFile=root/.bashrc", "slurmdlogfile = /root/.bashrc", "X=1 SlurmdLogFile=\"/root/.bashrc\"",
     "SlurmdLog\\\nFile=/root/.bashrc", "X=1\rSlurmdLogFile=/root/.bashrc", "SlurmdSpoolDir+=/root/.bashrc",
     "JobCompLoc=/root/.bashrc"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["slurm.conf", "other.conf"])
def test_a_place_that_one_node_alone_names_in_a_file_of_its_own_then_is_judged(name: str, line: str) -> None:
    old = real_of(KINDS["plain"]("24.11")).old
    host = old.found.controller
    own = FoundFile(f"/etc/slurm/{name}", f"# SlurmctldLogFile=x\n{line}\n")
    paths = real_cluster.written(old, host, replace(old.found.hosts[host], files=(own,)))
    assert [path for path in paths if path.endswith("root/.bashrc")]
    assert "x" not in paths


def test_a_database_or_a_server_of_finished_jobs_is_no_place_that_a_daemon_writes_to() -> None:
    old = real_of(KINDS["plain"]("24.11")).old
    host = old.found.controller
    own = FoundFile(
        "/etc/slurm/slurm.conf", "JobCompLoc=slurm_jobcomp_db\nJobCompLoc=http://es:9200/x\nSlurmdLogFile=(null)\n"
    )
    paths = real_cluster.written(old, host, replace(old.found.hosts[host], files=(own,)))
    assert all(path.startswith("/") for path in paths)


def test_a_whole_unit_that_a_twin_leaves_out_then_is_not_written_so_that_the_packages_own_counts() -> None:
    found = KINDS["plain"]("24.11")
    unit = FoundFile(f"{UNITS}/slurmd.service", "[Service]\nExecStart=/opt/wrapper \\\r\n")
    files = replace(found.hosts[found.controller], drop_ins=(unit,))
    real = real_of(replace(found, hosts={**found.hosts, found.controller: files}))
    script = hand_made.host_script(making_of(real), found.controller, NOTHING_OTHER)
    assert unit.path not in files_in(script)
