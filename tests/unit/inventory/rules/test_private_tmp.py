"""Directories that each job has for itself: what the cluster file may say of them, and what becomes of it on hosts."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.scratch import PrivateTmp
from slurmfab.core.impact.restart_requirements import Requirement, need
from slurmfab.core.plan.phases import daemons, slurm_conf
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight.configuration import refuse_unknown_keys
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent
from slurmfab.on_hosts.agent.services.service import Service

CONF = "/etc/slurm/job_container.conf"
OURS = f"{MADE_BY_SLURMFAB} from the cluster file.\nAutoBasePath=true\nBasePath=/srv/jobs\nDirs=/tmp,/dev/shm\n"


def private(text: str = "true", slurm: str = "24.11.5", **facts: str) -> PlanInput:
    """A deployed cluster whose file says this of private_tmp."""

    def host(name: str) -> HostFacts:
        return prepared(name, slurm, **facts)

    wanted = cluster(f"{THREE_HOSTS}private_tmp: {text}\n")
    return plan_input(wanted, facts_of(wanted, host))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("true", PrivateTmp()),
        ("false", None),
        ("", None),
        ("{}", PrivateTmp()),
        ("{BasePath: /local}", PrivateTmp(BasePath="/local")),
        ('{Dirs: "/tmp,/var/tmp"}', PrivateTmp(Dirs=("/tmp", "/var/tmp"))),
        ("{Dirs: [/tmp], Shared: true}", PrivateTmp(Dirs=("/tmp",), Shared=True)),
    ],
)
def test_the_key_is_a_word_or_a_mapping(text: str, wanted: PrivateTmp | None) -> None:
    assert private(text).cluster.private_tmp == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{BasePath: local}", '"local" is not an absolute path of letters'),
        ("{Dirs: []}", "private_tmp.Dirs"),
        ("{Dirs: [tmp]}", '"tmp" is not an absolute path'),
        ("{BasePath: /tmp/jobs}", '"/tmp/jobs" lies in /tmp, which is private to each job'),
        ("{BasePath: /tmp}", '"/tmp" lies in /tmp'),
        ("{InitScript: /x}", "InitScript"),
        ("true\nslurm_conf: {JobContainerType: job_container/none}", "it comes from the key private_tmp at the top"),
        ("true\nslurm_conf: {NamespaceType: namespace/linux}", "slurmfab writes NamespaceType itself"),
        ("true\nslurm_conf: {PrologFlags: Alloc}", "private_tmp needs Contain among the flags"),
    ],
)
def test_what_cannot_work_is_refused_when_the_file_is_read(text: str, words: str) -> None:
    with pytest.raises(InputError, match=r"cluster.yaml:\d+: ") as refused:
        private(text)
    assert words in str(refused.value)


@pytest.mark.parametrize("flags", ["Contain", "alloc,contain", "X11", "null"])
def test_flags_with_which_jobs_are_contained_are_the_users(flags: str) -> None:
    if flags == "null":
        with pytest.raises(InputError):
            private("true\nslurm_conf: {PrologFlags: null}")
    else:
        assert private(f"true\nslurm_conf: {{PrologFlags: '{flags}'}}")


def test_what_an_older_slurm_does_not_know_is_refused_before_anything_is_changed() -> None:
    text = "{Dirs: [/tmp, /var/tmp], Shared: true}"
    with pytest.raises(
        InputError, match=r"private_tmp.Dirs: Slurm 22.05 does not know it \(known from 23.02\)"
    ) as refused:
        refuse_unknown_keys(private(text, "22.05.8"))
    assert "private_tmp.Shared" in str(refused.value)
    refuse_unknown_keys(private(text))
    refuse_unknown_keys(private("{Dirs: [/dev/shm, /tmp]}", "22.05.8"))


def of_kind(resources: tuple[Resource, ...], kind: type[Resource]) -> list[str]:
    return [resource.name() for resource in resources if isinstance(resource, kind)]


def test_compute_nodes_have_the_base_directory_and_slurmd_reads_the_file() -> None:
    wanted = private("{BasePath: /srv/jobs}")
    assert "/srv/jobs" in of_kind(slurm_conf.directories(wanted, "n1"), Directory)
    assert "/srv/jobs" not in of_kind(slurm_conf.directories(wanted, "c1"), Directory)
    (slurmd,) = daemons.slurmd(wanted, "n1")
    assert isinstance(slurmd, Service)
    assert CONF in slurmd.watches
    (plain,) = daemons.slurmd(private("false"), "n1")
    assert isinstance(plain, Service)
    assert CONF not in plain.watches


@pytest.mark.parametrize(
    ("text", "found", "is_removed"),
    [("false", OURS, True), ("false", "BasePath=/own\n", False), ("false", "", False), ("true", OURS, False)],
)
def test_a_file_of_ours_goes_with_the_key_and_one_of_somebody_elses_stays(
    text: str, found: str, is_removed: bool
) -> None:
    resources = slurm_conf.resources(private(text, job_container_conf=found), "n1")
    assert (CONF in of_kind(resources, Absent)) == is_removed


def test_another_base_directory_needs_drained_nodes_and_a_restart_of_slurmd_alone() -> None:
    text = dict(private("{BasePath: /srv/jobs}").files)
    wanted = private("{BasePath: /local}", slurm_conf=text["slurm.conf"], job_container_conf=text["job_container.conf"],
                     cgroup_conf=text["cgroup.conf"])  # fmt: skip
    (moved,) = wanted.differences
    assert (str(moved), moved.file) == ("BasePath: /srv/jobs -> /local", "job_container.conf")
    assert need(moved, wanted.slurm_version) == Requirement.DRAINED
    assert daemons.renewal(wanted, wanted.cluster.hosts) == "slurmd on n[1-2] restarts."
    assert not daemons.is_reconfigured(wanted)


def test_somebody_elses_file_is_no_difference() -> None:
    text = dict(private("false").files)
    found = {
        "slurm_conf": text["slurm.conf"],
        "cgroup_conf": text["cgroup.conf"],
        "job_container_conf": "BasePath=/a\n",
    }
    assert private("false", **found).differences == ()
