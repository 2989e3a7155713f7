"""The recipes for CI: their YAML, their commands, and their scripts with a slurmfab, a curl and a gh of the test."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slurmfab.cli.tasks import namespace

DOCS = Path(__file__).parents[2] / "docs"
GITLAB, GITHUB = DOCS / "recipes" / "gitlab-ci.yml", DOCS / "recipes" / "github-workflow.yml"
COMMAND = re.compile(r'"\$SLURMFAB" (\w+) ([^\n>|]*)')

STUB = """#!/bin/sh
echo "$0 $*" >>{0}/called
{1}
"""


def loaded(path: Path) -> dict[str, Any]:
    """A recipe as YAML; `on` is the text and not YAML 1.1's `true`."""
    values: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    return values


def gitlab_scripts() -> dict[str, str]:
    """The script of each job that has one, as GitLab's runner joins it."""
    recipe = loaded(GITLAB)
    before = recipe[".with_key"]["before_script"]
    return {name: "\n".join([*before, *job["script"]]) for name, job in recipe.items() if "script" in job}


def github_scripts() -> dict[str, str]:
    """The steps of each job, one after another, without those that clean up."""
    jobs = loaded(GITHUB)["jobs"]
    return {
        name: "\n".join(f"(\n{step['run']}\n)" for step in job["steps"] if "run" in step and "if" not in step)
        for name, job in jobs.items()
    }


SCRIPTS = {
    **{f"gitlab: {name}": text for name, text in gitlab_scripts().items()},
    **{f"github: {name}": text for name, text in github_scripts().items()},
}


def played(folder: Path, script: str, code: int, *, git: int = 0) -> tuple[int, str]:
    """The exit code of a script, and the programs that it called, while slurmfab ends with an exit code."""
    stubs = {
        "slurmfab": f"echo '<b>n1: hardware of @ann & co'; exit {code}",
        "curl": "cat >/dev/null; exit 0",
        "gh": "",
        "git": f"exit {git}",
    }
    for name, body in stubs.items():
        (folder / name).write_text(STUB.format(folder, body))
        (folder / name).chmod(0o755)
    (folder / "key").write_text("private\n")
    environment = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": str(folder),
        "SLURMFAB": f"{folder}/slurmfab",
        "CLUSTER": "configs/cluster.yaml",
        "SSH_KEY": str(folder / "key"),
        "COMMENT_TOKEN": "very-secret",
    }
    words = ["bash", "-e", "-o", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=False)
    assert (folder / ".ssh" / "id_ed25519").stat().st_mode & 0o777 == 0o600
    return done.returncode, (folder / "called").read_text()


def commands() -> Iterator[tuple[str, str]]:
    """Each task that the scripts call, with its options."""
    for script in SCRIPTS.values():
        yield from COMMAND.findall(script)


def test_the_recipes_when_read_then_have_a_plan_of_requests_a_saved_plan_and_its_deployment() -> None:
    assert sorted({task for task, _ in commands()}) == ["deploy", "plan"]
    assert sum("--plan saved-plan.json" in options for _, options in commands()) == 2
    assert sum("--save saved-plan.json" in options for _, options in commands()) == 2
    for task, options in commands():
        flags = {f"--{name}" for name in _flags(task)}
        assert set(re.findall(r"--[a-z-]+", options)) <= flags


def _flags(task: str) -> set[str]:
    """The names of a task's options."""
    return {name.replace("_", "-") for argument in namespace[task].get_arguments() for name in argument.names}


def test_jobs_with_the_key_when_the_recipe_is_github_then_are_not_for_forks_and_have_an_environment() -> None:
    recipe = loaded(GITHUB)
    assert sorted(recipe["on"]) == ["pull_request", "push"]
    assert recipe["permissions"] == {"contents": "read"}
    assert all(job["environment"].startswith("cluster") for job in recipe["jobs"].values())
    assert "head.repo.full_name == github.repository" in recipe["jobs"]["comment"]["if"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_when_read_then_is_a_script_that_takes_nothing_from_the_request_into_the_shell(name: str) -> None:
    subprocess.run(["bash", "-n"], input=SCRIPTS[name], text=True, check=True)
    assert "${{" not in SCRIPTS[name]
    assert "ssh-keyscan" not in SCRIPTS[name]


@pytest.mark.parametrize("name", [name for name in SCRIPTS if "deploy" not in name])
@pytest.mark.parametrize(("code", "ended"), [(0, 0), (3, 0), (4, 0), (1, 1), (2, 2)])
def test_a_plan_when_it_has_ended_then_only_failures_end_its_job(
    name: str, code: int, ended: int, tmp_path: Path
) -> None:
    assert played(tmp_path, SCRIPTS[name], code)[0] == ended


@pytest.mark.parametrize("name", ["gitlab: plan of a merge request", "github: comment"])
def test_a_comment_when_a_host_tells_markup_then_shows_it_as_text_and_no_argument_has_the_token(
    name: str, tmp_path: Path
) -> None:
    _, called = played(tmp_path, SCRIPTS[name], 4)
    assert (tmp_path / "comment.md").read_text() == ("<pre>\n  &lt;b&gt;n1: hardware of &#64;ann &amp; co\n\n</pre>\n")
    assert "/curl" in called or "/gh" in called
    assert "very-secret" not in called


@pytest.mark.parametrize("name", ["gitlab: deploy", "github: deploy"])
@pytest.mark.parametrize(("code", "git", "ended"), [(0, 0, 0), (3, 0, 3), (1, 0, 1), (0, 1, 1)])
def test_a_deployment_when_it_failed_or_the_lock_has_changed_then_fails(
    name: str, code: int, git: int, ended: int, tmp_path: Path
) -> None:
    assert played(tmp_path, SCRIPTS[name], code, git=git)[0] == ended
