"""The command line before Invoke reads it: help wherever it is asked for, and misspelt words with what was meant."""

from __future__ import annotations

import pytest
from invoke.exceptions import Exit
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext

from slurmfab.tasks import namespace
from slurmfab.tasks.command_line import check
from slurmfab.tasks.spelling import closest

CORE = ParserContext(
    args=[
        Argument(names=("help", "h"), optional=True),
        Argument(names=("list", "l"), optional=True),
        Argument(names=("config", "f"), help="a file"),
        Argument(name="echo", kind=bool),
    ]
)


def look_through(line: str) -> None:
    check(line.split(), CORE, namespace.to_contexts(), namespace)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--list",
        "--help deploy",
        "--echo deploy",
        "-f some.yaml deploy --echo",
        "deploy --hosts n1 --allow restart --allow other",
        "deploy --hosts=n1 -v",
        "status --json -",
        "add-node n3 --like n1",
        "add-node --like n1 n3",
        "plan deploy",
        "drain --hosts n1 --reason fan",
        "resume --hosts=n1",
        "drain resume",
        "deploy -- --anything goes",
    ],
)
def test_a_right_command_line_is_left_to_invoke(line: str) -> None:
    look_through(line)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("deplyo", "There is no task deplyo. Did you mean deploy?"),
        ("add_node n3", "There is no task add_node. Did you mean add-node?"),
        ("nonsense", "There is no task nonsense. All tasks: fab help."),
        ("--help deplyo", "There is no task deplyo. Did you mean deploy?"),
        ("plan deplyo", "There is no task deplyo. Did you mean deploy?"),
        ("deploy --acept-new-host-keys", "deploy has no option --acept-new-host-keys. Did you mean --accept-new-host"),
        ("add-node --acept-new-host-keys n3", "Did you mean --accept-new-host-keys?"),
        ("deploy --hostz=n1", "deploy has no option --hostz. Did you mean --hosts?"),
        ("plan --allow restart", "plan has no option --allow. These tasks have it: deploy"),
        ("--ecko deploy", "There is no option --ecko in front of a task. Did you mean --echo?"),
        ("deploy n7", "deploy takes no further word, but here is n7. Hosts are named by --hosts n7."),
        ("add-node", "add-node needs HOSTS: hostlist of the new compute nodes."),
        ("deploy --hosts", "--hosts needs a value: hostlist"),
    ],
)
def test_a_wrong_command_line_is_refused_with_what_was_meant(line: str, complaint: str) -> None:
    with pytest.raises(Exit) as ended:
        look_through(line)
    assert complaint in str(ended.value.message)
    assert ended.value.code == 2


@pytest.mark.parametrize("line", ["add-node --help", "add-node -h", "add-node --help n3", "add-node n3 --help"])
def test_help_is_shown_wherever_it_is_asked_for(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exit) as ended:
        look_through(line)
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: fab add-node HOSTS [OPTIONS]\n\n  Add compute nodes")


@pytest.mark.parametrize(
    ("word", "meant"), [("deplyo", "deploy"), ("rotate-key", "rotate-munge-key"), ("bakup", "backup"), ("xyz", "")]
)
def test_the_word_that_is_most_like_a_misspelt_one(word: str, meant: str) -> None:
    assert closest(word, namespace.task_names) == meant
