"""The slurm user becomes root nowhere by what daemons write as root: logs, PID files, slurmd's directory."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_cluster import DeployedLab

pytestmark = pytest.mark.lab

TRAP = "/etc/profile.d/x.sh"
ROOTS = (
    "find /etc /usr/local -xdev -printf '%p %T@ %m %u %g %l\\n' | grep -v -e /etc/slurm -e resolv | sort | sha256sum"
)
"""What of root's must not change."""

AS_SLURM_THERE = "runuser -u slurm -- ssh -o BatchMode=yes n1 'cd /; {}'"
AS_SLURM = "runuser -u slurm -- sh -c '{}'"
LOG, SPOOL, FORMER_LOG, FORMER_SPOOL = (
    "/var/log/slurmd/slurmd.log", "/var/spool/slurmd", "/var/log/slurm/slurmd.log", "/var/lib/slurm/slurmd",
)  # fmt: skip
TRIES = (
    f"ln -sf {TRAP} {LOG}",
    f"ln -f {LOG} /tmp/log && ln -f /tmp/log {LOG}",
    f"mv {LOG} {LOG}.1",
    "mv /var/log/slurmd /var/log/slurmd.away",
    f"rm -f {FORMER_LOG} && ln -s {TRAP} {FORMER_LOG}",
    "mv /var/log/slurm /var/log/slurm.away",
    f"mv {SPOOL} {SPOOL}.away",
    f"mkdir {SPOOL}/job00099",
    f"ln -s /etc {SPOOL}/cred_state.new",
    f"ln -sf {TRAP} /run/slurmd.pid",
    f"ln -sf {TRAP} /run/slurm/slurmd.pid",
    "ln -sfn /etc/profile.d /run/slurm",
    f"ln -s {TRAP} /run/slurmfab/health.json",
)
ROTATED = (
    f"mv {LOG} {LOG}.1 && sed -n '/postrotate/,/endscript/p' /etc/logrotate.d/slurmfab-slurmd | sed '1d;$d' | sh -e; "
    f"for i in $(seq 100); do [ -e {LOG} ] && break; sleep 0.1; done; stat -c %U:%a {LOG}"
)
"""What logrotate does, without its sizes; the new log is awaited."""

LEADS = "daemons.no_other_user_leads_slurmd_elsewhere"


@pytest.fixture
def whole(deployed_lab: DeployedLab) -> Iterator[DeployedLab]:
    """The deployed lab with its cluster file, put right by a deployment afterwards."""
    text = deployed_lab.inventory_path.read_text()
    yield deployed_lab
    deployed_lab.inventory_path.write_text(text)
    deployed_lab.on("ctl", "scancel --user=slurm")
    deployed_lab.deploy()
    deployed_lab.until("ctl", "sinfo -h -o '%D %t'", "3 idle", patience=180)


def told(done: object) -> str:
    """Everything that a command printed, in one line."""
    return " ".join(f"{vars(done)['stdout']} {vars(done)['stderr']}".split())


def failed(cluster: DeployedLab) -> dict[str, str]:
    """Causes of the failed checks of daemons on n1 and ctl, by check."""
    checks = cluster.checks("daemons")
    return {f"{one['group']}.{one['check']}": json.dumps(one) for one in checks if one["outcome"] == "failed"}


def test_slurm_from_a_controller_can_put_nothing_where_slurmd_writes_as_root(whole: DeployedLab) -> None:
    before = whole.on("n1", ROOTS)
    assert whole.on("ctl", AS_SLURM_THERE.format("id -un")) == "slurm"
    for attempt in TRIES:
        tried = whole.on("ctl", AS_SLURM_THERE.format(f"{attempt} && echo done") + " 2>&1 || :")
        assert tried, attempt
        assert "done" not in tried.split(), attempt
    evil = "--chdir='/tmp/$(id >/etc/x)'"
    whole.on("ctl", f"cd /tmp && runuser -u slurm -- srun -w n1 {evil} true 2>/dev/null; scontrol reconfigure")
    assert whole.on("n1", ROTATED) == "root:600"
    whole.on("n1", "systemctl restart slurmd")
    whole.until("ctl", "sinfo -h -n n1 -o %t", "idle")
    assert whole.on("n1", ROOTS) == before
    assert (
        whole.on("n1", f"test ! -e {TRAP} && stat -c %U /var/log/slurmd {SPOOL} /var/log/slurm") == "root\nroot\nroot"
    )
    assert "Permission denied" in whole.on("n1", "runuser -u slurm -- ssh -o BatchMode=yes ctl true 2>&1 || :")


@pytest.mark.parametrize(
    ("given", "planted", "named"),
    [
        (
            "/var/log/slurmd",
            f"rm -f {LOG}; ln -s {TRAP} {LOG}",
            f"{LOG} leads elsewhere, and root works in /var/log/slurmd",
        ),
        (
            "/var/log/slurmd",
            f"touch {LOG}.own; rm -f {LOG}; ln {LOG}.own {LOG}",
            f"{LOG} leads elsewhere, and root works in /var/log/slurmd",
        ),
        ("/var/log/slurmd", f"rm -f {LOG}; mkfifo {LOG}", f"{LOG} was no regular file of slurm"),
        (
            "/var/log/slurm",
            f"rm -f {FORMER_LOG}; ln -s {TRAP} {FORMER_LOG}",
            f"{FORMER_LOG} was a symbolic link of slurm",
        ),
        (SPOOL, f"ln -s /etc {SPOOL}/job00077", f"{SPOOL}/job00077 leads elsewhere"),
        (
            SPOOL,
            f"mkdir {SPOOL}/job00077; ln -s {TRAP} {SPOOL}/job00077/slurm_script",
            f"{SPOOL}/job00077/slurm_script",
        ),
    ],
)
def test_what_slurm_put_in_a_directory_that_it_was_given_is_named_and_nothing_is_written_through_it(
    whole: DeployedLab, given: str, planted: str, named: str
) -> None:
    # Debian's packages give their own directories to slurm at each upgrade; an admin may give it any.
    before = whole.on("n1", ROOTS)
    whole.on("n1", f"chown slurm {given} && {AS_SLURM.format(planted)}")
    try:
        checks, deployed = failed(whole), whole.slurmfab("deploy")
        assert whole.on("n1", ROOTS) == before
    finally:
        whole.on("n1", f"rm -rf {SPOOL}/job00077 {LOG}.own; find {LOG} {FORMER_LOG} ! -type f -delete; "
                       f"find {LOG} -links +1 -delete; systemctl restart slurmd", check=False)  # fmt: skip
    assert named in told(deployed)
    if given != "/var/log/slurm":
        assert deployed.returncode == (0 if "mkfifo" in planted else 3)
        assert f"{given}, which is slurm's" in checks[LEADS] or f"{given} is slurm's" in checks[LEADS]
    else:
        assert "belongs to slurm, not to root" in checks["daemons.directories_are_theirs"]


def test_slurmctld_that_starts_with_a_link_in_place_of_its_log_makes_no_file_of_root_slurms(whole: DeployedLab) -> None:
    log = "/var/log/slurm/slurmctld.log"
    before = whole.on("ctl", ROOTS)
    whole.on("ctl", AS_SLURM.format(f"mv {log} {log}.away; ln -s /etc/sudoers.d/zz {log}"))
    try:
        whole.on("ctl", "systemctl restart slurmctld")
        whole.until("ctl", "scontrol ping | grep -c UP", "1")
        assert whole.on("ctl", "ps -o user= -C slurmctld | sort -u") == "slurm"
        assert whole.on("ctl", ROOTS) == before
    finally:
        whole.on("ctl", f"rm {log}; mv {log}.away {log}; systemctl restart slurmctld")


def test_a_link_to_a_secret_in_place_of_a_log_then_no_command_shows_the_secret(whole: DeployedLab) -> None:
    log, shadow = "/var/log/slurm/slurmctld.log", whole.on("ctl", "cat /etc/shadow").splitlines()
    whole.on("ctl", AS_SLURM.format(f"mv {log} {log}.away; ln -s /etc/shadow {log}; ln -s /etc/shadow {log}.1"))
    try:
        done = [
            whole.slurmfab(*words)
            for words in (
                ("logs", "ctl", "--since", "1d", "--all"),
                ("check-cluster", "--only", "daemons", "--hosts", "ctl"),
                ("support-bundle", "--hosts", "ctl", "--json", "-"),
            )
        ]
    finally:
        whole.on("ctl", f"rm {log} {log}.1; mv {log}.away {log}")
    bundle = Path(json.loads(done[2].stdout)["file"])
    with tarfile.open(bundle) as tar:
        texts = [file.read().decode() for one in tar if (file := tar.extractfile(one))]
    bundle.unlink()
    outputs = [*(told(one) for one in done), *texts]
    assert len(shadow) > 15
    assert [line for line in shadow if any(line in text for text in outputs)] == []
    assert f"{log} is a symbolic link of slurm to /etc/shadow" in outputs[0], outputs[0]


def as_an_earlier_slurmfab(lab: DeployedLab) -> None:
    """Bring the cluster to where slurmfab had its directories before, with the owners that Debian's packages give."""
    text = lab.inventory_path.read_text()
    lab.inventory_path.write_text(
        f"{text}slurm_ssh: both\nslurm_conf: {{SlurmdSpoolDir: {FORMER_SPOOL}, SlurmdLogFile: {FORMER_LOG}}}\n"
    )
    lab.deploy()
    lab.inventory_path.write_text(text)
    lock = lab.inventory_path.with_suffix(".lock.json")
    values = json.loads(lock.read_text())
    del values["spool"]
    lock.write_text(json.dumps(values))
    for node in ("n1", "n2", "n3"):
        lab.on(node, "chown slurm: /var/lib/slurm /var/log/slurm; rm -rf /var/log/slurmd /var/spool/slurmd "
                     "/etc/logrotate.d/slurmfab-slurmd")  # fmt: skip


def test_a_cluster_of_an_earlier_slurmfab_comes_to_roots_directories_and_its_job_lives(whole: DeployedLab) -> None:
    as_an_earlier_slurmfab(whole)
    job = whole.on(
        "ctl",
        "cd /tmp && runuser -u slurm -- sbatch --parsable -w n1 -o /tmp/out "
        "--wrap 'until [ -e /tmp/end ]; do sleep 0.2; done; srun true'",
    )
    whole.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")

    whole.on("n1", AS_SLURM.format(f"mv {FORMER_LOG} {FORMER_LOG}.away; ln -s {TRAP} {FORMER_LOG}"))
    plan = told(whole.slurmfab("plan"))
    assert f"file: a symbolic link of slurm to {TRAP} -> leads nowhere else" in plan
    assert "the slurm user of n[1-3] does not log in here any more" in plan
    assert f"slurmd keeps its directory {FORMER_SPOOL}" in plan
    deployed = told(whole.slurmfab("deploy"))
    assert f"{FORMER_LOG} was a symbolic link of slurm to {TRAP}" in deployed
    assert "Jobs: 1 ran before, 1 runs now." in deployed
    assert (
        whole.on("n1", f"stat -c %U /var/lib/slurm {FORMER_SPOOL} /var/log/slurmd /var/log/slurm").split()
        == ["root"] * 4
    )
    assert LEADS not in failed(whole)
    # The step from before opens the former log anew, as root.
    assert "done" not in whole.on(
        "ctl", AS_SLURM_THERE.format(f"ln -sf {TRAP} {FORMER_LOG} && echo done") + " 2>&1 || :"
    )
    whole.on("ctl", "scontrol reconfigure")
    whole.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")

    text = whole.inventory_path.read_text()
    whole.inventory_path.write_text(f"{text}slurm_conf: {{SlurmdSpoolDir: {SPOOL}}}\n")
    refused = whole.slurmfab("deploy")
    assert (refused.returncode, f"job {job} of slurm" in told(refused), "--drain-first" in told(refused)) == (
        1,
        True,
        True,
    )
    whole.on("n1", "touch /tmp/end")
    whole.until("ctl", f"scontrol show job {job} | grep -o JobState=[A-Z]*", "JobState=COMPLETED")
    whole.deploy()
    whole.inventory_path.write_text(text)
    assert whole.deploy()["steps"] == []
    assert f"SlurmdSpoolDir={SPOOL}" in whole.on("n1", "cat /etc/slurm/slurm.conf")
    whole.on("n1", "rm /tmp/end")
