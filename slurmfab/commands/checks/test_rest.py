"""Checks of slurmrestd: a program with a token submits a job, and one with another token does not."""

from __future__ import annotations

import shlex
from typing import Any

from slurmfab.base.paths import REST_SOCKET
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.hosts import CheckedHost, last_object, last_words, line_of
from slurmfab.commands.checks.wanted import deploy
from slurmfab.on_hosts.agent.client import commands

NAME = "slurmfab-rest-check"
SECONDS = 20

ASK = f"""
import http.client, json, re, socket, subprocess, sys
user, partition = sys.argv[1], sys.argv[2]
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout({SECONDS})
        self.sock.connect("{REST_SOCKET}")
def ask(method, path, token, body=None):
    connection = Connection("localhost")
    headers = {{"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token, "Content-Type": "application/json"}}
    connection.request(method, path, json.dumps(body) if body else None, headers)
    return connection.getresponse().read().decode(errors="replace")
told = dict(why="", job=0, refused=False)
try:
    words = ["scontrol", "token", "username=" + user, "lifespan=60"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout={SECONDS})
    token = done.stdout.decode().strip().partition("=")[2]
    if not token:
        raise ValueError("scontrol token: " + done.stderr.decode(errors="replace").strip())
    known = ask("GET", "/openapi/v3", token).replace("\\\\/", "/")
    version = max(re.findall("/slurm/(v[0-9.]+)/job/submit", known))
    path = {{"PATH": "/usr/bin:/bin"}}
    variables = path if version < "v0.0.39" else ["PATH=/usr/bin:/bin"]
    job = dict(name="{NAME}", hold=True, current_working_directory="/tmp", environment=variables)
    job.update(dict(partition=partition) if partition else {{}})
    def submitted(token):
        answer = ask("POST", "/slurm/%s/job/submit" % version, token, dict(script="#!/bin/sh\\nexit 0\\n", job=job))
        try:
            return json.loads(answer)
        except ValueError:
            return dict(errors=[dict(error=answer[:200])])
    answer = submitted(token)
    told["job"] = answer.get("job_id") or 0
    told["why"] = "" if told["job"] else "; ".join(str(one.get("error")) for one in answer.get("errors", ()))
    head, body, mark = token.split(".")
    told["refused"] = not submitted(".".join((head, body, mark[::-1]))).get("job_id")
except Exception as error:
    told["why"] = str(error) or type(error).__name__
print(json.dumps(told))
"""
"""Asks slurmrestd with a token, and with one that somebody else has signed, to submit a job that is held."""


def test_rest_takes_jobs_from_who_has_a_token(rest_host: CheckedHost, cluster: Cluster) -> None:
    """slurmrestd submits a job for who has a token, and for nobody without one"""
    told = ask(rest_host, cluster)
    rest_host.run(line_of(commands.cancel_named(NAME, cluster.slurm_user)))
    repair = f"Repair: {deploy(rest_host.name)}; then see journalctl --unit=slurmrestd there"
    job = told.get("job")
    assert isinstance(job, int), f"slurmrestd took no job: {str(told.get('why', ''))[:300]}. {repair}"
    assert job > 0, f"slurmrestd took no job: {str(told.get('why', ''))[:300]}. {repair}"
    assert told.get("refused") is True, f"slurmrestd took a job with a token that was not signed by the key. {repair}"


def test_rest_runs_as_a_user_of_its_own(rest_host: CheckedHost) -> None:
    """slurmrestd runs, and not as root"""
    user = rest_host.run("ps -C slurmrestd -o uid=").stdout.split()
    repair = f"Repair: {deploy(rest_host.name)}"
    assert user, f"slurmrestd does not run. {repair}"
    assert "0" not in user, f"slurmrestd runs as root. {repair}"


def ask(host: CheckedHost, cluster: Cluster) -> dict[str, Any]:
    """What slurmrestd answered; the token stays on the host."""
    partition = commands.PARTITION if cluster.own_partition else ""
    done = host.run(f"python3 -I -S -c {shlex.quote(ASK)} {shlex.quote(cluster.slurm_user)} {shlex.quote(partition)}")
    return last_object(done) or {"why": last_words(done)}
