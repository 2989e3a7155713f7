"""What a deployment leaves to look back at: the state before it on each host, and the story beside the cluster file."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_cluster import DeployedLab, eventually, succeeded
from lab_user import Person
from stock import shared_in_turn

pytestmark = [pytest.mark.lab, shared_in_turn("deployed_lab", "history")]

ALL = ("ctl", "n1", "n2", "n3")
KEPT = "/var/lib/slurmfab/kept"
CONF = "/etc/slurm/slurm.conf"
KEY = "/etc/munge/munge.key"
BY_HAND = "# somebody was here"
SPOIL_KEY = f"head -c 128 /dev/urandom >{KEY}; sha256sum <{KEY}"
COPIES = f"find {KEPT} -type f -printf '%m %u:%g %s %f\\n'"


def history(cluster: DeployedLab, *words: str) -> Any:
    """What `fab history` knows, as JSON."""
    done = succeeded(cluster.slurmfab("history", *words, "--json", "-"))
    told = json.loads(done.stdout)
    return told if words else told["runs"]


def runs(cluster: DeployedLab, host: str) -> set[str]:
    """The runs that a host keeps anything of; the oldest go when there are many."""
    return {*cluster.on(host, f"ls {KEPT}").split()} - {"dropped"}


def kept(cluster: DeployedLab, host: str, run: str) -> dict[str, dict[str, Any]]:
    """What a host has noted of a run, by path or unit."""
    lines = cluster.on(host, f"cat {KEPT}/{run}/manifest").splitlines()
    entries = [json.loads(line) for line in lines]
    return {entry.get("path") or entry["unit"]: entry for entry in entries}


@pytest.fixture
def setting(deployed_lab: DeployedLab) -> Iterator[str]:
    """A setting that the cluster file has gained and that is not deployed; gone again afterwards, everywhere."""
    text = deployed_lab.inventory_path.read_text()
    deployed_lab.inventory_path.write_text(text + "slurm_conf: {KillWait: 41}\n")
    yield "KillWait=41"
    deployed_lab.inventory_path.write_text(text)
    deployed_lab.deploy()


def test_what_somebody_changed_by_hand_is_kept_where_it_was_when_a_deployment_overwrites_it(
    deployed_lab: DeployedLab, setting: str
) -> None:
    before = {host: deployed_lab.on(host, f"cat {CONF}") for host in ALL}
    deployed_lab.on("n1", f"echo '{BY_HAND}' >>{CONF}")
    own_key = deployed_lab.on("n2", SPOIL_KEY)
    deployed_lab.deploy()

    (*_, brief) = history(deployed_lab)
    run = brief["run"]
    assert (brief["command"], brief["outcome"], brief["hosts"]) == ("deploy", "done", list(ALL))
    *files, _ = brief["changed"].split("; ")
    assert sorted(files) == ["munge.key on n2", "slurm.conf on ctl,n[1-3]"]
    told = deployed_lab.slurmfab("history", "--run", run).stdout
    assert f"+{setting}" in told
    assert f"-{BY_HAND}" in told
    assert "content: differs (not shown, it is secret)" in told

    for host in ALL:
        entry = kept(deployed_lab, host, run)[CONF]
        hand = f"\n{BY_HAND}" if host == "n1" else ""
        assert deployed_lab.on(host, f"cat {KEPT}/{run}/{entry['blob']}") == before[host] + hand
        assert entry["secret"] is False
    for host, unit in (("ctl", "slurmctld"), ("n2", "munge")):
        assert kept(deployed_lab, host, run)[unit] == {"unit": unit, "enabled": "enabled", "running": "active"}

    entry = kept(deployed_lab, "n2", run)[KEY]
    copy = f"{KEPT}/{run}/{entry['blob']}"
    assert entry["secret"] is True
    assert deployed_lab.on("n2", f"sha256sum <{copy}") == own_key
    assert deployed_lab.on("n2", f"stat -c '%a %U:%G' {copy} {KEPT}/{run} {KEPT}").splitlines() == [
        "400 munge:munge", "700 root:root", "700 root:root",
    ]  # fmt: skip
    assert deployed_lab.on("n2", f"runuser -u munge -- cat {copy} 2>&1 || true").endswith("Permission denied")


def test_a_deployment_that_changes_nothing_keeps_nothing_and_is_no_history(deployed_lab: DeployedLab) -> None:
    before = {host: deployed_lab.on(host, COPIES) for host in ALL}, history(deployed_lab)
    deployed_lab.deploy()
    assert ({host: deployed_lab.on(host, COPIES) for host in ALL}, history(deployed_lab)) == before


def test_a_host_keeps_something_only_of_runs_that_changed_something_there(
    deployed_lab: DeployedLab, setting: str
) -> None:
    deployed_lab.deploy()
    before = {host: runs(deployed_lab, host) for host in ALL}
    deployed_lab.on("n3", f"chmod 600 {CONF}")
    deployed_lab.deploy()
    run = history(deployed_lab, "--run", "last")["run"]
    gained = {host: [*(runs(deployed_lab, host) - before[host])] for host in ALL}
    assert gained == {"ctl": [], "n1": [], "n2": [], "n3": [run]}
    assert kept(deployed_lab, "n3", run)[CONF]["mode"] == "0600"
    assert setting in deployed_lab.on("n3", f"cat {CONF}")


def test_a_run_whose_deployer_is_killed_is_in_the_history_as_cut_off_with_what_it_was_to_deploy(
    deployed_lab: DeployedLab, setting: str, tmp_path: Path
) -> None:
    records = deployed_lab.inventory_path.with_suffix(".runs")
    before = set(records.iterdir())
    process = Person.at(tmp_path).start("deploy", "--cluster", str(deployed_lab.inventory_path))
    try:
        eventually(lambda: any(path not in before for path in records.glob("*.json")), "a record of the run")
        process.send_signal(signal.SIGSTOP)
        assert history(deployed_lab)[-1]["outcome"] == "running"
    finally:
        process.kill()
        process.communicate()
    for host in ALL:
        deployed_lab.until(host, "pgrep -fc '[p]ython3 -I -B' || true", "0", 120)
    cut_off = history(deployed_lab, "--run", "last")
    assert (cut_off["outcome"], cut_off["ended"]) == ("interrupted", None)
    assert setting.replace("=", ": ") in cut_off["cluster_file"]
    assert "interrupted" in deployed_lab.slurmfab("history").stdout
    deployed_lab.deploy()
    assert [one["outcome"] for one in history(deployed_lab)][-2:] == ["interrupted", "done"]
