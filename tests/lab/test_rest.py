"""slurmrestd on real Slurm of each suite: jobs by token, the key made, passed on, made anew, and gone with `rest`.

One lab per suite goes through all of it, in this order. The database is on the controller, and slurmrestd on n2.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from lab_cluster import ExtendedLab, succeeded
from lab_user import words_of
from listening import listening, slurms
from stock import Stock
from suites import SUITES

pytestmark = pytest.mark.lab

KEYS = "database: ctl\nlogin: [n2]\nusers: [{name: ann, uid: 3000}, {name: bob, uid: 3001}]\n"
REST = "rest: n2\n"
SHORT = "rest: {host: n2, token_lifetime: 1h}\nslurm_conf: {AuthAltParameters: disable_token_creation}\n"
AS_ANN = "cd /tmp && runuser -u ann -- "
KEY = "/etc/slurm/slurmfab-jwt.key"
ASK = """
import http.client, json, re, socket, sys
user, token, path = sys.stdin.read().split()
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/slurmrestd/slurmrestd.socket")
def ask(path):
    connection = Connection("localhost", timeout=30)
    connection.request("GET", path, None, {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token})
    return connection.getresponse().read().decode()
known = ask("/openapi/v3").replace("\\\\/", "/")
print(ask(path % max(re.findall("/slurm/(v[0-9.]+)/jobs", known))))
"""
UNIT = "/etc/systemd/system/slurmrestd.service.d"
RESTARTED = "systemctl daemon-reload && systemctl restart slurmrestd"
STARTED = "ExecStart=/usr/sbin/slurmrestd"
DEFAULTS = "for place in default sysconfig; do mkdir -p /etc/$place; {} /etc/$place/slurmrestd; done"
LEFT = (
    f"ls -d {KEY} /etc/systemd/system/slurmrestd* /run/slurmrestd /usr/sbin/slurmrestd "
    "/var/lib/slurmfab/owned/rest.json 2>/dev/null; grep -i authalt /etc/slurm/*.conf; "
    "ls /usr/lib/*/slurm-wlm/auth_jwt.so 2>/dev/null; :"
)


class Site(ExtendedLab):
    """A cluster, and its file without `rest`."""

    def token(self) -> str:
        """A token of ann's, who asks for it herself."""
        return self.lab.on("n2", f"{AS_ANN} scontrol token lifespan=600").partition("=")[2]

    def expiry(self, lifespan: str) -> int:
        """For how many seconds a token of ann's counts, if she gets one; 0 for none."""
        told = self.lab.on("n2", f"{AS_ANN} scontrol token lifespan={lifespan} 2>&1; true").partition("=")[2]
        if told.count(".") != 2:
            return 0
        body = told.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return int(claims["exp"]) - int(claims["iat"])

    def ask(self, token: str, path: str) -> Any:
        """What slurmrestd answers ann with this token."""
        said = self.lab.on(
            "n2", f"cd /tmp; echo ann {token} '{path}' | runuser -u ann -- python3 -c {shlex.quote(ASK)}"
        )
        return json.loads(said) if said.startswith("{") else {"errors": [said]}

    def outcomes(self) -> set[str]:
        """The outcomes of the checks of slurmrestd."""
        return {one["outcome"] for one in self.lab.checks("rest") if one["check"].startswith("rest_")}


@pytest.fixture(scope="module", params=SUITES)
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, database=True, nodes=2) as lab:
        text = lab.inventory_path.read_text().replace("n[1-2]", "n1") + KEYS
        lab.inventory_path.write_text(text)
        lab.deploy()
        yield Site(lab, text)


def test_rest_when_its_key_comes_then_jobs_go_on_and_nothing_listens_on_the_network(site: Site) -> None:
    job = site.lab.on("ctl", f"{AS_ANN} sbatch --parsable -o /dev/null --wrap 'sleep 600'")
    site.lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    before = listening(site.lab, "ctl", "n1", "n2")
    assert before["ctl"] >= slurms("slurmctld", "slurmdbd")
    site.deploy(REST)
    assert listening(site.lab, "ctl", "n1", "n2") == before
    assert site.lab.on("ctl", f"squeue -h -j {job} -o %T; scancel {job}") == "RUNNING"
    assert site.lab.on("ctl", f"stat -c '%U %G %a' {KEY}") == "slurm slurm 400"
    assert site.lab.on("n2", f"ls {KEY} 2>&1 || true").endswith("No such file or directory"), "it proves no tokens"
    assert (
        site.lab.on("n2", "ss -Hltnp | grep -c slurmrestd; ps -C slurmrestd -o user= | grep -cw -e root -e slurm; :")
        == "0\n0"
    )
    assert site.outcomes() == {"passed"}


def test_slurmrestd_when_its_package_would_listen_on_the_network_then_only_the_socket_is_there(site: Site) -> None:
    before = listening(site.lab, "n2")
    listens = "SLURMRESTD_LISTEN=:6820"
    settings = (
        "DynamicUser=yes",
        f"Environment={listens} SLURM_JWT=daemon",
        "ExecStart=",
        f"{STARTED} $SLURMRESTD_OPTIONS",
    )
    package = "\\n".join(("[Service]", *settings))
    # As SchedMD's unit has it, in each of the ways by which a package can say it.
    site.lab.on("n2", DEFAULTS.format(f"printf '{listens}\\nSLURMRESTD_OPTIONS=0.0.0.0:6821\\n' >"))
    site.lab.on("n2", f"mv {UNIT}/slurmfab-rest.conf /root/; printf '{package}' >{UNIT}/package.conf")
    site.lab.on("n2", f"systemctl set-environment {listens}; {RESTARTED}")
    site.lab.until("n2", "ss -Hltn 'sport = :6820' | wc -l | sed 's/[1-9]/listens/'", "listens")
    told = {one["check"]: one for one in site.lab.checks("daemons") if one["host"] == "n2"}
    assert told["daemons_listen_where_they_should"]["outcome"] == "failed"
    assert "slurmrestd on *:6820" in told["daemons_listen_where_they_should"]["cause"]
    site.deploy(REST)
    assert listening(site.lab, "n2") == before
    assert site.outcomes() == {"passed"}

    # Who has systemd start it otherwise, behind slurmfab's file, is told what to remove; and then it is right.
    site.lab.on(
        "n2",
        f"printf '[Service]\\nExecStart=\\n{STARTED} -a rest_auth/jwt :6822\\n' >{UNIT}/zz.conf",
    )
    site.lab.on("n2", RESTARTED)
    site.lab.until("n2", "ss -Hltn 'sport = :6822' | wc -l | sed 's/[1-9]/listens/'", "listens")
    told = {one["check"]: one for one in site.lab.checks("daemons") if one["host"] == "n2"}
    said = told["daemons_listen_where_they_should"]["repair"]
    assert f"{UNIT}/zz.conf" in said, said
    assert RESTARTED.replace(" && ", " and ") in said, said
    site.lab.on(
        "n2", f"rm {UNIT}/zz.conf {UNIT}/package.conf; systemctl unset-environment SLURMRESTD_LISTEN; {RESTARTED}"
    )
    site.lab.on("n2", DEFAULTS.format("rm"))
    told = {one["check"]: one for one in site.lab.checks("daemons") if one["host"] == "n2"}
    assert told["daemons_listen_where_they_should"]["outcome"] == "passed"


def test_a_user_with_a_token_when_asking_then_slurmctld_and_slurmdbd_answer(site: Site) -> None:
    job = site.lab.on("ctl", f"{AS_ANN} sbatch --parsable -H -o /dev/null --wrap true")
    token = site.token()
    assert job in {str(one["job_id"]) for one in site.ask(token, "/slurm/%s/jobs")["jobs"]}
    site.lab.on("ctl", f"scancel {job}")
    name = site.lab.on("ctl", "scontrol show config | sed -n 's/^ClusterName *= //p'")
    assert name in {one["name"] for one in site.ask(token, "/slurmdb/%s/clusters/")["clusters"]}
    changed = ".".join((*token.split(".")[:2], token.split(".")[2][::-1]))
    assert not site.ask(changed, "/slurm/%s/jobs").get("jobs")
    assert not site.ask(changed, "/slurmdb/%s/clusters/").get("clusters")


def test_a_token_in_the_environment_keeps_srun_from_working_and_one_of_a_subshell_does_not(site: Site) -> None:
    export, srun = "export $(scontrol token lifespan=60)", "srun -n1 echo ran"
    told = site.lab.on("n2", f"{AS_ANN} sh -c '({export}; test -n \"$SLURM_JWT\") && {srun}'")
    assert told == "ran"
    told = site.lab.on("n2", f"{AS_ANN} timeout 60 sh -c '{export}; {srun}' 2>&1; true")
    assert "ran" not in told.split(), told
    site.lab.on("ctl", "scancel -u ann", check=False)


def test_tokens_when_asked_for_longer_than_a_day_or_than_the_file_says_then_are_not_made(site: Site) -> None:
    asked = f"{AS_ANN} scontrol token lifespan=%s 2>&1; true"
    assert "SLURM_JWT=" in site.lab.on("n2", asked % 86400)
    assert "SLURM_JWT=" not in site.lab.on("n2", asked % 86401)
    assert site.expiry("infinite") <= 86400
    site.deploy(SHORT)
    assert "SLURM_JWT=" not in site.lab.on("n2", asked % 600), "the site's own parameter joins slurmfab's"
    site.deploy(SHORT.splitlines()[0] + "\n")
    assert "SLURM_JWT=" in site.lab.on("n2", asked % 3600)
    assert "SLURM_JWT=" not in site.lab.on("n2", asked % 3601)
    site.deploy(REST)


def test_tokens_when_the_key_is_rotated_then_no_longer_count_and_jobs_go_on(site: Site) -> None:
    token, before = site.token(), site.lab.on("ctl", f"sha256sum {KEY}")
    job = site.lab.on("ctl", f"{AS_ANN} sbatch --parsable -o /dev/null --wrap 'sleep 600'")
    site.lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    told = words_of(succeeded(site.lab.slurmfab("rotate-jwt-key")))
    assert "a new token counts, and one of before is refused" in told
    assert "1 ran before, 1 runs now" in told
    assert site.lab.on("ctl", f"squeue -h -j {job} -o %T; scancel {job}") == "RUNNING"
    assert site.lab.on("ctl", f"sha256sum {KEY}") != before
    assert site.lab.on("ctl", f"stat -c '%U %G %a' {KEY}; ls -A /etc/slurm | grep -c jwt") == "slurm slurm 400\n1"
    assert not site.ask(token, "/slurm/%s/jobs").get("jobs")
    assert not site.ask(token, "/slurmdb/%s/clusters/").get("clusters")
    assert site.ask(site.token(), "/slurmdb/%s/clusters/")["clusters"]
    assert site.outcomes() == {"passed"}
    assert site.lab.deploy()["steps"] == []


def test_a_key_that_a_host_cannot_store_when_rotated_then_tokens_count_as_before(site: Site) -> None:
    token, before = site.token(), site.lab.on("ctl", f"sha256sum {KEY}")
    site.lab.on("ctl", f"chattr +i {KEY} 2>/dev/null || mount --bind {KEY} {KEY}")
    try:
        done = site.lab.slurmfab("rotate-jwt-key")
    finally:
        site.lab.on("ctl", f"chattr -i {KEY} 2>/dev/null; umount {KEY} 2>/dev/null; true")
    assert done.returncode == 1, words_of(done)
    assert "No daemon uses a new key of tokens" in words_of(done)
    assert site.lab.on("ctl", f"sha256sum {KEY}") == before
    assert site.ask(token, "/slurmdb/%s/clusters/")["clusters"]


def test_a_user_who_is_removed_then_it_is_told_until_when_tokens_count(site: Site) -> None:
    site.write(REST)
    told = words_of(succeeded(site.lab.slurmfab("remove-user", "bob")))
    assert re.search(r"Tokens \(JWT\) that bob has made may count until \d{4}-\d\d-\d\d \d\d:\d\d ", told), told
    assert "rotate-jwt-key" in told
    site.text = site.text.replace(", {name: bob, uid: 3001}", "")
    site.deploy(REST)


def test_rest_when_its_key_goes_then_all_goes(site: Site) -> None:
    site.deploy("")
    for host in ("ctl", "n1", "n2"):
        assert site.lab.on(host, LEFT) == ""
    assert site.lab.on("ctl", f"{AS_ANN} srun -n1 hostname") == "n1"
