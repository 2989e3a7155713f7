"""A command line that Invoke's parser does not understand: what was meant, and where to look."""

from __future__ import annotations

import pytest
from invoke.exceptions import ParseError
from invoke.parser import Parser
from invoke.parser.context import ParserContext

from slurmfab.cli.tasks import namespace
from slurmfab.cli.tasks.spelling import told


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("deplyo", "There is no task deplyo. Did you mean deploy? All tasks: fab --list."),
        ("add_node n3", "There is no task add_node. Did you mean add-node?"),
        ("nonsense", "There is no task nonsense. All tasks: fab --list."),
        ("plan deplyo", "There is no task deplyo. Did you mean deploy?"),
        ("rotate-key", "Did you mean rotate-jwt-key?"),
        ("bakup", "Did you mean backup?"),
        ("deploy --acept-new-host-keys", "deploy has no option --acept-new-host-keys. Did you mean --accept-new-host"),
        (
            "add-node --acept-new-host-keys n3",
            "add-node has no option --acept-new-host-keys. Did you mean --accept-new",
        ),
        ("deploy --hostz=n1", "deploy has no option --hostz. Did you mean --hosts? See: fab deploy --help."),
        ("deploy n7", "deploy takes no further word, but here is n7. It goes by --hosts n7. See: fab deploy --help."),
        ("history last", "history takes no further word, but here is last. It goes by --run last."),
        ("add-node", "add-node needs HOSTS: hostlist of the new compute nodes. See: fab add-node --help."),
        ("deploy --dry-run", "deploy has no option --dry-run. fab plan shows what deploy would do"),
        ("deploy --check", "fab plan shows what deploy would do"),
        ("update --check", "update has no option --check. Here it is --plan."),
        ("rollback --check", "rollback has no option --check. Here it is --dry-run."),
        ("plan --inventory hosts.ini", "plan has no option --inventory. Here it is --cluster."),
        ("check-cluster --limit n1", "check-cluster has no option --limit. Here it is --hosts."),
        ("plan --hosts n1 --hosts n2", "plan takes no further word, but here is n2."),
        (
            "ssh n1 uptime",
            "ssh takes no further word, but here is uptime. A command stands behind --: fab ssh ... -- upt",
        ),
        ("run ls /tmp", "run takes no further word, but here is /tmp. A command is one word, in quotes: fab run 'df"),
        ("run id -un", " See: fab run --help. A command is one word, in quotes: fab run 'df -h /tmp'."),
        ("-e deploy", "fab has no option -e. See: fab --help."),
        ("deploy --hosts", "--hosts needs a value. See: fab deploy --help."),
        ("deploy --yes=no", "deploy takes no further word, but here is no."),
        ("plan --drain-frist", "plan has no option --drain-frist. See: fab plan --help."),
    ],
)
def test_a_wrong_command_line_is_told_with_what_was_meant(line: str, complaint: str) -> None:
    with pytest.raises(ParseError) as refused:
        Parser(namespace.to_contexts(), ParserContext()).parse_argv(line.split())
    assert told(refused.value, namespace).startswith(complaint) or complaint in told(refused.value, namespace)
