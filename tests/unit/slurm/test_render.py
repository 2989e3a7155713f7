"""Slurm's files from templates; whole files are compared in tests/golden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.cluster.facts import Cgroup, Gpu, Hardware
from slurmfab.cluster.inventory.scratch import PrivateTmp
from slurmfab.cluster.slurm.node import Node
from slurmfab.cluster.slurm.render import SlurmConf, render

SMALL = Hardware(CPUs=4, Boards=1, SocketsPerBoard=1, CoresPerSocket=2, ThreadsPerCore=2, RealMemory=16000)
CONTROLLERS = ("cpuset", "devices", "memory")
CONF = SlurmConf(
    cluster_name="lab",
    controllers=(("ctl", "10.0.0.1"),),
    version="24.11.5",
    nodes=(Node("n1", "10.0.0.2", "n1", SMALL), Node("n2", "10.0.0.3", "n2", SMALL)),
    partitions=(("main", "ALL", {"Default": "YES"}),),
    cgroup=Cgroup("v2", CONTROLLERS, swap=True),
)


def keys(text: str) -> dict[str, str]:
    """The settings of a file by key, without node and partition lines."""
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "NodeName", "PartitionName"))]
    pairs = [line.split("=", 1) for line in lines]
    assert len({key.lower() for key, _ in pairs}) == len(pairs), "a key is there twice"
    return {pair[0]: pair[1] for pair in pairs}


def slurm_conf(conf: SlurmConf) -> dict[str, str]:
    return keys(render(conf)["slurm.conf"])


def with_own(**slurm_conf: str | None) -> SlurmConf:
    return replace(CONF, slurm_conf=slurm_conf)


def test_the_same_cluster_renders_to_the_same_bytes() -> None:
    assert render(CONF) == render(replace(CONF))


def test_files_end_with_one_line_break_and_hold_no_template_code() -> None:
    for text in render(replace(CONF, nodes=(Node("n1", "n1", "n1", SMALL, (Gpu("/dev/nvidia0"),)),))).values():
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        assert "\n\n\n" not in text
        assert "{" not in text


def test_the_controller_has_its_own_name_and_its_address() -> None:
    assert slurm_conf(CONF)["SlurmctldHost"] == "ctl(10.0.0.1)"
    assert slurm_conf(replace(CONF, controllers=(("ctl", "ctl"),)))["SlurmctldHost"] == "ctl"


def test_a_users_value_replaces_the_line_whatever_the_case_of_its_key() -> None:
    settings = slurm_conf(with_own(SLURMDTIMEOUT="600"))
    assert settings["SlurmdTimeout"] == "600"
    assert "SLURMDTIMEOUT" not in settings


def test_a_null_leaves_the_line_out_and_says_so() -> None:
    text = render(with_own(KillWait=None))["slurm.conf"]
    assert "KillWait" not in keys(text)
    assert "# KillWait is left to Slurm, as the cluster file wants it." in text


def test_a_null_for_a_key_that_slurmfab_does_not_write_changes_nothing() -> None:
    assert render(with_own(MaxJobCount=None)) == render(CONF)


def test_further_keys_come_under_a_heading_by_name() -> None:
    text = render(with_own(TmpFS="/scratch", MaxJobCount="50000"))["slurm.conf"]
    assert "\n# Further keys of slurm_conf in the cluster file.\nMaxJobCount=50000\nTmpFS=/scratch\n" in text
    assert "Further keys of slurm_conf in the cluster file" not in render(CONF)["slurm.conf"]


def test_usable_cgroups_hold_jobs_to_what_they_got() -> None:
    files = render(CONF)
    settings = keys(files["slurm.conf"])
    assert settings["ProctrackType"] == "proctrack/cgroup"
    assert settings["TaskPlugin"] == "task/cgroup,task/affinity"
    assert settings["PrologFlags"] == "Alloc,Contain"
    assert keys(files["cgroup.conf"]) == {
        "CgroupPlugin": "autodetect",
        "ConstrainCores": "yes",
        "ConstrainDevices": "yes",
        "ConstrainRAMSpace": "yes",
        "ConstrainSwapSpace": "yes",
    }


def test_swap_is_constrained_only_where_it_is_accounted() -> None:
    files = render(replace(CONF, cgroup=Cgroup("v1", CONTROLLERS, swap=False)))
    assert "ConstrainSwapSpace" not in keys(files["cgroup.conf"])


@pytest.mark.parametrize(
    "cgroup",
    [Cgroup("none"), Cgroup("v2", ("cpuset",)), Cgroup("hybrid", CONTROLLERS), Cgroup("none", CONTROLLERS)],
)
def test_without_usable_cgroups_nothing_asks_for_them(cgroup: Cgroup) -> None:
    files = render(replace(CONF, cgroup=cgroup))
    settings = keys(files["slurm.conf"])
    assert not [value for value in settings.values() if "cgroup" in value]
    assert settings["ProctrackType"] == "proctrack/linuxproc"
    assert keys(files["cgroup.conf"]) == {"CgroupPlugin": "disabled"}


@pytest.mark.parametrize(
    "version", ["22.05.8", "23.02.1", "23.11.4", "24.05.1", "24.11.5", "25.05.1", "25.11.2", "26.05.5"]
)
@pytest.mark.parametrize(
    ("cgroup", "private", "flags"),
    [
        (Cgroup("v1", CONTROLLERS, swap=True), False, "Alloc,Contain"),
        (Cgroup("v1", CONTROLLERS), True, "Alloc,Contain"),
        (Cgroup("v2", CONTROLLERS, swap=True), True, "Alloc,Contain"),
        (Cgroup("v2", ("devices",)), False, "Alloc"),
        (Cgroup("v2", ("devices",)), True, "Alloc,Contain"),
        (Cgroup("hybrid"), False, "Alloc"),
        (Cgroup("none"), True, "Alloc,Contain"),
    ],
)
def test_each_version_with_each_kind_of_control_groups_starts(
    version: str, cgroup: Cgroup, private: bool, flags: str
) -> None:
    files = render(replace(CONF, cgroup=cgroup, version=version, private_tmp=PrivateTmp() if private else None))
    slurm, cgroups = keys(files["slurm.conf"]), keys(files["cgroup.conf"])
    plugins = {slurm[key].partition("/")[2] for key in ("ProctrackType", "JobAcctGatherType")}
    year, month, *_ = map(int, version.split("."))
    unused = "disabled" if (year, month) >= (24, 5) else "cgroup/v1"
    assert plugins == ({"cgroup"} if cgroup.is_usable else {"linuxproc", "linux"})
    assert cgroups["CgroupPlugin"] == ("autodetect" if cgroup.is_usable else unused)
    assert [key for key in cgroups if key.startswith("Constrain")] == [
        f"Constrain{what}"
        for what in ("Cores", "Devices", "RAMSpace", *(("SwapSpace",) if cgroup.swap else ()))
        if cgroup.is_usable
    ]
    assert slurm["PrologFlags"] == flags
    kinds = {"JobContainerType": "job_container/tmpfs", "NamespaceType": "namespace/tmpfs"}
    wanted = ("NamespaceType" if (year, month) >= (25, 11) else "JobContainerType") if private else ""
    assert {key: slurm[key] for key in kinds if key in slurm} == ({wanted: kinds[wanted]} if wanted else {})
    assert ("job_container.conf" in files) == private


def test_directories_of_jobs_are_named_where_slurm_takes_names() -> None:
    private = replace(CONF, private_tmp=PrivateTmp(BasePath="/local", Dirs="/tmp,/var/tmp", Shared=True))
    told = {
        version: keys(render(replace(private, version=version))["job_container.conf"]) for version in ("22.05", "23.02")
    }
    assert told["22.05"] == {"AutoBasePath": "true", "BasePath": "/local"}
    assert told["23.02"] == {**told["22.05"], "Dirs": "/tmp,/var/tmp", "Shared": "true"}


def test_the_users_keys_of_cgroup_conf_are_taken_as_well() -> None:
    own: Mapping[str, str | None] = {"constrainswapspace": "no", "ConstrainDevices": None, "AllowedRAMSpace": "98"}
    settings = keys(render(replace(CONF, cgroup_conf=own))["cgroup.conf"])
    assert (settings["ConstrainSwapSpace"], settings["AllowedRAMSpace"]) == ("no", "98")
    assert "ConstrainDevices" not in settings


def test_gres_conf_and_gres_types_are_there_only_with_gres() -> None:
    assert "gres.conf" not in render(CONF)
    assert "GresTypes" not in slurm_conf(CONF)
    files = render(replace(CONF, nodes=(Node("n1", "n1", "n1", SMALL, (Gpu("/dev/nvidia0", "t4"),)), *CONF.nodes[1:])))
    assert keys(files["slurm.conf"])["GresTypes"] == "gpu"
    assert files["gres.conf"].splitlines()[-1] == "NodeName=n1 Name=gpu Type=t4 File=/dev/nvidia0"


def test_a_job_without_a_memory_request_gets_the_least_share_of_any_cpu() -> None:
    small = Node("n3", "n3", "n3", replace(SMALL, RealMemory=4000), settings={"CPUs": "2"})
    assert slurm_conf(CONF)["DefMemPerCPU"] == str(15520 // 4)
    assert slurm_conf(replace(CONF, nodes=(*CONF.nodes, small)))["DefMemPerCPU"] == str((4000 - 256) // 2)


def test_metrics_over_http_are_closed_by_the_versions_that_have_them() -> None:
    assert "CommunicationParameters" not in slurm_conf(CONF)
    assert slurm_conf(replace(CONF, version="25.11.2"))["CommunicationParameters"] == "disable_http"


def test_nothing_asks_for_an_accounting_database() -> None:
    settings = slurm_conf(CONF)
    assert not [key for key in settings if key.startswith(("AccountingStorage", "PriorityWeight"))]


def test_a_partition_without_nodes_has_no_node_list() -> None:
    text = render(replace(CONF, partitions=(("later", "", {"State": "DOWN"}),)))["slurm.conf"]
    assert "\nPartitionName=later State=DOWN\n" in text


@pytest.mark.parametrize(("minutes", "limit"), [(0, "60"), (15, "60"), (240, "240")])
def test_slurmfabs_own_partition_is_the_last_one_hidden_and_behind_all_others(minutes: int, limit: str) -> None:
    line = render(replace(CONF, longest_check=minutes))["slurm.conf"].splitlines()[-1]
    assert line == (
        "PartitionName=slurmfab Nodes=ALL Hidden=YES AllowGroups=root PriorityTier=0 PriorityJobFactor=0 "
        f"PreemptMode=OFF MaxTime={limit}"
    )


def test_slurmfabs_own_partition_when_the_cluster_file_wants_none_is_left_out() -> None:
    text = render(replace(CONF, own_partition=False))["slurm.conf"]
    assert "slurmfab" not in text.split("# Partitions.")[1]
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_an_unsupported_version_is_refused() -> None:
    with pytest.raises(SlurmfabError, match="too old"):
        render(replace(CONF, version="21.08.5"))


def test_a_line_break_in_a_value_is_refused() -> None:
    with pytest.raises(InputError, match="MailProg: its value contains a line break"):
        render(with_own(MailProg="/bin/true\nSlurmUser=root"))


def test_licences_are_one_line_and_counted_for_accounts_where_there_is_a_database() -> None:
    licensed = replace(CONF, licenses={"matlab": 10, "comsol": 2})
    assert slurm_conf(licensed)["Licenses"] == "matlab:10,comsol:2"
    assert "AccountingStorageTRES" not in slurm_conf(licensed)
    counted = slurm_conf(replace(licensed, accounting_host="10.0.0.1"))
    assert counted["AccountingStorageTRES"] == "license/matlab,license/comsol"
    assert "Licenses" not in slurm_conf(CONF)
