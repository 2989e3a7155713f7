"""What a cluster file may say of the variables of jobs."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster, prepared_input

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory import job_scripts
from slurmfab.core.plan.phases import scripts
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.files.scripts import Scripts

ODD = 'it\'s $HOME `id` \\\\n \\"x\\" %s'


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("job_environment: {all: {1A: x}}", '"1A" is not the name of a variable'),
        ("job_environment: {all: {SLURM_JOB_ID: 1}}", "Slurm sets the variables"),
        ('job_environment: {all: {A: "x\\ny"}}', "on one line"),
        ("job_environment: {groups: [{hosts: c1, variables: {A: x}}]}", '"c1" is not a compute node'),
        ("job_environment: {groups: [{hosts: [], variables: {A: x}}]}", "it needs at least one node"),
        ("job_environment: {all: {A: x}}\nslurm_conf: {TaskProlog: /x}", "Slurm has one; remove one of the two keys"),
    ],
)
def test_variables_that_make_no_sense_are_refused(more: str, reason: str) -> None:
    with pytest.raises(ClusterFileError) as error:
        cluster(f"{THREE_HOSTS}{more}\n")
    assert reason in "\n".join(error.value.complaints)


def test_a_node_has_the_variables_of_all_and_of_its_groups_and_the_controller_none() -> None:
    found = cluster(
        f'{THREE_HOSTS}job_environment: {{all: {{A: 1, B: "{ODD}"}}, groups: [{{hosts: n2, variables: {{A: two}}}}]}}\n'
    )
    wanted = prepared_input(found)
    assert scripts.task_prolog(wanted, "c1") == ()
    for node, first in (("n1", "1"), ("n2", "two")):
        (one,) = scripts.task_prolog(wanted, node)
        assert isinstance(one, File)
        assert printed(one.content, {}) == f'export A={first}\nexport B=it\'s $HOME `id` \\n "x" %s\n'
        assert printed(one.content, {"B": ""}) == f"export A={first}\n"
    assert "TaskProlog=/usr/local/lib/slurmfab/task-prolog\n" in wanted.rendered["slurm.conf"]


def printed(script: str, environment: dict[str, str]) -> str:
    """What a shell script prints in an environment."""
    done = subprocess.run(["sh", "-s"], input=script, capture_output=True, text=True, env=environment, check=True)
    return done.stdout


def test_the_program_goes_after_slurm_conf_no_longer_names_it() -> None:
    wanted = prepared_input(programs=("task-prolog",))
    assert scripts.gone(wanted, "n1") == (Absent("/usr/local/lib/slurmfab/task-prolog"),)
    assert "TaskProlog" not in wanted.rendered["slurm.conf"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("prolog: {n3: a}", '"n3" is not a compute node'),
        ("prolog: {'n[1-2]': a, n2: b}", '"n2" has two directories of scripts'),
        ("epilog: {'n[1': a}", "epilog"),
        ("epilog: {n1: [a]}", "it must be a directory, or a mapping such as"),
        ("epilog: {}", "epilog"),
    ],
)
def test_directories_of_scripts_that_make_no_sense_are_refused(more: str, reason: str) -> None:
    with pytest.raises(ClusterFileError) as error:
        cluster(f"{THREE_HOSTS}{more}\n")
    assert reason in "\n".join(error.value.complaints)


def test_a_node_has_the_scripts_of_its_group_and_the_program_that_runs_them_everywhere(tmp_path: Path) -> None:
    found = cluster(f"{THREE_HOSTS}prolog: {{n1: gpu.d}}\n")
    (tmp_path / "gpu.d").mkdir()
    (tmp_path / "gpu.d/10-a").write_text("#!/bin/sh\n")
    wanted = replace(prepared_input(found), scripts=job_scripts.read(found, tmp_path))
    files = {
        node: [one.files for one in scripts.resources(wanted, node) if isinstance(one, Scripts)]
        for node in ("n1", "n2")
    }
    assert files == {"n1": [(("10-a", "#!/bin/sh\n"),)], "n2": [()]}
    assert any(isinstance(one, File) for one in scripts.resources(wanted, "n2"))
