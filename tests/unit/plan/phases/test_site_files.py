"""Which hosts get the site's own files in Slurm's directory, which daemons watch them, and what goes again."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared, prepared_input

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.slurm_files import SiteFile
from slurmfab.core.plan.phases import daemons
from slurmfab.core.plan.plan import make_plan
from slurmfab.core.plan.plan_input import PlanInput, digest
from slurmfab.core.plan.preflight.configuration import refuse_uneven_files

FILES = (
    SiteFile("plugstack.conf", "include /etc/slurm/plugstack.conf.d/*\n"),
    SiteFile("plugstack.conf.d/x11.conf", "optional x11.so\n"),
    SiteFile("prolog.sh", "#!/bin/sh\n", 0o755),
    SiteFile("topology.conf", "SwitchName=s1 Nodes=n[1-2]\n"),
)
NAMES = "slurm_files: {plugstack.conf: a, plugstack.conf.d/x11.conf: b, prolog.sh: c, topology.conf: d}\n"
SWITCHES = "topology: [{SwitchName: s1, Nodes: n1}, {SwitchName: s2, Nodes: n2}, {SwitchName: t, Switches: 's[1-2]'}]\n"


def planned(more: str = NAMES, files: tuple[SiteFile, ...] = FILES, **differing: Any) -> PlanInput:
    """A cluster that was deployed with these files, and has the facts named besides."""
    known = cluster(THREE_HOSTS + more)
    facts = {"services": {"slurmctld": "active", "slurmd": "active"}, "slurm_conf": "ClusterName=lab\n", **differing}
    found = prepared_input(known, **facts)
    return dataclasses.replace(found, slurm_files=files)


def of_kind(wanted: PlanInput, host: str, kind: str) -> list[tuple[str, Any]]:
    plan = make_plan(wanted, tuple(wanted.facts))
    return [(phase.name, one) for phase, one in plan.of_host(host) if one.kind == kind]


def watches(wanted: PlanInput, host: str, unit: str) -> set[str]:
    services = [one for _, one in of_kind(wanted, host, "service") if one.unit == unit]
    return {path.removeprefix("/etc/slurm/") for one in services for path in one.watches}


@pytest.mark.parametrize("host", ["c1", "n1"])
def test_files_are_on_every_host_before_slurms_own(host: str) -> None:
    wanted = planned()
    ((phase, files),) = of_kind(wanted, host, "site-files")
    assert (phase, files.files) == ("slurm.conf", tuple(map(tuple, FILES)))
    resources = wanted and make_plan(wanted, (host,)).of_host(host)
    kinds = [one.kind for phase, one in resources if phase.name == "slurm.conf"]
    assert kinds.index("site-files") < kinds.index("slurm-files")


def test_a_file_that_slurmctld_alone_reads_is_on_controllers_and_what_slurmfab_wrote_elsewhere_goes() -> None:
    files = (SiteFile("job_submit.lua", "return 0\n"), SiteFile("mpi.conf", "a\n"))
    names = "slurm_files: {job_submit.lua: a, mpi.conf: b}\nslurm_conf: {JobSubmitPlugins: lua}\n"
    wanted = planned(names, files, written_site_files=("job_submit.lua", "mpi.conf"))
    kept = {host: [(one.files, one.gone) for _, one in of_kind(wanted, host, "site-files")] for host in ("c1", "n1")}
    both, alone = tuple(map(tuple, files)), (tuple(files[1]),)
    assert kept == {"c1": [(both, ())], "n1": [(alone, ()), ((), ("job_submit.lua",))]}


def test_only_files_that_daemons_read_at_their_start_are_watched() -> None:
    wanted = planned()
    assert watches(wanted, "c1", "slurmctld") == {"slurm.conf", "gres.conf", "topology.conf"}
    assert watches(wanted, "n1", "slurmd") == {"slurm.conf", "gres.conf", "cgroup.conf", "topology.conf"}


@pytest.mark.parametrize(
    ("slurm", "written", "is_watched"),
    [("22.05.8", (), False), ("22.05.8", ("topology.conf",), True), ("24.11.5", (), True)],
)
def test_a_file_made_by_hand_may_be_newer_than_a_daemon_that_an_old_slurm_has_reconfigured(
    slurm: str, written: tuple[str, ...], is_watched: bool
) -> None:
    same = {"topology.conf": digest(FILES[-1].text)}
    wanted = planned(site_files=same, written_site_files=written, slurm=slurm)
    assert ("topology.conf" in watches(wanted, "c1", "slurmctld")) == is_watched
    assert ("topology.conf" in watches(wanted, "n1", "slurmd")) == is_watched


def test_configless_nodes_have_what_slurmctld_does_not_serve() -> None:
    wanted = planned(f"configless: true\n{NAMES}", fetches=True)
    written = {name for _, one in of_kind(wanted, "n1", "site-files") for name, _, _ in one.files}
    gone = {name for _, one in of_kind(wanted, "n1", "site-files") for name in one.gone}
    assert written == {"plugstack.conf.d/x11.conf", "prolog.sh"}
    assert gone == {"plugstack.conf", "topology.conf"}
    ((_, fetched),) = of_kind(wanted, "n1", "fetched-files")
    assert dict(fetched.files)["topology.conf"] == digest(FILES[-1].text)
    assert "prolog.sh" not in dict(fetched.files)
    assert {"plugstack.conf", "topology.conf"} <= watches(wanted, "c1", "slurmctld")


def test_former_files_go_where_slurmfab_wrote_them_and_those_of_daemons_first() -> None:
    wanted = planned("", (), written_site_files=("mpi.conf", "prolog.sh"))
    found = [(phase, one.gone, one.renews) for phase, one in of_kind(wanted, "n1", "site-files")]
    assert found == [("slurm.conf", ("mpi.conf",), True), ("former scripts", ("prolog.sh",), False)]
    assert of_kind(planned("", ()), "n1", "site-files") == []


@pytest.mark.parametrize(
    ("actual", "written", "change"),
    [
        ({}, (), "added"),
        ({"topology.conf": "0" * 64}, (), "changed"),
        ({"topology.conf": digest(FILES[-1].text)}, (), ""),
        ({"topology.conf": digest(FILES[-1].text), "mpi.conf": "0" * 64}, ("mpi.conf",), "removed"),
    ],
)
def test_a_plan_tells_changes_of_the_files_that_daemons_read(
    actual: dict[str, str], written: tuple[str, ...], change: str
) -> None:
    wanted = planned(site_files=actual, written_site_files=written)
    assert [one.change for one in wanted.site_differences] == ([change] if change else [])
    assert daemons.is_reconfigured(wanted)


def test_a_change_of_the_files_of_some_hosts_alone_is_refused() -> None:
    same = {"topology.conf": digest(FILES[-1].text)}
    wanted = planned(site_files=same)
    wanted = planned(site_files=same, slurm_conf=dict(wanted.files)["slurm.conf"])
    refuse_uneven_files(wanted, ("n1",))
    other = planned(slurm_conf=dict(wanted.files)["slurm.conf"])
    with pytest.raises(InputError, match="a run on only some of the hosts cannot change it"):
        refuse_uneven_files(other, ("n1",))


def test_switches_are_written_as_topology_conf_with_the_plugin_that_reads_it() -> None:
    wanted = planned(SWITCHES, ())
    ((_, files),) = of_kind(wanted, "n1", "site-files")
    ((name, text, mode),) = files.files
    assert (name, mode) == ("topology.conf", 0o644)
    assert text.splitlines()[1:] == [
        "SwitchName=s1 Nodes=n1",
        "SwitchName=s2 Nodes=n2",
        "SwitchName=t Switches=s[1-2]",
    ]
    assert "\nTopologyPlugin=topology/tree\n" in dict(wanted.files)["slurm.conf"]


def test_a_node_that_slurm_conf_does_not_have_is_at_no_switch() -> None:
    known = cluster(THREE_HOSTS + SWITCHES)
    facts = facts_of(known, prepared)
    found = plan_input(known, {host: fact for host, fact in facts.items() if host != "n2"})
    text = found.site_files[0].text
    assert text.splitlines()[1:] == ["SwitchName=s1 Nodes=n1", "SwitchName=t Switches=s1"]
