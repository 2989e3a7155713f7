"""What every task has in common: help for each argument, examples, and errors as text with an exit code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.tasks import Task

from slurmfab.base.errors import ClusterFileError, InputError, SlurmfabError
from slurmfab.cli.tasks import namespace
from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import COMMON, Common, names, number

TASKS: dict[str, Task] = {name.replace("_", "-"): task for name, task in namespace.tasks.items()}  # type: ignore[type-arg]
PROGRAM_WIDTH = 80
LISTED_BEFORE = len("  check-cluster   ")


@pytest.mark.parametrize("name", TASKS)
def test_a_tasks_first_line_fits_into_one_line_of_the_list(name: str) -> None:
    first, *rest = inspect.getdoc(TASKS[name]).splitlines()  # type: ignore[union-attr]
    assert first.endswith(".")
    assert len(first) <= PROGRAM_WIDTH - LISTED_BEFORE - 2
    assert not rest or rest[0] == ""


@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_help_for_every_argument(name: str) -> None:
    assert [argument.name for argument in TASKS[name].get_arguments() if not argument.help] == []


@pytest.mark.parametrize("name", TASKS)
def test_a_task_shows_an_example_of_itself(name: str) -> None:
    _, _, examples = (inspect.getdoc(TASKS[name]) or "").partition("\nExamples:\n")
    lines = examples.split("\n\n")[0].splitlines()
    assert lines
    assert all(line.strip().startswith(f"fab {name}") for line in lines)


@pytest.mark.parametrize("name", TASKS)
def test_the_flags_in_a_tasks_examples_exist(name: str) -> None:
    _, _, examples = (inspect.getdoc(TASKS[name]) or "").partition("\nExamples:\n")
    used = {word for word in examples.split() if word.startswith("--")} - {"--"}
    inside = [TASKS[word] for word in examples.split() if name == "rehearse" and word in TASKS]
    arguments = (argument for task in (TASKS[name], *inside) for argument in task.get_arguments())
    assert used <= {f"--{argument.name.strip('_').replace('_', '-')}" for argument in arguments}


def run(body: object) -> int:
    """The exit code of a task with this body."""

    def task(_common: Common) -> int | None:
        """A task."""
        return body() if callable(body) else None

    try:
        command(common=())(task).call()
    except Exit as ended:
        return int(ended.code)
    return 0


def raising(error: BaseException) -> object:
    def body() -> None:
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code"), [(SlurmfabError("no"), 1), (InputError("no"), 2), (ClusterFileError(("no",)), 2)]
)
def test_an_error_for_people_ends_as_its_text_and_its_exit_code(error: SlurmfabError, code: int) -> None:
    def task(_common: Common) -> None:
        """A task."""
        raise error

    with pytest.raises(Exit) as ended:
        command(common=())(task).call()
    assert (ended.value.message, ended.value.code) == ("no", code)


@pytest.mark.parametrize("code", [0, 1, 3, 4])
def test_what_a_task_returns_is_the_exit_code(code: int) -> None:
    assert run(lambda: code) == code


def test_a_task_that_returns_nothing_went_well() -> None:
    assert run(lambda: None) == 0


def test_a_json_file_that_cannot_be_written_is_refused_before_the_task_does_anything(tmp_path: Path) -> None:
    done = []

    @command(common=("json",))
    def task(_common: Common) -> None:
        """A task."""
        done.append(1)

    with pytest.raises(Exit) as ended:
        task.call(json=str(tmp_path))
    assert (ended.value.code, done) == (2, [])
    assert f"--json {tmp_path}: this is a folder" in ended.value.message
    task.call(json=str(tmp_path / "report.json"))
    assert done == [1]


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        run(raising(ZeroDivisionError()))


def test_shared_options_reach_a_task_as_one_object() -> None:
    seen: list[tuple[Common, str]] = []

    @command(common=("cluster", "json"))
    def task(common: Common, host: str) -> None:
        """A task."""
        seen.append((common, host))

    assert [one.name for one in task.parameters] == ["host", "cluster", "json"]
    assert {one.help for one in task.parameters[1:]} == {COMMON["cluster"], COMMON["json"]}
    task.call(host="n1", cluster="lab.yaml", json="-")
    assert seen == [(Common(cluster="lab.yaml", json="-"), "n1")]
    assert (seen[0][0].output.json, seen[0][0].output.verbose) == ("-", False)


def test_a_text_of_its_own_replaces_that_of_a_shared_option() -> None:
    @command(common=("json",), json="another text")
    def task(_common: Common) -> None:
        """A task."""

    assert [one.help for one in task.parameters] == ["another text"]


def test_hostlists_in_examples_are_quoted_for_shells_that_expand_brackets() -> None:
    examples = "\n".join((inspect.getdoc(task) or "").partition("Examples:")[2] for task in TASKS.values())
    assert re.findall(r"\S*\[\S*", examples) == re.findall(r"'[^']*\[[^']*'", examples)


@pytest.mark.parametrize(("given", "expected"), [([], ()), (["a,b", "c"], ("a", "b", "c")), ([" a , ", ""], ("a",))])
def test_names_come_with_commas_or_one_by_one(given: list[str], expected: tuple[str, ...]) -> None:
    assert names(given) == expected


@pytest.mark.parametrize(("text", "value"), [("", None), ("22", 22), ("0", 0)])
def test_a_number_that_was_given_is_read_and_one_that_was_not_is_none(text: str, value: int | None) -> None:
    assert number(text, "--port") == value


@pytest.mark.parametrize("text", ["x", "-1", "²", "2.5"])
def test_what_is_no_number_is_refused_with_its_flag(text: str) -> None:
    with pytest.raises(InputError, match="--port"):
        number(text, "--port")


def test_hosts_when_they_name_a_file_then_the_task_gets_its_hosts(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[gpu]\nn[1:2] ansible_user=admin\n")
    got: list[str] = []

    def task(_common: Common, hosts: str = "") -> int | None:
        """A task."""
        got.append(hosts)
        return 0

    command(newcomers=True, help={"hosts": "hosts"})(task).call(
        cluster=str(tmp_path / "no.yaml"), hosts=f"head,@{tmp_path}/hosts:gpu"
    )
    assert got == ["head,admin@n1,admin@n2"]


def test_hosts_when_list_and_password_would_come_from_standard_input_then_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Exit, match="both read standard input"):
        TASKS["drain"](Context(), hosts="-", cluster=str(tmp_path / "no.yaml"), ask_sudo_password=True)
