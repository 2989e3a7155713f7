"""What a host gives for a support bundle, and which of its values it tells to be secret."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from slurmfab.base.errors import AgentFailed
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.support import reading

PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\nBBBB\n-----END OPENSSH PRIVATE KEY-----\n"
SECRETS = {
    "etc/munge/munge.key": b"\x00\xffkey",
    "etc/slurm/slurmdbd.conf": b"DbdHost=ctl\nStoragePass=of-the-database\nLogFile=/var/log/slurm/slurmdbd.log\n",
    "etc/slurm/slurm.conf": b"ClusterName=x\nAuthAltParameters=jwt_key=/etc/keys/jwt\n"
    b"AccountingStoragePass=/etc/passwd\n"
    b"StateSaveLocation=/var/state\nSlurmdLogFile=/var/log/slurmd.log\nJobCompPass=job-comp\n",
    "etc/keys/jwt": b"jwt-secret",
    "var/state/jwt_hs256.key": b"hs-secret",
    "etc/slurmfab-power.password": b"ipmi\n",
    "etc/slurmfab-mail.conf": b'user "ann"\npassword "of the relay"\n',
    "etc/docker/registry/slurmfab-users": b"ann:$2y$05$hash\n",
    "etc/ssh/ssh_host_ed25519_key": PEM.encode(),
    "etc/fstab": b"//nas/x /x cifs credentials=/etc/cifs 0 0\n",
    "etc/cifs": b"username=lab\npassword=of-cifs\n",
    "var/lib/slurmfab/kept/1/manifest": b'{"path": "/x", "blob": "b", "secret": true}\n{"path": "/y", "blob": "c"}\n',
    "var/lib/slurmfab/kept/1/b": b"StoragePass=former\n",
    "var/lib/slurmfab/kept/1/c": b"StoragePass=not-secret\n",
    "etc/site.token": b"# ours\nTOKEN-1\n",
}
VALUES = {
    b"\x00\xffkey", b"of-the-database", b"job-comp", b"jwt-secret", b"hs-secret", b"ipmi", b"of the relay",
    b"$2y$05$hash", b"AAAABBBB", b"of-cifs", b"TOKEN-1", b"former",
}  # fmt: skip


def asked(root: Path, *parts: str) -> dict[str, Any]:
    """The host's answer, as the deployer takes it."""
    request = {"parts": parts, "private": ["/etc/site.token"]}
    said = json.loads(json.dumps(reading.read(request, Context(str(root)))))
    found: dict[str, Any] = answer_value("n1", ({"support": said},), "support")
    return found


@pytest.fixture
def host(root: Path) -> Path:
    """A host with every secret there is, and a log."""
    for path, content in SECRETS.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (root / "var/log").mkdir(exist_ok=True)
    (root / "var/log/slurmd.log").write_text("error: no GPU\n" * 100_000)
    return root


def test_a_host_tells_all_its_secrets_and_no_path_or_name(host: Path) -> None:
    found = {base64.b64decode(one) for one in asked(host)["secrets"]}
    assert found - {b"ipmi\n"} >= VALUES
    assert not {b"ann", b"lab", b"/etc/passwd", b"ctl", b"# ours", b"not-secret"} & found


def test_a_host_gives_configuration_without_passwords_and_the_end_of_a_log(host: Path) -> None:
    answer = asked(host, "host")
    files = dict(answer["files"])
    assert "StoragePass=(not-shown)" in files["slurm/slurmdbd.conf"]
    assert files["logs/slurmd.log"].endswith("error: no GPU\n")
    assert len(files["logs/slurmd.log"]) <= reading.LOG_BYTES
    assert not [name for name in files if "key" in name or "password" in name]


def test_a_host_that_is_asked_for_its_secrets_alone_gives_no_file(host: Path) -> None:
    assert asked(host)["files"] == []


@pytest.mark.parametrize("name", ["../x", "logs/../../x", "/etc/passwd", "logs/a\nb", "logs/.x", "x"])
def test_an_answer_with_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    value = {"files": [[name, ""]], "left": [], "secrets": [], "public": []}
    with pytest.raises(AgentFailed):
        answer_value("n1", ({"support": value},), "support")
