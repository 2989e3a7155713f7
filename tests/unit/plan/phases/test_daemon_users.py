"""slurmctld and slurmdbd never start as root: by the packages' units, or by drop-ins where these start them so."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.core.plan.phases import daemon_users
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

BASE = THREE_HOSTS + "database: c1\n"


def drop_ins(more: str = "", slurm: str = "22.05.8", host: str = "c1") -> dict[str, str]:
    """Texts of the drop-ins of a host by daemon."""
    known = prepared_input(BASE + more, slurm=slurm)
    return {
        daemon: file.text
        for daemon in daemon_users.ROLES
        for one in daemon_users.resources(known, host, daemon)
        if isinstance(one, OwnedFiles)
        for file in one.by_path().values()
    }


def test_daemons_that_units_start_as_root_get_the_slurm_user() -> None:
    found = drop_ins()
    assert set(found) == {"slurmctld", "slurmdbd"}
    assert "User=slurm\nGroup=slurm\nRuntimeDirectory=slurmdbd\n" in found["slurmdbd"]
    assert "ExecStartPre" not in found["slurmctld"]


def test_systemd_is_told_of_a_new_drop_in_and_nothing_is_restarted_for_it() -> None:
    known = prepared_input(BASE, slurm="22.05.8")
    loaded = daemon_users.resources(known, "c1", "slurmctld")[-1]
    assert isinstance(loaded, UnitsLoaded)
    assert (loaded.wanted_units, loaded.drop_ins) == (
        ("slurmctld.service",), ("/etc/systemd/system/slurmctld.service.d/slurmfab-user.conf",)
    )  # fmt: skip


def test_hosts_without_these_daemons_and_newer_units_get_none() -> None:
    assert drop_ins(host="n1") == {}
    assert drop_ins(slurm="24.11.5") == {}


@pytest.mark.parametrize("pid", ["/run/slurmctld.pid", "/var/run/slurmctld.pid"])
def test_a_pid_file_where_slurm_may_make_none_is_made_for_it(pid: str) -> None:
    assert f" /dev/null {pid}\n" in drop_ins(f"slurm_conf: {{SlurmctldPidFile: {pid}}}\n")["slurmctld"]


def test_a_log_in_a_place_of_the_sites_is_made_for_slurm_where_slurm_may_make_none() -> None:
    text = drop_ins("slurm_conf: {SlurmctldLogFile: /srv/log/slurmctld.log}\n")["slurmctld"]
    assert "User=slurm" in text
    assert "test -w /srv/log/slurmctld.log -o -w /srv/log || { touch /srv/log/slurmctld.log && chown slurm: " in text
    assert "touch" not in drop_ins()["slurmctld"]


@pytest.mark.parametrize(
    "own",
    ["SlurmctldLogFile: '/srv/a b/x.log'", "SlurmctldPidFile: /srv/slurm.pid", "SlurmctldLogFile: null"],
)
def test_units_stay_where_the_pid_file_is_in_a_place_of_the_sites_or_there_is_no_plain_log(own: str) -> None:
    assert set(drop_ins(f"slurm_conf: {{{own}}}\n")) == {"slurmdbd"}
