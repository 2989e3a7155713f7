"""What accounting promises, shown by real jobs of real users: records, limits, preemption, refusals, mail.

GPUs are stand-ins of the lab, and so is the mail system: two scripts on the controller that say so, and put what they
get into a file. Slurm, MariaDB, the users and the limits are real. Users see only their own of everything: no check and
no other command of slurmfab may depend on more.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from lab_cluster import DeployedLab, eventually, succeeded
from stock import Stock, in_turn
from test_check_cluster import checked

pytestmark = pytest.mark.lab

PARTITIONS = """\
partitions:
  - {PartitionName: main, Nodes: ALL, Default: YES, PriorityTier: 10}
  - {PartitionName: spare, Nodes: ALL, PriorityTier: 1, PreemptMode: REQUEUE}
  - {PartitionName: pause, Nodes: ALL, PriorityTier: 1, PreemptMode: SUSPEND}
  - {PartitionName: cheap, Nodes: ALL, PriorityTier: 1, PreemptMode: CANCEL}
"""
QOS = """\
qos:
  - {name: normal, MaxTRESPerUser: gres/gpu=2, MaxWall: "02:00:00", Flags: DenyOnLimit}
  - {name: urgent, Priority: 100}
"""
PEOPLE = """\
private_data: [accounts, events, jobs, nodes, reservations, usage, users]
accounts:
  - {name: physics, Fairshare: 30, QOS: "normal,urgent"}
  - {name: maths, Fairshare: 10, QOS: "normal,urgent"}
users:
  - {name: ada, uid: 4001, accounts: physics}
  - {name: bob, uid: 4002, accounts: maths, MaxJobs: 1}
  - {name: eve, uid: 4003}
"""
MAILBOX = "/var/tmp/mailbox"
MAIL_SYSTEM = rf"""
cat > /usr/bin/mail <<'END'
#!/bin/sh
# STAND-IN for mail(1) in a lab: takes -s SUBJECT RECIPIENT, and hands the mail to sendmail.
printf 'To: %s\nSubject: %s\n\n' "$3" "$2" | /usr/sbin/sendmail "$3"
END
cat > /usr/sbin/sendmail <<'END'
#!/bin/sh
# STAND-IN for a mail system in a lab: delivers everything into one file.
cat >> {MAILBOX}
END
chmod 0755 /usr/bin/mail /usr/sbin/sendmail
"""

DAEMONS = (
    *(("ctl", unit) for unit in ("mariadb", "slurmdbd", "slurmctld", "munge")),
    ("n1", "munge"),
    ("n1", "slurmd"),
)
POLICY = "Job violates accounting/QOS policy"
HINT = "You have no account on the cluster"


@dataclass(frozen=True)
class Proof:
    """A cluster with people, and what they do there."""

    lab: DeployedLab

    def on(self, script: str, *, check: bool = True) -> str:
        """What a script prints on the controller."""
        return self.lab.on("ctl", script, check=check)

    def by(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """What a user's command leaves, both outputs in one."""
        said = self.on(f"cd /tmp; runuser -u {user} -- {' '.join(words)} 2>&1; echo $?", check=False)
        output, _, code = said.rpartition("\n")
        return subprocess.CompletedProcess(words, int(code), output)

    def submit(self, user: str, options: str, script: str = "sleep 600") -> str:
        """A job of a user's; its number."""
        done = self.by(user, "sbatch", "--parsable --mem=50 -o /dev/null", options, f"--wrap '{script}'")
        assert done.returncode == 0, done.stdout
        return done.stdout.splitlines()[-1]

    @property
    def all_cpus(self) -> str:
        """The option with which a job fills the node: not --exclusive, for that takes all GPUs as well."""
        return f"--cpus-per-task={self.on('sinfo -h -p main -o %c')}"

    def seen(self, job: str) -> str:
        """A job's state, and why it waits."""
        return self.on(f"squeue -h -j {job} -o '%T %r'", check=False)

    def until(self, job: str, state: str, patience: float = 60) -> None:
        """Wait for a state of a job, with its reason: `PENDING Priority`, `RUNNING None`."""
        eventually(
            lambda: self.seen(job) == state,
            lambda: f"job {job} is {state}: {self.on(f'scontrol show job {job}; sinfo -N', check=False)}",
            patience,
        )

    def at_work(self, user: str, options: str) -> str:
        """A job of a user's whose script has begun: one that is RUNNING may still be on its way to the node."""
        job = self.submit(user, options, "touch /tmp/begun-$SLURM_JOB_ID; sleep 600")
        self.until(job, "RUNNING None")
        self.lab.until("n1", f"ls /tmp/begun-{job}", f"/tmp/begun-{job}")
        return job

    def until_pending(self, job: str) -> None:
        """Wait until a job waits, for whatever reason."""
        self.lab.until("ctl", f"squeue -h -j {job} -o %T", "PENDING")

    def cancel(self) -> None:
        """End all jobs."""
        self.on("squeue -h -o %A | xargs -r scancel")
        self.lab.until("ctl", "squeue -h", "")

    def until_slurm_answers(self) -> None:
        """Wait until all daemons do their work."""
        self.lab.until("ctl", "sacctmgr -nP show cluster format=cluster | wc -l; scontrol ping | grep -c UP", "1\n1")
        self.lab.until("ctl", "sinfo -h -p main -o %t | grep -cE '^(idle|mix|alloc)$'", "1")


@pytest.fixture(scope="module", params=in_turn("accounting_proof"))
def proof(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Proof]:
    with stock.copy(request.param, database=True, nodes=2, gpus=("n1:4",)) as lab:
        # n2 joins later.
        head = re.sub(r", n2: [\d.]+|\[1-2\]", "", lab.inventory_path.read_text().partition("partitions:")[0])
        head = head.replace("hosts: n\n", "hosts: n1\n")
        lab.inventory_path.write_text(f"{head}{PARTITIONS}database: ctl\nuser_tools: true\n{QOS}{PEOPLE}")
        lab.on("ctl", MAIL_SYSTEM)
        lab.deploy()
        yield Proof(lab)


@pytest.fixture(autouse=True)
def _nothing_left(proof: Proof) -> Iterator[None]:
    yield
    proof.cancel()


def test_all_checks_pass_and_a_second_deployment_changes_nothing(proof: Proof) -> None:
    assert proof.lab.deploy()["steps"] == []
    found = checked(proof.lab)
    assert found.having("failed") == set()
    accounting = ("slurmdbd_knows_the_cluster", "finished_job_is_on_record", "accounts_are_in_force")
    names = (*accounting, "without_an_account_no_job_runs")
    assert {("ctl", f"accounting.{name}") for name in names} <= found.having("passed")
    assert ("ctl", "mail.end_of_a_job_is_mailed") in found.having("passed")


def test_a_finished_job_is_read_back_as_it_ended(proof: Proof) -> None:
    job = proof.submit("ada", "", "sleep 1; exit 3")
    read = f"sacct -nPX -j {job} -o User,Account,QOS,State,ExitCode"
    proof.lab.until("ctl", read, "ada|physics|normal|FAILED|3:0")
    assert 1 <= int(proof.on(f"sacct -nPX -j {job} -o ElapsedRaw")) < 30


def test_users_see_their_own_jobs_and_accounts_and_no_others(proof: Proof) -> None:
    job = proof.submit("ada", "", "sleep 600")
    proof.until(job, "RUNNING None")
    proof.lab.until("ctl", f"sacct -nPX -j {job} -o User", "ada")
    seen = {
        "squeue -h -o %u": "ada",
        "sacct -anPX -o User": "ada",
        "sacctmgr -nP show users format=user": "ada",
        "sacctmgr -nP show associations format=account": "physics",
        "sshare -a -n -P -o User": "ada",
    }
    for command, word in seen.items():
        shown = {user: proof.by(user, command).stdout.split() for user in ("ada", "bob", "root")}
        assert {user: any(word in one for one in words) for user, words in shown.items()} == {
            "ada": True, "bob": False, "root": True,
        }, (command, shown)  # fmt: skip
    assert "n1" not in proof.by("bob", "sinfo -h -N").stdout


def test_a_user_over_the_gpu_limit_waits_until_their_first_job_ends_and_others_do_not(proof: Proof) -> None:
    first = proof.submit("ada", "--gres=gpu:2")
    proof.until(first, "RUNNING None")
    second = proof.submit("ada", "--gres=gpu:1")
    proof.until(second, "PENDING QOSMaxGRESPerUser")
    theirs = proof.submit("bob", "--gres=gpu:1")
    proof.until(theirs, "RUNNING None")
    assert proof.seen(second) == "PENDING QOSMaxGRESPerUser"
    told, others = (proof.by(user, "sstatus --user ada").stdout for user in ("ada", "bob"))
    assert "\nUsing 2/2 GPUs allowed with QOS normal\n" in told
    assert f"\n{second}: You use as many GPUs" in told
    assert "[QOSMaxGRESPerUser]" in told
    assert others.splitlines()[-1] == "No jobs are shown to you.", others
    proof.on(f"scancel {first}")
    proof.until(second, "RUNNING None")


def test_a_job_that_no_limit_will_ever_let_through_is_refused_at_once(proof: Proof) -> None:
    for options in ("--gres=gpu:3", "--time=03:00:00"):
        refused = proof.by("ada", f"sbatch --mem=50 {options} --wrap true")
        assert (refused.returncode, POLICY in refused.stdout) == (1, True), refused.stdout


def test_a_user_over_the_number_of_jobs_waits(proof: Proof) -> None:
    proof.until(proof.submit("bob", ""), "RUNNING None")
    proof.until(proof.submit("bob", ""), "PENDING AssocMaxJobsLimit")


@pytest.mark.parametrize(
    "command", ["sbatch --wrap true", "sbatch --test-only --wrap true", "srun true", "salloc true"]
)
def test_a_user_without_an_account_is_told_what_to_do(proof: Proof, command: str) -> None:
    refused = proof.by("eve", command)
    assert refused.returncode != 0
    assert f"{HINT} {proof.lab.lab.name}, and jobs run on accounts only." in refused.stdout
    assert "sacctmgr show associations user=eve" in refused.stdout
    assert "Invalid account" in refused.stdout


def test_a_user_without_an_account_who_names_one_is_told_what_to_do(proof: Proof) -> None:
    refused = proof.by("eve", "sbatch --account=physics --wrap true")
    assert (refused.returncode, HINT in refused.stdout) == (1, True), refused.stdout


def test_somebody_elses_account_is_refused_and_ones_own_needs_no_word(proof: Proof) -> None:
    refused = proof.by("ada", "sbatch --account=maths --wrap true")
    assert (refused.returncode, "Invalid account" in refused.stdout) == (1, True), refused.stdout
    taken = proof.by("ada", "sbatch --account=physics -o /dev/null --wrap true")
    assert (taken.returncode, HINT in taken.stdout) == (0, False), taken.stdout


@pytest.mark.parametrize(
    "mistake",
    ["this is no lua", "function slurm_job_submit() error('on purpose') end\nfunction slurm_job_modify() end"],
    ids=["syntax", "while it runs"],
)
def test_a_mistake_in_the_script_for_jobs_holds_up_nobody(proof: Proof, mistake: str) -> None:
    proof.on(f"cat > /etc/slurm/job_submit.lua <<'END'\n{mistake}\nEND")
    proof.until(proof.submit("ada", ""), "RUNNING None")
    changed = proof.lab.deploy()["steps"]
    assert [(step["phase"], step["host"]) for step in changed] == [("slurm.conf", "ctl")]
    assert HINT in proof.by("eve", "sbatch --wrap true").stdout


def test_a_job_of_a_low_partition_gives_way_and_comes_back(proof: Proof) -> None:
    low = proof.at_work("ada", f"-p spare {proof.all_cpus}")
    high = proof.at_work("bob", f"-p main {proof.all_cpus}")
    proof.until_pending(low)
    proof.on(f"scancel {high}")
    proof.lab.until("ctl", f"squeue -h -j {high}", "")
    # Slurm lets a requeued job wait for two minutes: begun again while its first run is cleared away, it would fail.
    proof.on(f"scontrol update JobId={low} StartTime=now")
    proof.until(low, "RUNNING None", patience=150)
    assert "Restarts=1" in proof.on(f"scontrol show job {low}")


def test_a_job_that_is_suspended_goes_on_when_the_other_ends(proof: Proof) -> None:
    low = proof.at_work("ada", f"-p pause {proof.all_cpus}")
    high = proof.at_work("bob", f"-p main {proof.all_cpus}")
    assert proof.seen(low) == "SUSPENDED None"
    proof.on(f"scancel {high}")
    proof.until(low, "RUNNING None")


def test_a_job_that_is_cancelled_for_another_is_on_record_as_preempted(proof: Proof) -> None:
    low = proof.at_work("ada", f"-p cheap {proof.all_cpus}")
    proof.at_work("bob", f"-p main {proof.all_cpus}")
    proof.lab.until("ctl", f"sacct -nPX -j {low} -o State", "PREEMPTED")


def test_a_job_of_the_high_partition_never_gives_way(proof: Proof) -> None:
    high = proof.submit("ada", f"-p main {proof.all_cpus}")
    proof.until(high, "RUNNING None")
    waiting = proof.submit("bob", f"-p spare {proof.all_cpus}")
    proof.until_pending(waiting)
    assert proof.seen(high) == "RUNNING None"


def test_status_of_a_user_tells_accounts_and_limits(proof: Proof) -> None:
    told = json.loads(proof.lab.slurmfab("status", "--user", "bob", "--json", "-").stdout)["user"]["limits"]
    (association,) = told["associations"]
    assert (association["account"], association["limits"]) == ("maths", {"MaxJobs": "1"})
    assert sorted(association["qos"]) == ["normal", "urgent"]
    limits = {one["name"]: one["limits"] for one in told["qos"]}
    assert limits == {"normal": {"MaxTRESPU": "gres/gpu=2", "MaxWall": "02:00:00"}, "urgent": {}}
    assert "eve has no account." in proof.lab.slurmfab("status", "--user", "eve").stdout


@pytest.mark.parametrize(
    ("types", "script", "state"),
    [("END", "true", "COMPLETED, ExitCode 0"), ("END,FAIL", "exit 4", "FAILED, ExitCode 4")],
    ids=["well", "badly"],
)
def test_the_mail_about_a_jobs_end_arrives_with_number_and_state(
    proof: Proof, types: str, script: str, state: str
) -> None:
    job = proof.submit("ada", f"--mail-type={types} --mail-user=ada@example.org --job-name=survey", script)
    mail = f"grep -A 1 'To: ada@example.org' {MAILBOX} | grep 'Subject: Slurm Job_id={job} Name=survey'"
    proof.lab.until("ctl", f"{mail} | grep -c '{state}'", "1")


def test_shares_are_in_force(proof: Proof) -> None:
    lines = proof.on("sshare -a -n -P -o Account,User,RawShares,NormShares,FairShare").splitlines()
    shown = {tuple(line.strip().split("|")[:2]): line.split("|")[2:] for line in lines}
    assert shown["physics", ""][0] == "30"
    assert shown["maths", ""][0] == "10"
    assert float(shown["physics", "ada"][1]) > 0
    assert 0 <= float(shown["physics", "ada"][2]) <= 1


def test_limits_hold_after_a_restart_of_every_daemon_in_turn(proof: Proof) -> None:
    running = proof.submit("ada", "--gres=gpu:2")
    proof.until(running, "RUNNING None")
    for host, unit in DAEMONS:
        proof.lab.on(host, f"systemctl restart {unit}")
        proof.until_slurm_answers()
        waiting = proof.submit("ada", "--gres=gpu:1")
        proof.until(waiting, "PENDING QOSMaxGRESPerUser")
        assert proof.seen(running) == "RUNNING None", (host, unit)
        assert HINT in proof.by("eve", "sbatch --wrap true").stdout, (host, unit)
        assert POLICY in proof.by("ada", "sbatch --time=03:00:00 --wrap true").stdout, (host, unit)


def test_a_job_gives_way_to_one_whose_qos_preempts_its_own(proof: Proof) -> None:
    text = re.sub(r", PreemptMode: \w+", "", proof.lab.inventory_path.read_text())
    proof.lab.inventory_path.write_text(text.replace("Priority: 100", "Priority: 100, Preempt: normal"))
    proof.lab.deploy()
    assert proof.lab.deploy()["steps"] == []
    low = proof.submit("ada", proof.all_cpus)
    proof.until(low, "RUNNING None")
    high = proof.submit("bob", f"{proof.all_cpus} --qos=urgent")
    proof.until(high, "RUNNING None")
    proof.until_pending(low)


CLOSED = """\
partitions:
  - {PartitionName: gpu, Nodes: ALL, Default: YES, AllowAccounts: physics, QOS: full}
"""


@pytest.fixture(scope="module")
def full(proof: Proof) -> Proof:
    """The cluster with one partition, for one account alone, and with a QOS of one CPU."""
    lab = proof.lab
    head, _, tail = lab.inventory_path.read_text().partition("partitions:")
    _, _, tail = tail.partition("database:")
    tail = re.sub(r"normal, .*}", "normal}", tail).replace(
        "qos:\n", 'qos:\n  - {name: full, GrpTRES: "cpu=1", MaxTRESPerUser: "gres/gpu=4"}\n'
    )
    lab.inventory_path.write_text(f"{head}{CLOSED}database:{tail}")
    lab.deploy()
    return proof


def test_slurmfabs_jobs_run_where_the_only_partition_is_for_others_and_its_limit_is_used_up(full: Proof) -> None:
    running = full.submit("ada", "")
    full.until(running, "RUNNING None")
    full.until(full.submit("ada", ""), "PENDING QOSGrpCpuLimit")
    assert checked(full.lab).having("failed") == set()
    done = succeeded(full.lab.slurmfab("quickcheck"))
    assert re.search(r"not run +partitions .* gpu: job \d+ of ada waits for a limit. Slurm's reason: QOSGrpCpuLimit",
                     done.stdout)  # fmt: skip
    full.lab.on("n2", "systemctl disable --now slurmd")
    succeeded(full.lab.slurmfab("add-node", full.lab.lab.host("n2").address, "--like", "n1", "--accept-new-host-keys"))
    full.lab.until("ctl", "sinfo -h -p gpu -n n2 -o %t", "idle")
    assert full.seen(running) == "RUNNING None"


def test_a_partition_is_proved_by_a_job_of_a_user_who_may_use_it(full: Proof) -> None:
    done = succeeded(full.lab.slurmfab("quickcheck", "--only", "partitions"))
    assert re.search(r"passed +partitions .* n1: gpu: job \d+ of ada ran", done.stdout), done.stdout
    strange = full.lab.slurmfab("quickcheck", "--only", "partitions", "--user", "bob")
    assert "gpu: bob is not known to be allowed there" in strange.stdout
    full.on("scontrol update PartitionName=gpu State=DOWN")
    try:
        closed = full.lab.slurmfab("quickcheck", "--only", "partitions")
    finally:
        full.on("scontrol update PartitionName=gpu State=UP")
    assert closed.returncode == 1
    assert re.search(r"FAILED +partitions .* of ada does not start. Slurm's reason: PartitionDown.", closed.stdout)
    assert "repair: scontrol update PartitionName=gpu State=UP" in closed.stdout


def test_status_of_a_user_tells_how_much_of_a_partitions_limit_is_used(full: Proof) -> None:
    full.until(full.submit("ada", "--gres=gpu:4"), "RUNNING None")
    told = full.lab.slurmfab("status", "--user", "ada").stdout
    assert "Using 4/4 GPUs allowed on partition gpu\n" in told
    assert "All users together: using 1/1 CPUs allowed on partition gpu\n" in told
    assert "allowed on partition" not in full.lab.slurmfab("status", "--user", "bob").stdout
    own = full.by("ada", "sstatus").stdout
    assert "\nUsing 4/4 GPUs allowed on partition gpu\n" in own
    assert "\nAll users together: using 1/1 CPUs allowed on partition gpu\n" in own
    assert "\nA job may run for at most 02:00:00 with QOS normal\n" in own


def test_a_user_neither_sees_nor_uses_slurmfabs_partition(full: Proof) -> None:
    for options in ("-p slurmfab", "-p gpu,slurmfab"):
        refused = full.by("ada", f"sbatch {options} --mem=50 --wrap true")
        assert "User's group not permitted to use this partition" in refused.stdout, refused.stdout
    for command in ("sinfo", "squeue", "scontrol show partition", "scontrol show node n1"):
        assert "slurmfab" not in full.by("ada", command).stdout
    assert "slurmfab" not in full.lab.slurmfab("status").stdout


def test_a_cluster_of_an_older_slurmfab_gets_the_partition_while_jobs_run(full: Proof) -> None:
    running = full.at_work("ada", "")
    for host in ("ctl", "n1"):
        full.lab.on(host, "sed -i /^PartitionName=slurmfab/d /etc/slurm/slurm.conf")
    full.on("scontrol reconfigure")
    full.lab.until("ctl", "scontrol show partition slurmfab 2>&1 | grep -c 'not found'", "1")
    told = checked(full.lab, "--only", "jobs", "--hosts", "n1").one("n1", "jobs.job_runs")
    assert "Invalid partition name" in told["cause"]
    assert told["repair"].endswith("deploy, which adds the partition slurmfab to slurm.conf")
    assert "partition slurmfab: added" in full.lab.slurmfab("plan").stdout
    full.lab.deploy()
    assert full.seen(running) == "RUNNING None"
    assert checked(full.lab, "--only", "jobs").having("failed") == set()
