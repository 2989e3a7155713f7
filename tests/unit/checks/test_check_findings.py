"""What single checks find on stand-in hosts, and the words in which they say it."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from ruled_shells import account, daemons_of

from slurmfab.cluster.inventory.cluster import Partition
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.ports import port
from slurmfab.commands.checks import (
    test_afterwards,
    test_clock,
    test_configuration,
    test_daemons,
    test_gpus,
    test_identity,
    test_jobs,
    test_limits,
    test_munge,
    test_nodes,
)
from slurmfab.commands.checks.applies import DoesNotApply, Drifted, kind_of
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.shell import CommandResult
from slurmfab.commands.checks.slurm import Slurm, job_words
from slurmfab.commands.checks.wanted import files, gpu_count
from slurmfab.core.status.selection import gpus_of

Skipped = pytest.skip.Exception


@dataclass(frozen=True)
class Bench:
    """Stand-in hosts, and what is known of them."""

    shells: dict[str, Any]
    known: Inventory

    @property
    def hosts(self) -> dict[str, CheckedHost]:
        """The hosts as a run of its own finds them, which remembers nothing of the one before."""
        return {name: CheckedHost(name, shell) for name, shell in self.shells.items()}

    @property
    def slurm(self) -> Slurm:
        """Slurm, as a run of its own finds it."""
        return Slurm(self.hosts["ctl"], self.known.cluster)


@pytest.fixture
def bench(shells: dict[str, Any], known: Inventory) -> Bench:
    return Bench(shells, known)


def refusal(error: str) -> CommandResult:
    """What srun leaves that did not run its job, or whose job failed."""
    return CommandResult(1, b"", f"{error}\n".encode())


def slurmd_has_its_files(bench: Bench, slurm: str = "24.11.5") -> None:
    """Look at the files of slurmd on n1."""
    lock = replace(bench.known.lock, slurm=slurm)
    hosts = bench.hosts
    test_daemons.test_slurmd_has_its_files(hosts["n1"], hosts["ctl"], bench.known.cluster, lock)


@pytest.mark.parametrize(
    ("changes", "stale"),
    [
        ("599.9 /etc/slurm/slurm.conf", []),
        ("600.01 /etc/slurm/slurm.conf", []),
        ("600.5 /etc/slurm/slurm.conf\n100.0 /etc/slurm/gres.conf", ["/etc/slurm/slurm.conf"]),
        ("5000.0 /etc/slurm/slurm.conf", []),
        ("", []),
    ],
)
def test_daemon_is_stale_when_a_file_changed_after_its_start(bench: Bench, changes: str, stale: list[str]) -> None:
    bench.shells["n1"].rules |= daemons_of(changes=changes)
    if not stale:
        slurmd_has_its_files(bench)
        return
    with pytest.raises(AssertionError, match=r"slurmd was started before the last change of") as caught:
        slurmd_has_its_files(bench)
    assert all(name in str(caught.value) for name in stale)
    assert "gres.conf" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "state", "words"),
    [
        ({}, "up", ""),
        ({}, "down", "partition main is DOWN in slurmctld, and not in the cluster file: somebody changed it. "),
        ({}, "drain", "Repair: scontrol update PartitionName=main State=UP"),
        ({"State": "DOWN"}, "down", ""),
        ({"State": "Inactive"}, "inact", ""),
        ({"State": "DOWN"}, "up", "State=DOWN"),
    ],
)
def test_a_partition_in_another_state_than_in_the_cluster_file_is_named(
    bench: Bench, settings: dict[str, str], state: str, words: str
) -> None:
    bench.shells["ctl"].rules["^sinfo --all --noheader .--format=%R"] = f"main|{state}\n_own|up\n"
    partition = Partition(PartitionName="main", Nodes="ALL", settings=settings)
    changed = bench.known.cluster.model_copy(update={"partitions": (partition,)})
    if not words:
        test_configuration.test_partitions_are_as_wanted(changed, bench.slurm)
        return
    with pytest.raises(AssertionError) as caught:
        test_configuration.test_partitions_are_as_wanted(changed, bench.slurm)
    assert words in str(caught.value)


def test_a_node_that_the_checks_found_in_service_and_that_is_drained_at_their_end_fails(bench: Bench) -> None:
    slurm, node = bench.slurm, bench.hosts["n1"]
    test_afterwards.test_node_still_takes_jobs(node, bench.slurm)
    assert slurm.node_as_found("n1")
    shown = "NodeName=n1 State=IDLE+DRAIN Reason=slurmd spool is full [root@2026-11-22T10:00:00]\n"
    bench.shells["ctl"].rules["scontrol .*show node$"] = shown
    with pytest.raises(AssertionError, match=r"out of service during the checks: its state in Slurm is IDLE\+DRAIN"):
        test_afterwards.test_node_still_takes_jobs(node, slurm)
    with pytest.raises(Skipped, match="was out of service before"):
        test_afterwards.test_node_still_takes_jobs(node, bench.slurm)


def test_daemon_that_does_not_run_is_not_called_stale(bench: Bench) -> None:
    bench.shells["n1"].rules |= daemons_of(changes="900.0 /etc/slurm/slurm.conf", start=None)
    with pytest.raises(Skipped, match="slurmd does not run on n1"):
        slurmd_has_its_files(bench)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (0.4, ""),
        (-4.0, ""),
        (30.0, "30.0 s ahead of ctl's"),
        (-301.0, "301.0 s behind ctl's"),
    ],
)
def test_clock_may_differ_by_seconds_but_not_by_half_a_minute(bench: Bench, theirs: float, words: str) -> None:
    bench.shells["n1"].rules["^date "] = f"{1700000000.5 + theirs}\n"
    if not words:
        test_clock.test_clock_is_the_controllers(bench.hosts["n1"], bench.hosts["ctl"])
        return
    with pytest.raises(AssertionError) as caught:
        test_clock.test_clock_is_the_controllers(bench.hosts["n1"], bench.hosts["ctl"])
    assert words in str(caught.value)
    assert "Repair: run a time service" in str(caught.value)


@pytest.mark.parametrize(
    ("address", "found", "is_free", "words"),
    [
        ("10.0.0.1", ["10.0.0.1"], False, ""),
        ("10.0.0.1", ["10.0.0.1", "fe80::1"], False, ""),
        ("fd00::0001", ["fd00::1"], False, ""),
        ("10.0.0.1", [], False, "does not resolve"),
        ("10.0.0.1", ["10.9.9.9"], False, "resolves to 10.9.9.9 instead of 10.0.0.1"),
        ("10.0.0.1", ["127.0.1.1"], False, "resolves to 127.0.1.1"),
        ("10.0.0.1", ["127.0.1.1"], True, ""),
        ("10.0.0.1", ["127.0.1.1", "10.0.0.1"], False, "resolves to 127.0.1.1 instead of 10.0.0.1"),
        ("10.0.0.1", ["10.0.0.1", "192.168.7.1"], False, ""),
        ("127.0.0.1", ["127.0.0.1"], False, ""),
        ("ctl.example.org", ["192.0.2.7"], False, ""),
        ("", ["192.0.2.7"], False, ""),
    ],
)
def test_name_leads_to_its_address(address: str, found: list[str], is_free: bool, words: str) -> None:
    told = test_identity.misled("ctl", address, found, is_free=is_free)
    assert (words in told) if words else told == ""


def test_a_file_of_slurms_that_is_a_link_is_named_with_its_target(bench: Bench) -> None:
    rest = bench.hosts["ctl"], bench.known.cluster, bench.known.lock
    test_configuration.test_files_are_no_links(bench.hosts["n1"], *rest)
    bench.shells["n2"].rules["readlink"] = "slurm.conf /shared/slurm.conf\n"
    with pytest.raises(
        AssertionError, match=r"slurm\.conf is a symbolic link to /shared/slurm\.conf; .* Repair: fab deploy"
    ):
        test_configuration.test_files_are_no_links(bench.hosts["n2"], *rest)


def test_a_file_of_a_hosts_own_where_a_shared_one_belongs_is_named(bench: Bench) -> None:
    known = bench.known
    cluster = known.cluster.model_copy(update={"slurm_conf_directory": "/shared/etc"})
    rest = bench.hosts, cluster, known.lock
    shared = "slurm.conf /shared/etc/slurm.conf"
    bench.shells["n1"].rules["readlink"] = f"{shared} /shared/etc/slurm.conf\n"
    test_configuration.test_files_are_links_to_the_shared_directory(bench.hosts["n1"], *rest)
    bench.shells["n2"].rules["readlink"] = f"{shared} /etc/slurm/slurm.conf\n"
    with pytest.raises(Drifted, match=r"slurm\.conf in /etc/slurm is no link to a file in /shared/etc.* --hosts n2"):
        test_configuration.test_files_are_links_to_the_shared_directory(bench.hosts["n2"], *rest)


def test_a_hostname_other_than_the_locks_is_named_with_the_repair(bench: Bench) -> None:
    bench.shells["n1"].rules["kernel/hostname"] = "N1.example.org\n"
    test_identity.test_hostname_is_the_clusters(bench.hosts["n1"], bench.known.lock)
    bench.shells["n2"].rules["kernel/hostname"] = "other\n"
    with pytest.raises(AssertionError, match=r"hostname is other, .* as n2, .* Repair: hostnamectl set-hostname n2"):
        test_identity.test_hostname_is_the_clusters(bench.hosts["n2"], bench.known.lock)


def test_name_of_a_host_that_never_answered_may_lead_nowhere(bench: Bench) -> None:
    bench.shells["n1"].rules["getent ahosts"] = "ctl 10.0.0.1\nn1 10.0.0.2\n"
    seen = {name: host for name, host in bench.known.lock.hosts.items() if name != "n2"}
    test_identity.test_names_resolve(bench.hosts["n1"], bench.known.cluster, replace(bench.known.lock, hosts=seen))
    with pytest.raises(AssertionError, match=r"n2 does not resolve\. Repair: fab deploy --hosts n1"):
        test_identity.test_names_resolve(bench.hosts["n1"], bench.known.cluster, bench.known.lock)


def test_a_name_that_slurm_alone_uses_may_lead_nowhere_without_our_block_of_hosts(bench: Bench) -> None:
    bench.shells["n1"].rules["getent ahosts"] = "ctl 10.0.0.1\nn1 10.0.0.2\n"
    lock = bench.known.lock
    other = replace(lock, hosts={**lock.hosts, "n2": replace(lock.hosts["n2"], hostname="rack7")})
    without = bench.known.cluster.model_copy(update={"hosts_file": False})
    test_identity.test_names_resolve(bench.hosts["n1"], without, other)
    for cluster, known in ((without, lock), (bench.known.cluster, other)):
        with pytest.raises(AssertionError, match="n2 does not resolve"):
            test_identity.test_names_resolve(bench.hosts["n1"], cluster, known)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        ("Invalid credential (15)", "different keys"),
        ("Expired credential (15)", "clocks differ"),
        ("Rewound credential (16)", "clocks differ"),
        ("", "Repair: fab deploy --hosts n1"),
    ],
)
def test_credential_that_is_not_believed_is_told_with_its_cause(bench: Bench, status: str, advice: str) -> None:
    said = f"STATUS:  {status}\n".encode() if status else b""
    bench.shells["n1"].rules["unmunge"] = CommandResult(15, said, b"unmunge: Error: broken\n")
    with pytest.raises(AssertionError, match="n1 rejects a credential from ctl") as caught:
        test_munge.test_credential_of_the_controller_is_believed(bench.hosts["n1"], bench.hosts["ctl"])
    assert advice in str(caught.value)
    assert "MUNGE:x:" not in str(caught.value)


def test_credential_travels_on_standard_input_alone(bench: Bench) -> None:
    test_munge.test_controller_believes_the_credential(bench.hosts["n1"], bench.hosts["ctl"])
    assert "MUNGE:x:\n" in bench.shells["ctl"].inputs
    assert not any("MUNGE:" in command for shell in bench.shells.values() for command in shell.commands)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ("aa  slurm.conf\nbb  cgroup.conf\n", ""),
        ("ee  slurm.conf\nbb  cgroup.conf\n", "slurm.conf differs from ctl's. Repair: fab deploy --hosts n1"),
        ("aa  slurm.conf\n", "cgroup.conf is missing, unlike ctl's"),
        ("aa  slurm.conf\nbb  cgroup.conf\ncc  gres.conf\n", "gres.conf exists here but not on ctl"),
    ],
)
def test_files_are_compared_with_the_controllers(bench: Bench, theirs: str, words: str) -> None:
    bench.shells["ctl"].rules["sha256sum slurm.conf"] = "aa  slurm.conf\nbb  cgroup.conf\n"
    bench.shells["n1"].rules["sha256sum slurm.conf"] = theirs
    if not words:
        compare_files(bench)
        return
    with pytest.raises(AssertionError) as caught:
        compare_files(bench)
    assert words in str(caught.value)


def hashes_of(texts: Mapping[str, str]) -> str:
    """What sha256sum prints of these files."""
    return "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in texts.items())


def compare_files(bench: Bench) -> None:
    """Compare n1's files with the controller's."""
    hosts, known = bench.hosts, bench.known
    test_configuration.test_files_are_the_controllers(hosts["n1"], hosts["ctl"], hosts, known.cluster, known.lock)


@pytest.mark.parametrize(("slurm", "is_told"), [("22.05.8", False), ("24.11.5", True)])
def test_a_hand_made_file_is_newer_than_its_daemon_only_where_a_reconfigure_renews_that(
    bench: Bench, slurm: str, is_told: bool
) -> None:
    known = replace(bench.known, lock=replace(bench.known.lock, slurm=slurm))
    made = {name: re.sub("(?m)^#.*\n", "", text) for name, text in files(known.cluster, known.lock).items()}
    lines = "".join(f"{name} {b64encode(text.encode()).decode()}\n" for name, text in made.items())
    for host in ("ctl", "n1"):
        bench.shells[host].rules["base64 -w0"] = lines
    bench.shells["n1"].rules |= daemons_of(changes="600.5 /etc/slurm/slurm.conf")
    if not is_told:
        slurmd_has_its_files(bench, slurm)
        return
    with pytest.raises(Drifted):
        slurmd_has_its_files(bench, slurm)


@pytest.mark.parametrize(
    ("main", "gres", "words"),
    [
        ("", "Name=gpu File=/dev/nvidia[0-1]\n", ""),
        ("", "Name=gpu File=/dev/nvidia0\n", "gres.conf differs from ctl's"),
        ("# Made by slurmfab\n", "Name=gpu File=/dev/nvidia[0-1]\n", "gres.conf differs from ctl's"),
        ("SlurmdTimeout=7\n", "Name=gpu File=/dev/nvidia[0-1]\n", "gres.conf differs from ctl's"),
    ],
)
def test_a_nodes_own_gres_conf_is_right_where_files_are_hand_made_and_it_says_the_same(
    bench: Bench, main: str, gres: str, words: str
) -> None:
    wanted = files(bench.known.cluster, bench.known.lock)
    bare = {name: re.sub("(?m)^#.*\n", "", text) for name, text in wanted.items()}
    shown = {"ctl": {**bare, "slurm.conf": main + bare["slurm.conf"] + main}, "n1": {**bare, "gres.conf": gres}}
    shown["n1"]["slurm.conf"] = shown["ctl"]["slurm.conf"]
    for host, texts in shown.items():
        bench.shells[host].rules["sha256sum slurm.conf"] = hashes_of(texts)
        lines = (f"{name} {b64encode(text.encode()).decode()}\n" for name, text in texts.items())
        bench.shells[host].rules["base64 -w0"] = "".join(lines)
    if not words:
        compare_files(bench)
        test_configuration.test_files_are_as_the_cluster_file_says(
            bench.hosts["ctl"], bench.known.cluster, bench.known.lock
        )
        return
    with pytest.raises(Drifted, match=words):
        compare_files(bench)


def compare_with_slurmctld(bench: Bench) -> None:
    """Compare n1's slurm.conf with the one that slurmctld has loaded."""
    hosts, known = bench.hosts, bench.known
    test_configuration.test_slurmctld_runs_with_this_file(hosts["n1"], hosts["ctl"], hosts, known.cluster, known.lock)


def test_configuration_that_slurmctld_has_not_read_is_told(bench: Bench) -> None:
    bench.shells["n1"].rules["scontrol show config"] = "HASH_VAL = Different Ours=0x1 Slurmctld=0x2\n"
    with pytest.raises(Drifted, match="slurmctld runs with an older file") as older:
        compare_with_slurmctld(bench)
    assert older.value.kind == "older file loaded"
    bench.shells["n1"].rules["sha256sum slurm.conf"] = "ee  slurm.conf\n"
    with pytest.raises(Drifted, match="nor the one on the controller's disk") as changed:
        compare_with_slurmctld(bench)
    assert changed.value.kind == "changed file"


def test_files_on_the_controller_are_compared_with_the_cluster_file(bench: Bench) -> None:
    cluster, lock = bench.known.cluster, bench.known.lock
    test_configuration.test_files_are_as_the_cluster_file_says(bench.hosts["ctl"], cluster, lock)
    bench.shells["ctl"].rules["sha256sum slurm.conf"] = "ee  slurm.conf\n"
    with pytest.raises(Drifted, match=r"slurm\.conf differs from the cluster file; cgroup\.conf is missing"):
        test_configuration.test_files_are_as_the_cluster_file_says(bench.hosts["ctl"], cluster, lock)
    with pytest.raises(Skipped, match="nothing has been deployed yet"):
        test_configuration.test_files_are_as_the_cluster_file_says(bench.hosts["ctl"], cluster, Lock())


@pytest.mark.parametrize("shown", ["", "slurmd: error: no such file\n", "welcome\nNodeName=n1 CPUs=0 Boards=1\n"])
def test_hardware_that_slurmd_does_not_tell_is_no_other_hardware_and_not_to_be_accepted(
    bench: Bench, shown: str
) -> None:
    bench.shells["n1"].rules["slurmd -C"] = shown
    with pytest.raises(AssertionError, match="`slurmd -C` does not say what the node has") as caught:
        test_nodes.test_hardware_is_the_locks(bench.hosts["n1"], bench.known.lock, bench.known.cluster, bench.slurm)
    assert "accept" not in str(caught.value)
    assert kind_of(caught.value) == ""


def test_hardware_that_is_gone_is_told_in_the_words_of_slurmd(bench: Bench) -> None:
    bench.shells["n1"].rules["slurmd -C"] = (
        "NodeName=n1 CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=4000\n"
    )
    with pytest.raises(AssertionError, match=r"the node has 4000 MiB of memory, but slurm.conf says 7700"):
        test_nodes.test_hardware_is_the_locks(bench.hosts["n1"], bench.known.lock, bench.known.cluster, bench.slurm)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ("CPUs=4 RealMemory=16000", "RealMemory is 16000 instead of 8000"),
        ("CPUs=2 RealMemory=8000", "CPUs is 2 instead of 4"),
        ("CPUs=4 RealMemory=8010", ""),
    ],
)
def test_hardware_that_is_other_is_drift_with_the_way_to_accept_it(bench: Bench, shown: str, words: str) -> None:
    layout = "Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=2"
    bench.shells["n1"].rules["slurmd -C"] = f"NodeName=n1 {layout} {shown}\n"
    arguments = (bench.hosts["n1"], bench.known.lock, bench.known.cluster, bench.slurm)
    if not words:
        test_nodes.test_hardware_is_the_locks(*arguments)
        return
    with pytest.raises(Drifted, match=words) as caught:
        test_nodes.test_hardware_is_the_locks(*arguments)
    assert caught.value.kind == "other hardware"
    assert str(caught.value).endswith("if the change is intended: fab accept-hardware n1")


def test_node_that_slurm_took_out_for_its_hardware_is_drift_and_another_is_not(bench: Bench) -> None:
    for reason, kind in (
        ("Low RealMemory (reported:7000 < 100.00% of configured:7700)", "other hardware"),
        ("fan", ""),
    ):
        bench.shells["ctl"].rules["scontrol .*show node "] = f"NodeName=n1 State=IDLE+DRAIN Reason={reason}"
        with pytest.raises(AssertionError, match="its state in Slurm is IDLE") as caught:
            test_nodes.test_node_takes_jobs(bench.hosts["n1"], bench.slurm)
        assert kind_of(caught.value) == kind


@pytest.mark.parametrize(
    ("has_ecores", "words", "repair"),
    [
        (True, "slurmd counts only with slurm_conf: {SlurmdParameters: allow_ecores}", "which takes slurmd's count"),
        (False, "has less than slurm.conf says", "fab accept-hardware n1"),
    ],
)
def test_node_that_registered_with_fewer_processors_when_it_has_efficiency_cores_then_the_repair_is_a_deployment(
    bench: Bench, has_ecores: bool, words: str, repair: str
) -> None:
    reason = "Low socket*core*thread count, Low CPUs"
    bench.shells["ctl"].rules["scontrol .*show node "] = f"NodeName=n1 State=IDLE+DRAIN+INVALID_REG Reason={reason}"
    bench.shells["n1"].rules["test -e /sys/devices/cpu_atom/cpus"] = CommandResult(0 if has_ecores else 1, b"", b"")
    with pytest.raises(Drifted, match=words) as caught:
        test_nodes.test_node_takes_jobs(bench.hosts["n1"], bench.slurm)
    assert str(caught.value).endswith(repair)


def test_hardware_when_parameters_of_slurmd_make_other_sockets_then_is_compared_without_them(bench: Bench) -> None:
    layout = "CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=8000"
    bench.shells["n1"].rules["slurmd -C"] = f"NodeName=n1 {layout}\n"
    lock, cluster = bench.known.lock, bench.known.cluster
    whole = lock.hosts["n1"].hardware
    assert whole is not None
    regrouped = replace(whole, SocketsPerBoard=2, CoresPerSocket=1)
    lock = replace(lock, hosts={**lock.hosts, "n1": replace(lock.hosts["n1"], hardware=regrouped, kernel=whole)})
    with pytest.raises(Drifted):
        test_nodes.test_hardware_is_the_locks(bench.hosts["n1"], lock, cluster, bench.slurm)
    with_parameters = cluster.model_copy(update={"slurm_conf": {"SlurmdParameters": "l3cache_as_socket"}})
    test_nodes.test_hardware_is_the_locks(bench.hosts["n1"], lock, with_parameters, bench.slurm)


def keyed(bench: Bench, *, key_on_n1: str = "cc", status: str = "Success (0)", started_before: bool = True) -> None:
    """Munge on n1: the key in the file, what ctl says to its credentials, and whether munged is older than the file."""
    bench.shells["n1"].rules["sha256sum .*munge.key"] = f"{key_on_n1}\n"
    bench.shells["ctl"].rules["unmunge"] = f"STATUS: {status}\n"
    changes = f"{700.0 if started_before else 500.0} /etc/munge/munge.key"
    bench.shells["n1"].rules |= daemons_of(changes=changes)


def test_munged_that_is_older_than_its_right_key_has_not_loaded_it_and_the_proof_is_told(bench: Bench) -> None:

    def look() -> None:
        test_daemons.test_munged_has_its_key(bench.hosts["n1"], bench.hosts["ctl"])

    keyed(bench, status="Invalid credential (15)")
    with pytest.raises(
        Drifted, match=r"munged was started before the last change of .*ctl rejects its credentials"
    ) as caught:
        look()
    assert caught.value.kind == "key not loaded"
    keyed(bench)
    with pytest.raises(Drifted, match="ctl still accepts its credentials"):
        look()
    keyed(bench, key_on_n1="ee")
    with pytest.raises(Skipped, match="differs from ctl's"):
        look()
    keyed(bench, started_before=False)
    look()


def test_credential_that_is_not_believed_tells_a_key_that_was_not_loaded_from_one_that_was_changed(
    bench: Bench,
) -> None:
    for key, kind in (("cc", "key not loaded"), ("ee", "changed file")):
        keyed(bench, key_on_n1=key, status="Invalid credential (15)")
        with pytest.raises(Drifted, match="ctl rejects a credential from n1") as caught:
            test_munge.test_controller_believes_the_credential(bench.hosts["n1"], bench.hosts["ctl"])
        assert caught.value.kind == kind


def test_a_changed_file_an_older_one_and_other_hardware_are_words_of_their_own_in_json(bench: Bench) -> None:
    bench.shells["n1"].rules |= daemons_of(changes="700.0 /etc/slurm/slurm.conf")
    with pytest.raises(Drifted) as older:
        slurmd_has_its_files(bench)
    assert older.value.kind == "older file loaded"
    bench.shells["n1"].rules["test -c"] = ""
    with pytest.raises(Drifted, match="/dev/nvidia0 is gone") as gone:
        test_gpus.test_gpus_are_there(bench.hosts["n1"], bench.known.lock)
    assert gone.value.kind == "other hardware"


def test_job_that_failed_is_told_in_its_own_last_words(bench: Bench) -> None:
    bench.shells["ctl"].rules["srun .*uname -n"] = refusal(
        "sh: uname: not found\nsrun: error: n1: task 0: Exited with exit code 127"
    )
    with pytest.raises(AssertionError, match=r"the job failed: sh: uname: not found\. Repair:"):
        test_jobs.test_job_runs(bench.hosts["n1"], bench.slurm, bench.known.lock)


def test_job_without_room_beside_other_jobs_is_left_out_and_not_tried_again(bench: Bench) -> None:
    bench.shells["ctl"].rules["srun .*uname -n"] = refusal(
        "srun: error: Unable to allocate resources: Requested nodes are busy"
    )
    bench.shells["ctl"].rules["^squeue"] = lambda command: "" if "--name=" in command else "41\n"
    slurm = bench.slurm
    for _ in range(2):
        with pytest.raises(Skipped, match=r"n1 had no room beside other jobs \(41\)"):
            test_jobs.test_job_runs(bench.hosts["n1"], slurm, bench.known.lock)
    assert sum("srun" in command for command in bench.shells["ctl"].commands) == 1


TURN = "--reservation=slurmfab-check-"


@pytest.mark.parametrize(
    ("waiting", "refused", "passes"), [("41\n", "", True), ("", "", False), ("41\n", "scontrol: error: denied", False)]
)
def test_test_jobs_when_jobs_of_users_wait_then_pass_them_by_a_reservation_that_ends_with_the_checks(
    bench: Bench, waiting: str, refused: str, passes: bool
) -> None:
    rules, commands = bench.shells["ctl"].rules, bench.shells["ctl"].commands
    rules["^squeue"] = lambda command: waiting if "--states=PENDING" in command and "--name=" not in command else ""
    rules["^sinfo .*--states=idle,mixed"] = "n2\nn1\n"
    rules["create reservation .*Nodes=n2 CoreCnt=1 .*Flags=IGNORE_JOBS,FLEX"] = refusal(refused) if refused else ""
    slurm = bench.slurm
    for node in ("n1", "n2"):
        test_jobs.test_job_runs(bench.hosts[node], slurm, bench.known.lock)
    slurm.cancel()
    assert sum("create reservation" in command for command in commands) == (waiting != "")
    assert sum(TURN in command for command in commands if "srun" in command) == 2 * passes
    assert any("delete ReservationName=slurmfab-check-" in command for command in commands) == passes


def test_test_jobs_when_slurmctld_is_gone_before_they_know_who_waits_then_are_cancelled_all_the_same(
    bench: Bench,
) -> None:
    bench.shells["ctl"].rules["^squeue"] = refusal("slurm_load_jobs error: Unable to contact slurm controller")
    slurm = bench.slurm
    with pytest.raises(AssertionError, match="squeue"):
        test_jobs.test_job_runs(bench.hosts["n1"], slurm, bench.known.lock)
    slurm.cancel()
    assert any("scancel" in command for command in bench.shells["ctl"].commands)


@pytest.mark.parametrize(
    ("printed", "state", "waiting", "jobs"),
    [
        ("job on n2: n2 0 1\njob on n1: n1 0 1\n", "IDLE CPUAlloc=0", "", ["n[1-2]"]),
        ("job on n2: n2 0 1\n", "IDLE CPUAlloc=0", "", ["n[1-2]", "n1"]),
        ("srun: error: n1 does not answer", "IDLE CPUAlloc=0", "", ["n[1-2]", "n1", "n2"]),
        ("", "IDLE+DRAIN CPUAlloc=0", "", ["n1", "n2"]),
        ("", "ALLOCATED CPUAlloc=4", "", ["n1", "n2"]),
        ("", "IDLE CPUAlloc=0", "41\n", ["n1", "n2"]),
    ],
    ids=["all-tell", "one-is-silent", "it-fails", "one-is-drained", "one-is-full", "users-wait"],
)
def test_nodes_when_one_job_runs_on_all_of_them_then_only_those_that_told_nothing_have_another(
    bench: Bench, printed: str, state: str, waiting: str, jobs: list[str]
) -> None:
    rules = bench.shells["ctl"].rules
    shown = "".join(f"NodeName={one} CPUTot=4 State={words}\n" for one, words in (("n1", "IDLE"), ("n2", state)))
    rules["^squeue"] = lambda command: waiting if "--states=PENDING" in command and "--name=" not in command else ""
    rules["^sinfo .*--states=idle,mixed"] = "n2\nn1\n"
    rules["create reservation"] = ""
    bench.shells["ctl"].rules = {"oneliner show node$": shown, "srun .*n.1-2": printed, **rules}
    slurm = bench.slurm
    slurm.sound_nodes = lambda: ("n1", "n2")
    for node in ("n1", "n2"):
        test_jobs.test_job_runs(bench.hosts[node], slurm, bench.known.lock)
        test_jobs.test_jobs_do_not_ignore_sigpipe(bench.hosts[node], slurm)
    ran = [found[1] for line in bench.shells["ctl"].commands if (found := re.search(r"--nodelist=(\S+?)'? ", line))]
    assert [one.strip("'") for one in ran] == jobs


def test_job_that_slurm_refuses_without_other_jobs_in_the_way_has_failed(bench: Bench) -> None:
    bench.shells["ctl"].rules["srun .*uname -n"] = refusal("srun: error: Unable to allocate resources: Invalid account")
    with pytest.raises(AssertionError, match="does not run a job there: Unable to allocate resources: Invalid account"):
        test_jobs.test_job_runs(bench.hosts["n1"], bench.slurm, bench.known.lock)


def test_a_job_that_slurm_refuses_where_the_site_has_a_submit_plugin_then_the_plugin_is_named(bench: Bench) -> None:
    bench.shells["ctl"].rules["srun .*uname -n"] = refusal("srun: error: Unable to allocate resources: Unspecified")
    slurm = bench.slurm
    slurm.cluster = slurm.cluster.model_copy(update={"slurm_conf": {"JobSubmitPlugins": "lua"}})
    with pytest.raises(AssertionError, match="JobSubmitPlugins: lua, which can refuse jobs of slurm"):
        test_jobs.test_job_runs(bench.hosts["n1"], slurm, bench.known.lock)


@pytest.mark.parametrize(
    ("reason", "outcome", "words"),
    [
        ("Resources", Skipped, r"n1 had no room beside other jobs \(41\) for 45 s\. Slurm's reason: Resources\."),
        (
            "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
            Skipped,
            r"n1 had no room beside other jobs \(41\) for 45 s\. Slurm's reason: Nodes required for job are",
        ),
        (
            "ReqNodeNotAvail,_May_be_reserved_for_other_job",
            Skipped,
            r"n1 had no room beside other jobs \(41\) for 45 s\. Slurm's reason: ReqNodeNotAvail, May be reserved",
        ),
        ("ReqNodeNotAvail,_UnavailableNodes:n1", AssertionError, r"Slurm's reason: ReqNodeNotAvail, Unavailable"),
        ("None", Skipped, r"n1 had no room beside other jobs \(41\) for 45 s\."),
        ("QOSGrpCpuLimit", Skipped, r"a limit holds the job of slurm\. Slurm's reason: QOSGrpCpuLimit\."),
        ("AssocGrpNodeLimit", Skipped, r"a limit holds the job of slurm\. Slurm's reason: AssocGrpNodeLimit\."),
        (
            "PartitionDown",
            AssertionError,
            r"busy\. Slurm's reason: PartitionDown\. Repair: scontrol update PartitionName=slurmfab State=UP",
        ),
        ("BadConstraints", AssertionError, r"busy\. Slurm's reason: BadConstraints\. Repair: see .*slurmctld.log"),
    ],
)
def test_a_job_that_waited_is_told_with_slurms_own_reason(
    bench: Bench, reason: str, outcome: type[BaseException], words: str
) -> None:
    bench.shells["ctl"].rules["srun .*uname -n"] = refusal(
        "srun: job 7 queued and waiting for resources\n"
        "srun: error: Unable to allocate resources: Requested nodes are busy"
    )
    answers = {"--format=%r": f"{reason}\n", "--name=": ""}
    bench.shells["ctl"].rules["^squeue"] = lambda command: next(
        (shown for words, shown in answers.items() if words in command), "41\n"
    )
    with pytest.raises(outcome, match=words):
        test_jobs.test_job_runs(bench.hosts["n1"], bench.slurm, bench.known.lock)


def test_a_job_that_waits_behind_jobs_that_have_no_node_yet_has_not_failed(bench: Bench) -> None:
    bench.shells["ctl"].rules["srun .*uname -n"] = refusal(
        "srun: job 7 queued and waiting for resources\n"
        "srun: error: Unable to allocate resources: Requested nodes are busy"
    )
    answers = {"--format=%r": "Resources\n", "--name=": "", "--states=PENDING": "52\n"}
    bench.shells["ctl"].rules["^squeue"] = lambda command: next(
        (shown for words, shown in answers.items() if words in command), ""
    )
    with pytest.raises(Skipped, match=r"n1 had no room beside other jobs \(52\)"):
        test_jobs.test_job_runs(bench.hosts["n1"], bench.slurm, bench.known.lock)
    answers["--states=PENDING"] = ""
    bench.slurm.busy.clear()
    with pytest.raises(AssertionError, match="Slurm's reason: Resources"):
        test_jobs.test_job_runs(bench.hosts["n1"], bench.slurm, bench.known.lock)


def test_a_cluster_without_slurmfabs_partition_is_told_to_be_deployed(bench: Bench) -> None:
    bench.shells["ctl"].rules["srun .*uname -n"] = refusal(
        "srun: error: Unable to allocate resources: Invalid partition name specified"
    )
    with pytest.raises(AssertionError, match=r"Repair: \S+ deploy, which adds the partition slurmfab to slurm.conf"):
        test_jobs.test_job_runs(bench.hosts["n1"], bench.slurm, bench.known.lock)


def test_job_is_bounded_in_time_and_runs_as_slurm(bench: Bench) -> None:
    test_jobs.test_job_runs(bench.hosts["n1"], bench.slurm, bench.known.lock)
    line = next(command for command in bench.shells["ctl"].commands if "srun" in command)
    assert "timeout --kill-after=5 90 runuser -u slurm -- srun" in line
    for word in ("--immediate=45", "--time=2", "--partition=slurmfab", "--nodelist=n1", "--mem=50M"):
        assert word in line.split()


def test_a_node_whose_memory_slurm_does_not_know_is_asked_for_what_slurm_counts_it_for(bench: Bench) -> None:
    rules = bench.shells["ctl"].rules
    rules["scontrol .*show node$"] = str(rules["scontrol .*show node$"]).replace("RealMemory=7700", "RealMemory=1")
    test_jobs.test_job_runs(bench.hosts["n1"], bench.slurm, bench.known.lock)
    line = next(command for command in bench.shells["ctl"].commands if "srun" in command)
    assert "--mem=1M" in line.split()


def test_memory_that_is_not_held_is_told(bench: Bench) -> None:
    bench.shells["ctl"].rules["srun .*/dev/zero"] = f"{400 * 1024 * 1024}\n"
    with pytest.raises(AssertionError, match="a job that requested 200 MiB of memory could use 400 MiB"):
        test_limits.test_memory_is_limited(bench.hosts["n1"], bench.slurm, bench.known.lock, bench.hosts)


def test_memory_that_is_held_ends_the_job_and_passes(bench: Bench) -> None:
    bench.shells["ctl"].rules["srun .*/dev/zero"] = CommandResult(
        1, b"0\n", b"Killed\nsrun: error: task 0: Out Of Memory\n"
    )
    test_limits.test_memory_is_limited(bench.hosts["n1"], bench.slurm, bench.known.lock, bench.hosts)


@pytest.mark.parametrize(
    ("configuration", "words"),
    [
        ("TaskPlugin = task/affinity\n", "no TaskPlugin=task/cgroup"),
        ("TaskPlugin = task/cgroup\nConstrainRAMSpace = no\n", "ConstrainRAMSpace=no"),
        (
            "TaskPlugin = task/cgroup\nConstrainRAMSpace = yes\nSelectTypeParameters = CR_CORE\n",
            "does not track memory",
        ),
    ],
)
def test_memory_is_not_looked_at_where_slurm_is_not_asked_to_hold_it(
    bench: Bench,
    configuration: str,
    words: str,
) -> None:
    bench.shells["ctl"].rules["scontrol show config"] = configuration
    with pytest.raises(DoesNotApply, match=words):
        test_limits.test_memory_is_limited(bench.hosts["n1"], bench.slurm, bench.known.lock, bench.hosts)


@pytest.mark.parametrize(("cpus", "is_held"), [("1", True), ("2", True), ("4", False)])
def test_cores_are_held_when_a_job_gets_one_core_at_most(
    bench: Bench,
    cpus: str,
    is_held: bool,
) -> None:
    bench.shells["ctl"].rules["srun .*uname -n"] = f"job on n1: n1 0 {cpus}\n"
    if is_held:
        test_limits.test_cores_are_limited(bench.hosts["n1"], bench.slurm, bench.known.lock)
        return
    with pytest.raises(AssertionError, match="a job that requested one CPU can use 4 of 4"):
        test_limits.test_cores_are_limited(bench.hosts["n1"], bench.slurm, bench.known.lock)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("visible=0\n/dev/nvidia0 open\n/dev/nvidia1 Operation not permitted\n", ""),
        ("visible=0\n/dev/nvidia0 Operation not permitted\n/dev/nvidia1 No such device or address\n", ""),
        ("visible=0,1\n/dev/nvidia0 open\n/dev/nvidia1 open\n", "was given 2"),
        ("visible=0\n/dev/nvidia0 open\n/dev/nvidia1 open\n", "can open /dev/nvidia0 and /dev/nvidia1 of the node's 2"),
        (
            "visible=0\n/dev/nvidia0 Operation not permitted\n/dev/nvidia1 Operation not permitted\n",
            "can open none of the node's 2",
        ),
        (
            "visible=0\n/dev/nvidia0 Permission denied\n/dev/nvidia1 Operation not permitted\n",
            "file mode of /dev/nvidia0",
        ),
    ],
)
def test_job_with_one_gpu_has_that_one_alone(
    bench: Bench,
    answer: str,
    words: str,
) -> None:
    bench.shells["ctl"].rules["srun .*--gres=gpu:1"] = answer
    if not words:
        test_gpus.test_job_has_the_gpu_that_it_asked_for(bench.hosts["n1"], bench.slurm, bench.known.lock)
        return
    with pytest.raises(AssertionError, match=words):
        test_gpus.test_job_has_the_gpu_that_it_asked_for(bench.hosts["n1"], bench.slurm, bench.known.lock)


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("", 0),
        ("(null)", 0),
        ("gpu", 1),
        ("gpu:2", 2),
        ("gpu:a100", 1),
        ("gpu:a100:4(S:0-1)", 4),
        ("gpu:a100:4,gpu:t4:2,shard:8", 6),
    ],
)
def test_gpus_are_counted_in_every_spelling(gres: str, count: int) -> None:
    assert gpu_count(gres) == count


def test_wanted_things_come_from_the_cluster_file_first(bench: Bench) -> None:
    own = bench.known.cluster.model_copy(update={"slurm_conf": {"slurmctldport": "7000-7003"}})
    assert port(own, "SlurmctldPort") == 7000
    assert port(own, "SlurmdPort") == 6818
    assert gpus_of(bench.known.cluster, bench.known.lock, "n1") == 2


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ((64030, 64030, 64030), ""),
        ((None, None, 64030), "there is no user slurm"),
        ((64030, 64030, None), "there is no group slurm"),
        ((77, 64030, 64030), "UID and GID 77 and 64030 here, but 64030 and 64030"),
        ((64030, 64030, 8), "the group slurm has the GID 8 here, but 64030"),
    ],
)
def test_user_with_other_numbers_is_told_with_both(bench: Bench, there: tuple[Any, Any, Any], words: str) -> None:
    bench.shells["n1"].rules |= account("slurm", *there)
    if not words:
        test_identity.test_user_has_its_ids(bench.hosts["n1"], "slurm", bench.known.lock)
        return
    with pytest.raises(AssertionError, match=words):
        test_identity.test_user_has_its_ids(bench.hosts["n1"], "slurm", bench.known.lock)


FROM = "[1970-01-01T00:10:00.000] slurmctld version 24.11.5 started on cluster tiny\n"
RUNNING = "[1970-01-01T00:10:01.000] Running as primary controller\n"
UNREAD = "[1970-01-01T00:10:00.500] error: Could not open job state file /var/lib/slurm/slurmctld/job_state: Denied\n"
UNSAVED = (
    "[1970-01-01T00:20:00.000] error: Can't save state, error creating file "
    "/var/lib/slurm/slurmctld/node_state.new: Read-only file system\n"
)


@pytest.mark.parametrize(
    ("log", "saved", "words"),
    [
        (FROM + RUNNING, "", ()),
        (FROM + UNREAD + RUNNING, "", ("has_read_its_state",)),
        (FROM + RUNNING + UNREAD, "", ()),
        (FROM + RUNNING + UNSAVED, "1970-01-01 00:19:00.5 +0000 /var/lib/slurm/slurmctld/node_state\n", ("saves",)),
        (FROM + RUNNING + UNSAVED, "1970-01-01 00:21:00.5 +0000 /var/lib/slurm/slurmctld/node_state\n", ()),
        (UNREAD.replace("00:10", "00:01") + UNSAVED.replace("00:20", "00:02"), "", ()),
    ],
)
def test_a_state_that_was_not_read_and_one_that_is_not_saved_are_two_things(
    bench: Bench, log: str, saved: str, words: tuple[str, ...]
) -> None:
    rules = {"^date .*slurmctld.log": f"1970-01-01 00:05:00\n{log}", r"stat --format='%y %n'": saved}
    bench.shells["ctl"].rules = {**rules, **bench.shells["ctl"].rules}
    found = {}
    for name, check in (
        ("has_read_its_state", lambda: test_daemons.test_slurmctld_has_read_its_state(bench.hosts["ctl"])),
        ("saves", lambda: test_daemons.test_slurmctld_saves_its_state(bench.hosts["ctl"], bench.known.cluster)),
    ):
        try:
            check()
        except AssertionError as error:
            found[name] = str(error)
    assert tuple(found) == words
    assert "restore" not in found.get("saves", "")


PODMAN = 'time="2026-11-25T22:00:00Z" level=warning msg="Using cgroups-v1 which is deprecated"\n'


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (f"Error: cannot find image\n{PODMAN}", "Error: cannot find image"),
        (f"{PODMAN}Error: cannot find image.\nsrun: error: n1: task 0: Exited\n", "Error: cannot find image"),
        (PODMAN, PODMAN.strip()),
        ("WARNING: old\nno such file\nNote: more\n", "no such file"),
    ],
)
def test_a_warning_of_a_job_is_not_told_in_place_of_its_error(bench: Bench, stderr: str, words: str) -> None:
    bench.shells["ctl"].rules = {"^a job$": CommandResult(1, b"", stderr.encode())}
    assert job_words(bench.hosts["ctl"].run("a job")) == words


def test_a_job_that_a_limit_can_never_let_start_is_not_run(bench: Bench) -> None:
    error = "srun: error: Unable to allocate resources: Job violates accounting/QOS policy (job submit limit)"
    bench.shells["ctl"].rules = {"srun": refusal(error), **bench.shells["ctl"].rules}
    with pytest.raises(Skipped, match=r"a limit holds the job of slurm\. Slurm says: .*Job violates"):
        bench.slurm.run(("n1",), "true")


def test_a_node_out_of_service_is_told_with_the_errors_of_its_own_slurmd(bench: Bench) -> None:
    down = "NodeName=n1 State=DOWN+DRAIN Reason=Prolog error\n"
    bench.shells["ctl"].rules = {"scontrol .*show node .*n1": down, **bench.shells["ctl"].rules}
    log = "[2026-11-25T22:00:00.000] error: ns base mount failed\n"
    bench.shells["n1"].rules = {"^started=": log, **bench.shells["n1"].rules}
    with pytest.raises(AssertionError, match=r"Its slurmd\.log says: error: ns base mount failed\. Repair: "):
        test_nodes.test_node_takes_jobs(bench.hosts["n1"], bench.slurm)


@pytest.mark.parametrize(("age", "is_in_time"), [(2.0, True), (500.0, False), (None, False)])
def test_a_node_that_registers_when_slurmctld_has_just_started_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, age: float | None, is_in_time: bool
) -> None:
    states = iter(["UNKNOWN", "UNKNOWN", "IDLE"])
    monkeypatch.setattr(test_nodes, "age_of", lambda *_: age)
    monkeypatch.setattr(test_nodes.time, "sleep", lambda _: None)
    slurm = bench.slurm
    monkeypatch.setattr(slurm, "node", lambda name: {"NodeName": name, "State": next(states)})
    found = test_nodes.when_registered(slurm, "n1")
    assert found["State"] == ("IDLE" if is_in_time else "UNKNOWN")
