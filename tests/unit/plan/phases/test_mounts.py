"""Units of mounts: their names as systemd escapes them, texts that systemd accepts, and what is taken back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support import cluster, facts_of, plan_input, prepared, prepared_input

from slurmfab.core.plan.phases import mounts, packages
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.mounts.released_mounts import ReleasedMounts

HEAD = """\
cluster: lab
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
"""
EVERYTHING = """\
state_directory: /shared/state
mounts:
  - {path: /home, source: "nas:/export/home", type: nfs4, options: [hard, "vers=4.2"]}
  - {path: /shared, source: "gl:/shared", type: glusterfs}
  - {path: /scratch/fast, source: "mgs@tcp:/fast", type: lustre, automount: true}
  - {path: /srv/a-b, source: /shared/a, type: bind}
  - {path: /mnt/x, source: "ann@h:/x", type: sshfs, options: "allow_other,IdentityFile=/root/key"}
exports:
  - {path: /srv/soft, host: n1, mount: /soft, options: ro}
  - {path: /srv/data, host: c1, mount: /data}
"""


@pytest.mark.skipif(shutil.which("systemd-escape") is None, reason="systemd-escape is not installed")
@pytest.mark.parametrize("path", ["/home", "/srv/big-data", "/.hid/a+b.c", "/a_b/c.d-e", "/x/.y", "/é"])
def test_unit_names_are_those_of_systemd_escape(path: str) -> None:
    argv = ["systemd-escape", "--path", "--suffix=mount", path]
    wanted = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    if path.isascii():
        assert mounts.unit_name(path, ".mount") == wanted


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_units_when_systemd_reads_them_have_no_mistake(tmp_path: Path) -> None:
    wanted = prepared_input(HEAD + EVERYTHING)
    released = mounts.resources(wanted, "c1")[0]
    assert isinstance(released, ReleasedMounts)
    files = [tmp_path / path.rpartition("/")[2] for path, _ in released.files]
    for file, (_, text) in zip(files, released.files, strict=True):
        file.write_text(text)
    argv = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *map(str, files)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if str(tmp_path) in line or ".mount" in line]
    assert ours == []


def test_clients_are_installed_by_type_where_they_are_used() -> None:
    text = f"{HEAD}mounts: [{{path: /home, source: 'nas:/home', type: nfs, roles: compute}}]\n"
    wanted = prepared_input(text)
    has_client = {host: "nfs-common" in vars(packages.resources(wanted, host)[0])["names"] for host in ("c1", "n1")}
    assert has_client == {"c1": False, "n1": True}


def test_hosts_without_mounts_are_left_alone_unless_they_have_former_ones() -> None:
    facts = facts_of(cluster(HEAD), prepared)
    facts["n1"] = prepared("n1", owned=("mounts",))
    wanted = plan_input(cluster(HEAD), facts)
    assert mounts.resources(wanted, "n2") == ()
    former = mounts.resources(wanted, "n1")
    assert ReleasedMounts(()) in former
    assert OwnedFiles("mounts", ()) in former


def test_slurmctld_does_not_start_without_the_mount_of_its_state() -> None:
    wanted = prepared_input(HEAD + EVERYTHING)
    texts = {
        host: next(one for one in mounts.resources(wanted, host) if isinstance(one, OwnedFiles)).by_path()
        for host in ("c1", "n1")
    }
    assert "RequiresMountsFor=/shared/state" in texts["c1"][mounts.SLURMCTLD_DROP_IN].text
    assert mounts.SLURMCTLD_DROP_IN not in texts["n1"]
