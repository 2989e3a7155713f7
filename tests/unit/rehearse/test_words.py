"""The command line of `fab rehearse`: the command inside is judged before anything starts, and is never carried out."""

from __future__ import annotations

from typing import Any

import pytest
from invoke.exceptions import Exit

from slurmfab.base.errors import InputError
from slurmfab.cli.tasks import TASKS
from slurmfab.cli.tasks import rehearse as task
from slurmfab.cli.tasks.rehearse import Inside
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.commands.import_cluster.importing import ImportOptions
from slurmfab.commands.rehearse import rehearsing, takeover


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[rehearsing.Wanted]:
    """What rehearsals were asked for; every other task that is carried out fails the test."""
    wanted: list[rehearsing.Wanted] = []

    def take(_cluster: str, one: rehearsing.Wanted, _output: Any) -> int:
        wanted.append(one)
        return 0

    monkeypatch.setattr(rehearsing, "rehearse", take)
    return wanted


def carry_out(line: str, **options: Any) -> None:
    TASKS["rehearse"].call(command=line, **options)


def test_a_command_line_when_read_then_has_its_values_and_becomes_the_same_words_again() -> None:
    words = ("upgrade", "--to", "26.05", "--at-once", "25%")
    assert task.read(["upgrade", "--to", "26.05", "--at-once=25%"]) == Inside(
        "upgrade", {"to": "26.05", "at_once": "25%"}, words
    )
    restore = ("restore", "a.tar", "--accept-new-host-keys", "--yes")
    assert task.read(restore).words == restore


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("deplyo", "There is no task deplyo. Did you mean deploy?"),
        ("deploy --hots n1", "deploy has no option --hots. Did you mean --hosts?"),
        ("restore", "restore needs FILE: the archive"),
        ("", "rehearse needs a command behind --: fab rehearse -- deploy"),
        ("deploy upgrade", "Name one command"),
        ("status", "status cannot be rehearsed. These can: deploy, upgrade, restore"),
        ("rehearse", "rehearse cannot be rehearsed"),
        ("deploy --help", "deploy has no option --help"),
        ("deploy --plan tonight.json", "leave out --plan"),
        ("upgrade --back old.tar", "leave out --back"),
        ("deploy --user admin --retry-failed", "leave out --retry-failed and --user"),
    ],
)
def test_a_command_that_cannot_be_rehearsed_is_refused_before_anything_starts(
    asked: list[rehearsing.Wanted], line: str, complaint: str
) -> None:
    with pytest.raises((Exit, InputError), match=complaint):
        carry_out(line)
    assert asked == []


def test_an_import_reads_no_backup_and_takes_no_identity() -> None:
    with pytest.raises(Exit, match="leave out --identity"):
        carry_out("import --hosts ctl", identity="key")


def test_the_options_of_the_rehearsal_are_taken_out_of_the_command(asked: list[rehearsing.Wanted]) -> None:
    line = "deploy --hosts n[1-2] --cluster other.yaml --json - --allow restart --allow gres -v"
    carry_out(line, power_cut="n2")
    words = ("deploy", "--allow", "restart", "--allow", "gres", "--hosts", "n[1-2]")
    assert asked == [rehearsing.Wanted(words, "n[1-2]", 0, "n2")]


def test_the_identity_that_decrypts_backups_is_an_option_of_the_rehearsal_or_of_the_restoration(
    asked: list[rehearsing.Wanted],
) -> None:
    carry_out("restore a.tar", identity="key")
    carry_out("restore a.tar --identity other")
    assert [one.identity for one in asked] == ["key", "other"]


def test_words_with_blanks_when_quoted_for_ssh_then_stay_whole(asked: list[rehearsing.Wanted]) -> None:
    carry_out("restore 'an archive.tar'")
    assert [one.words for one in asked] == [("restore", "an archive.tar")]


def test_an_import_is_rehearsed_with_its_own_options_and_the_deployment_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[tuple[str, takeover.Source, rehearsing.Wanted]] = []
    monkeypatch.setattr(
        takeover, "rehearse", lambda cluster, source, wanted, _: taken.append((cluster, source, wanted))
    )
    carry_out("import --hosts ctl --keep-files --user admin --port 2222 --cluster new.yaml", kill="2", keep=True)
    source = takeover.Source("ctl", ConnectionOptions("admin", port=2222), ImportOptions("least", keep_files=True))
    shown = "import --hosts ctl --keep-files --user admin --port 2222"
    assert taken == [("new.yaml", source, rehearsing.Wanted(("deploy",), "", 2, "", keep=True, shown=shown))]
    assert source.words == ("--adopt", "least", "--keep-files")


def test_what_has_no_meaning_on_a_twin_is_an_option_of_the_task() -> None:
    for name, options in task.REFUSED.items():
        assert set(options) <= {one.name for one in TASKS[name].parameters}
