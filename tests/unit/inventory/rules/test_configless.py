"""The key configless: what it cannot go with, and how slurmctld is told."""

from __future__ import annotations

import pytest
from support import cluster, prepared_input

from slurmfab.base.errors import InputError

HEAD = """\
cluster: lab
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
"""
OF_ITS_OWN = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: c1}]\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            HEAD + "configless: true\nslurm_conf:\n  SlurmctldParameters: null\n",
            r"cluster.yaml:6: slurm_conf.SlurmctldParameters: null leaves the line out",
            id="line left out",
        ),
        pytest.param(
            HEAD + "configless: true\nslurm_conf:\n  SlurmdSpoolDir: /var/spool/%n\n",
            r"cluster.yaml:6: slurm_conf.SlurmdSpoolDir: configless does not allow %n",
            id="directory by NodeName",
        ),
        pytest.param(
            HEAD + "slurm_conf:\n  SlurmctldParameters: idle_on_node_suspend,enable_configless\n",
            r"cluster.yaml:5: slurm_conf.SlurmctldParameters: with enable_configless alone no node fetches",
            id="half of it",
        ),
        pytest.param(
            OF_ITS_OWN + "configless: true\n", r"cluster.yaml:4: configless: every compute node is", id="nobody fetches"
        ),
        pytest.param(
            HEAD + "configless: perhaps\n", r"cluster.yaml:4: configless: it must be true or false", id="word"
        ),
    ],
)
def test_what_cannot_go_together_is_refused_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        cluster(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(HEAD, None, id="not at all"),
        pytest.param(HEAD + "configless: true\n", "SlurmctldParameters=enable_configless", id="alone"),
        pytest.param(
            HEAD + "configless: true\nslurm_conf: {SlurmctldParameters: 'cloud_dns,Enable_Configless'}\n",
            "SlurmctldParameters=enable_configless,cloud_dns",
            id="beside the user's, and once",
        ),
    ],
)
def test_slurmctld_is_told_beside_what_the_user_tells_it(text: str, line: str | None) -> None:
    conf = dict(prepared_input(text).files)["slurm.conf"].splitlines()
    assert [one for one in conf if one.lower().startswith("slurmctldparameters")] == ([line] if line else [])


def test_nodes_fetch_and_controllers_and_login_hosts_do_not() -> None:
    mixed = cluster(
        "cluster: lab\ncontrollers: [c1, n1]\nstate_directory: /shared/state\nlogin: [l1]\n"
        'nodes: [{hosts: "n[1-2]"}]\nconfigless: true\n'
    )
    assert [host for host in mixed.hosts if mixed.fetches(host)] == ["n2"]
