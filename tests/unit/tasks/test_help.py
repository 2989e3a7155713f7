"""What slurmfab says about itself."""

from __future__ import annotations

from fabric import task
from invoke.collection import Collection

from slurmfab.cli.tasks import GROUPS, TASKS, namespace, overview


def test_all_tasks_are_shown_in_groups_under_a_sentence_about_the_program() -> None:
    first, *rest = overview(namespace).splitlines()
    assert first.startswith("slurmfab turns bare machines into a working Slurm cluster")
    headings = [line for line in rest if line and not line.startswith(" ")]
    assert headings[:-1] == [f"{title}:" for title, _ in GROUPS]
    assert headings[-1] == "Help for one task: fab TASK --help. Options in front of a task: fab --help."
    assert [line.split()[0] for line in rest if line.startswith("  ")] == list(TASKS)


def test_tasks_of_a_site_when_there_are_some_then_are_the_last_group() -> None:
    @task
    def hello(_c: object) -> None:
        """Say hello."""

    tasks = Collection(*TASKS.values(), hello, gpu=Collection(driver=hello))
    _, _, site = overview(tasks).partition("\nTasks of the fabfile:\n")
    assert [line.split() for line in site.splitlines()[:2]] == [
        ["hello", "Say", "hello."],
        ["gpu.driver", "Say", "hello."],
    ]
