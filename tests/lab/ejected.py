"""Clusters that are ejected: deployed, written as scripts, and made by these on new hosts without slurmfab."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lab_cluster import DeployedLab, succeeded
from lab_user import PLATFORM, Person, installed, of_kind, running_lab, words_of

from slurmfab import lab
from slurmfab.lab.spec import LabSpec
from slurmfab.on_hosts.agent.core.host_paths import OWNED

RECORDS = "the record of "  # what names in states begin with that are slurmfab's own notes
PROLOG = "#!/bin/sh\ntouch /run/prolog-was-here\n"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5JX3oSsZjPsVDsRr3Gmug/5T3ezqVzA2QkLtmDFPdU ann@home"


PASSWORDS = "ann:$2y$05$abcdefghijklmnopqrstuuEI2bXlcx4qhOyTUz1TnZVZbtCVlAWZK\n"


EDITED, DEPLOYED = ", and ejected: edits here stay", "; edits here are overwritten"
EXCEPTION = ", except the password if the database is on this host"


@dataclass(frozen=True)
class Wanted:
    """A cluster that is ejected: the name of its lab, its file behind the addresses, and the lab that it needs."""

    name: str
    text: str
    nodes: int
    database: str
    lab: Mapping[str, Any] = field(default_factory=dict)
    relay: str = ""  # the host by which SSH reaches the others
    down: str = ""  # a host that is away when the scripts run first
    by_hand: Mapping[str, str] = field(default_factory=dict)  # what new hosts have before, as scripts of root's


@dataclass(frozen=True)
class Ejected:
    """Hosts that were bare, on which the scripts of an ejected cluster have run.

    Args:
        hosts: the hosts, with the cluster file of the first ones.
        scripts: the directory of the scripts.
        secrets: keys and passwords that the first hosts had.
        without: what `make-cluster` did and printed while a host was away.
    """

    hosts: DeployedLab
    scripts: Path
    secrets: tuple[str, ...]
    without: subprocess.CompletedProcess[str] | None

    def differing(self) -> set[str]:
        """What a plan with the cluster file would change."""
        return differing(self.hosts)


@contextmanager
def ejected(wanted: Wanted, suite: str, directories: pytest.TempPathFactory) -> Iterator[Ejected]:
    """Deploy, eject, and make the cluster anew; the directory of the scripts has an odd name."""
    scripts = directories.mktemp("ejected") / "ann's cluster"
    spec = of_kind(LabSpec(name=wanted.name, suite=suite, nodes=wanted.nodes, **wanted.lab))
    database = (*PLATFORM.packages("database"), *PLATFORM.database.packages)
    with running_lab(installed(spec, **{wanted.database: database}), directories.mktemp("first")) as first:
        write_files(first, wanted)
        first.deploy()
        succeeded(first.slurmfab("eject", "--to", str(scripts)))
        say_as_deployed(scripts)
        secrets = tuple(
            first.on(host, command)
            for host, command in (
                ("ctl", "base64 -w0 /etc/munge/munge.key"),
                (wanted.database, "sed -n s/^StoragePass=//p /etc/slurm/slurmdbd.conf"),
                ("n1", "sed -n 2p /var/lib/slurm/home/.ssh/id_ed25519"),
            )
        )
    # A lab that is made again under its name has its addresses.
    with running_lab(spec, directories.mktemp("bare")) as bare:
        write_files(bare, wanted)
        for host, script in wanted.by_hand.items():
            bare.on(host, script)
        without = None
        if wanted.down:
            lab.unplug_host(bare.lab, wanted.down)
            without = make(bare, wanted, scripts)
            lab.plug_in_host(bare.lab, wanted.down)
        succeeded(make(bare, wanted, scripts))
        yield Ejected(bare, scripts, secrets, without)


def say_as_deployed(scripts: Path) -> None:
    """Give files the first lines that a deployment writes; whatever a plan shows then is another difference."""
    for script in (scripts / "hosts").iterdir():
        text = script.read_text()
        assert (EDITED in text, DEPLOYED in text) == (True, False), script
        lines = text.splitlines(keepends=True)
        for number, line in enumerate(lines):
            of_password = EXCEPTION if lines[number - 1].startswith("with_password ") else ""
            lines[number] = line.replace(EDITED, DEPLOYED + of_password)
        script.write_text("".join(lines))


def write_files(hosts: DeployedLab, wanted: Wanted) -> None:
    """The cluster file with all that is tried, and the files that it names."""
    begin = hosts.inventory_path.read_text().partition("controllers:")[0]
    begin = begin.replace("ssh: {", f"ssh: {{relays: {wanted.relay}, ") if wanted.relay else begin
    hosts.inventory_path.write_text(begin + wanted.text)
    directory = hosts.inventory_path.parent / "prolog.d"
    directory.mkdir()
    (directory / "10-here").write_text(PROLOG)
    (directory / "10-here").chmod(0o755)
    passwords = directory.with_name("registry.htpasswd")
    passwords.write_text(PASSWORDS)
    passwords.chmod(0o600)


def make(hosts: DeployedLab, wanted: Wanted, scripts: Path) -> subprocess.CompletedProcess[str]:
    """Run `make-cluster` for hosts whose keys are known, with the one secret that no host makes."""
    known = f"UserKnownHostsFile={hosts.lab.directory / 'known_hosts'}"
    if wanted.relay:
        config = (scripts / "ssh_config").read_text()
        (scripts / "ssh_config").write_text(f"{known}\n{config}")
    if "secrets/slurmfab-users" in (scripts / "README.md").read_text():
        (scripts / "secrets").mkdir(exist_ok=True)
        (scripts / "secrets/slurmfab-users").write_text(PASSWORDS)
    return subprocess.run(
        [scripts / "make-cluster"],
        env={**os.environ, **({} if wanted.relay else {"SSH_OPTIONS": f"-o {known}"})},
        capture_output=True,
        text=True,
        check=False,
    )


def differing(admin: DeployedLab | Person) -> set[str]:
    """What a plan would change, but for slurmfab's own records of what it has written, which scripts have none of."""
    planned = admin.slurmfab("plan", "--json", "-")
    assert planned.returncode in (0, 4), words_of(planned)
    told = [
        f"{step['host']} {outcome['id']} {change['name']} {outcome['message']}"
        for step in json.loads(planned.stdout)["steps"]
        for outcome in step["outcomes"]
        for change in outcome["changes"] or [{"name": outcome["status"]}]
    ]
    assert any(RECORDS in line for line in told), told
    return {line for line in told if RECORDS not in line and OWNED not in line}
