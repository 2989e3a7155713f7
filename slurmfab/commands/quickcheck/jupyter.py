"""Check of notebooks: a login, a server in a job of a user, and a cell that runs there."""

from __future__ import annotations

import json
import secrets
import shlex

import pytest

from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.jupyter import Jupyter
from slurmfab.commands.checks.hosts import last_object, opened, person
from slurmfab.commands.quickcheck.bench import Bench
from slurmfab.core.user_guide.offer import offer
from slurmfab.on_hosts.agent.nodes.user_jobs import Person
from slurmfab.on_hosts.programs.jupyter.places import JUPYTER_TICKET

MORE_SECONDS = 60  # for the login, the start of the server and the cell, beside the job's wait
MEMORY = 512  # MiB: a server and a kernel need some 150

RUN = """
import asyncio, http.cookiejar, json, os, ssl, sys, urllib.parse, urllib.request, uuid
from tornado import httpclient, websocket
user, password, base, answers, ticket, limit, cell = json.loads(sys.stdin.readline())
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
jar = http.cookiejar.CookieJar()
by_tls, with_cookies = urllib.request.HTTPSHandler(context=context), urllib.request.HTTPCookieProcessor(jar)
opener = urllib.request.build_opener(by_tls, with_cookies)
headers = {"Referer": base + "/hub/home"}
def ask(method, path, data=None, **more):
    request = urllib.request.Request(base + path, data, {**headers, **more}, method=method)
    return opener.open(request, timeout=limit)
def by_json(method, path, value=None):
    data = None if value is None else json.dumps(value).encode()
    return json.loads(ask(method, path, data, **{"Content-Type": "application/json"}).read() or b"null")
def xsrf():
    return next((one.value for one in jar if one.name == "_xsrf"), "")
def log_in():
    if ticket:
        place = os.open(ticket, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(place, "w") as file:
            file.write(user + " " + password)
    try:
        ask("GET", "/hub/login").read()
        form = dict(username=user, password=password, _xsrf=xsrf())
        answer = ask("POST", "/hub/login?next=%2Fhub%2Fhome", urllib.parse.urlencode(form).encode())
        answer.read()
        if "/hub/login" in answer.geturl():
            raise ValueError("the login is refused")
    finally:
        if ticket and os.path.lexists(ticket):
            os.unlink(ticket)
    headers["X-XSRFToken"] = xsrf()
    made = by_json("POST", "/hub/api/users/%s/tokens" % user, dict(note="quickcheck", expires_in=2 * limit))
    headers["Authorization"] = "token " + made["token"]
    jar.clear()
    return made["id"]
def start():
    ask("POST", "/hub/api/users/%s/server" % user, json.dumps(answers).encode()).read()
    for line in ask("GET", "/hub/api/users/%s/server/progress" % user):
        told = json.loads(line[5:]) if line.startswith(b"data:") else {}
        if told.get("failed"):
            raise ValueError(told.get("message"))
        if told.get("ready"):
            return
    raise ValueError("the server is not ready")
async def run_cell():
    kernel = by_json("POST", "/user/%s/api/kernels" % user, {})["id"]
    url = "wss" + base[5:] + "/user/%s/api/kernels/%s/channels" % (user, kernel)
    only = {"Authorization": headers["Authorization"]}
    wanted = httpclient.HTTPRequest(url, headers=only, validate_cert=False, request_timeout=limit)
    socket = await websocket.websocket_connect(wanted)
    ids = dict(msg_id=uuid.uuid4().hex, session=uuid.uuid4().hex)
    head = dict(ids, username=user, msg_type="execute_request", version="5.3")
    content = dict(code=cell, silent=False, store_history=False, user_expressions={}, allow_stdin=False)
    await socket.write_message(json.dumps(dict(header=head, parent_header={}, metadata={}, content=content,
                                               channel="shell", buffers=[])))
    printed = ""
    while True:
        told = await asyncio.wait_for(socket.read_message(), limit)
        if told is None:
            raise ValueError("the kernel has gone")
        one = json.loads(told)
        if one["parent_header"].get("msg_id") != head["msg_id"]:
            continue
        if one["msg_type"] == "stream":
            printed += one["content"]["text"]
        if one["msg_type"] == "execute_reply":
            if one["content"]["status"] != "ok":
                raise ValueError(one["content"].get("evalue"))
            return printed.strip()
told = {}
try:
    token = log_in()
    if by_json("GET", "/hub/api/users/" + user)["servers"]:
        told = dict(busy=True)
    else:
        try:
            start()
            told = dict(printed=asyncio.run(run_cell()))
        finally:
            ask("DELETE", "/hub/api/users/%s/server" % user).read()
    ask("DELETE", "/hub/api/users/%s/tokens/%s" % (user, token)).read()
except Exception as error:
    said = error.read().decode(errors="replace")[:300] if hasattr(error, "read") else ""
    told = dict(told, why="%s %s" % (error or type(error).__name__, said))
print(json.dumps(told))
"""
"""Logs in at the hub by its form, starts a server, runs a cell by its kernel's websocket, and ends the server. It runs
on the hub's host, which has JupyterHub's libraries; root there may make a password for one login."""

CELL = "import os; print(os.uname().nodename, os.environ['SLURM_JOB_ID'])"


def jupyter(bench: Bench) -> str:
    """Log in at the hub as a user, start a server by a job, and run a cell there."""
    wanted = bench.cluster.jupyter
    if wanted is None:
        pytest.skip("the cluster file has no jupyter.")
    seconds = int(bench.seconds) + MORE_SECONDS
    with opened(bench.opener, bench.known, wanted.host) as host:
        who = somebody(bench)
        values = request(bench, wanted, who, seconds)
        done = host.run(f"cd / && /usr/bin/python3 -I -S -c {shlex.quote(RUN)}", stdin=values, seconds=2 * seconds)
    found = last_object(done)
    if found.get("busy"):
        pytest.skip(f"{who.name} has a server already; name another user with --user.")
    words = str(found.get("printed", "")).split()
    why = str(found.get("why") or done.stderr)[-300:].strip()
    assert len(words) == len(("node", "job")), (
        f"{who.name} cannot run a cell: {why or 'no answer'}. Repair: {FAB} check-cluster --only jupyter,limits; "
        f"journalctl --unit='slurmfab-jupyter*' on {wanted.host}"
    )
    return f"{who.name} logged in at {wanted.host}:{wanted.port} and ran a cell in job {words[1]} on {words[0]}"


def somebody(bench: Bench) -> Person:
    """The user of the other jobs, or else the first of the cluster file who may have jobs and cannot become root."""
    if bench.who.name not in ("root", "slurm", bench.cluster.slurm_user):
        return bench.who
    docker = bench.cluster.containers.docker.users if bench.cluster.containers else ()
    for user in bench.cluster.users:
        if (user.accounts or not bench.cluster.has_accounts) and not user.sudo and user.name not in docker:
            return person(bench.sender, user.name)
    pytest.skip("the cluster file has no user who may submit jobs and cannot become root; name one with --user.")


def request(bench: Bench, wanted: Jupyter, who: Person, seconds: int) -> str:
    """What the script reads: a line of JSON. The password counts once."""
    first = offer(bench.cluster, bench.known.lock).first
    assert first, "all partitions are hidden. Repair: take Hidden from one in the cluster file"
    answers = {"partition": first.name, "time": "5", "cpus": "1", "memory": f"{MEMORY}M"}
    base = f"https://{wanted.reached_at}:{wanted.port}"
    return json.dumps([who.name, secrets.token_hex(16), base, answers, JUPYTER_TICKET, seconds, CELL]) + "\n"
