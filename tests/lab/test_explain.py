"""`fab explain`: incidents on a cluster, each told with its causes and no false one."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator, Mapping

import explained
import pytest
from incidents import CAUSES, EXAMPLE, HELPERS, INCIDENTS, Incident, Step
from lab_cluster import DeployedLab
from stock import Stock, in_turn, part_in_turn

from slurmfab import lab as labs

pytestmark = pytest.mark.lab

REST = """\
nodes:
  - {hosts: n1, Feature: fast}
  - {hosts: n2, Feature: slow, Gres: "tape:1"}
partitions:
  - {PartitionName: main, Nodes: ALL, Default: YES, PriorityTier: 10}
  - {PartitionName: spare, Nodes: ALL, PriorityTier: 1, PreemptMode: REQUEUE}
  - {PartitionName: drop, Nodes: ALL, PriorityTier: 1, PreemptMode: CANCEL}
  - {PartitionName: side, Nodes: ALL, PriorityTier: 10}
database: ctl
user_tools: true
health: {interval: 10, daemons: [lab-need]}
slurm_conf:
  SlurmdTimeout: 15
  KillWait: 5
  Licenses: "sim:1"
  Prolog: /usr/local/sbin/test-prolog
  Epilog: /usr/local/sbin/test-epilog
  GresTypes: tape
qos:
  - {name: normal}
  - {name: narrow, MaxTRESPerUser: cpu=1}
  - {name: minute, MaxWall: "00:01:00"}
accounts:
  - {name: physics, QOS: "normal,narrow,minute"}
  - {name: maths, QOS: normal}
  - {name: crowd, QOS: normal, GrpJobs: 1}
  - {name: science, QOS: normal, GrpTRES: cpu=1}
  - {name: bio, parent: science, QOS: normal}
  - {name: spent, QOS: normal, GrpTRESMins: cpu=1}
users:
  - {name: ann, uid: 4001, accounts: physics}
  - {name: bob, uid: 4002, accounts: maths, MaxJobs: 1}
  - {name: cid, uid: 4003, accounts: crowd}
  - {name: dan, uid: 4004, accounts: crowd}
  - {name: eve, uid: 4005}
  - {name: fay, uid: 4006, accounts: bio}
  - {name: gus, uid: 4007, accounts: bio, MaxSubmitJobs: 1}
  - {name: hal, uid: 4008, accounts: spent}
"""
PARTS = 14
"""A run plays one of so many parts of the incidents; `TURN=all` plays all of them."""

SCRIPTS = r"""
printf '#!/bin/sh\n[ ! -e /tmp/prolog-fails ] || exit 1\n' > /usr/local/sbin/test-prolog
cat > /usr/local/sbin/test-epilog <<'END'
#!/bin/sh
[ ! -e /tmp/epilog-hangs ] || sleep 600
[ ! -e /tmp/epilog-fails ] || exit 1
END
chmod 755 /usr/local/sbin/test-prolog /usr/local/sbin/test-epilog
cat > /etc/systemd/system/lab-need.service <<'END'
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload && systemctl enable --now --quiet lab-need
"""
"""Brings about a node's prolog, epilog, and a unit that its health check looks for."""


@pytest.fixture(scope="module", params=in_turn("explain"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(request.param, database=True, nodes=2) as lab:
        lab.inventory_path.write_text(lab.inventory_path.read_text().partition("nodes:")[0] + REST)
        for node in ("n1", "n2"):
            lab.on(node, SCRIPTS)
        lab.deploy()
        yield lab


def filled(text: str, gaps: Mapping[str, str]) -> str:
    """A text with what its gaps stand for; other braces, and variables of the shell, stay."""
    return re.sub(r"(?<!\$)\{(job|first)\}", lambda found: gaps[found[1]], text)


def played(lab: DeployedLab, steps: tuple[Step, ...], gaps: Mapping[str, str]) -> dict[str, str]:
    """Bring an incident about; what its steps say of the gaps."""
    known = dict(gaps)
    for host, script in steps:
        if host in ("off", "on"):
            (labs.kill_host if host == "off" else labs.start_host)(lab.lab, script)
        elif host == "fab":
            done = lab.slurmfab(*shlex.split(script))
            assert done.returncode == 0, done.stdout + done.stderr
        else:
            shown = lab.on(host, (HELPERS if host == "ctl" else "") + filled(script, known))
            known.update(re.findall(r"^(\w+)=(.*)$", shown, re.MULTILINE))
    return known


def texts(shown: str) -> str:
    """The words of a chain, and of what it does not know, without the lines that it quotes."""
    told = json.loads(shown)
    assert all(quote["line"] and quote["place"] for link in told["links"] for quote in link["quotes"])
    missing = (*told["unknown"], *(f"{host} does not answer" for host in told["unreachable"]))
    return "\n".join((*(link["text"] for link in told["links"]), *missing))


@pytest.mark.parametrize("incident", part_in_turn(INCIDENTS, PARTS), ids=lambda one: one.name)
def test_an_incident_is_told_with_its_causes_and_no_false_one(cluster: DeployedLab, incident: Incident) -> None:
    try:
        gaps = played(cluster, incident.steps, {})
        begun = time.monotonic()
        done = cluster.slurmfab("explain", filled(incident.asked, gaps), "--json", "-")
        took = time.monotonic() - begun
        assert done.returncode == incident.code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        shown = texts(done.stdout) if done.stdout.strip() else done.stderr
        wanted = [filled(one, gaps) for one in incident.wanted]
        lacking = [one for one in wanted if one not in shown]
        allowed = (*wanted, *incident.may)
        false = [one for one in CAUSES if one in shown and not any(one in words for words in allowed)]
        explained.note(cluster.lab.suite, incident.name, lacking, false, (shown, took))
        if incident.name == EXAMPLE:
            explained.keep(cluster.slurmfab("explain", filled(incident.asked, gaps)).stdout)
        assert (lacking, false) == ([], []), f"{shown}\n{done.stdout}"
    finally:
        played(cluster, incident.after, {"job": "0", "first": "0"})


def test_a_user_when_asking_sstatus_for_an_own_job_then_its_end_is_told_and_of_others_nothing(
    cluster: DeployedLab,
) -> None:
    script = "job=$(sub ann --wrap 'srun timeout 3 yes >/dev/null; exit 3'); until_on_record $job FAILED; echo $job"
    job = cluster.on("ctl", HELPERS + script)
    told = cluster.on("ctl", f"runuser -u ann -- sstatus {job}").splitlines()
    assert told[0] == f"Job {job}: FAILED"
    assert told[1].startswith("  Waited ")
    assert told[2].endswith("ended with exit code 3.")
    assert re.fullmatch(r"  It used [1-9]\d* % of \d+ CPUs? \(.* s of CPU time\); \d+ % of \d+M of memory\.", told[3])
    assert "shows you no job 99999" in cluster.on("ctl", "runuser -u ann -- sstatus 99999 2>&1", check=False)


def test_a_job_whose_epilog_hangs_for_more_than_a_minute_is_told_by_whatever_one_asks(cluster: DeployedLab) -> None:
    ended = "job=$(sub ann --nodelist=n2 --wrap true); until_on_record $job COMPLETED; echo $job"
    cluster.on("n2", "echo > /tmp/epilog-hangs")
    try:
        job = cluster.on("ctl", HELPERS + ended)
        held = "squeue -h -t CG -O JobID:.20,EndTime:.30 | while read job end; do "
        cluster.until("ctl", f'{held}test $(($(date +%s) - $(date +%s -d "$end"))) -gt 61 && echo $job; done', job, 90)
        waits = "its epilog has run for "
        told = cluster.slurmfab("explain", job).stdout
        assert f"job {job} of ann (account physics" in told
        assert "COMPLETED, and still holds n2" in told
        assert waits in told.partition("it still holds n2, 1 min")[2], told
        assert "sleep 600" in told, told
        assert f"job {job} of ann, which ended at" in (node := cluster.slurmfab("explain", "n2").stdout), node
        assert waits in node, node
        assert f"job {job} of ann ended at" in (shown := cluster.slurmfab("status").stdout), shown
        assert "Free nodes: 1/2: n1\n" in shown, shown
        told = cluster.on("ctl", f"runuser -u ann -- sstatus {job}; runuser -u ann -- sstatus").replace("\n  ", " ")
        assert told.count("and still holds n2") == 2, told
        (found,) = [one for one in cluster.checks("ended_jobs") if one["outcome"] == "failed"]
        assert found["host"] == "n2", found
        assert waits in found["cause"], found
        pid = found["repair"].split()[1]
        cluster.on("n2", f"rm /tmp/epilog-hangs; {found['repair'].partition(' there')[0]}")
        assert pid.isdecimal()
        cluster.until("ctl", "squeue -h", "")
    finally:
        cluster.on("n2", "rm -f /tmp/epilog-hangs; pkill -x sleep", check=False)
