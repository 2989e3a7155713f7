"""Values of slurm.conf that slurmctld judges together, by version; slurmfab's own follow those of the site."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.cluster.slurm.together import contradictions
from slurmfab.cluster.slurm.versions import SlurmVersion

OLD, NEW, NEWEST = "22.05", "24.11", "26.05"
EVERY = (OLD, NEW, NEWEST)


@pytest.mark.parametrize(
    ("conf", "key", "versions"),
    [
        ("DefMemPerCPU=1\nDefMemPerNode=1", "slurm_conf.DefMemPerCPU", EVERY),
        ("PartitionName=a DefMemPerCPU=1 DefMemPerNode=1", "partitions.DefMemPerCPU", EVERY),
        ("MaxMemPerCPU=1\nMaxMemPerNode=1", "slurm_conf.MaxMemPerCPU", EVERY),
        ("MessageTimeout=30\nUnkillableStepTimeout=149", "slurm_conf.UnkillableStepTimeout", (NEW, NEWEST)),
        ("MessageTimeout=30\nUnkillableStepTimeout=150", "", EVERY),
        ("MessageTimeout=101", "slurm_conf.MessageTimeout", EVERY),
        ("MinJobAge=1", "slurm_conf.MinJobAge", EVERY),
        ("SchedulerTimeSlice=4", "slurm_conf.SchedulerTimeSlice", EVERY),
        ("PriorityWeightAge=4294967295\nPriorityWeightQOS=1", "slurm_conf.PriorityWeightQOS", EVERY),
        (
            "JobAcctGatherType=jobacct_gather/cgroup\nJobAcctGatherParams=UsePSS",
            "slurm_conf.JobAcctGatherParams",
            (NEW, NEWEST),
        ),
        ("JobAcctGatherType=jobacct_gather/linux\nJobAcctGatherParams=UsePSS", "", EVERY),
        ("PrologFlags=Serial,RunInJob", "slurm_conf.PrologFlags", (NEW, NEWEST)),
        ("SlurmdParameters=numa_node_as_socket,l3cache_as_socket", "slurm_conf.SlurmdParameters", (NEW, NEWEST)),
        ("HealthCheckInterval=60\nHealthCheckTimeout=60", "slurm_conf.HealthCheckTimeout", (NEWEST,)),
        ("SchedulerType=sched/builtin\nSchedulerParameters=bf_licenses", "slurm_conf.SchedulerParameters", EVERY),
        (
            "PreemptType=preempt/partition_prio\nPartitionName=a PreemptMode=GANG",
            "partitions.PreemptMode",
            (NEW, NEWEST),
        ),
        ("PartitionName=a PreemptMode=REQUEUE", "partitions.PreemptMode", EVERY),
        ("PreemptType=preempt/partition_prio\nPartitionName=a PreemptMode=REQUEUE", "", EVERY),
        ("PartitionName=a PreemptMode=OFF", "", EVERY),
    ],
)
def test_a_contradiction_is_named_for_the_versions_that_log_it(conf: str, key: str, versions: tuple[str, ...]) -> None:
    for version in EVERY:
        found = [one.partition(":")[0] for one in contradictions(SlurmVersion.parse(version), parse(conf))]
        assert found == ([key] if key and version in versions else [])


@pytest.mark.parametrize(
    ("own", "lines", "absent"),
    [
        ("", {"messagetimeout": "30", "unkillablesteptimeout": "180"}, ()),
        ("MessageTimeout: 100", {"messagetimeout": "100", "unkillablesteptimeout": "500"}, ()),
        ("UnkillableStepTimeout: 60", {"messagetimeout": "12", "unkillablesteptimeout": "60"}, ()),
        ("DefMemPerNode: 100", {"defmempernode": "100"}, ("defmempercpu",)),
        ("SelectType: select/linear", {"selecttypeparameters": "CR_Memory"}, ()),
        ("SelectType: select/linear, SelectTypeParameters: CR_ONE", {"selecttypeparameters": "CR_ONE"}, ()),
    ],
)
def test_slurmfabs_own_values_fit_those_of_the_site(own: str, lines: dict[str, str], absent: tuple[str, ...]) -> None:
    conf = prepared_input(f"{THREE_HOSTS}slurm_conf: {{{own}}}\n").conf_wanted
    assert {key: conf.settings[key] for key in lines} == lines
    assert not conf.settings.keys() & {*absent}
    assert [*contradictions(SlurmVersion.parse(NEWEST), conf)] == []
