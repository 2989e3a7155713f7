"""First contact: addresses on a command line, an empty directory, and hosts that nobody has touched."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, succeeded
from lab_user import Person, running_lab, snapshots, words_of
from suites import NEWEST

from slurmfab.hosts.host_keys import fingerprint
from slurmfab.lab import LabSpec
from slurmfab.on_hosts.agent.services import daemon_log

pytestmark = pytest.mark.lab

SPEC = LabSpec(
    name="hfirst", suite=NEWEST, nodes=4, no_python=("n2",), down=("n4",), apt_lists=False, loopback_name=True
)
UP = ("ctl", "n1", "n2", "n3")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    """Hosts from an installer: no package lists, their own name on a loopback address, one without python3."""
    with running_lab(SPEC, tmp_path_factory.mktemp("first")) as hosts:
        yield hosts


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person.at(tmp_path)


@pytest.fixture(scope="module")
def met(bare: DeployedLab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Person, subprocess.CompletedProcess[str]]:
    """Whoever made a cluster of all hosts by one command, and what that command said."""
    founder = Person.at(tmp_path_factory.mktemp("met"))
    return founder, connection_options(founder, bare, *UP, "n4", accept=True)


def first_contact(hosts: DeployedLab, *names: str) -> tuple[str, ...]:
    """The words of the command of first contact."""
    addresses = ",".join(hosts.lab.host(name).address for name in names)
    return "deploy", "--hosts", addresses, "--user", "root", "--key", str(hosts.lab.ssh_key)


def connection_options(
    person: Person, hosts: DeployedLab, *names: str, accept: bool = False
) -> subprocess.CompletedProcess[str]:
    """The command of first contact, with addresses alone."""
    words = first_contact(hosts, *names)
    return person.slurmfab(*words, "--json", "first.json", *(["--accept-new-host-keys"] if accept else []))


def shown_key(hosts: DeployedLab, name: str) -> str:
    """The fingerprint of the key that a host shows first."""
    return fingerprint(hosts.lab.host(name).host_keys["ssh-ed25519"])


def test_hosts_that_nobody_vouches_for_are_shown_with_fingerprints_and_nothing_is_touched(
    bare: DeployedLab, person: Person
) -> None:
    before = snapshots(bare, *UP)
    done = connection_options(person, bare, *UP)
    assert done.returncode == 2
    for name in UP:
        assert f"{bare.lab.host(name).address}: ssh-ed25519 {shown_key(bare, name)}" in words_of(done)
    assert "--accept-new-host-keys" in done.stderr
    assert list(person.directory.iterdir()) == []
    assert snapshots(bare, *UP) == before


def test_hosts_of_which_some_are_in_known_hosts_when_met_then_only_the_others_are_shown_and_none_is_touched(
    bare: DeployedLab, person: Person
) -> None:
    person.has_seen(bare.lab, "ctl", "n2")
    before = snapshots(bare, *UP)
    done = connection_options(person, bare, *UP)
    assert done.returncode == 2
    assert shown_key(bare, "n1") in words_of(done)
    assert shown_key(bare, "ctl") not in done.stderr
    assert shown_key(bare, "n2") not in done.stderr
    assert list(person.directory.iterdir()) == []
    assert snapshots(bare, *UP) == before


def test_a_first_host_that_does_not_answer_when_met_then_nothing_is_written_or_touched(
    bare: DeployedLab, person: Person
) -> None:
    before = snapshots(bare, *UP)
    done = connection_options(person, bare, "n4", *UP, accept=True)
    assert done.returncode == 1
    assert f"{bare.lab.host('n4').address} would be the controller, so nothing was written" in words_of(done)
    assert list(person.directory.iterdir()) == []
    assert snapshots(bare, *UP) == before


def test_a_preview_when_hosts_are_bare_then_shows_file_and_plan_and_touches_nothing(
    bare: DeployedLab, person: Person
) -> None:
    before = snapshots(bare, *UP)
    addresses = ",".join(bare.lab.host(name).address for name in UP)
    options = ["--user", "root", "--key", str(bare.lab.ssh_key), "--accept-new-host-keys"]
    done = ended(person.slurmfab("plan", "--hosts", addresses, *options), 4)
    assert "    controllers: [ctl]\n" in done.stdout
    assert "Packages to install on n[1,3]: " in done.stdout
    assert "+NodeName=n[1,3] NodeAddr=" in done.stdout
    assert f"No python3 yet: {bare.lab.host('n2').address}" in done.stdout
    assert list(person.directory.iterdir()) == []
    assert snapshots(bare, *UP) == before


def test_two_hosts_of_one_name_when_met_then_both_are_named_and_nothing_is_written(
    bare: DeployedLab, person: Person
) -> None:
    bare.on("n3", "hostname n1")
    try:
        done = connection_options(person, bare, "ctl", "n1", "n3", accept=True)
    finally:
        bare.on("n3", "hostname n3")
    assert done.returncode == 2
    both = f"{bare.lab.host('n1').address}, {bare.lab.host('n3').address}: these hosts have the same name, n1"
    assert both in words_of(done)
    assert "hostnamectl set-hostname" in done.stderr
    assert list(person.directory.iterdir()) == []


def test_a_host_that_does_not_answer_when_met_then_it_is_named_and_left_out_and_the_exit_code_is_3(
    bare: DeployedLab, met: tuple[Person, subprocess.CompletedProcess[str]]
) -> None:
    founder, done = met
    address = bare.lab.host("n4").address
    assert done.returncode == 3, words_of(done)
    assert f"{address}: " in words_of(done)
    assert f"fab add-node {address}" in done.stderr
    report = json.loads((founder.directory / "first.json").read_text())
    assert (report["exit_code"], list(report["not_met"])) == (3, [address])
    assert address not in founder.cluster_file.read_text()


def test_the_directory_of_a_first_contact_then_has_a_fabfile_by_which_fab_works_there(
    met: tuple[Person, subprocess.CompletedProcess[str]],
) -> None:
    founder, done = met
    assert words_of(done).count("Wrote fabfile.py: `fab` works in that directory now.") == 1
    assert len((founder.directory / "fabfile.py").read_text().splitlines()) <= 20
    listed = replace(founder, program=(str(Path(sys.executable).with_name("fab")),)).slurmfab("--list")
    assert (listed.returncode, "check-cluster" in listed.stdout) == (0, True), words_of(listed)


def test_hosts_that_were_met_then_have_a_cluster_file_and_a_lock_with_their_keys_and_hardware(
    bare: DeployedLab, met: tuple[Person, subprocess.CompletedProcess[str]]
) -> None:
    founder, _ = met
    text = founder.cluster_file.read_text()
    assert ("cluster: ctl\n" in text, "controllers: [ctl]" in text) == (True, True)
    lock = json.loads((founder.cluster_file.parent / "cluster.lock.json").read_text())
    assert sorted(lock["hosts"]) == sorted(UP)
    for name in UP:
        assert lock["hosts"][name]["host_keys"] == dict(bare.lab.host(name).host_keys)
        assert lock["hosts"][name]["hardware"]


def test_hosts_that_were_met_then_run_a_job_together(
    bare: DeployedLab, met: tuple[Person, subprocess.CompletedProcess[str]]
) -> None:
    assert met[1].returncode == 3
    bare.until("ctl", "sinfo -h -o '%D %t'", "3 idle")
    assert sorted(bare.on("ctl", AS_SLURM + "srun -N3 hostname").split()) == ["n1", "n2", "n3"]


def test_errors_in_logs_of_a_new_cluster_then_are_marked_as_those_of_a_first_start(
    met: tuple[Person, subprocess.CompletedProcess[str]],
) -> None:
    told = json.loads(met[0].slurmfab("logs", "ctl,n[1-3]", "--json", "-").stdout)["lines"]
    errors = [line for line in told if "error:" in line["text"] and line["log"].startswith("slurm")]
    # Others come at any time where all is well, such as when srun ends before it is told that its job has.
    assert [one["text"] for one in errors if not one["normal"] and not daemon_log.is_healthy(one["text"])] == []
    assert "the first start" in {line["normal"] for line in errors}


def test_a_cluster_from_first_contact_when_deployed_again_then_nothing_is_changed(
    bare: DeployedLab, met: tuple[Person, subprocess.CompletedProcess[str]]
) -> None:
    founder, _ = met
    before = snapshots(bare, *UP)
    done = founder.slurmfab("deploy")
    assert (done.returncode, "nothing changed on 4 hosts" in words_of(done)) == (0, True)
    assert snapshots(bare, *UP) == before


def test_a_cluster_when_somebody_who_knows_its_host_keys_meets_it_anew_then_nothing_is_changed(
    bare: DeployedLab, met: tuple[Person, subprocess.CompletedProcess[str]], person: Person
) -> None:
    assert met[0].cluster_file.exists()
    person.has_seen(bare.lab, *UP)
    before = snapshots(bare, *UP)
    done = connection_options(person, bare, *UP)
    assert done.returncode == 0, words_of(done)
    assert "nothing changed" in done.stdout
    assert "accepted its host key" not in done.stderr
    assert person.cluster_file.exists()
    assert snapshots(bare, *UP) == before


def test_a_first_contact_that_is_interrupted_then_goes_on_by_the_words_that_it_says_and_by_the_same_command(
    bare: DeployedLab, met: tuple[Person, subprocess.CompletedProcess[str]], person: Person
) -> None:
    assert met[0].cluster_file.exists()
    person.has_seen(bare.lab, *UP)
    for again in (("deploy",), first_contact(bare, *UP)):
        shutil.rmtree(person.cluster_file.parent, ignore_errors=True)
        process = person.start(*first_contact(bare, *UP))
        assert process.stdout
        assert any(line.startswith("Wrote configs/cluster.yaml") for line in process.stdout)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 130, said
        assert "Interrupted. Hosts finish the step that they are at. Run slurmfab deploy to go on." in said
        other = person.slurmfab(*first_contact(bare, *UP), "--port", "2222")
        assert (other.returncode, "--port 2222, where it has nothing" in words_of(other)) == (2, True)
        more = person.slurmfab(*first_contact(bare, *UP, "n4"))
        assert (more.returncode, "To go on with these: slurmfab deploy. To add" in words_of(more)) == (2, True)
        said = words_of(succeeded(person.slurmfab(*again)))
        assert "Next: slurmfab check-cluster; then commit configs/cluster.yaml" in said
        assert "Next: " not in words_of(succeeded(person.slurmfab(*again)))


def test_a_host_whose_key_has_changed_when_deployed_to_then_it_is_refused_and_the_others_are_not(
    bare: DeployedLab, met: tuple[Person, subprocess.CompletedProcess[str]]
) -> None:
    founder, _ = met
    bare.on(
        "n3",
        "mkdir /root/kept && mv /etc/ssh/ssh_host_* /root/kept/ &&"
        " ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key && systemctl restart ssh",
    )
    try:
        done = founder.slurmfab("deploy")
        changed = fingerprint(bare.on("n3", "cut -d' ' -f2 /etc/ssh/ssh_host_ed25519_key.pub"))
    finally:
        bare.on("n3", "mv /root/kept/* /etc/ssh/ && rmdir /root/kept && systemctl restart ssh")
    assert done.returncode == 3
    said = words_of(done)
    assert f"n3: its SSH host key ({changed}) differs from the pinned one (" in said
    assert shown_key(bare, "n3") in said
    assert "lock" in said
    assert founder.slurmfab("deploy").returncode == 0
