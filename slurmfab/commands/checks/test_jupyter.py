"""Checks of notebooks: the hub answers with its certificate, as a user of its own, and its program is slurmfab's."""

from __future__ import annotations

import hashlib
import shlex
from typing import Any

from slurmfab.base.paths import JUPYTER_UNIT
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.jupyter import Jupyter
from slurmfab.commands.checks.hosts import CheckedHost, last_object, last_words
from slurmfab.commands.checks.wanted import deploy
from slurmfab.core.plan.phases.jupyter import program
from slurmfab.on_hosts.programs.jupyter.places import JUPYTER_CERTIFICATES, JUPYTER_PROGRAM

ASK = """
import http.client, json, ssl, sys
address, port, path = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
told = dict(why="", has_form=False, is_own=False)
try:
    connection = http.client.HTTPSConnection(address, int(port), context=context, timeout=20)
    connection.connect()
    shown = ssl.DER_cert_to_PEM_cert(connection.sock.getpeercert(True))
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    with open(path) as file:
        first = begin + file.read().partition(begin)[2].partition(end)[0] + end
    told["is_own"] = ssl.PEM_cert_to_DER_cert(shown) == ssl.PEM_cert_to_DER_cert(first)
    connection.request("GET", "/hub/login")
    answer = connection.getresponse()
    told["has_form"] = b'name="password"' in answer.read()
    told["why"] = "" if told["has_form"] else "HTTP status %d" % answer.status
except Exception as error:
    told["why"] = str(error) or type(error).__name__
print(json.dumps(told))
"""
"""Asks for the form of the login, and compares the certificate with the file; whom it is by is the browsers' matter."""

PROCESSES = (
    f"main=$(systemctl show --property=MainPID --value {JUPYTER_UNIT}) && ps -o uid=,args= -p $main --ppid $main"
)
"""The UIDs and command lines of the hub and its proxy."""

PARTS = ("jupyterhub", "configurable-http-proxy")


def test_jupyter_answers_over_tls(hub_host: CheckedHost, cluster: Cluster) -> None:
    """JupyterHub answers with its certificate, and asks for a login"""
    assert cluster.jupyter is not None
    told = ask(hub_host, cluster.jupyter)
    repair = f"Repair: {deploy(hub_host.name)}; then see journalctl --unit={JUPYTER_UNIT} there"
    assert told.get("has_form") is True, f"JupyterHub does not ask for a login: {str(told.get('why'))[:300]}. {repair}"
    assert told.get("is_own") is True, (
        f"JupyterHub shows an older certificate than its file. Repair: systemctl restart {JUPYTER_UNIT} on "
        f"{hub_host.name}"
    )


def test_jupyter_is_no_root(hub_host: CheckedHost) -> None:
    """JupyterHub and its proxy run as a user of their own"""
    lines = str(hub_host.run(PROCESSES).stdout).splitlines()
    missing = [part for part in PARTS if not any(part in line for line in lines)]
    assert not missing, f"{' and '.join(missing)} is not running. Repair: {deploy(hub_host.name)}"
    assert not any(line.split()[0] == "0" for line in lines), f"it runs as root. Repair: {deploy(hub_host.name)}"


def test_jupyter_has_slurmfabs_program(notebook_host: CheckedHost) -> None:
    """What proves logins and starts notebooks is slurmfab's program, and root's alone"""
    wanted = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in program()}
    done = notebook_host.run(f"cd {JUPYTER_PROGRAM} && find . -type f -exec sha256sum {{}} +")
    found = {line[66:].removeprefix("./"): line[:64] for line in str(done.stdout).splitlines()}
    repair = f"Repair: {deploy(notebook_host.name)}"
    differing = sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))
    assert not differing, f"{JUPYTER_PROGRAM}/{differing[0]} is not slurmfab's. {repair}"
    open_ones = str(notebook_host.run(f"find {JUPYTER_PROGRAM} ! -user root -o ! -type l -perm /022").stdout).split()
    assert not open_ones, f"others than root can change {open_ones[0]}. {repair}"
    assert notebook_host.run("test -x /usr/bin/jupyterhub-singleuser").rc == 0, (
        f"the package jupyterhub is not installed. {repair}"
    )


def ask(host: CheckedHost, jupyter: Jupyter) -> dict[str, Any]:
    """What the hub answers on its host."""
    path = jupyter.certificate or f"{JUPYTER_CERTIFICATES}/server.pem"
    words = shlex.join((jupyter.reached_at, str(jupyter.port), path))
    done = host.run(f"python3 -I -S -c {shlex.quote(ASK)} {words}")
    return last_object(done) or {"why": last_words(done)}
