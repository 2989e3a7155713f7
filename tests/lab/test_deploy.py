"""A deployment on real hosts: what it leaves behind, what it leaves alone, and what it repairs."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, report, succeeded
from lab_user import Person, snapshots, words_of
from stock import shared_in_turn

from slurmfab.cluster.inventory.loading import lock_path
from slurmfab.core.plan.plan import RESTART
from slurmfab.on_hosts.agent.undo.lock_copy import PLACE

pytestmark = pytest.mark.lab

KILLED_DPKG = "; ".join(
    f"sed -i '/^Package: {package}$/,/^$/s/^Status: .*/Status: install {state}/' /var/lib/dpkg/status"
    for package, state in (("libmunge2", "reinstreq half-configured"), ("munge", "reinstreq unpacked"))
)
"""What dpkg leaves when the power goes while it unpacks packages."""
STARTS = "systemctl show -p ExecMainStartTimestampMonotonic slurmctld slurmd munge"


def hosts_of(cluster: DeployedLab) -> list[str]:
    return [host.name for host in cluster.lab.hosts]


def test_every_node_after_a_deployment_is_idle(deployed_lab: DeployedLab) -> None:
    deployed_lab.until("ctl", "sinfo -h -o '%D %t'", "3 idle")


def test_a_job_on_all_nodes_after_a_deployment_runs_on_each(deployed_lab: DeployedLab) -> None:
    assert sorted(deployed_lab.on("ctl", AS_SLURM + "srun -N3 hostname").split()) == [
        "n1",
        "n2",
        "n3",
    ]


def test_a_lock_that_is_lost_then_is_told_by_every_command_and_put_back_as_it_was(deployed_lab: DeployedLab) -> None:
    lock = lock_path(deployed_lab.inventory_path)
    before = lock.read_bytes()
    lock.unlink()
    try:
        for command in ("plan", "deploy", "check-cluster", "status"):
            told = deployed_lab.slurmfab(command)
            assert (told.returncode, "restore-lock" in told.stderr) == (2, True), told.stderr
            assert "accept" not in told.stderr
        succeeded(deployed_lab.slurmfab("restore-lock"))
        assert lock.read_bytes() == before
        assert deployed_lab.slurmfab("plan").returncode == 0
    finally:
        lock.write_bytes(before)


def test_a_lock_that_is_lost_with_its_records_then_is_the_controllers_copy_after_its_key_was_compared(
    deployed_lab: DeployedLab,
) -> None:
    lock = lock_path(deployed_lab.inventory_path)
    before, records = lock.read_bytes(), lock.with_name(f"{deployed_lab.inventory_path.stem}.runs")
    changed = json.loads(before)
    changed["hosts"]["n1"]["addresses"] = []
    lock.write_text(json.dumps(changed))
    deployed_lab.deploy()  # this run has a lock to write, and nothing else
    before = lock.read_bytes()
    assert deployed_lab.on("ctl", f"stat -c '%a %U' {PLACE}") == "600 root"
    lock.unlink()
    aside = records.rename(records.with_suffix(".aside"))
    try:
        assert "restore-lock --from-controller" in deployed_lab.slurmfab("restore-lock").stderr
        unknown = deployed_lab.slurmfab("restore-lock", "--from-controller")
        shown = deployed_lab.on("ctl", "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
        assert (unknown.returncode, shown in unknown.stderr, "accept" in unknown.stderr) == (1, True, False)
        wrong = deployed_lab.slurmfab("restore-lock", "--from-controller", "--fingerprint", shown[:-1])
        assert (wrong.returncode, lock.exists()) == (1, False), wrong.stderr
        done = deployed_lab.slurmfab("restore-lock", "--from-controller", "--fingerprint", shown)
        assert (done.returncode, lock.read_bytes() == before) == (0, True), done.stdout + done.stderr
        assert deployed_lab.slurmfab("plan").returncode == 0
    finally:
        lock.write_bytes(before)
        aside.rename(records)


def test_a_lock_that_is_lost_with_its_records_then_is_asked_for_where_the_controllers_key_is_known(
    deployed_lab: DeployedLab, tmp_path: Path
) -> None:
    lock = lock_path(deployed_lab.inventory_path)
    before, records = lock.read_bytes(), lock.with_name(f"{deployed_lab.inventory_path.stem}.runs")
    ann, cluster = Person.at(tmp_path), ("--cluster", str(deployed_lab.inventory_path))
    ann.has_seen(deployed_lab.lab, *hosts_of(deployed_lab))
    lock.unlink()
    aside = records.rename(records.with_suffix(".aside"))
    try:
        for command in ("plan", "deploy"):
            told = ann.slurmfab(command, *cluster)
            assert (told.returncode, "ctl has a copy" in told.stderr) == (2, True), told.stderr
        code, shown = ann.at_a_terminal("n\n", "restore-lock", *cluster)
        assert (code, "may have a copy" in shown, lock.exists()) == (2, True, False), shown
        code, shown = ann.at_a_terminal("y\n", "restore-lock", *cluster)
        assert (code, "Ask ctl, the controller, for its copy? [y/N]" in shown) == (0, True), shown
        assert json.loads(lock.read_bytes()) == json.loads(before)
        assert ann.slurmfab("plan", *cluster).returncode == 0
    finally:
        lock.write_bytes(before)
        shutil.rmtree(records, ignore_errors=True)
        aside.rename(records)


def test_users_after_a_deployment_have_the_same_numbers_everywhere(deployed_lab: DeployedLab) -> None:
    seen = {deployed_lab.on(host, "id slurm; id munge") for host in hosts_of(deployed_lab)}
    assert len(seen) == 1
    assert "uid=64030(slurm) gid=64030(slurm)" in seen.pop()


def test_slurm_conf_after_a_deployment_is_byte_for_byte_the_same_everywhere(deployed_lab: DeployedLab) -> None:
    command = "sha256sum /etc/slurm/slurm.conf /etc/slurm/cgroup.conf /etc/slurm/gres.conf"
    assert len({deployed_lab.on(host, command) for host in hosts_of(deployed_lab)}) == 1


def test_the_munge_key_after_a_deployment_is_the_controllers_and_munges_alone(deployed_lab: DeployedLab) -> None:
    command = "sha256sum /etc/munge/munge.key; stat -c '%U:%G %a' /etc/munge/munge.key"
    seen = {deployed_lab.on(host, command) for host in hosts_of(deployed_lab)}
    assert len(seen) == 1
    assert seen.pop().endswith("munge:munge 400")


def test_the_slurm_user_after_a_deployment_logs_in_from_the_controller_without_being_asked_and_not_back(
    deployed_lab: DeployedLab,
) -> None:
    ssh = "runuser -u slurm -- ssh -o BatchMode=yes -o StrictHostKeyChecking=yes"
    for node in ("n1", "n2", "n3"):
        assert deployed_lab.on("ctl", f"{ssh} {node} hostname") == node
        assert "Permission denied" in deployed_lab.on(node, f"{ssh} ctl hostname 2>&1 || :")


def test_a_second_deployment_changes_nothing_not_even_a_time_stamp(deployed_lab: DeployedLab) -> None:
    hosts = hosts_of(deployed_lab)
    deployed_lab.deploy()
    before = snapshots(deployed_lab, *hosts), {host: deployed_lab.on(host, STARTS) for host in hosts}
    told = deployed_lab.deploy()
    assert told["steps"] == []
    assert (snapshots(deployed_lab, *hosts), {host: deployed_lab.on(host, STARTS) for host in hosts}) == before


def test_a_plan_of_an_untouched_cluster_says_that_nothing_would_change(deployed_lab: DeployedLab) -> None:
    done = deployed_lab.slurmfab("plan")
    assert (done.returncode, "nothing would be changed" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("host", "breakage", "proof", "expected"),
    [
        ("n1", "systemctl stop slurmd", "systemctl is-active slurmd", "active"),
        ("n2", "systemctl disable slurmd", "systemctl is-enabled slurmd", "enabled"),
        ("n1", "echo '# edited' >>/etc/slurm/slurm.conf", "grep -c edited /etc/slurm/slurm.conf", "0"),
        ("ctl", "echo '# edited' >>/etc/slurm/slurm.conf", "grep -c edited /etc/slurm/slurm.conf", "0"),
        ("n3", "systemctl stop munge", "systemctl is-active munge", "active"),
        ("n2", "chmod 440 /etc/munge/munge.key", "stat -c %a /etc/munge/munge.key", "400"),
        ("ctl", "systemctl stop slurmctld", "systemctl is-active slurmctld", "active"),
        ("n1", "sed -i /slurmfab/,/slurmfab/d /etc/hosts", "getent hosts n3 | wc -l", "1"),
        ("n2", KILLED_DPKG, "dpkg --audit | wc -c; systemctl is-active munge", "0\nactive"),
        ("n3", "rm -rf /var/lib/slurm/home/.ssh", "ls /var/lib/slurm/home/.ssh | wc -l", "3"),
    ],
)
def test_what_somebody_broke_is_planned_and_then_repaired(
    deployed_lab: DeployedLab, host: str, breakage: str, proof: str, expected: str
) -> None:
    deployed_lab.on(host, breakage)
    assert deployed_lab.slurmfab("plan").returncode == 4
    deployed_lab.deploy()
    assert deployed_lab.on(host, proof, check=False) == expected
    assert deployed_lab.slurmfab("plan").returncode == 0
    deployed_lab.until("ctl", "sinfo -h -o '%D %t'", "3 idle")


def test_another_munge_key_on_a_node_is_replaced_and_loaded(deployed_lab: DeployedLab) -> None:
    deployed_lab.on("n2", "head -c 128 /dev/urandom >/etc/munge/munge.key && systemctl restart munge")
    said = words_of(deployed_lab.slurmfab("deploy"))
    assert "n2: it has another munge key than ctl, and gets that one; unless it was away" in said, said
    credential = deployed_lab.on("ctl", "munge -n")
    assert "Success" in deployed_lab.on("n2", f"echo '{credential}' | unmunge")


def test_another_munge_key_on_the_controller_then_the_plan_tells_which_hosts_would_get_it(
    deployed_lab: DeployedLab,
) -> None:
    key = "/etc/munge/munge.key"
    deployed_lab.on("ctl", f"cp -p {key} /root/right && head -c 128 /dev/urandom >{key}")
    try:
        said = words_of(deployed_lab.slurmfab("plan"))
    finally:
        deployed_lab.on("ctl", f"cp -p /root/right {key} && systemctl restart munge")
    assert "n[1-3]: it has another munge key than ctl, and gets that one" in said, said
    deployed_lab.deploy()


def test_a_changed_value_reaches_the_daemons_while_a_job_runs(deployed_lab: DeployedLab) -> None:
    job = deployed_lab.on("ctl", AS_SLURM + "sbatch --parsable -N2 -o /dev/null --wrap 'srun sleep 600'")
    deployed_lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    text = deployed_lab.inventory_path.read_text()
    deployed_lab.inventory_path.write_text(text + "slurm_conf: {KillWait: 42}\n")
    try:
        deployed_lab.deploy()
        deployed_lab.until("ctl", "scontrol show config | awk '$1 == \"KillWait\" {print $3}'", "42")
        assert deployed_lab.on("ctl", f"squeue -h -j {job} -o %T") == "RUNNING"
        for host in hosts_of(deployed_lab):
            assert "Match" in deployed_lab.on(host, "scontrol show config | grep HASH_VAL")
    finally:
        deployed_lab.inventory_path.write_text(text)
        deployed_lab.deploy()
        deployed_lab.on("ctl", f"scancel {job}")
        deployed_lab.until("ctl", "sinfo -h -o '%D %t'", "3 idle")


def of_phases(steps: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Phase and host of each step, but for what follows new files of Slurm."""
    return {(step["phase"], step["host"]) for step in steps if step["phase"] not in RESTART}


@shared_in_turn("deployed_lab", "deploy")
def test_a_deployment_of_some_phases_changes_these_alone_tells_the_others_and_is_undone_alone(
    deployed_lab: DeployedLab,
) -> None:
    cluster, hosts = deployed_lab, hosts_of(deployed_lab)
    killwait = "scontrol show config | awk '$1 == \"KillWait\" {print $3}'"
    edited = "/etc/ssh/ssh_known_hosts"
    text = cluster.inventory_path.read_text()
    cluster.on("n1", f"sed -i '/BEGIN slurmfab host keys/a # by hand' {edited}")
    cluster.on("n2", "head -c 128 /dev/urandom >/etc/munge/munge.key && systemctl restart munge")
    cluster.inventory_path.write_text(text + "slurm_conf: {KillWait: 43}\n")
    try:
        sums = {host: cluster.on(host, f"sha256sum {edited} /etc/slurm/*.conf") for host in hosts}
        starts = {host: cluster.on(host, STARTS) for host in ("ctl", "n1", "n3")}
        done = succeeded(cluster.slurmfab("deploy", "--only", "munge-key", "--json", "-"))
        told = json.loads(done.stdout)
        assert of_phases(told["steps"]) == {("munge", "n2")}
        left = {("ssh", "n1"), *(("slurm.conf", host) for host in hosts)}
        assert of_phases(told["others"]) == left
        assert "munge-key as wanted, other phases are not (" in done.stderr
        assert re.search(r"n1: +\d changes \(ssh, slurm\.conf", done.stderr)
        assert told["slurm_conf"] == []
        assert "Success" in cluster.on("n2", f"echo '{cluster.on('ctl', 'munge -n')}' | unmunge")
        cluster.until("ctl", "sinfo -h -o '%D %t'", "3 idle")
        assert {host: cluster.on(host, f"sha256sum {edited} /etc/slurm/*.conf") for host in hosts} == sums

        told = report(cluster.slurmfab("deploy", "--only", "munge-key", "--json", "-"))
        assert (told["steps"], of_phases(told["others"])) == ([], left)
        assert {host: cluster.on(host, STARTS) for host in starts} == starts

        shown = json.loads(ended(cluster.slurmfab("plan", "--only", "slurm-conf", "--json", "-"), 4).stdout)
        assert of_phases(shown["others"]) == {("ssh", "n1")}
        assert [one["name"] for one in shown["slurm_conf"]] == ["KillWait"]
        told = report(cluster.slurmfab("deploy", "--only", "slurm-conf", "--json", "-"))
        assert of_phases(told["steps"]) == {("slurm.conf", host) for host in hosts}
        assert of_phases(told["others"]) == {("ssh", "n1")}
        cluster.until("ctl", killwait, "43")
        for host in hosts:
            assert "Match" in cluster.on(host, "scontrol show config | grep HASH_VAL")
        assert "# by hand" in cluster.on("n1", f"cat {edited}")
        told = report(cluster.slurmfab("deploy", "--only", "gres-conf,slurm.conf", "--json", "-"))
        assert (told["steps"], of_phases(told["others"])) == ([], {("ssh", "n1")})

        assert "deploy --only slurm-conf by " in succeeded(cluster.slurmfab("history", "--run", "last")).stdout
        succeeded(cluster.slurmfab("rollback"))
        cluster.until("ctl", killwait, "30")
        assert "# by hand" in cluster.on("n1", f"cat {edited}")
        assert "Success" in cluster.on("n2", f"echo '{cluster.on('ctl', 'munge -n')}' | unmunge")
    finally:
        cluster.inventory_path.write_text(text)
        cluster.deploy()
        cluster.until("ctl", "sinfo -h -o '%D %t'", "3 idle")


def test_a_key_that_the_installed_slurm_refuses_stops_the_run_before_anything_is_sent(
    deployed_lab: DeployedLab,
) -> None:
    text = deployed_lab.inventory_path.read_text()
    deployed_lab.inventory_path.write_text(text + "slurm_conf: {HashPluginn: hash/k12}\n")
    try:
        done = ended(deployed_lab.slurmfab("deploy"), 2)
        assert "HashPluginn" in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        deployed_lab.inventory_path.write_text(text)
    assert deployed_lab.deploy()["steps"] == []


def test_values_that_contradict_each_other_are_refused_with_their_lines_before_anything_is_changed(
    deployed_lab: DeployedLab,
) -> None:
    text = deployed_lab.inventory_path.read_text()
    own = "{DefMemPerNode: 100, DefMemPerCPU: 50, MinJobAge: 1}"
    second = "  - {PartitionName: second, Nodes: ALL, PreemptMode: REQUEUE}\n"
    wrong = text.replace("partitions:\n", f"partitions:\n{second}") + f"slurm_conf: {own}\n"
    try:
        deployed_lab.inventory_path.write_text(wrong)
        said = ended(deployed_lab.slurmfab("plan"), 2).stderr
        for key in ("slurm_conf.DefMemPerCPU", "slurm_conf.MinJobAge", "partitions.PreemptMode"):
            assert re.search(rf":\d+: {re.escape(key)}: ", said), said
    finally:
        deployed_lab.inventory_path.write_text(text)
    assert deployed_lab.deploy()["steps"] == []


def test_slurmfabs_values_follow_the_sites_and_an_error_that_slurmctld_logs_all_the_same_is_told(
    deployed_lab: DeployedLab,
) -> None:
    text = deployed_lab.inventory_path.read_text()
    log = "grep -c 'error: .*\\(DefMemPer\\|Unkillable\\)' /var/log/slurm/slurmctld.log || :"
    errors = deployed_lab.on("ctl", log)
    try:
        deployed_lab.inventory_path.write_text(text + "slurm_conf: {MessageTimeout: 60, DefMemPerNode: 100}\n")
        assert "logged errors" not in words_of(succeeded(deployed_lab.slurmfab("deploy")))
        shown = deployed_lab.on("ctl", "scontrol show config")
        assert re.search(r"UnkillableStepTimeout\s+= 300 sec", shown)
        assert re.search(r"DefMemPerNode\s+= 100", shown)
        deployed_lab.inventory_path.write_text(text + "slurm_conf: {CpuFreqGovernors: none-such}\n")
        told = words_of(succeeded(deployed_lab.slurmfab("deploy")))
        assert "ctl: slurmctld logged errors when it read the files: " in told
        assert "CpuFreqGovernors: none-such" in told
        assert deployed_lab.on("ctl", log) == errors
    finally:
        deployed_lab.inventory_path.write_text(text)
        deployed_lab.deploy()
    assert deployed_lab.deploy()["steps"] == []


def test_a_file_that_slurm_itself_refuses_replaces_nothing(deployed_lab: DeployedLab) -> None:
    text = deployed_lab.inventory_path.read_text()
    before = deployed_lab.on("ctl", "sha256sum /etc/slurm/slurm.conf")
    deployed_lab.inventory_path.write_text(text + "slurm_conf: {MaxJobCount: 0}\n")
    try:
        done = deployed_lab.slurmfab("deploy")
        assert done.returncode != 0
        assert "MaxJobCount=0, No jobs permitted" in done.stdout + done.stderr
        assert deployed_lab.on("ctl", "sha256sum /etc/slurm/slurm.conf") == before
    finally:
        deployed_lab.inventory_path.write_text(text)
    assert deployed_lab.deploy()["steps"] == []


def test_the_munge_key_during_a_deployment_is_in_no_output_record_or_argument(deployed_lab: DeployedLab) -> None:
    key = deployed_lab.on("ctl", "base64 -w0 /etc/munge/munge.key")
    deployed_lab.on("n1", "head -c 128 /dev/urandom >/etc/munge/munge.key")
    done = deployed_lab.slurmfab("deploy", "--verbose", "--json", "-")
    told = report(done)
    records = deployed_lab.inventory_path.parent.rglob("*.json")
    for text in (done.stdout, done.stderr, *(path.read_text() for path in records)):
        assert key not in text
        assert key[:24] not in text
    assert "file:/etc/munge/munge.key" in json.dumps(told)


PARENT, STATE, LURED = "/var/lib/slurm", "/var/lib/slurm/slurmctld", "/usr/local/bin"
OWNERS = f"stat -c '%U:%G %a %n' /usr/local {LURED}; ls -la {LURED} /etc/cron.d | sha256sum"


def test_a_link_that_slurm_puts_in_place_of_the_state_gives_it_nothing_of_root_and_is_named(
    deployed_lab: DeployedLab,
) -> None:
    # Debian's packages give slurm the directory; SchedMD's leave it to root, so that slurm could put no link there.
    owner = deployed_lab.on("ctl", f"stat -c %U {PARENT}; chown slurm {PARENT}")
    before = deployed_lab.on("ctl", OWNERS)
    as_slurm = "runuser -u slurm -- sh -ec"
    deployed_lab.on("ctl", f"{as_slurm} 'mv {STATE} {STATE}.away; ln -s {LURED} {STATE}'")
    try:
        deployed = deployed_lab.slurmfab("deploy")
        checked = deployed_lab.slurmfab("check-cluster", "--only", "directories")
        assert deployed_lab.on("ctl", OWNERS) == before
    finally:
        deployed_lab.on("ctl", f"{as_slurm} 'rm {STATE}; mv {STATE}.away {STATE}'; chown {owner} {PARENT}")
    assert deployed.returncode == 1, deployed.stdout
    assert f"{STATE} is a symbolic link of slurm to {LURED}. It is not followed" in " ".join(deployed.stderr.split())
    assert checked.returncode == 1
    assert f"leads through a symbolic link of slurm, slurmctld -> {LURED}" in " ".join(checked.stdout.split())
    assert deployed_lab.deploy()["steps"] == []


def test_a_directory_with_the_files_of_others_is_neither_given_away_nor_closed(deployed_lab: DeployedLab) -> None:
    text = deployed_lab.inventory_path.read_text()
    deployed_lab.on("ctl", "mkdir -m 755 /srv/data && touch /srv/data/theirs")
    try:
        deployed_lab.inventory_path.write_text(f"{text}backup: {{directory: /home}}\n")
        refused = deployed_lab.slurmfab("plan")
        deployed_lab.inventory_path.write_text(f"{text}backup: {{directory: /srv/data}}\n")
        kept = deployed_lab.slurmfab("deploy")
        assert deployed_lab.on("ctl", "stat -c '%U %a' /home /srv/data") == "root 755\nroot 755"
    finally:
        deployed_lab.inventory_path.write_text(text)
        deployed_lab.on("ctl", "rm -r /srv/data")
    assert (refused.returncode, '"/home" is a directory of the system' in refused.stderr) == (2, True)
    assert (kept.returncode, "/srv/data seems to be in use for something else" in " ".join(kept.stderr.split())) == (
        1, True
    )  # fmt: skip
    deployed_lab.deploy()
    assert deployed_lab.deploy()["steps"] == []


def test_a_slurm_conf_that_includes_a_file_of_20_gb_then_is_told_and_replaced_and_nobody_waits_for_it(
    deployed_lab: DeployedLab,
) -> None:
    huge = "truncate -s 20G /srv/huge && chown 65534 /srv/huge && echo 'Include /srv/huge' >>/etc/slurm/slurm.conf"
    deployed_lab.on("n1", huge)
    began = time.monotonic()
    planned = deployed_lab.slurmfab("plan")
    assert time.monotonic() - began < 30
    said = " ".join(f"{planned.stdout}{planned.stderr}".split())
    assert "/srv/huge is not read, because it has 21474836480 bytes" in said, said
    deployed_lab.deploy()
    assert deployed_lab.on("n1", "rm /srv/huge; grep -c Include /etc/slurm/slurm.conf", check=False) == "0"
    assert deployed_lab.deploy()["steps"] == []
