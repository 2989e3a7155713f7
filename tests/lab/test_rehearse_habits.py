"""`fab rehearse` on a cluster with what sites have by themselves: a clean change goes well on its twin and on itself.

Its controllers share a directory that no key mounts; names, users and a TaskProlog come from elsewhere, and jobs are
taken from a login host alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from lab_cluster import DeployedLab
from lab_cluster import report as report_of
from stock import Stock, in_turn
from test_rehearse import changes

from slurmfab import lab as labs
from slurmfab.commands.rehearse.rehearsing import lab_name

pytestmark = pytest.mark.lab

KEYS = """\
controllers: [ctl, n3]
state_directory: /shared/state
login: n2
nodes: [{hosts: n1}]
partitions: [{PartitionName: main, Nodes: ALL, Default: "YES", AllocNodes: n2, AllowGroups: hpc}]
prolog: {n1: prolog.d}
database: ctl
unix_users: false
hosts_file: false
accounts: [{name: physics}]
users: [{name: ann, accounts: physics}, {name: bob, accounts: physics}]
slurm_conf: {TaskProlog: /opt/site/task-prolog}
"""
BY_THE_SITE = """
set -e
printf '{names}' >>/etc/hosts
groupadd hpc
useradd --uid 4321 --groups hpc --create-home ann
useradd --uid 4322 --create-home bob
mkdir --parents /opt/site
printf '#!/bin/sh\\necho export SITE=here\\n' >/opt/site/task-prolog
chmod 755 /opt/site/task-prolog
"""
JOBS = """
cd / && runuser -u ann -- sbatch --parsable --mem=50 --time=10 --output=/dev/null --wrap 'exit 0'
for i in $(seq 300); do
    [ "$(sacct --noheader --allusers -X | grep --count COMPLETED)" = 0 ] || exit 0
    sleep 0.1
done
exit 1
"""


@pytest.fixture(scope="module", params=in_turn("rehearse_habits"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(request.param, nodes=3, database=True, shared=("/shared",)) as lab:
        values = {**yaml.safe_load(lab.inventory_path.read_text()), **yaml.safe_load(KEYS)}
        lab.inventory_path.write_text(yaml.safe_dump(values, sort_keys=False))
        scripts = lab.inventory_path.parent / "prolog.d"
        scripts.mkdir()
        (scripts / "10-site").write_text("#!/bin/sh\nexit 0\n")
        (scripts / "10-site").chmod(0o755)
        names = "".join(f"{host.address} {host.name}\\n" for host in lab.lab.hosts)
        for host in lab.lab.hosts:
            lab.on(host.name, BY_THE_SITE.format(names=names))
        lab.deploy()
        lab.on("n2", JOBS)
        try:
            yield lab
        finally:
            labs.down(lab_name(lab.inventory_path))


def test_a_clean_change_when_rehearsed_then_goes_well_and_the_deployment_does_the_same(
    cluster: DeployedLab, tmp_path: Path
) -> None:
    path, told = cluster.inventory_path, tmp_path / "told.json"
    path.write_text(path.read_text().replace("slurm_conf:\n", "slurm_conf:\n  MessageTimeout: 21\n"))
    done = cluster.slurmfab("rehearse", "--cluster", str(path), "--json", str(told), "--", "deploy", cluster=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(told.read_text())
    assert "Jobs: 0 ran before" not in found["jobs"][0]
    assert changes(found) == changes(report_of(cluster.slurmfab("deploy", "--json", "-")))
