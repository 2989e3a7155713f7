"""The support bundle of a cluster that has every secret there is: it has none of them, in no form, nor has its output.

One lab goes through all of it, in this order.
"""

from __future__ import annotations

import base64
import json
import tarfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
from lab_cluster import DeployedLab, ended
from stock import Stock, in_turn

from slurmfab.commands.support_bundle.redaction import Filter

pytestmark = pytest.mark.lab

MAIL, IPMI, TOKEN = 'correct "horse" #1', "ipmi-secret-77", "site-token-4711-abcdef"
HASH = "$2y$05$abcdefghijklmnopqrstuuCKBDZ3lnrN1HNkcBDt2RZ8ZQCP0h1bW"
KEYS = """\
users: [{name: ann, uid: 3000, comment: Robert Realname}]
database: ctl
mail: {relay: "n1:2587", from: slurm@example.org, tls: starttls, user: lab, password_file: mail-password}
power:
  nodes: n2
  suspend_after: 10h
  how: {ipmi: {address: "{node}-ipmi", user: lab, password_file: ipmi-password}}
registry: {host: ctl, directory: /srv/images, password_file: registry-users}
files:
  /etc/site.token: {mode: 0600, text: "token: TOKEN\\n"}
job_environment: {all: {WANDB_API_KEY: TOKEN}}
"""
FIND = """\
base64 -w0 /etc/munge/munge.key; echo
grep -h StoragePass /etc/slurm/slurmdbd.conf 2>/dev/null | cut -d= -f2- | base64 -w0; echo
for key in /etc/ssh/ssh_host_*_key ~slurm/.ssh/id_* /etc/docker/registry/slurmfab/*.pem; do
    sed -n '/BEGIN.*PRIVATE/,/END.*PRIVATE/{/-----/!p}' $key 2>/dev/null | tr -d '\\n' | base64 -w0; echo
done
"""
PUBLIC = "cat /etc/ssh/*.pub ~slurm/.ssh/*.pub"
LEAK = """\
password=$(grep -h StoragePass /etc/slurm/slurmdbd.conf | cut -d= -f2-)
echo "error: cannot connect with $password" >> /var/log/slurm/slurmctld.log
echo "debug: config dump StoragePass=$password and $(printf %s "$password" | base64 -w0)" >> /var/log/slurm/slurmdbd.log
"""
LEAK_ON_NODE = (
    "cd /var/log/slurmd && echo 'key {} and {}' >> slurmd.log && cat /etc/ssh/ssh_host_ed25519_key >> slurmd.log"
)

GITHUB = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
BODY = base64.b64encode(bytes(range(7, 247, 5)) * 5).decode()
UNKNOWN = "hunter2-Corr3ct"
IN_LOGS = (
    f"mysql -uroot -p{UNKNOWN} slurm_acct_db",
    f"sshpass -p {UNKNOWN} ssh n2",
    f"curl -s -u ann:{UNKNOWN} https://registry",
    f"backup --password {UNKNOWN} --now",
    f"token {GITHUB} expired",
    "key hf_aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH and AKIAIOSFODNN7EXAMPLE",
    "slack xoxb-123456789012-1234567890123-aBcDeFgHiJkLmNoPqRsTuVwX",
    *textwrap.wrap(BODY, 64),
    base64.b64encode(base64.b64encode(f"password={UNKNOWN}".encode())).decode(),
    f"error: bad token {GITHUB[:22]}",
    f"{GITHUB[22:]} was refused",
)
"""Secrets that no file of the cluster has, in lines of a log."""

MADE_UP = (
    UNKNOWN,
    GITHUB,
    GITHUB[8:20],
    GITHUB[24:36],
    "aBcDeFgHiJkL",
    "AKIAIOSF",
    "xoxb-1234",
    BODY[:24],
    BODY[70:94],
)
"""What of them nobody may find."""

ORDINARY = (
    "error: Node n2 has low real_memory size (2000 < 4000)",
    "error: slurm_receive_msg [10.99.1.7:42]: Zero Bytes were transmitted or received",
    "slurmd version 24.11.5 started, job 4711 exited with signal 9",
    "mount.nfs: nas77.foreign.example.net:/export/home timed out; NAS77 and filer88 do not answer",
)


@dataclass
class Site:
    """A cluster, the secrets that it has, and its public keys, which the private ones repeat."""

    lab: DeployedLab
    public: str = ""
    secrets: dict[str, bytes] = field(default_factory=dict)

    def bundle(self, *words: str, code: int = 0) -> tuple[str, dict[str, str]]:
        """What the command printed, and the texts in the archive by their names without its directory."""
        done = ended(self.lab.slurmfab("support-bundle", "--json", "-", *words), code)
        path = Path(json.loads(done.stdout)["file"])
        assert path.stat().st_mode & 0o777 == 0o600
        with tarfile.open(path) as tar:
            members = [(one.name, tar.extractfile(one)) for one in tar]
            texts = {name.partition("/")[2]: file.read().decode() for name, file in members if file}
        path.unlink()
        return done.stdout + done.stderr, texts

    def found_in(self, text: str) -> list[str]:
        """The secrets that a text has, as they are, in base64 or in hexadecimal digits, whole or a long piece."""
        return [
            name
            for name, value in self.secrets.items()
            if any(form in text for form in forms(value) if form not in self.public)
        ]


def forms(value: bytes) -> set[str]:
    """The forms of a secret; of a long one its first, its middle and its last characters."""
    coded = [base64.b64encode(b"x" * shift + value).decode()[4:-4] for shift in range(3)]
    whole = {value.decode(errors="replace"), json.dumps(value.decode(errors="replace"))[1:-1], value.hex()}
    whole |= {value.hex().upper(), quote(value), *coded}
    long = {form for form in whole if len(form) > 60}
    return whole - long | {form[at : at + 30] for form in long for at in (0, len(form) // 2, len(form) - 30)}


@pytest.fixture(scope="module", params=in_turn("support_bundle"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=2, database=True) as lab:
        beside = lab.inventory_path.parent
        for name, text in {"mail-password": MAIL, "ipmi-password": IPMI, "registry-users": f"ann:{HASH}"}.items():
            (beside / name).write_text(f"{text}\n")
            (beside / name).chmod(0o600)
        lab.inventory_path.write_text(lab.inventory_path.read_text() + KEYS.replace("TOKEN", TOKEN))
        lab.deploy()
        given = {"mail": MAIL, "ipmi": IPMI, "token": TOKEN, "hash": HASH}
        site = Site(lab, secrets={name: value.encode() for name, value in given.items()})
        for host in ("ctl", "n1", "n2"):
            site.public += lab.on(host, PUBLIC)
            for number, line in enumerate(lab.on(host, FIND).splitlines()):
                if line:
                    site.secrets[f"{host} {number}"] = base64.b64decode(line).strip()
        yield site


def plant(site: Site) -> None:
    """Have logs and the record of a run repeat secrets."""
    database, key = site.secrets["ctl 1"].decode(), site.secrets["n1 0"]
    site.lab.on("ctl", LEAK)
    site.lab.on("n1", LEAK_ON_NODE.format(key.hex(), base64.b64encode(key).decode()))
    records = sorted(site.lab.inventory_path.with_name(f"{site.lab.inventory_path.stem}.runs").glob("*.json"))
    record = json.loads(records[-1].read_text())
    record["error"] = f"mysql -p{database} failed; relay said {MAIL}; {site.secrets['ctl 0'].hex()}"
    records[-1].write_text(json.dumps(record))


def test_a_bundle_of_a_cluster_with_every_secret_has_none_of_them(site: Site) -> None:
    assert len(site.secrets) > 12, site.secrets.keys()
    plant(site)
    said, texts = site.bundle()
    planted = site.lab.on("ctl", "cat /var/log/slurm/slurmctld.log /var/log/slurm/slurmdbd.log")
    assert site.found_in(planted) == ["ctl 1"]
    assert {name: found for name, text in texts.items() if (found := site.found_in(text))} == {}
    assert site.found_in(said) == []
    assert not [name for name, text in texts.items() if "PRIVATE KEY-----\n" in text]
    assert "error: cannot connect with (not-shown)" in texts["hosts/ctl/logs/slurmctld.log"]
    assert any(
        "failed; relay said (not-shown); (not-shown)" in text
        for name, text in texts.items()
        if name.startswith("runs/")
    )


def test_a_bundle_has_what_helpers_ask_for(site: Site) -> None:
    said, texts = site.bundle("--hosts", "ctl,n1")
    for name in (
        "slurm/slurm.conf",
        "slurm/cgroup.conf",
        "logs/slurmctld.log",
        "system/units.txt",
        "kept/os-release.txt",
        "facts.json",
    ):
        assert f"hosts/ctl/{name}" in texts, sorted(texts)
    assert "StoragePass=(not-shown)" in texts["hosts/ctl/slurm/slurmdbd.conf"]
    assert "NodeName=n1" in texts["hosts/ctl/state/nodes.txt"]
    assert "PartitionName=" in texts["hosts/ctl/state/partitions.txt"]
    assert "SLURM_VERSION" in texts["hosts/ctl/state/config.txt"]
    assert "Main schedule" in texts["hosts/ctl/state/scheduler.txt"]
    assert "slurmd " in texts["hosts/n1/system/units.txt"] or "slurmd.service" in texts["hosts/n1/system/units.txt"]
    assert "/" in texts["hosts/n1/system/disks.txt"]
    assert not [name for name in texts if name.startswith("hosts/n2/")]
    assert "users:" in texts["cluster/cluster.yaml"]
    assert texts["clocks.txt"].startswith("ctl: ")
    assert "hosts: logs" in said
    assert "names of people and hosts, addresses and host keys are." in " ".join(said.split())


def test_secrets_in_logs_that_no_file_has_are_in_no_bundle_and_ordinary_lines_stay(site: Site) -> None:
    write_log(site, "n1", (*IN_LOGS, *ORDINARY))
    _, texts = site.bundle()
    assert [one for one in MADE_UP if any(one in text for text in texts.values())] == []
    log = texts["hosts/n1/logs/slurmd.log"]
    for line in ORDINARY:
        assert line in log
    assert "mysql -uroot -p(not-shown) slurm_acct_db" in log
    assert "curl -s -u ann:(not-shown) https://registry" in log


def test_ordinary_lines_of_real_logs_stay_as_they_are(site: Site) -> None:
    lines = [
        line
        for host in ("ctl", "n1")
        for line in site.lab.on(host, "journalctl --no-pager -o short-iso -n 2000").splitlines()
        if "MUNGE:" not in line
    ]
    shown = Filter([]).text("\n".join(lines)).splitlines()
    changed = [(old, new) for old, new in zip(lines, shown, strict=True) if old != new and "(digest-" not in new]
    assert len(lines) > 200
    assert len(changed) <= len(lines) / 500, changed


def write_log(site: Site, host: str, lines: tuple[str, ...], daemon: str = "slurmd") -> None:
    """Have lines in a log, as a daemon writes them."""
    text = "".join(f"[2026-11-24T04:00:00.000] {line}\n" for line in lines)
    coded = base64.b64encode(text.encode()).decode()
    site.lab.on(
        host, f"echo {coded} | base64 -d >> /var/log/{'slurmd' if daemon == 'slurmd' else 'slurm'}/{daemon}.log"
    )


def test_a_host_that_is_down_is_named_in_the_bundle_and_by_the_exit_code(site: Site) -> None:
    site.lab.on("n2", "systemctl stop ssh.socket ssh.service 2>/dev/null; pkill -o -x sshd; :", check=False)
    said, texts = site.bundle(code=3)
    assert texts["missing.txt"].startswith("n2: ")
    assert "hosts/n1/facts.json" in texts
    assert "n2: left out: " in said
