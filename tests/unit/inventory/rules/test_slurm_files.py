"""What a cluster file may say of the site's own files in Slurm's directory and of its switches."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import ClusterFileError


def refusals(more: str) -> list[str]:
    """What is wrong with a cluster file of three hosts that also says this, without place and line."""
    with pytest.raises(ClusterFileError) as error:
        cluster(f"{THREE_HOSTS}{more}\n")
    return [line.split(": ", 1)[1] for line in error.value.complaints]


ACCOUNTS = "database: c1\naccounts: [{name: a}]\n"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("slurm_files: {slurm.conf: f}", "its further keys go under slurm_conf"),
        ("slurm_files: {slurmdbd.conf: f}", "its further keys go under slurmdbd_conf"),
        ("slurm_files: {job_container.conf: f}\nprivate_tmp: true", "slurmfab writes it for private_tmp"),
        ("slurm_files: {oci.conf: f}\ncontainers: [oci]", "slurmfab writes it for containers: [oci]"),
        ("slurm_files: {jwt_hs256.key: f}", "it may not be a secret"),
        ("slurm_files: {../passwd: f}", "is not a name in Slurm's directory"),
        ("slurm_files: {.hidden: f}", "is not a name in Slurm's directory"),
        ("slurm_files: {a/b/c: f}", "is not a name in Slurm's directory"),
        ("slurm_files: {a: f, a/b: f}", "another name uses it as a directory"),
        ("slurm_files: {prolog.d/x: f}\nprolog: prolog.d", "slurmfab fills prolog.d from its key at the top"),
        (
            "slurm_files: {topology.conf: f}\ntopology: [{SwitchName: s, Nodes: 'n[1-2]'}]",
            "slurmfab writes it from the key topology",
        ),
        ("topology: [{SwitchName: s, Nodes: n1}]", "n2 is connected to no switch"),
        ("topology: [{SwitchName: s, Nodes: 'n[1-3]'}]", '"n3" is not a compute node'),
        ("topology: [{SwitchName: s, Nodes: 'n[1-2]'}, {SwitchName: t, Switches: u}]", '"u" is not a switch'),
        ("topology: [{SwitchName: s, Nodes: 'n[1-2]'}, {SwitchName: t, Nodes: n1}]", '"n1" is already connected'),
        ("topology: [{SwitchName: s, Nodes: 'n[1-2]'}, {SwitchName: s, Switches: s}]", '"s" is already the name'),
        ("topology: [{SwitchName: s, Nodes: n1, Switches: s}]", "needs either Nodes or Switches"),
        ("topology: [{SwitchName: s}]", "needs either Nodes or Switches"),
        (
            "topology: [{SwitchName: s, Nodes: 'n[1-2]'}, {SwitchName: a, Switches: b}, {SwitchName: b, Switches: a}]",
            'switch "a" is connected to itself',
        ),
        (
            "slurm_conf: {TopologyPlugin: topology/3d_torus}\ntopology: [{SwitchName: s, Nodes: 'n[1-2]'}]",
            "the key topology at the top needs topology/tree",
        ),
        ("topology: [{SwitchName: s, Nodes: 'n[1-2]', Speed: 1}]", "unknown key"),
        ("slurm_conf: {TopologyPlugin: topology/tree}", "needs topology.conf, without which slurmctld does not start"),
        ("slurm_conf: {TopologyPlugin: topology/block}", "topology/block needs topology.conf"),
    ],
)
def test_what_makes_no_sense_is_refused(more: str, reason: str) -> None:
    assert any(reason in one for one in refusals(more)), refusals(more)


@pytest.mark.parametrize(
    "more",
    [
        "slurm_files: {topology.conf: f}\nslurm_conf: {TopologyPlugin: topology/tree}",
        "slurm_files: {topology.conf: f, plugstack.conf.d/x.conf: g, job_container.conf: h}",
        f"{ACCOUNTS}slurm_files: {{job_submit.lua: f}}",
        f"{ACCOUNTS}slurm_conf: {{JobSubmitPlugins: lua}}\nslurm_files: {{job_submit.lua: f}}",
        "topology: [{SwitchName: s1, Nodes: n1}, {SwitchName: s2, Nodes: n2}, {SwitchName: t, Switches: 's[1-2]'}]",
    ],
)
def test_files_and_switches_of_a_site_are_accepted(more: str) -> None:
    assert cluster(f"{THREE_HOSTS}{more}\n").site_file_names
