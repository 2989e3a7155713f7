"""Ten thousand nodes: the files that are rendered for them are taken by the real slurmctld of each suite."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from lab_cluster import DeployedLab

from benchmarks import plan_10000
from slurmfab import lab
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan_input import PlanInput

pytestmark = pytest.mark.lab

NODES = 10000
PLACE = "/tmp/tenthousand"
NODE_LINES = 2
"""As many as the cluster file has groups of nodes: what is equal is folded."""

HERE = {
    "ClusterName": "huge",
    "SlurmctldHost": "ctl",
    "SlurmctldPort": "7817",
    "StateSaveLocation": f"{PLACE}/state",
    "SlurmctldLogFile": f"{PLACE}/log",
    "SlurmctldPidFile": f"{PLACE}/pid",
}
"""What lets this slurmctld run beside the lab's own one; all else is as rendered."""


def rendered(suite: str, version: str) -> dict[str, str]:
    """Slurm's files for made-up hosts that have the Slurm of a suite."""
    cluster = loading.parse(plan_10000.text_of(NODES, after=True), "huge.yaml")
    facts = {
        host: replace(fact, codename=suite, packages={**fact.packages, "slurm-client": version})
        for host, fact in plan_10000.facts_of(cluster, "").items()
    }
    return dict(PlanInput(cluster, pin(cluster, Lock(), facts), facts).files)


def at_home(slurm_conf: str) -> str:
    """A slurm.conf whose controller is the lab's, at a place and a port of its own."""
    kept = [line for line in slurm_conf.splitlines() if line.partition("=")[0] not in HERE]
    return "\n".join([*(f"{key}={value}" for key, value in HERE.items()), *kept]) + "\n"


@pytest.fixture
def huge(deployed_lab: DeployedLab) -> Iterator[tuple[DeployedLab, dict[str, str]]]:
    """A second slurmctld on the controller, with the files for ten thousand nodes."""
    version = deployed_lab.on("ctl", "dpkg-query -W -f '${Version}' slurm-client")
    files = rendered(deployed_lab.lab.suite, version)
    deployed_lab.on("ctl", f"rm -rf {PLACE}; mkdir -p {PLACE}/state")
    for name, text in files.items():
        content = at_home(text) if name == "slurm.conf" else text
        assert lab.run(deployed_lab.lab, "ctl", ["sh", "-c", f"cat >{PLACE}/{name}"], content).returncode == 0
    start = f"setpriv --reuid=slurm --regid=slurm --init-groups slurmctld -D -f {PLACE}/slurm.conf"
    deployed_lab.on(
        "ctl", f"chown -R slurm: {PLACE}; export SLURM_CONF={PLACE}/slurm.conf; {start} >{PLACE}/out 2>&1 &"
    )
    yield deployed_lab, files
    deployed_lab.on("ctl", f"kill $(cat {PLACE}/pid); rm -rf {PLACE}", check=False)


def test_ten_thousand_nodes_when_rendered_then_are_folded_and_slurmctld_knows_every_one(
    huge: tuple[DeployedLab, dict[str, str]],
) -> None:
    hosts, files = huge
    assert len(re.findall(r"^NodeName=", files["slurm.conf"], re.MULTILINE)) == NODE_LINES
    hosts.until("ctl", f"SLURM_CONF={PLACE}/slurm.conf sinfo -h -p main -o %D", str(NODES), patience=60)
    said = hosts.on("ctl", f"grep -iE 'fatal|invalid|unrecognized|duplicate' {PLACE}/log {PLACE}/out", check=False)
    assert said == ""
