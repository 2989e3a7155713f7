"""The account tree of a cluster file in a real slurmdbd: made, kept, repaired, pruned, and written back to a file."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import account_trees
import pytest
from lab_cluster import PROGRAM, DeployedLab, ended, eventually, report, succeeded
from lab_user import words_of
from stock import Stock, in_turn

from slurmfab import lab
from slurmfab.on_hosts.agent.client.commands import SHARE_WIDTHS, in_widths, rows_of_widths

pytestmark = pytest.mark.lab

PARTITIONS = "partitions:\n  - {PartitionName: main, Nodes: ALL, Default: YES, MaxTime: 1-00:00:00}\n"
TREE = f"database: ctl\nunix_users: false\n{account_trees.TREE}"
SUBMIT = "cd /tmp && runuser -u {} -- sbatch --parsable -o /dev/null {} --wrap 'sleep 3600'"


@dataclass(frozen=True)
class Accounts:
    """A cluster with an account tree.

    Args:
        lab: the lab, whose cluster file ends in the tree.
        head: the cluster file without it.
    """

    lab: DeployedLab
    head: str

    def on(self, script: str) -> str:
        return self.lab.on("ctl", script)

    def write(self, tree: str = TREE, partitions: str = PARTITIONS) -> None:
        self.lab.inventory_path.write_text(self.head + partitions + tree)

    def changes(self, *words: str) -> dict[str, tuple[str, str]]:
        """What a plan would change in the account tree: actual and wanted, by name."""
        done = ended(self.lab.slurmfab("plan", "--json", "-", *words), 4)
        return in_tree(report(subprocess.CompletedProcess([], 0, done.stdout, done.stderr)))

    def deploy(self, *words: str) -> dict[str, tuple[str, str]]:
        """What a deployment changes there; a second one changes nothing at all."""
        changed = in_tree(self.lab.deploy(*words))
        again = self.lab.deploy(*words)["steps"]
        assert again == []
        return changed


def in_tree(told: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The changes of the account tree in a report."""
    return {
        change["name"]: (change["actual"], change["wanted"])
        for step in told["steps"]
        for outcome in step["outcomes"]
        if outcome["id"].startswith("accounts")
        for change in outcome["changes"]
    }


@pytest.fixture(scope="module", params=in_turn("accounts"))
def accounts(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Accounts]:
    """A cluster that got its whole tree in the deployment that brought the database, with a job of ada's running."""
    with stock.copy(request.param, database=True, nodes=1, gpus=("n1:2",)) as cluster:
        for host in ("ctl", "n1"):
            cluster.on(host, "useradd -u 3001 ada; useradd -u 3002 bob")
        head = cluster.inventory_path.read_text().partition("partitions:")[0] + "user_tools: true\n"
        tree = Accounts(cluster, head)
        tree.write()
        cluster.deploy()
        yield tree


def test_the_first_deployment_makes_the_whole_tree_and_the_second_nothing(accounts: Accounts) -> None:
    assert accounts.lab.deploy()["steps"] == []
    assert accounts.on("sacctmgr -nP show qos format=name,priority,maxtrespu,grptres,flags | sort") == (
        "high|1000||cpu=100,mem=10G|DenyOnLimit,OverPartQOS\nlow|0|||\nnormal|0|cpu=2,gres/gpu=1||"
    )
    shown = accounts.on("sacctmgr -nP show assoc woplimits format=account,user,parentname,qos,defaultqos")
    assert set(shown.splitlines()) == {
        "root|||normal|",
        "root|root|||",
        "root|slurm|||",
        "physics||root|high,low,normal|",
        "physics|ada|||high",
        "theory||physics||",
        "theory|ada|||high",
        "biology||root||",
        "biology|bob|||",
    }
    assert (
        accounts.on("sacctmgr -nP show user format=user,defaultaccount,adminlevel | grep ada") == "ada|theory|Operator"
    )
    assert "associations,limits,qos,safe" in accounts.on("scontrol show config | grep AccountingStorageEnforce").lower()


def test_slurm_holds_users_to_it_and_slurmfab_may_still_run_jobs(accounts: Accounts) -> None:
    accounts.on("useradd -u 3003 -N eve 2>/dev/null; true")
    refused = accounts.lab.on("ctl", SUBMIT.format("eve", "-n1") + " 2>&1", check=False)
    assert "ccount" in refused
    job = accounts.on(SUBMIT.format("ada", "-n1 --mem=50 -t 30"))
    accounts.lab.until("ctl", f"squeue -h -j {job} -o '%T %a %q'", "RUNNING theory high")
    accounts.on(f"scancel {job}")
    assert accounts.on("runuser -u slurm -- srun -n1 -t 1 --mem=50 hostname") == "n1"


MISTAKES = r"""#!/bin/bash
#SBATCH --partition=mian --account=physix --time=2h
#SBATCH --gres=gpu:3 --cpus-per-task=200
#SBATCH --qos=high --mem=9999G --output=/nowhere/%j.out
hostname
#SBATCH --nodes=2
"""


def test_a_user_whose_qos_lets_no_job_start_is_told_the_limit_and_is_not_kept_waiting(accounts: Accounts) -> None:
    accounts.on("sacctmgr -i modify qos normal set MaxTRESPerJob=cpu=0")
    words = ("quickcheck", "--user", "bob", "--only", "environment,allocation", "--json", "-")
    checks = json.loads(accounts.lab.slurmfab(*words).stdout)["checks"]
    accounts.on("sacctmgr -i modify qos normal set MaxTRESPerJob=cpu=-1")
    told = {one["check"]: (one["outcome"], one["words"]) for one in checks if one["check"] in words[4]}
    assert {outcome for outcome, _ in told.values()} == {"not run"}, checks
    assert "a limit holds the job of bob. Slurm's reason: QOSMaxCpuPerJobLimit." in told["environment"][1]
    assert "a limit holds it (QOSMaxCpuPerJobLimit)" in told["allocation"][1]
    assert accounts.on("squeue -h -u bob") == ""


def test_slint_tells_a_user_what_is_wrong_in_a_script_and_sbatch_agrees(accounts: Accounts) -> None:
    accounts.on(f"cat >/tmp/wrong.sh <<'END'\n{MISTAKES}END")
    done = accounts.lab.on("ctl", "cd /tmp && runuser -u ada -- slint --json wrong.sh; echo $?", check=False)
    told, _, code = done.rpartition("\n")
    script = json.loads(told)["files"][0]
    found = {(one["line"], one["rule"]): one["instead"] for one in script["findings"] if one["severity"] == "error"}
    assert found == {
        (2, "partition"): "#SBATCH --partition=main",
        (2, "account"): "#SBATCH --account=physics",
        (2, "time"): "#SBATCH --time=02:00:00",
        (4, "path"): "mkdir -p /nowhere, or a directory that exists",
        (6, "late"): "the same line above line 5",
    }
    assert (code, script["sbatch"]["accepted"]) == ("1", False)
    accounts.on("sed -i 's/mian/main/; s/physix/theory/; s/2h/60/; s/nowhere/tmp/; /nodes/d' /tmp/wrong.sh")
    shown = accounts.lab.on("ctl", "runuser -u ada -- slint /tmp/wrong.sh", check=False)
    for words in ("gives more than", "has more than 2 GPUs", "sbatch --test-only refuses it", "would wait for ever"):
        assert words in shown
    accounts.on("sed -i 's/:3/:1/; s/200/1/; s/9999G/50/; ' /tmp/wrong.sh")
    shown = accounts.on("runuser -u ada -- slint /tmp/wrong.sh")
    assert "sbatch --test-only takes it: submitted now" in shown


WITH_SJOB = (
    "cd /tmp && runuser -u ada -- sjob --name proof --gpus 1 --cpus 1 --memory 50M --time 5m --output proof.sh --force"
    """ --command 'echo "$SLURM_JOB_NAME on $(hostname) has GPU $CUDA_VISIBLE_DEVICES"'"""
)


def test_sjob_writes_a_script_that_sbatch_takes_and_that_runs(accounts: Accounts) -> None:
    accounts.on("touch /tmp/proof.sh && chown ada /tmp/proof.sh")
    shown = accounts.on(WITH_SJOB)
    assert "proof.sh: sbatch --test-only takes it" in shown
    assert "#SBATCH --gres=gpu:1\n#SBATCH --time=00:05:00\n" in accounts.on("cat /tmp/proof.sh")
    job = accounts.on("cd /tmp && runuser -u ada -- sbatch --parsable proof.sh")
    accounts.lab.until("n1", f"cat /tmp/proof-{job}.out", "proof on n1 has GPU 0", 120)
    refused = accounts.lab.on("ctl", WITH_SJOB.replace("--gpus 1", "--gpus 3") + " 2>&1", check=False)
    assert refused == "sjob: --gpus: there are at most 2 GPUs on a node"


def test_what_somebody_changed_by_hand_is_shown_and_put_right(accounts: Accounts) -> None:
    accounts.on("sacctmgr -i modify qos high set Priority=5 MaxTRESPerUser=cpu=9")
    accounts.on("sacctmgr -i modify user bob where account=biology set MaxJobs=1 Fairshare=7")
    accounts.on("sacctmgr -i modify account theory set parent=root")
    accounts.on("sacctmgr -i delete coordinator account=physics names=ada")
    drift = {
        "qos high Priority": ("5", "1000"),
        "qos high MaxTRESPerUser": ("cpu=9", ""),
        "account theory Parent": ("root", "physics"),
        "account physics Coordinators": ("", "ada"),
        "user bob in biology MaxJobs": ("1", ""),
        "user bob in biology Fairshare": ("7", "5"),
    }
    assert accounts.changes() == drift
    assert accounts.deploy() == drift


def test_an_edited_file_moves_accounts_clears_limits_and_takes_lists_of_qos_away(accounts: Accounts) -> None:
    accounts.write(
        TREE.replace("name: biology", "{name: biology, parent: theory}")
        .replace("cpu=5,mem=10250M,node=3", "mem=2G")
        .replace(', QOS: "normal,high,low"', ', QOS: "normal,low"')
        .replace("DefaultQOS: high, AdminLevel: operator", "DefaultQOS: low")
        .replace("GraceTime: 60, ", "")
        .replace("coordinators: ada, ", "")
    )
    assert accounts.deploy() == {
        "qos low GraceTime": ("60", "0"),
        "account biology Parent": ("root", "theory"),
        "account theory GrpTRES": ("cpu=5,mem=10250M,node=3", "mem=2G"),
        "account physics Coordinators": ("ada", ""),
        "account physics QOS": ("high,low,normal", "low,normal"),
        "user ada in theory DefaultQOS": ("high", "low"),
        "user ada in physics DefaultQOS": ("high", "low"),
        "user ada AdminLevel": ("Operator", "None"),
    }
    accounts.write()
    assert len(accounts.deploy()) == 8


def test_what_the_file_does_not_name_is_left_alone_until_it_may_go(accounts: Accounts) -> None:
    accounts.on("sacctmgr -i add qos ancient; sacctmgr -i add account old; sacctmgr -i add account older parent=old")
    accounts.on("id zed 2>/dev/null || useradd -u 3004 zed; sacctmgr -i add user zed account=older")
    accounts.lab.on("n1", "id zed 2>/dev/null || useradd -u 3004 zed")
    accounts.on("sacctmgr -i add user ada account=biology")
    words = "user ada in biology, user zed, account older, account old, qos ancient"
    told = succeeded(accounts.lab.slurmfab("deploy"))
    left = f"not in the cluster file, left unchanged: {words}. To remove them: slurmfab deploy --prune."
    assert left in told.stdout + told.stderr
    assert accounts.changes("--prune") == {"not in the cluster file": (words, "")}
    job = accounts.on(SUBMIT.format("zed", "-n1 --mem=50 -t 30"))
    accounts.lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    refused = ended(accounts.lab.slurmfab("deploy", "--prune"), 1)
    assert "jobs still run there" in refused.stderr
    assert f"JobID = {job}" in refused.stderr
    accounts.on(f"scancel {job}")
    accounts.lab.until("ctl", f"squeue -h -t R,CG -j {job} -o %T", "")
    accounts.deploy("--prune")
    left = accounts.on("sacctmgr -nP show assoc format=account,user; sacctmgr -nP show qos format=name")
    assert not {"old|", "older|zed", "biology|ada", "ancient"} & set(left.splitlines())
    assert {"root|root", "root|slurm", "normal"} <= set(left.splitlines())


COORDINATOR = """
as_carl() { runuser -u carl -- sacctmgr -i "$@"; }
as_carl add account sub parent=physics description='a
biology||evil|evil
users: [{name: evil, sudo: true}]'
as_carl add account other parent=physics organization='q
root||root|r'
as_carl add account 'ev
il|root' parent=physics
as_carl add user bob account=physics partition='p
9|biology|bob||'
as_carl add user 'no
one|Administrator' account=physics
"""
"""A coordinator puts line breaks and rows of others into all that coordinators can name or write."""

WITH_CARL = TREE.replace("coordinators: ada", "coordinators: [ada, carl]") + "  - {name: carl, accounts: physics}\n"
NAMED = (
    "the description of account sub, set by carl",
    "the organization of account other, set by carl",
    "the name of account ev\\nil|root, set by carl",
    "the partition of user bob in account physics, set by carl",
    "the name of user no\\none|administrator in account physics, set by carl",
)


def test_line_breaks_of_a_coordinator_then_stop_no_deployment_forge_nothing_and_are_named(accounts: Accounts) -> None:
    for host in ("ctl", "n1"):
        accounts.lab.on(host, "useradd -u 3009 carl")
    accounts.write(WITH_CARL)
    accounts.deploy()
    accounts.on(COORDINATOR)
    assert in_tree(accounts.lab.deploy()) == {}
    told = accounts.lab.slurmfab("plan")
    said = " ".join(f"{told.stdout}{told.stderr}".split())
    assert all(one in said for one in NAMED), said
    accounts.on("sacctmgr -i add user bob account='ev\nil|root'")
    accounts.on("runuser -u bob -- srun -D /tmp -A 'ev\nil|root' --mem=20 sleep 1")
    accounts.lab.until("ctl", "sacct -n -X -u bob -o state | tail -1 | xargs", "COMPLETED")
    used = accounts.lab.slurmfab("usage", "--by", "account")
    assert "ev\\nil|root" in used.stdout, used.stderr
    done = lab.run(accounts.lab.lab, "ctl", shlex.split(f"sshare -n --users=root --format={in_widths(SHARE_WIDTHS)}"))
    shares = rows_of_widths(done.stdout.encode(), SHARE_WIDTHS, "sshare")
    ratios = {account.strip(): float(ratio) for account, user, ratio, *_ in shares if not user and ratio}
    assert {"root", "physics", "biology", "ev\nil|root"} <= ratios.keys()
    assert all(0 <= ratio <= 1 for ratio in ratios.values()), ratios
    accounts.write(WITH_CARL.replace("Priority: 1000", "Priority: 7"))
    assert in_tree(accounts.lab.deploy()) == {"qos high Priority": ("1000", "7")}
    exported = accounts.lab.slurmfab("accounts-export").stdout
    assert not [line for line in exported.splitlines() if line.startswith("users: [")], exported
    accounts.write()
    accounts.on("sacctmgr -i delete user where name=bob account=physics")
    accounts.deploy("--prune")
    assert "evil" not in accounts.on("sacctmgr -nP show account format=account,description")


def test_what_is_exported_and_deployed_changes_nothing(accounts: Accounts) -> None:
    exported = succeeded(accounts.lab.slurmfab("accounts-export"))
    accounts.write("database: ctl\n")
    again = accounts.lab.slurmfab("accounts-export").stdout
    accounts.write("database: ctl\n" + again)
    assert again == exported.stdout
    # The guide for users is made from the file, which says the same in other words now.
    assert {step["phase"] for step in accounts.lab.deploy()["steps"]} <= {"user tools"}
    accounts.write("")
    assert accounts.lab.slurmfab("accounts-export").stdout.startswith(
        again.partition("unix_users")[0] + "database: HOST"
    )
    accounts.write()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("parent: physics", "parent: physix", '"physix" is not a known account (did you mean physics?)'),
        ("MaxJobsPU", "MaxJobsPerUsr", "Slurm has no such limit here; did you mean MaxJobsPerUser?"),
        ("name: low,", "name: low, Preempt: high,", "the QOS form a loop: high preempts low preempts high"),
        ("DefaultQOS: high", "DefaultQOS: hihg", '"hihg" is not a known QOS (did you mean high?)'),
        ("gres/gpu=1", "gres/fpga=1", "slurmctld does not count gres/fpga"),
        ("name: bob", "name: ghost", "ctl: users: ghost: no such user there"),
    ],
)
def test_a_mistake_is_refused_and_nothing_is_changed(accounts: Accounts, old: str, new: str, said: str) -> None:
    accounts.write(TREE.replace(old, new))
    before = accounts.on("sacctmgr -nP show qos; sacctmgr -nP show assoc; cat /etc/slurm/slurm.conf")
    refused = ended(accounts.lab.slurmfab("deploy"), 2)
    assert said in refused.stderr
    assert accounts.on("sacctmgr -nP show qos; sacctmgr -nP show assoc; cat /etc/slurm/slurm.conf") == before
    accounts.write()


def test_a_slurmdbd_that_is_down_is_said_by_a_plan_and_started_by_a_deployment(accounts: Accounts) -> None:
    accounts.on("systemctl stop slurmdbd")
    plan = accounts.lab.slurmfab("plan")
    assert "slurmdbd does not run" in plan.stdout + plan.stderr
    assert accounts.deploy() == {}


def test_a_slurmdbd_that_waits_for_its_database_is_told_in_its_own_words(accounts: Accounts) -> None:
    accounts.on("systemctl stop mariadb; : >/var/log/slurm/slurmdbd.log; systemctl restart --no-block slurmdbd")
    accounts.lab.until("ctl", "grep -q 'Trying again' /var/log/slurm/slurmdbd.log && echo waits", "waits")
    said = accounts.lab.slurmfab("accounts-export").stderr
    accounts.on("systemctl start mariadb")
    assert "slurmdbd does not answer" in said, said
    assert "slurmdbd's own log says: error: " in said, said
    assert "mysql_real_connect failed: 2002" in said, said
    accounts.lab.until("ctl", "sacctmgr -nP show cluster format=cluster | wc -l", "1")


def test_a_cluster_with_jobs_can_be_given_accounts(accounts: Accounts) -> None:
    accounts.write("database: ctl\nunix_users: false\n")
    accounts.lab.deploy()
    accounts.on("id eve 2>/dev/null || useradd -u 3003 eve")
    accounts.lab.on("n1", "id eve 2>/dev/null || useradd -u 3003 eve")
    jobs = [accounts.on(SUBMIT.format(user, "-n1 --mem=50 -t 30")) for user in ("ada", "eve")]
    for job in jobs:
        accounts.lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    accounts.write()
    refused = words_of(ended(accounts.lab.slurmfab("deploy"), 1))
    assert "AccountingStorageEnforce: no account for eve" in refused
    assert f"job {jobs[1]} of eve, on n1" in refused
    accounts.lab.deploy("--allow", "jobs-without-account")
    assert accounts.on(f"squeue -h -j {','.join(jobs)} -o %T | sort | uniq -c") == "2 RUNNING"
    accounts.on(f"scancel {' '.join(jobs)}")


def test_a_deployment_that_was_killed_midway_is_finished_by_the_next(accounts: Accounts) -> None:
    accounts.write("database: ctl\nunix_users: false\nqos: [{name: high}]\naccounts: [{name: other}]\n")
    accounts.lab.deploy("--prune")
    assert accounts.on("sacctmgr -nP show account format=account | sort | paste -sd,") == "other,root"
    accounts.write()
    words = [*PROGRAM, "deploy", "--cluster", str(accounts.lab.inventory_path)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        accounts.lab.until("ctl", "sacctmgr -nP show account physics format=account", "physics")
        killed.kill()
    eventually(lambda: accounts.lab.slurmfab("deploy").returncode == 0, "the host has finished what it was at")
    accounts.deploy("--prune")
    assert accounts.on("sacctmgr -nP show account format=account | sort | paste -sd,") == "biology,physics,root,theory"
