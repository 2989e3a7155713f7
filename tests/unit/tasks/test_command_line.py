"""The command line before Invoke reads it: help wherever it is asked for, and misspelt words with what was meant."""

from __future__ import annotations

import pytest
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext
from slurmfab.cli.tasks.command_line import answer
from slurmfab.cli.tasks.invoke_tasks import check_words
from slurmfab.cli.tasks.spelling import closest

from slurmfab.base.errors import InputError
from slurmfab.cli.tasks import TASKS
from slurmfab.cli.tasks.command import Exit

CORE = ParserContext(
    args=[
        Argument(names=("help", "h"), optional=True),
        Argument(names=("list", "l"), optional=True),
        Argument(names=("config", "f"), help="a file"),
        Argument(name="echo", kind=bool),
    ]
)


@pytest.mark.parametrize("line", ["help deplyo", "completion sh", "deplyo", "--help deplyo"])
def test_a_command_line_of_slurmfab_when_it_is_misspelt_then_is_refused(line: str) -> None:
    with pytest.raises(InputError, match="There is no"):
        answer(line.split())


def look_through(line: str) -> None:
    check_words(line.split(), CORE)


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
        "deploy --",
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
        ("add-node plan --like", "--like needs a value"),
        ("drain deploy resume", "resume needs HOSTS"),
        ("history 20261121 more", "history takes no further word, but here is more."),
        ("history --json - 20261121", "history takes no further word, but here is 20261121."),
        ("deploy --host n1", "deploy has no option --host. Did you mean --hosts? See:"),
        ("deploy --dry-run", "deploy has no option --dry-run. fab plan shows what deploy would do"),
        ("deploy --check", "fab plan shows what deploy would do"),
        ("deploy --diff", "fab plan shows what deploy would do"),
        ("update --check", "update has no option --check. Here it is --plan."),
        ("rollback --check", "rollback has no option --check. Here it is --dry-run."),
        (
            "plan -i hosts.ini",
            "plan has no option -i. The cluster file takes the place of an inventory: --cluster",
        ),
        ("deploy --inventory=x", "The cluster file takes the place of an inventory: --cluster FILE."),
        ("check-cluster --limit n1", "check-cluster has no option --limit. Here it is --hosts."),
        ("drain -l n1", "drain has no option -l. Here it is --hosts."),
        ("ssh n1 -- uptime", "No task reads words behind --, and here is uptime. A command is one word"),
        ("deploy -- --anything goes", "No task reads words behind --, and here is --anything."),
        ("plan --drain-frist", "plan has no option --drain-frist."),
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
    ("word", "meant"), [("deplyo", "deploy"), ("rotate-key", "rotate-jwt-key"), ("bakup", "backup"), ("xyz", "")]
)
def test_the_word_that_is_most_like_a_misspelt_one(word: str, meant: str) -> None:
    assert closest(word, TASKS) == meant


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("", "slurmfab turns bare machines"),
        ("help", "slurmfab turns bare machines"),
        ("--list", "slurmfab turns bare machines"),
        ("-h", "slurmfab turns bare machines"),
        ("help add-node", "Usage: fab add-node HOSTS"),
        ("--help add-node", "Usage: fab add-node HOSTS"),
        ("add-node --help", "Usage: fab add-node HOSTS"),
        ("--version", "slurmfab "),
        ("completion bash", "# "),
    ],
)
def test_a_command_line_of_slurmfab_when_it_asks_for_help_then_is_answered(line: str, first: str) -> None:
    assert str(answer(line.split())).startswith(first)


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        ("deploy", [("deploy", {})]),
        ("plan --hosts n1,n2 --verbose", [("plan", {"hosts": "n1,n2", "verbose": True})]),
        ("deploy --allow=a -v --allow b", [("deploy", {"allow": ["a", "b"], "verbose": True})]),
        ("add-node n3 -v", [("add-node", {"hosts": "n3", "verbose": True})]),
        ("add-node --hosts n3", [("add-node", {"hosts": "n3"})]),
        ("history last", [("history", {"run": "last"})]),
        ("deploy --yes check-cluster --hosts n1", [("deploy", {"yes": True}), ("check-cluster", {"hosts": "n1"})]),
    ],
)
def test_a_command_line_of_slurmfab_when_it_names_tasks_then_gives_them_their_values(
    line: str, calls: list[tuple[str, dict[str, object]]]
) -> None:
    assert [(call.task.name, call.given) for call in answer(line.split())] == calls


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("plan --hosts n1 --hosts n2", "--hosts is given twice. See: fab plan --help."),
        ("deploy --yes=no", "--yes takes no value. See: fab deploy --help."),
        ("-e deploy", "There is no option -e in front of a task."),
        ("--dry deploy", "There is no option --dry in front of a task. fab plan shows what deploy would do"),
        ("deploy --list", "deploy has no option --list."),
    ],
)
def test_a_command_line_of_slurmfab_when_a_word_is_wrong_then_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(InputError) as refused:
        answer(line.split())
    assert str(refused.value).startswith(complaint)
