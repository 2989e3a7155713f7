"""Mail about jobs, modules and MPI on real Slurm of each suite: brought, proved, and gone with their keys.

One lab per suite goes through all of it, in this order.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_cluster import ExtendedLab, ended, succeeded
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

PASSWORD = 'correct "horse" #1'
SOFTWARE = """\
mail: {relay: "n1:2587", from: slurm@example.org, tls: starttls, user: lab, password_file: mail-password}
modules: {system: lmod, path: [/sw/modules]}
mpi: pmix
"""
USERS = "users: [{name: ann, uid: 3000}]\n"
CERTIFICATE = (
    *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=n1"),
    *("-addext", "subjectAltName=DNS:n1", "-keyout", "key.pem", "-out", "n1.crt"),
)
RELAY = "systemd-run --quiet --unit=lab-relay python3 /root/relay.py /root/relay.pem 2465 2587 lab '{}' /root/mail"
AS_ANN = "cd /home/ann && runuser -u ann -- "
HOSTS = ("ctl", "n1", "n2")
ADDED = "cat /var/lib/slurmfab/packages /var/lib/slurmfab/owned/* 2>/dev/null | wc -l"
SEEN = "cat /root/mail/*.mail 2>/dev/null | tr -d '\\r'"


TREE = "mkdir -p /sw/modules/tool && printf '#%%Module\nsetenv TOOL /sw/tool\n' > /sw/modules/tool/1.0"
LOADS = "module load tool && echo tool is $TOOL"
OTHER_SYSTEM = "modules: {system: environment-modules, path: [/sw/modules]}\n"


class Site(ExtendedLab):
    """A cluster of two nodes, of which n1 is the relay as well, and its file without the keys."""

    def deploy(self, more: str, *words: str) -> str:
        """Deploy with these keys, and what the run printed and recorded."""
        printed = super().deploy(more, *words)
        records = (path.read_text() for path in self.lab.inventory_path.parent.rglob("*.runs/*") if path.is_file())
        return "".join((printed, *records))

    def check(self, *only: str) -> dict[str, str]:
        """The outcomes of checks by their names; none fails."""
        checks = self.lab.checks(",".join(only))
        assert [one for one in checks if one["outcome"] == "failed"] == []
        return {one["check"]: one["outcome"] for one in checks}

    def quickcheck(self, *words: str) -> dict[str, str]:
        """The words of quickcheck's checks by their names; none fails."""
        done = succeeded(self.lab.slurmfab("quickcheck", "--json", "-", *words))
        lines = json.loads(done.stdout)["checks"]
        return {line["check"]: line["words"] for line in lines}


@pytest.fixture(scope="module", params=in_turn("software"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=2) as lab:
        beside = lab.inventory_path.parent
        (beside / "mail-password").write_text(f"{PASSWORD}\n")
        (beside / "mail-password").chmod(0o600)
        subprocess.run(CERTIFICATE, cwd=beside, check=True, capture_output=True)
        given = {"n1.crt": (beside / "n1.crt").read_text()}
        given["relay.pem"] = (beside / "key.pem").read_text() + given["n1.crt"]
        given["relay.py"] = Path(__file__).with_name("relay.py").read_text()
        for name, text in given.items():
            lab.on("n1", f"cat > /root/{name} <<'END-OF-FILE'\n{text}\nEND-OF-FILE")
        lab.on("n1", RELAY.format(PASSWORD))
        for host in HOSTS:
            lab.on(host, TREE)
        known = f"mkdir -p {{0}} && cat > {{0}}/n1.crt <<'END'\n{given['n1.crt']}END"
        lab.on("ctl", known.format("/usr/local/share/ca-certificates"))
        yield Site(lab, lab.inventory_path.read_text() + USERS)


def test_software_when_the_file_says_so_then_is_there_and_no_output_has_the_password(site: Site) -> None:
    site.deploy("")
    said = site.deploy(SOFTWARE)
    assert PASSWORD not in said
    assert json.dumps(PASSWORD)[1:-1] not in said
    assert site.lab.on("ctl", "stat -c '%U %a' /etc/slurmfab-mail.conf") == "slurm 600"
    site.lab.on("ctl", "update-ca-certificates >/dev/null 2>&1")


def batch(site: Site, first: str, submit: str) -> str:
    """The output of a batch job of ann's that loads a module.

    Args:
        site: the cluster.
        first: the first line of its script.
        submit: the command of ann's that runs sbatch.
    """
    script = f"{first}\n{LOADS}\n"
    site.lab.on("ctl", f"cat > /home/ann/job <<'END'\n{script}END\nchown ann: /home/ann/job")
    site.lab.on("ctl", submit.format("sbatch -w n1 -n1 --mem=50 -o job.out job"))
    site.lab.until("n1", "squeue -h -u ann | wc -l", "0")
    return site.lab.on("n1", "cat /home/ann/job.out; rm /home/ann/job.out")


def test_modules_then_are_loaded_in_shells_and_in_jobs(site: Site) -> None:
    login, plain = "runuser -l ann -c '{}'", AS_ANN + "{}"
    assert site.lab.on("ctl", login.format(LOADS)) == "tool is /sw/tool"
    assert batch(site, "#!/bin/bash -l", plain) == "tool is /sw/tool"
    assert batch(site, "#!/bin/bash", login) == "tool is /sw/tool"
    assert batch(site, "#!/bin/bash", login.replace("{}", "SBATCH_EXPORT=NONE {}")) == "tool is /sw/tool"
    assert {"module_is_a_command": "passed", "directories_of_modules_are_there": "passed"}.items() <= site.check(
        "modules"
    ).items()
    assert site.quickcheck("--only", "allocation,modules")["modules"] == "a job loaded the module tool/1.0 (lmod)"


def test_mail_about_a_job_then_comes_to_the_relay(site: Site) -> None:
    job = "sbatch --parsable --mail-type=END {} -J 'a job' -n1 --mem=50 -o /dev/null --wrap true"
    site.lab.on("ctl", AS_ANN + job.format("--mail-user=ann@elsewhere.org"))
    site.lab.on("ctl", AS_ANN + job.format(""))
    for to in ("ann@elsewhere.org", "ann@example.org"):
        site.lab.until("n1", f"{SEEN} | grep -c '^TO:<{to}>$'", "1")
    text = site.lab.on("n1", SEEN)
    assert "From: slurm@example.org\n" in text
    assert "Name=a job Ended" in text
    assert site.check("mail")["end_of_a_job_is_mailed"] == "passed"
    assert "TO:<slurm@example.org>\n" in site.lab.on("n1", SEEN)


def test_mail_when_the_relay_refuses_the_login_then_is_a_finding_with_its_words(site: Site) -> None:
    (site.lab.inventory_path.parent / "mail-password").write_text("another\n")
    text = site.lab.inventory_path.read_text()
    site.lab.inventory_path.write_text(text.replace("n1:2587", "n1:2465").replace("starttls", "on"))
    assert "another" not in site.lab.slurmfab("plan").stdout
    site.lab.deploy()
    done = ended(site.lab.slurmfab("check-cluster", "--only", "mail"), 1)
    assert "rejected the mail" in done.stdout
    assert "who are you?" in site.lab.on("ctl", "journalctl --sync; journalctl --no-pager -t msmtp")
    assert "journalctl -t msmtp" in done.stdout


def test_mpi_programs_then_are_started_on_two_nodes_without_an_option(site: Site) -> None:
    ranks = "srun -N2 --mem=50 sh -c 'echo rank $PMIX_RANK of $SLURM_NTASKS' | sort"
    assert site.lab.on("ctl", AS_ANN + ranks) == "rank 0 of 2\nrank 1 of 2"
    assert site.check("mpi")["srun_can_start_mpi"] == "passed"
    assert site.quickcheck("--only", "mpi")["mpi"].startswith("srun started a process on each of n[1-2] by pmix")


def test_modules_when_of_the_other_system_then_replace_the_first(site: Site) -> None:
    site.deploy(OTHER_SYSTEM)
    assert site.lab.on("n1", "dpkg-query -W -f '${Status}' lmod; :").endswith("deinstall ok config-files")
    assert batch(site, "#!/bin/bash", "runuser -l ann -c '{}'") == "tool is /sw/tool"
    assert site.check("modules")["module_is_a_command"] == "passed"
    assert "tool/1.0 (environment-modules)" in site.quickcheck("--only", "modules")["modules"]


def test_software_when_its_keys_go_then_is_gone_everywhere(site: Site) -> None:
    site.deploy("")
    for host in HOSTS:
        assert site.lab.on(host, ADDED) == "0"
    assert "MpiDefault=none" in site.lab.on("n1", "cat /etc/slurm/slurm.conf").splitlines()
    assert site.lab.on("ctl", "ls /etc/slurmfab-mail.conf /usr/local/lib/slurmfab/job-mail /usr/bin/msmtp; :") == ""
    assert "/usr/bin/msmtp" not in site.lab.on("ctl", "dpkg -S msmtp 2>/dev/null; grep MailProg /etc/slurm/slurm.conf")
    assert set(site.check().values()) <= {"passed", "not run"}
