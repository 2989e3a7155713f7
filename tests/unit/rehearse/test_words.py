"""The command line of `fab rehearse`: the command inside is judged before anything starts, and is never carried out."""

from __future__ import annotations

from typing import Any

import pytest
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext
from slurmfab.cli.tasks.command_line import Call, answer
from slurmfab.cli.tasks.invoke_tasks import check_words

from slurmfab.base.errors import InputError
from slurmfab.cli.tasks import TASKS
from slurmfab.cli.tasks import rehearse as task
from slurmfab.cli.tasks.command import Exit, Inside
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.commands.import_cluster.importing import ImportOptions
from slurmfab.commands.rehearse import rehearsing, takeover

CORE = ParserContext(args=[Argument(names=("help", "h"), optional=True), Argument(names=("list", "l"), optional=True)])


def call_of(line: str) -> Call:
    calls = answer(line.split())
    assert isinstance(calls, list)
    assert len(calls) == 1
    return calls[0]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[rehearsing.Wanted]:
    """What rehearsals were asked for; every other task that is carried out fails the test."""
    wanted: list[rehearsing.Wanted] = []

    def take(_cluster: str, one: rehearsing.Wanted, _output: Any) -> int:
        wanted.append(one)
        return 0

    monkeypatch.setattr(rehearsing, "rehearse", take)
    return wanted


def test_all_words_behind_the_command_are_the_commands_own() -> None:
    one = call_of("rehearse --kill 3 upgrade --to 26.05 --at-once=25%")
    assert one.task.name == "rehearse"
    inside = Inside("upgrade", {"to": "26.05", "at_once": "25%"}, ("upgrade", "--to", "26.05", "--at-once", "25%"))
    assert one.given == {"kill": "3", "command": inside}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("deplyo", "There is no task deplyo. Did you mean deploy?"),
        ("deploy --hots n1", "deploy has no option --hots. Did you mean --hosts?"),
        ("restore", "restore needs FILE"),
        ("deploy upgrade", "Name one command"),
        ("status", "status cannot be rehearsed. These can: deploy, upgrade, restore"),
        ("rehearse deploy", "rehearse cannot be rehearsed"),
        ("deploy --plan tonight.json", "leave out --plan"),
        ("upgrade --back old.tar", "leave out --back"),
        ("deploy --user admin --retry-failed", "leave out --retry-failed and --user"),
        ("--identity key import --hosts ctl", "leave out --identity"),
    ],
)
def test_a_command_that_cannot_be_rehearsed_is_refused_before_anything_starts(
    asked: list[rehearsing.Wanted], line: str, complaint: str
) -> None:
    def carry_out() -> None:
        one = call_of(f"rehearse {line}")
        one.task(**one.given)

    with pytest.raises((Exit, InputError), match=complaint):
        carry_out()
    assert asked == []


def test_the_options_of_the_rehearsal_are_taken_out_of_the_command(asked: list[rehearsing.Wanted]) -> None:
    line = "rehearse --power-cut n2 deploy --hosts n[1-2] --cluster other.yaml --json - --allow restart --allow gres -v"
    one = call_of(line)
    one.task(**one.given)
    words = ("deploy", "--allow", "restart", "--allow", "gres", "--hosts", "n[1-2]")
    assert asked == [rehearsing.Wanted(words, "n[1-2]", 0, "n2")]


@pytest.mark.parametrize("line", ["--identity key restore a.tar", "restore a.tar --identity key"])
def test_the_identity_that_decrypts_backups_is_an_option_of_the_rehearsal_or_of_the_restoration(
    asked: list[rehearsing.Wanted], line: str
) -> None:
    one = call_of(f"rehearse {line}")
    one.task(**one.given)
    assert [one.identity for one in asked] == ["key"]


def test_an_import_is_rehearsed_with_its_own_options_and_the_deployment_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[tuple[str, takeover.Source, rehearsing.Wanted]] = []
    monkeypatch.setattr(
        takeover, "rehearse", lambda cluster, source, wanted, _: taken.append((cluster, source, wanted))
    )
    line = "rehearse --kill 2 --keep import --hosts ctl --user admin --port 2222 --keep-files --cluster new.yaml"
    one = call_of(line)
    one.task(**one.given)
    source = takeover.Source("ctl", ConnectionOptions("admin", port=2222), ImportOptions("least", keep_files=True))
    shown = "import --hosts ctl --user admin --port 2222 --keep-files"
    assert taken == [("new.yaml", source, rehearsing.Wanted(("deploy",), "", 2, "", keep=True, shown=shown))]
    assert source.words == ("--adopt", "least", "--keep-files")


def test_a_command_line_becomes_the_same_words_again() -> None:
    inside = call_of("rehearse restore a.tar --accept-new-host-keys --yes").given["command"]
    assert inside.words == ("restore", "a.tar", "--accept-new-host-keys", "--yes")


def test_fab_when_a_command_is_rehearsed_then_invoke_never_sees_the_command(asked: list[rehearsing.Wanted]) -> None:
    with pytest.raises(Exit) as ended:
        check_words(["rehearse", "upgrade", "--to", "26.05"], CORE)
    assert ended.value.code == 0
    assert [one.words for one in asked] == [("upgrade", "--to", "26.05")]


def test_invokes_own_parser_takes_the_command_for_a_word_of_rehearse_and_for_no_task() -> None:
    from invoke.parser import Parser

    from slurmfab.cli.tasks import namespace

    found = Parser(contexts=namespace.to_contexts()).parse_argv(["rehearse", "deploy"])
    assert [context.name for context in found if context.name] == ["rehearse"]


def test_what_has_no_meaning_on_a_twin_is_an_option_of_the_task() -> None:
    for name, options in task.REFUSED.items():
        assert set(options) <= {one.name for one in TASKS[name].parameters}


def test_help_behind_the_command_is_the_commands_help() -> None:
    assert "Usage: fab upgrade" in str(answer(["rehearse", "upgrade", "--help"]))


def test_no_command_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="rehearse needs COMMAND"):
        answer(["rehearse", "--kill", "3"])
