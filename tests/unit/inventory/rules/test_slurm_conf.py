"""Values that Slurm takes, and with which jobs do not run: ports that are none, and limits above others."""

from __future__ import annotations

import pytest
from support import cluster

from slurmfab.base.errors import InputError
from slurmfab.on_hosts.agent.client.amounts import seconds_of

HEAD = 'cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: "n[1-2]"}]\n'


def partition(settings: str) -> str:
    """A cluster file whose partition has these settings."""
    return f"{HEAD}partitions: [{{PartitionName: main, Nodes: ALL, {settings}}}]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + "slurm_conf: {SlurmctldPort: 70000}\n", 'slurm_conf.SlurmctldPort: "70000" is not a port'),
        (HEAD + "slurm_conf: {slurmdPort: 1}\n", "slurm_conf.slurmdPort: a Slurm key is spelled"),
        (HEAD + "slurm_conf: {SlurmdPort: 0}\n", 'slurm_conf.SlurmdPort: "0" is not a port'),
        (HEAD + "slurm_conf: {SlurmdPort: ssh}\n", 'slurm_conf.SlurmdPort: "ssh" is not a port'),
        (HEAD + "slurm_conf: {SlurmctldPort: 6817-70000}\n", '"6817-70000" is not a port'),
        (
            HEAD.replace("c1", "n1") + "slurm_conf: {SlurmctldPort: 6818}\n",
            "slurmctld and slurmd on n1 cannot both listen at port 6818",
        ),
        (HEAD + "private_data: [jobs, cores]\n", "private_data[1]: "),
        (
            HEAD + "private_data: [jobs]\nslurm_conf: {PrivateData: users}\n",
            "slurm_conf.PrivateData: slurmfab writes PrivateData itself",
        ),
        (
            HEAD + "private_data: [jobs]\nslurmdbd_conf: {PrivateData: jobs}\n",
            "slurmdbd_conf.PrivateData: slurmfab writes PrivateData itself",
        ),
        (partition("MinNodes: 2, MaxNodes: 1"), 'partitions[0].MinNodes: "2" is more than MaxNodes, "1"'),
        (partition("MinNodes: 3"), 'partitions[0].MinNodes: "3" is more than the 2 nodes of the partition'),
        (
            partition("MaxTime: 60, DefaultTime: 1:30:00"),
            'partitions[0].DefaultTime: "1:30:00" is more than MaxTime, "60"',
        ),
    ],
)
def test_a_value_with_which_jobs_do_not_run_when_written_then_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        cluster(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "slurm_conf: {SlurmctldPort: 6820-6829, SlurmdPort: null}\n",
        HEAD + "slurm_conf: {SlurmctldPort: 6818}\n",
        partition("MinNodes: 1, MaxNodes: UNLIMITED"),
        partition("MinNodes: 2, MaxNodes: 2, MaxTime: UNLIMITED, DefaultTime: 1-00:00:00"),
        partition("MaxTime: 1-00:00:00, DefaultTime: 24:00:00"),
        partition("MaxTime: 1-0, DefaultTime: 1440"),
        partition("MaxTime: INFINITE, DefaultTime: UNLIMITED"),
    ],
)
def test_values_with_which_jobs_run_when_written_then_are_taken(text: str) -> None:
    assert cluster(text).name == "lab"


@pytest.mark.parametrize(
    ("text", "meant"),
    [("90", 5400), ("1:30", 90), ("1:30:00", 5400), ("1-12", 129600), ("1-12:30", 131400), ("0", 0), ("7 days", None),
     ("UNLIMITED", None), ("", None), ("-5", None), ("1-", None), ("1:2:3:4", None)],
)  # fmt: skip
def test_a_time_when_read_then_is_what_slurm_makes_of_it(text: str, meant: int | None) -> None:
    assert seconds_of(text) == meant
