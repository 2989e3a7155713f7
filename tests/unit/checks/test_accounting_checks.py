"""What the checks of accounting and of mail find on stand-in hosts, and the words in which they say it."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmfab.cluster.inventory import loading as inventories
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.checks import test_accounting, test_mail
from slurmfab.commands.checks.applies import DoesNotApply, Drifted
from slurmfab.commands.checks.hosts import CheckedHost, record_of
from slurmfab.commands.checks.plugin import Checks
from slurmfab.commands.checks.shell import CommandResult
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.commands.checks.test_accounting import Associations

Skipped = pytest.skip.Exception

FILE = """
cluster: tiny
addresses: {ctl: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}
controllers: [ctl]
nodes: [{hosts: "n[1-2]"}]
database: ctl
qos: [{name: normal}]
accounts: [{name: physics}]
users: [{name: ada, accounts: physics}]
"""
SHOWN = """\
Current Association Manager state

Association Records

ClusterName=tiny Account=root UserName= Partition= Priority=0 ID=1
    SharesRaw/Norm/Level/Factor=1/0.00/1/0.00
ClusterName=tiny Account=root UserName=slurm(64030) Partition= Priority=0 ID=2
ClusterName=tiny Account=physics UserName= Partition= Priority=0 ID=3
ClusterName=tiny Account=physics UserName=ada({uid}) Partition= Priority=0 ID=4

QOS Records

QOS=normal(1)
    UsageRaw=0.000000
"""
IN_FORCE = SHOWN.format(uid=4001)
JOB = "12\n"


@pytest.fixture
def cluster() -> Cluster:
    return inventories.parse(FILE, "tiny.yaml")


@pytest.fixture
def controller(shells: dict[str, Any]) -> CheckedHost:
    """A controller on which all of this is well."""
    rules = {
        "scontrol show config": "AccountingStorageEnforce = associations,limits,qos,safe\nMailProg = /usr/bin/mail\n",
        "scontrol show assoc_mgr": IN_FORCE,
        "^id nobody$": "uid=65534(nobody)\n",
        "sbatch --test-only": refused("You have no account on the cluster tiny, and jobs run on accounts only."),
        "sacctmgr .*show cluster": "tiny\n",
        "sinfo": "n2\nn1\n",
        "sacct ": "FAILED|7:0|1|slurm\n",
        "srun .*exit 7": CommandResult(7, JOB.encode()),
    }
    shells["ctl"].rules = {**rules, **{name: rule for name, rule in shells["ctl"].rules.items() if name not in rules}}
    return CheckedHost("ctl", shells["ctl"])


def refused(*words: str) -> CommandResult:
    lines = [*words, "Batch job submission failed: Invalid account or account/partition combination specified"]
    return CommandResult(1, b"", "".join(f"sbatch: error: {line}\n" for line in lines).encode())


def test_what_slurmctld_shows_is_read_into_accounts_users_and_qos() -> None:
    found = test_accounting.parse(IN_FORCE)
    assert found.pairs == {("root", ""), ("root", "slurm"), ("physics", ""), ("physics", "ada")}
    assert (found.qos, found.strangers) == ({"normal"}, ())


def test_a_user_without_a_number_is_a_stranger_to_slurmctld() -> None:
    assert test_accounting.parse(SHOWN.format(uid=4294967294)).strangers == ("ada",)


def test_what_is_missing_is_named() -> None:
    expected = Associations(frozenset({("physics", ""), ("physics", "ada")}), frozenset({"normal"}))
    nothing = Associations(frozenset(), frozenset())
    assert test_accounting.missing(nothing, expected) == ["QOS normal", "account physics", "user ada in physics"]


def test_accounts_as_in_the_cluster_file_pass(controller: CheckedHost, cluster: Cluster) -> None:
    test_accounting.test_accounts_are_in_force(controller, Slurm(controller, cluster), cluster)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"show config": "AccountingStorageEnforce = none\n"}, "does not require accounts"),
        ({"show assoc_mgr": IN_FORCE.replace("ada", "eve")}, "slurmctld does not know: user ada in physics. Repair"),
        ({"show assoc_mgr": SHOWN.format(uid=4294967294)}, "ctl has no UNIX user ada, so slurmctld refuses their jobs"),
    ],
)
def test_accounts_that_are_not_in_force_fail_with_what_is_wrong(
    controller: CheckedHost, shells: dict[str, Any], cluster: Cluster, answers: dict[str, str], words: str
) -> None:
    shells["ctl"].rules.update({f"scontrol {command}": answer for command, answer in answers.items()})
    with pytest.raises(AssertionError, match=words):
        test_accounting.test_accounts_are_in_force(controller, Slurm(controller, cluster), cluster)


@pytest.mark.parametrize(("enforced", "is_right"), [("none", True), ("associations,limits", False)])
def test_a_cluster_that_records_jobs_and_holds_nobody_has_a_check_of_its_own(
    controller: CheckedHost, shells: dict[str, Any], cluster: Cluster, enforced: str, *, is_right: bool
) -> None:
    shells["ctl"].rules["scontrol show config"] = f"AccountingStorageEnforce = {enforced}\n"
    slurm = Slurm(controller, cluster)
    if is_right:
        test_accounting.test_jobs_need_no_account(controller, slurm)
        return
    with pytest.raises(AssertionError, match=r"slurmctld requires accounts .* and the cluster file does not"):
        test_accounting.test_jobs_need_no_account(controller, slurm)


def test_accounts_need_no_enforcement_where_the_cluster_file_leaves_it_out() -> None:
    off = inventories.parse(f"{FILE}slurm_conf: {{AccountingStorageEnforce: null}}\n", "tiny.yaml")
    assert (off.has_accounts, off.enforces_accounts) == (True, False)


def test_a_job_on_record_as_it_ended_passes(controller: CheckedHost, cluster: Cluster) -> None:
    test_accounting.test_finished_job_is_on_record(controller, controller, Slurm(controller, cluster))


def test_the_record_of_a_job_is_its_own_although_a_lost_array_had_its_number(tmp_path: Path) -> None:
    (tmp_path / "sacct").write_text("#!/bin/sh\nprintf '109|FAILED|slurm\\n110|COMPLETED|ann\\n'\n")
    (tmp_path / "sacct").chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", record_of("109", "State", "User")],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "FAILED|slurm\n"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("\n", "sacct has no record of job 12 20 s after its end"),
        (
            "COMPLETED|0:0|1|slurm\n",
            "ended with exit code 7, but sacct shows user slurm, state COMPLETED, exit code 0:0",
        ),
        ("FAILED|7:0|9999|slurm\n", "but sacct shows 9999 s"),
    ],
)
def test_a_job_on_record_as_it_did_not_end_fails(
    controller: CheckedHost, shells: dict[str, Any], cluster: Cluster, record: str, words: str
) -> None:
    shells["ctl"].rules["sacct "] = record
    with pytest.raises(AssertionError, match=words):
        test_accounting.test_finished_job_is_on_record(controller, controller, Slurm(controller, cluster))


def test_a_slurmdbd_that_is_away_is_one_failure(
    controller: CheckedHost, shells: dict[str, Any], cluster: Cluster
) -> None:
    shells["ctl"].rules["sacctmgr .*show cluster"] = CommandResult(1, b"", b"sacctmgr: error: Connection refused\n")
    with pytest.raises(AssertionError, match="slurmdbd does not answer ctl"):
        test_accounting.test_slurmdbd_knows_the_cluster(controller, controller, cluster)
    with pytest.raises(Skipped, match="slurmdbd does not answer"):
        test_accounting.test_finished_job_is_on_record(controller, controller, Slurm(controller, cluster))


def test_a_cluster_that_slurmdbd_does_not_know_fails(
    controller: CheckedHost, shells: dict[str, Any], cluster: Cluster
) -> None:
    shells["ctl"].rules["sacctmgr .*show cluster"] = "other\n"
    with pytest.raises(AssertionError, match="slurmdbd does not know the cluster tiny"):
        test_accounting.test_slurmdbd_knows_the_cluster(controller, controller, cluster)


@pytest.mark.parametrize(
    ("state", "found", "expected"),
    [
        ("tiny|2469", "2469", nullcontext()),
        ("tiny|2469", "77", pytest.raises(AssertionError, match=r"is 2469 in .* and 77 in slurmdbd")),
        ("tiny|2469", "", pytest.raises(AssertionError, match="and none in slurmdbd")),
        ("tiny", "77", pytest.raises(DoesNotApply)),
    ],
)
def test_another_cluster_id_in_the_database_fails_before_slurmctld_does(
    shells: dict[str, Any], cluster: Cluster, state: str, found: str, expected: AbstractContextManager[Any]
) -> None:
    ctl = CheckedHost("ctl", shells["ctl"])
    shells["ctl"].rules = {"cat .*clustername": f"{state}\n", "mariadb ": f"{found}\n"}
    with expected:
        test_accounting.test_slurmctld_would_start_with_this_database(ctl, ctl, cluster)


def test_a_slurmctld_that_slurmdbd_has_no_address_of_fails(
    controller: CheckedHost, shells: dict[str, Any], cluster: Cluster
) -> None:
    shells["ctl"].rules["sacctmgr .*show cluster"] = "6817\n"
    test_accounting.test_slurmdbd_knows_slurmctld(controller, controller, cluster)
    shells["ctl"].rules["sacctmgr .*show cluster"] = "0\n"
    with pytest.raises(AssertionError, match="no address of slurmctld"):
        test_accounting.test_slurmdbd_knows_slurmctld(controller, controller, cluster)


LOCK = Lock(slurm="24.11.5", hosts={"ctl": HostLock("ctl")})


def test_who_has_no_account_and_is_told_so_passes(controller: CheckedHost, cluster: Cluster) -> None:
    test_accounting.test_without_an_account_no_job_runs(controller, Slurm(controller, cluster), cluster, LOCK)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (CommandResult(0, b"", b"sbatch: Job 3 to start\n"), "the user nobody has no account but may run jobs"),
        (refused(), "are refused, but the error does not say what to do"),
        (
            CommandResult(1, b"", b"sbatch: error: no partition\n"),
            "are refused, but for another reason: .*no partition",
        ),
    ],
)
def test_who_has_no_account_and_gets_something_else_fails(
    controller: CheckedHost, shells: dict[str, Any], cluster: Cluster, answer: CommandResult, words: str
) -> None:
    shells["ctl"].rules["sbatch --test-only"] = answer
    with pytest.raises(AssertionError, match=words):
        test_accounting.test_without_an_account_no_job_runs(controller, Slurm(controller, cluster), cluster, LOCK)


def test_slurms_own_words_are_enough_where_the_plugins_are_the_users_own(
    controller: CheckedHost, shells: dict[str, Any]
) -> None:
    own = inventories.parse(f"{FILE}slurm_conf: {{JobSubmitPlugins: lua}}\n", "tiny.yaml")
    shells["ctl"].rules["sbatch --test-only"] = refused()
    test_accounting.test_without_an_account_no_job_runs(controller, Slurm(controller, own), own, LOCK)


@pytest.mark.parametrize(
    ("there", "words"),
    [("-- by hand", "job_submit.lua has been changed"), (None, "missing; slurmctld cannot start again without it")],
)
def test_a_script_for_jobs_that_is_not_slurmfabs_is_drift(
    controller: CheckedHost, shells: dict[str, Any], cluster: Cluster, there: str | None, words: str
) -> None:
    shells["ctl"].rules["test -e /etc/slurm/job_submit.lua"] = CommandResult(0 if there else 1)
    shells["ctl"].rules["cat .*/etc/slurm/job_submit.lua"] = there or ""
    with pytest.raises(Drifted, match=words):
        test_accounting.test_script_for_jobs_is_sound(controller, Inventory(cluster, LOCK, Path("tiny.yaml")))


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"called": True, "errors": []}, ""),
        ({"called": False, "errors": []}, "did not call /usr/bin/mail within 15 s"),
        (
            {"called": True, "errors": ["[2026-11-21T15:00:00.000] error: MailProg returned error, 'no route'"]},
            "rejected the mail: MailProg returned error, 'no route'",
        ),
    ],
)
def test_mail_passes_when_the_program_was_called_and_did_not_fail(
    controller: CheckedHost, shells: dict[str, Any], cluster: Cluster, told: dict[str, Any], words: str
) -> None:
    shells["ctl"].rules["inotify"] = f"\n{json.dumps(told)}\n"
    if not words:
        test_mail.test_end_of_a_job_is_mailed(controller, Slurm(controller, cluster))
        return
    with pytest.raises(AssertionError, match=words):
        test_mail.test_end_of_a_job_is_mailed(controller, Slurm(controller, cluster))


@pytest.mark.parametrize(
    ("text", "program", "places"),
    [
        (FILE, "", {"database": ("ctl",), "enforcer": ("ctl",), "mailer": ()}),
        (FILE, "/usr/bin/mail", {"database": ("ctl",), "enforcer": ("ctl",), "mailer": ("ctl",)}),
        (FILE.partition("database")[0], "", {"database": (), "enforcer": (), "mailer": ()}),
    ],
)
def test_checks_are_of_what_the_cluster_has(
    text: str, program: str, places: dict[str, tuple[str, ...]], shells: dict[str, Any]
) -> None:
    lock = replace(LOCK, hosts={"ctl": HostLock("ctl", mail_program=program)})
    known = Inventory(inventories.parse(text, "tiny.yaml"), lock, Path("tiny.yaml"))
    checks = Checks(known, ("ctl", "n1", "n2"), shells)
    assert {name: checks.places[name] for name in places} == places
