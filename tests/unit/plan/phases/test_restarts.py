"""What crashes is started again: drop-ins that systemd reads without a restart, and that leave a site's own alone."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster, prepared_input

from slurmfab.core.plan.phases import restarts
from slurmfab.core.plan.phases.daemons import slurmd_service
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

BASE = THREE_HOSTS + "database: c1\n"


def known(more: str = "", slurm: str = "24.11.5", **of_each: object) -> PlanInput:
    wanted = cluster(BASE + more)
    packages = {"slurm-client": f"{slurm}-1", "munge": "0.5.16-1"}
    return prepared_input(wanted, packages=packages, **of_each)


def drop_ins(host: str, more: str = "", slurm: str = "24.11.5", **of_each: object) -> dict[str, str]:
    """Texts of a host's drop-ins by unit."""
    resources = restarts.resources(known(more, slurm, **of_each), host)
    files = [file for one in resources if isinstance(one, OwnedFiles) for file in one.by_path().values()]
    return {file.path.split("/")[-2]: file.text for file in files}


@pytest.mark.parametrize(
    ("host", "units"),
    [
        ("c1", {"munge.service.d", "slurmctld.service.d", "slurmdbd.service.d"}),
        ("n1", {"munge.service.d", "slurmd.service.d"}),
    ],
)
def test_each_daemon_is_started_again_and_given_up_after_some_starts(host: str, units: set[str]) -> None:
    found = drop_ins(host)
    assert set(found) == units
    for text in found.values():
        assert "Restart=on-failure\nRestartSec=5\n" in text
        assert "[Unit]\n" in text
        limit = "StartLimitIntervalSec=20min\nStartLimitBurst=40\n"
        assert (limit in text.partition("[Service]")[0]) == (text is not found.get("slurmctld.service.d"))
        assert "IgnoreSIGPIPE" not in text


def test_slurmctld_is_not_given_up_while_its_database_is_away() -> None:
    assert "StartLimitIntervalSec=0\n" in drop_ins("c1")["slurmctld.service.d"].partition("[Service]")[0]
    (text,) = (one.text for one in restarts.drop_ins(prepared_input(THREE_HOSTS), "c1") if "slurmctld" in one.path)
    assert "StartLimitBurst=40\n" in text


def test_slurmctld_is_never_started_without_its_state() -> None:
    found = drop_ins("c1", "state_directory: /srv/state\n")
    line = found["slurmctld.service.d"].partition("ExecStartPre=")[2]
    assert "test ! -d /srv/state || exec setpriv --reuid=slurm" in line
    assert "cd /srv/state || exit 1" in line
    assert not any("ExecStartPre" in text for unit, text in found.items() if unit != "slurmctld.service.d")


def test_slurmd_waits_for_a_controller_that_acts_where_another_may_stand_by() -> None:
    assert "ExecStartPre" not in drop_ins("n1")["slurmd.service.d"]
    two = prepared_input(THREE_HOSTS.replace("[c1]", "[c1, n2]") + "state_directory: /srv/state\n")
    (text,) = (one.text for one in restarts.drop_ins(two, "n1") if "slurmd.service" in one.path)
    assert "until timeout 6 scontrol show config" in text
    assert "TimeoutStartSec=17min\n" in text


def test_systemd_reads_the_drop_ins_and_restarts_nothing() -> None:
    resources = restarts.resources(known(), "n1")
    assert [type(one) for one in resources] == [OwnedFiles, UnitsLoaded]
    loaded = resources[-1]
    assert isinstance(loaded, UnitsLoaded)
    assert loaded.wanted_units == ("munge.service", "slurmd.service")
    assert loaded.drop_ins == (restarts.path("munge"), restarts.path("slurmd"))


def test_a_daemon_of_which_the_site_says_itself_when_it_is_started_keeps_that() -> None:
    assert set(drop_ins("n1", restarted_by_others=("slurmd",))) == {"munge.service.d"}


def test_slurmd_that_fetches_its_files_keeps_the_drop_in_with_which_it_tries_for_ever() -> None:
    assert set(drop_ins("n1", "configless: true\n")) == {"munge.service.d"}


def test_the_key_turns_it_off_and_takes_back_what_is_there() -> None:
    assert drop_ins("n1", "restart_daemons: false\n") == {}
    files, loaded = restarts.resources(known("restart_daemons: false\n", owned=("restarts",)), "n1")
    assert isinstance(files, OwnedFiles)
    assert isinstance(loaded, UnitsLoaded)
    assert (files.files, loaded.wanted_units) == ((), ("munge.service", "slurmd.service"))


@pytest.mark.parametrize("more", ["", "restart_daemons: false\n", "configless: true\n"])
def test_jobs_of_a_slurm_that_passes_on_ignored_signals_keep_sigpipe(more: str) -> None:
    assert drop_ins("n1", more, slurm="26.05.1")["slurmd.service.d"].endswith("IgnoreSIGPIPE=no\n")
    for slurm, is_watched in (("26.05.1", True), ("24.11.5", False)):
        found = slurmd_service(known(more, slurm=slurm), "n1")
        (service,) = (one for one in found if isinstance(one, Service))
        assert (restarts.path("slurmd") in service.watches) is is_watched


@pytest.mark.parametrize(("place", "shared"), [("/srv/slurm", True), ("/srv/slurm/spool", True), ("/srv/spool", False)])
def test_slurmctld_when_slurmd_has_its_files_in_the_same_place_then_starts_beside_them(
    place: str, *, shared: bool
) -> None:
    same = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: [c1, n1]}]\nstate_directory: /srv/slurm\n"
    plan_input = prepared_input(f"{same}slurm_conf: {{SlurmdSpoolDir: {place}}}\n")
    (text,) = (file.text for file in restarts.drop_ins(plan_input, "c1") if "slurmctld" in file.path)
    assert ("case $$file in cred_state*|job[0-9]*" in text) == shared
    assert "do test -d $$file" in text or shared
