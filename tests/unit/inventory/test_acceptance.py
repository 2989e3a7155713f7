"""The key `acceptance`: what it may say, what shipped jobs bring along, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster, prepared_input

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory.job_scripts import checked_text
from slurmfab.cluster.inventory.own_jobs import LONGEST_JOB
from slurmfab.cluster.inventory.shipped_jobs import SHIPPED
from slurmfab.cluster.slurm.render import SHORTEST_LIMIT
from slurmfab.commands.accept.wanted import SHIPPED_SCRIPTS
from slurmfab.core.plan.plan import make_plan

OWN = "script: ./x.sh, pattern: 'a=(.*)'"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("{x: {}}", "acceptance.x: it needs the key script"),
        ("{x: {script: hpc}}", 'acceptance.x.script: "hpc" is neither a shipped job (known: memory'),
        ("{x: {script: ./a}}", "acceptance.x: it needs a pattern"),
        ("{x: {script: ./a, figures: {y: {}}}}", "acceptance.x.figures.y: it needs a pattern"),
        ("{memory: {figures: {cpy: {target: 3}}}}", "it has no pattern, and memory has no such figure (known: copy)"),
        (f"{{x: {{{OWN}, figures: {{y: {{pattern: '(.)'}}}}}}}}", "acceptance.x.pattern: the job has several figures"),
        ("{x: {script: ./a, pattern: 'a('}}", "acceptance.x.pattern: it is not a regular expression: missing )"),
        ("{x: {script: ./a, pattern: 'a'}}", "it has 0 groups; it needs one"),
        ("{x: {script: ./a, pattern: '(a)(b)'}}", "it has 2 groups; it needs one"),
        ("{x: {script: ./a, pattern: '(%s)'}}" % ("a" * 300), "a pattern has at most 200 characters"),
        ("{x: {script: ./a, pattern: '(a{99999999999})'}}", "it is not a regular expression"),
        (f"{{x: {{{OWN}, target: -1}}}}", "-1 is not a figure"),
        (f"{{x: {{{OWN}, target: inf}}}}", "inf is not a figure"),
        (f"{{x: {{{OWN}, target: 0}}}}", "acceptance.x.target: every figure is at least 0"),
        (f"{{x: {{{OWN}, target: fast}}}}", "acceptance.x.target"),
        (f"{{x: {{{OWN}, tolerance: 5}}}}", "acceptance.x.tolerance: it must be a percentage such as 5%"),
        (f"{{x: {{{OWN}, better: more}}}}", "acceptance.x.better: it must be 'higher' or 'lower'"),
        (f"{{x: {{{OWN}, unit: 'a\\tb'}}}}", "acceptance.x.unit"),
        (f"{{x: {{{OWN}, nodes: most}}}}", "it must be each, all or a whole number from 1 to 65536"),
        (f"{{x: {{{OWN}, nodes: 3}}}}", "acceptance.x.nodes: a job on 3 nodes cannot start: there are 2"),
        (f"{{x: {{{OWN}, nodes: 2, hosts: n1}}}}", "a job on 2 nodes cannot start: there are 1"),
        (f"{{x: {{{OWN}, hosts: c1}}}}", 'acceptance.x.hosts: "c1" is not a compute node'),
        (f"{{x: {{{OWN}, partition: gpu}}}}", '"gpu" is not a partition (known: main)'),
        (f"{{x: {{{OWN}, tasks: yes}}}}", "it must be cores or a whole number"),
        (f"{{x: {{{OWN}, gpus: some}}}}", "it must be all or a whole number"),
        (f"{{x: {{{OWN}, minutes: 61}}}}", "acceptance.x.minutes: slurmfab's own partition ends jobs after 60 minutes"),
        (f"{{x: {{{OWN}, user: 'a b'}}}}", '"a b" is not a login name'),
        (f"{{x: {{{OWN}, variables: {{SLURM_A: 1}}}}}}", "Slurm sets the variables that begin like this itself"),
        (f"{{x: {{{OWN}, targt: 3}}}}", "unknown key; did you mean target?"),
        (f"{{'a b': {{{OWN}}}}}", '"a b" is not a valid name'),
        ("[memory]", "acceptance: it must be a mapping"),
    ],
)
def test_a_mistake_is_refused_with_its_place(said: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as caught:
        cluster(THREE_HOSTS + f"acceptance: {said}\n")
    assert any(words in one and one.startswith("cluster.yaml:5: acceptance") for one in caught.value.complaints), str(
        caught.value
    )


def test_a_shipped_job_needs_nothing_but_its_name() -> None:
    job = cluster(THREE_HOSTS + "acceptance:\n  memory:\n").acceptance["memory"]
    assert job.figures_of("memory")["copy"].unit == "GB/s"
    assert job.figures_of("memory")["copy"].target is None


@pytest.mark.parametrize("said", ["{target: 12, tolerance: 2%}", "{figures: {copy: {target: 12, tolerance: 2%}}}"])
def test_a_target_is_said_of_the_job_or_of_its_figure(said: str) -> None:
    job = cluster(THREE_HOSTS + f"acceptance: {{ram: {{script: memory, {said[1:-1]}}}}}\n").acceptance["ram"]
    figure = job.figures_of("ram")["copy"]
    assert (figure.target, figure.tolerance, figure.unit, figure.better) == (12.0, 2.0, "GB/s", "higher")


def test_a_long_job_runs_in_a_partition_of_the_site_or_by_a_user() -> None:
    for more in ("partition: main", "user: ann"):
        cluster(THREE_HOSTS + f"acceptance: {{x: {{{OWN}, minutes: 600, {more}}}}}\n")
    assert LONGEST_JOB == SHORTEST_LIMIT


def test_every_shipped_job_has_a_script_that_can_be_run_and_a_place_in_the_docs() -> None:
    assert {path.name for path in SHIPPED_SCRIPTS.iterdir()} == set(SHIPPED)
    page = (Path(__file__).parents[3] / "docs" / "acceptance.md").read_text()
    for name, shipped in SHIPPED.items():
        checked_text(SHIPPED_SCRIPTS / name)
        assert f"| `{name}` |" in page
        assert all(f"`{figure}`" in page for figure in shipped.figures)
        assert all(f"`{package}`" in page for package in shipped.packages)


def test_hosts_get_nothing_because_of_acceptance_jobs() -> None:
    without, with_jobs = (cluster(THREE_HOSTS + more) for more in ("", f"acceptance: {{memory: , x: {{{OWN}}}}}\n"))
    plans = [make_plan(prepared_input(known), known.hosts) for known in (without, with_jobs)]
    assert plans[0] == plans[1]
