"""The new slurmdbd tried on a copy: how it is started, when it is done, and what is told when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.upgrade import proved_dump

as_root = pytest.mark.needs_root("only root may leave the network")


def program(place: Path, script: str) -> str:
    """A stand-in for slurmdbd."""
    path = place / "slurmdbd"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_its_settings_have_the_copy_and_mungeds_socket_and_no_password(tmp_path: Path) -> None:
    (tmp_path / "etc/slurm").mkdir(parents=True)
    own = "AuthInfo = socket=/opt/munge.socket\nStoragePass=secret\nStorageLoc=slurm_acct_db\nDbdPort=7031\n"
    (tmp_path / "etc/slurm/slurmdbd.conf").write_text(own)
    proved_dump.write_settings(Context(str(tmp_path)), str(tmp_path), "slurm_acct_db_copy", "/plugins")
    written = tmp_path / "slurmdbd.conf"
    lines = written.read_text().splitlines()
    assert {"StorageLoc=slurm_acct_db_copy", "PluginDir=/plugins", "AuthInfo = socket=/opt/munge.socket"} <= {*lines}
    assert [line for line in lines if "secret" in line or line.startswith("DbdPort")] == []
    assert written.stat().st_mode & 0o777 == 0o600


@as_root
def test_it_is_done_when_it_says_that_it_has_started_and_is_ended_then(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"echo $$ $LD_LIBRARY_PATH $SLURM_CONF $1 >{told}\necho slurmdbd version 26.05.5 started >&2\nexec sleep 9"
    seconds = proved_dump.run(str(tmp_path), program(tmp_path, script), "/new/lib/slurm")
    pid, *words = told.read_text().split()
    assert words == ["/new/lib/slurm:/new/lib", f"{tmp_path}/slurm.conf", "-D"]
    assert 0 <= seconds < 60
    assert not Path(f"/proc/{pid}").exists()


@as_root
def test_what_it_said_is_told_when_it_ends_before(tmp_path: Path) -> None:
    script = "echo 'slurmdbd: opening' >&2; echo 'slurmdbd: error: table x is full' >&2; exit 1"
    with pytest.raises(ResourceFailed, match=r"^it ended: error: table x is full$"):
        proved_dump.run(str(tmp_path), program(tmp_path, script), "/new/lib/slurm")
    with pytest.raises(ResourceFailed, match="it left no message"):
        proved_dump.run(str(tmp_path), program(tmp_path, "exit 0"), "/new/lib/slurm")
