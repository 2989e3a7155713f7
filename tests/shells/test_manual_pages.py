"""The manual pages as man(1) sets them: without a warning, and with what the tasks say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from reference.description import all_tasks

pytestmark = pytest.mark.shells

MAN = Path(__file__).parents[2] / "man"
PAGES = sorted(MAN.iterdir())
TASKS = {task.name: task for task in all_tasks()}


@pytest.fixture(scope="module", autouse=True)
def groff() -> None:
    """Fail where the program is missing by which man sets pages; fish needs it as well."""
    if not shutil.which("groff"):
        pytest.fail("groff: not installed; make test-packages")


def shown(page: Path) -> str:
    """What a page shows on a terminal that is wide enough for each line."""
    # A value without a space in it is longer than some lines; the rest of the warnings count.
    command = ["groff", "-man", "-ww", "-Wbreak", "-Tutf8", "-P-cbou", "-rLL=200n", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_manual_page_when_set_then_there_is_no_warning(page: Path) -> None:
    assert "NAME" in shown(page)


def test_a_manual_page_when_read_then_has_the_options_and_examples_of_its_task() -> None:
    text, task = shown(MAN / "slurmfab-drain.1"), TASKS["drain"]
    assert "slurmfab drain HOSTS [OPTIONS]" in text
    assert "--reason TEXT" in text
    assert 'slurmfab drain n3 --reason "new disks"' in text
    assert all(meaning in text for meaning in task.exit_codes.values())


def test_the_first_page_when_read_then_names_all_tasks() -> None:
    text = shown(MAN / "slurmfab.1")
    assert [name for name in TASKS if f"slurmfab-{name}(1)" not in text] == []


def test_there_is_no_page_about_what_is_no_task() -> None:
    pages = {f"slurmfab-{name}.1" for name in TASKS} | {"slurmfab.1", "slurmfab-cluster-file.5"}
    assert {page.name for page in PAGES} == pages
