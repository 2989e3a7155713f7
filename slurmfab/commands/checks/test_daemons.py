"""Checks of daemons: enabled, running, listening, and started after their files last changed."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence

import pytest

from slurmfab.base.paths import MUNGE_KEY, RECOVERY_UNIT, SLURM_DIRECTORY, SLURM_SPOOL
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.ports import port
from slurmfab.cluster.slurm.site_files import READERS, SLURMCTLD
from slurmfab.cluster.slurm.versions import SlurmVersion, reconfigure_renews_daemons
from slurmfab.commands.checks.applies import DoesNotApply, Drifted, foundation
from slurmfab.commands.checks.daemons import (
    is_frozen,
    last_words,
    listening_ports,
    newer_files,
    pid,
    starts_at_boot,
    timer_of,
)
from slurmfab.commands.checks.directories import (
    AS_SLURM,
    LINK,
    owners,
    refused_state,
    replaceable,
    unread_state,
    unsaved_state,
    unusable_state,
    wrong_directories,
)
from slurmfab.commands.checks.hand_made import HandMade, need_files
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.listeners import ASK as LISTENING
from slurmfab.commands.checks.listeners import misplaced
from slurmfab.commands.checks.munge import has_same_key, need_munged, status_of_credential
from slurmfab.commands.checks.processes import PROGRAMS, Process, processes
from slurmfab.commands.checks.release import Remark
from slurmfab.commands.checks.slurm import ping
from slurmfab.commands.checks.system import munge_socket
from slurmfab.commands.checks.wanted import FILES, LOGS, conf, deploy, log_of, root_places, spool_directory, units_of
from slurmfab.core.impact.drift_kinds import CRASHED, KEY_NOT_LOADED, OLDER_FILE
from slurmfab.on_hosts.agent.services.damaged_state import damaged_file, look_at, way_out

ENDED = re.compile(r"Main process exited, (code=\w+, status=[\w/-]+)")  # systemd's line about the end of a daemon
FATAL = re.compile(r"\bfatal: [^\n]{1,120}\S*")  # the beginning of a daemon's own one
OF_SLURMCTLD = " -o ".join(
    f"-name {name}" for name in (*FILES, *(name for name, daemons in READERS.items() if SLURMCTLD in daemons))
)
"""A test of find(1) for the files that slurmctld reads when it starts."""

SAID_SINCE_BOOT = (
    'boot=$(date --date="$(systemctl show --property=UserspaceTimestamp --value)" +[%%Y-%%m-%%dT%%H:%%M:%%S); '
    "tail --bytes=65536 %s 2>/dev/null | awk -v boot=\"$boot\" '$1 >= boot'; :"
)


@foundation
def test_munged_runs(host: CheckedHost) -> None:
    """munged is running"""
    assert_runs(host, "munge")


@foundation
def test_slurmctld_runs(controller: CheckedHost, cluster: Cluster) -> None:
    """slurmctld is running"""
    assert_runs(controller, "slurmctld", cluster.state_directory)


def test_backup_runs(backup: CheckedHost) -> None:
    """slurmctld is running on the backup controller"""
    assert_runs(backup, "slurmctld")


@foundation
def test_slurmd_runs(node: CheckedHost) -> None:
    """slurmd is running"""
    assert_runs(node, "slurmd")


def test_database_runs(database: CheckedHost, cluster: Cluster) -> None:
    """the database is running"""
    if "mariadb" not in units_of(cluster, database.name):
        raise DoesNotApply("the database runs on a server outside the cluster")
    assert_runs(database, "mariadb")


def test_slurmdbd_runs(database: CheckedHost) -> None:
    """slurmdbd is running"""
    assert_runs(database, "slurmdbd")


def test_daemons_start_at_boot(host: CheckedHost, cluster: Cluster) -> None:
    """the daemons start at boot"""
    off = [unit for unit in units_of(cluster, host.name) if not starts_at_boot(host, unit)]
    assert not off, f"{' and '.join(off)} will not start at the next boot. Repair: {deploy(host.name)}"


def test_daemons_run_as_packaged(host: CheckedHost, cluster: Cluster) -> None:
    """the daemons run the packages' programs with slurmfab's files, as their own users and with no lower limits"""
    found = started(host, cluster)
    wrong = [f"{one.unit} {' and '.join(one.wrong)}{made_by(one)}" for one in found if one.wrong]
    assert not wrong, (
        f"{'; '.join(wrong)}. Repair: see `systemctl cat` of it on {host.name}, and its file in /etc/default; change "
        "or remove what does that, then systemctl daemon-reload and systemctl restart of the unit"
    )
    others = [f"{one.unit}: {', '.join(one.foreign)}" for one in found if one.foreign]
    if others:
        raise Remark(f"{host.name} has files of its own for units, which slurmfab leaves alone: {'; '.join(others)}")


def test_daemons_listen_where_they_should(host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the daemons listen at the ports and addresses of the cluster file alone, whatever their packages ask for"""
    wrong = misplaced(cluster, lock, host.name, host.ask(LISTENING))
    units = tuple(dict.fromkeys(one.unit for one in wrong))
    others = [path for unit in units for path in Process(host, unit, "").foreign]
    way = f"remove or change {' and '.join(others)}" if others else deploy(host.name)
    assert not wrong, (
        f"{', '.join(map(str, wrong))} of {host.name}, where the cluster file has none of them. Repair: {way}, then "
        f"systemctl daemon-reload and systemctl try-restart {' '.join(units)} there"
    )


def test_no_daemon_has_crashed(host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """no daemon has ended by itself since somebody started it"""
    crashed = [one for one in started(host, cluster) if one.ends]
    if crashed:
        times = ("once" if one.ends == 1 else f"{one.ends} times" for one in crashed)
        logs = {one.unit: log_of(cluster, lock, host.name, one.unit) for one in crashed if one.unit in LOGS}
        ends = [last_end(host, one.unit, logs.get(one.unit, "")) for one in crashed]
        told = (f"{one.unit} {count}{end}" for one, count, end in zip(crashed, times, ends, strict=True))
        raise Drifted(
            CRASHED,
            f"ended by itself, and systemd started it again: {'; '.join(told)}. Repair: see why in its log and in "
            f"`journalctl --unit {crashed[0].unit}`; it runs, and {deploy(host.name)} takes note of it",
        )


def started(host: CheckedHost, cluster: Cluster) -> tuple[Process, ...]:
    """MUNGE and Slurm's daemons of a host, as far as they run."""
    units = tuple(unit for unit in units_of(cluster, host.name) if unit in PROGRAMS)
    return processes(host, units, cluster.slurm_user)


def made_by(process: Process) -> str:
    """The files of others about a daemon's unit, as ` (/etc/…)`; empty for none."""
    return f" ({', '.join(process.foreign)})" if process.foreign else ""


def last_end(host: CheckedHost, unit: str, log: str) -> str:
    """How a daemon ended the last time, as ` (code=exited, status=1/FAILURE; fatal: …)`: systemd's words and its own.

    Empty if unknown; a daemon that a signal ended said nothing of it. Its own are in the journal, or only in its `log`.
    """
    said = str(host.run("journalctl --unit=%s --boot --output=cat --quiet --no-pager --lines=1000", unit).stdout)
    *_, before, end, _ = ("", "", *ENDED.split(said))
    own = FATAL.findall(before)[-1:] if "exited" in end else []
    if "exited" in end and log and not own:
        own = FATAL.findall(host.run(SAID_SINCE_BOOT, log).stdout)[-1:]
    return f" ({'; '.join([end, *own])})" if end else ""


def test_losses_of_power_are_healed(healer: CheckedHost) -> None:
    """the timer that makes the cluster whole after a loss of power is active, and its last run succeeded"""
    active, result = timer_of(healer, RECOVERY_UNIT)
    assert active == "active", f"{RECOVERY_UNIT}.timer is {active}. Repair: {deploy(healer.name)}"
    assert result == "success", f"the last look failed ({result}). See: journalctl -u {RECOVERY_UNIT}"


def test_directories_are_theirs(host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the directories of Slurm's daemons belong to them, and no link of another user leads elsewhere"""
    if not cluster.guard_directories:
        raise DoesNotApply("the cluster file leaves them to the site (guard_directories: false)")
    wrong = wrong_directories(host, owners(cluster, host.name, spool_directory(cluster, lock, host.name)))
    has_link = any(LINK in one for one in wrong)
    attack = "see who made that and why, it may be an attack; remove a link with rm, move the directory back; then "
    assert not wrong, f"{'; '.join(wrong)}. Repair: {attack if has_link else ''}{deploy(host.name)}"


def test_no_other_user_leads_slurmd_elsewhere(node: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """slurmd, which is root, works in no directory that another user can change"""
    wrong = replaceable(node, root_places(cluster, lock, node.name))
    moved = f"slurm_conf: {{SlurmdSpoolDir: {SLURM_SPOOL}, SlurmdLogFile: {LOGS['slurmd']}}}"
    assert not wrong, (
        f"{'; '.join(wrong)}. Who can change that becomes root there. Repair: {deploy(node.name)}; if that leaves it, "
        f"chown root: that directory there if it is for slurmd alone, or `{moved}` in the cluster file and "
        f"{FAB} deploy --drain-first"
    )


def test_no_other_user_leads_starting_daemons_elsewhere(host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """slurmctld and slurmdbd do not start as root, or have their logs where only root can change names"""
    roles = cluster.roles(host.name)
    found = {"slurmctld": "controller" in roles, "slurmdbd": "database" in roles}
    logs = {log_of(cluster, lock, host.name, daemon): daemon for daemon, is_there in found.items() if is_there}
    if not logs:
        raise DoesNotApply("none of them is on this host")
    as_root = {
        log: f"the log of {daemon}, which starts as root,"
        for log, daemon in logs.items()
        if log.startswith("/") and host.service(daemon).systemd_properties.get("User", "root") in ("", "root")
    }
    wrong = replaceable(host, as_root) if as_root else []
    assert not wrong, (
        f"{'; '.join(wrong)}. The daemon opens it as root, and gives it to slurm. Repair: {deploy(host.name)}; if that "
        "leaves it, remove the PID file, or the log, from slurm_conf and slurmdbd_conf in the cluster file"
    )


def test_slurmctld_can_use_its_state(controller: CheckedHost, cluster: Cluster) -> None:
    """slurmctld can read and write its state"""
    assert_can_use_state(controller, cluster)


def test_backup_can_use_the_state(backup: CheckedHost, cluster: Cluster) -> None:
    """the backup controller can read and write slurmctld's state"""
    assert_can_use_state(backup, cluster)


def test_state_is_of_a_version_that_slurm_reads(controller: CheckedHost, cluster: Cluster) -> None:
    """slurmctld's state is of a version that the installed Slurm reads"""
    reason = refused_state(controller, cluster.state_directory)
    assert not reason, f"{reason}, then {deploy(controller.name)}"


def test_state_is_of_this_cluster(controller: CheckedHost, cluster: Cluster) -> None:
    """slurmctld's state is of this cluster, without which slurmctld would not start again"""
    file = f"{cluster.state_directory}/clustername"
    name = str(controller.run("cat %s", file).stdout).partition("|")[0].strip()
    if not name:
        raise DoesNotApply("slurmctld has left no name of a cluster there yet")
    assert name.lower() == cluster.name.lower(), (
        f"{file} is of the cluster {name!a}, not {cluster.name}, so the next start of slurmctld would end with CLUSTER "
        f"NAME MISMATCH. Repair: if this is the state of this cluster: sed -i 's/^[^|]*/{cluster.name}/' {file} there"
    )


def test_slurmctld_can_read_its_files(controller: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """slurmctld's user can read Slurm's files and the key of tokens, without which slurmctld would not start again"""
    settings = conf(cluster, lock)
    as_slurm, key = AS_SLURM.format(user=cluster.slurm_user), ""
    if "auth/jwt" in settings.get("authalttypes", ""):
        named = re.search(r"jwt_key=([^,\s]+)", settings.get("authaltparameters", ""))
        key = shlex.quote(named[1] if named else f"{cluster.state_directory}/jwt_hs256.key")
    found = controller.run(
        rf"cd / && {as_slurm} find -L {SLURM_DIRECTORY}/ -maxdepth 1 \( {OF_SLURMCTLD} \) ! -readable "
        rf"-printf '%p (of %u, mode %m)\n' 2>&1; {f'{as_slurm} test -r {key} || ls -l {key} 2>&1' if key else ':'}"
    )
    wrong = str(found.stdout).strip().splitlines()
    assert not wrong, (
        f"{cluster.slurm_user} cannot read {'; '.join(wrong[:3])}, so slurmctld would not start again. "
        f"Repair: {deploy(controller.name)}; if that leaves it, give {cluster.slurm_user} the right to read it"
    )


def test_slurmctld_has_read_its_state(controller: CheckedHost) -> None:
    """slurmctld has read its jobs when it started"""
    need_running(controller, "slurmctld")
    line = unread_state(controller)
    assert not line, (
        f"slurmctld started without the jobs that it knew before: {line}. Repair: submit these jobs again, or restore "
        f"them with `{FAB} restore BACKUP`; this is reported until the next restart of slurmctld"
    )


def test_slurmctld_saves_its_state(controller: CheckedHost, cluster: Cluster) -> None:
    """slurmctld saves its state"""
    need_running(controller, "slurmctld")
    line = unsaved_state(controller, cluster.state_directory)
    assert not line, (
        f"slurmctld goes on with all its jobs, but could not save them when it last tried: {line}. What has happened "
        f"since is lost if it ends now. Repair: see who may write to {cluster.state_directory}, and whether it has "
        "room; slurmctld saves again with the next change of a job or node, and then this is over"
    )


def test_munge_socket_is_there(host: CheckedHost) -> None:
    """munged listens on its socket"""
    need_running(host, "munge")
    socket = munge_socket(host)
    assert host.file(socket).is_socket, f"there is no socket {socket}. Repair: {deploy(host.name)}"


@foundation
def test_slurmctld_listens(controller: CheckedHost, cluster: Cluster) -> None:
    """slurmctld listens on its port"""
    assert_listens(controller, "slurmctld", port(cluster, "SlurmctldPort"))


@foundation
def test_slurmd_listens(node: CheckedHost, cluster: Cluster) -> None:
    """slurmd listens on its port"""
    assert_listens(node, "slurmd", port(cluster, "SlurmdPort", node.name))


@foundation
def test_controller_answers(host: CheckedHost, others: Mapping[str, CheckedHost], cluster: Cluster, lock: Lock) -> None:
    """slurmctld answers Slurm's commands"""
    need_files(host, others, cluster, lock)
    need_munged(host)
    says = ping(host)
    assert says.endswith("is UP"), (
        f"`scontrol ping` says: {says}. Repair: {FAB} deploy; if slurmctld runs already, check for a firewall, "
        "different clocks or different munge keys"
    )


def test_backup_answers(backup: CheckedHost) -> None:
    """the backup controller is on standby"""
    need_running(backup, "slurmctld")
    says = ping(backup, "backup")
    assert says.endswith("is UP"), f"`scontrol ping` says: {says}. Repair: {deploy(backup.name)}"


def test_munged_has_its_key(host: CheckedHost, controller: CheckedHost) -> None:
    """munged has loaded the key on disk"""
    if not newer_files(host, "munge"):
        return
    proof = ""
    if host.name != controller.name:
        if not has_same_key(host, controller):
            pytest.skip(f"the key on the disk of {host.name} differs from {controller.name}'s.")
        is_believed = status_of_credential(host, controller).startswith("Success")
        proof = f", and {controller.name} {'still accepts' if is_believed else 'rejects'} its credentials"
    raise Drifted(
        KEY_NOT_LOADED, f"munged was started before the last change of {MUNGE_KEY}{proof}. Repair: {deploy(host.name)}"
    )


def test_slurmctld_has_its_files(controller: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """slurmctld has loaded the files on disk"""
    assert_has_files("slurmctld", HandMade(cluster, lock, controller, controller))


def test_backup_has_its_files(backup: CheckedHost, controller: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the backup controller has loaded the files on disk"""
    assert_has_files("slurmctld", HandMade(cluster, lock, backup, controller))


def test_slurmd_has_its_files(node: CheckedHost, controller: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """slurmd has loaded the files on disk"""
    assert_has_files("slurmd", HandMade(cluster, lock, node, controller))


def assert_has_files(unit: str, hand_made: HandMade) -> None:
    """Fail if a file of Slurm's was changed after the start of a daemon that reads it.

    Before Slurm 23.11 a reconfigure by hand leaves no trace in the daemon's process, so nothing is told by a file that
    was made by hand and is right.
    """
    newer = newer_files(hand_made.host, unit)
    leaves_trace = not hand_made.lock.slurm or reconfigure_renews_daemons(SlurmVersion.parse(hand_made.lock.slurm))
    if newer and not leaves_trace:
        newer = [path for path in newer if not hand_made.is_kept(posixpath.basename(path))]
    complain(hand_made.host, f"{unit} was started before the last change of", newer)


def assert_can_use_state(host: CheckedHost, cluster: Cluster) -> None:
    """Fail with the files of slurmctld's state that the slurm user of a controller cannot use."""
    found = unusable_state(host, cluster.state_directory, cluster.slurm_user)
    assert not found, (
        f"the slurm user cannot read and write {'; '.join(found)}: slurmctld would lose all jobs at its next start. "
        f"Repair: {deploy(host.name)}"
    )


def need_running(host: CheckedHost, unit: str) -> None:
    """Skip the check if a daemon does not run; another check reports it."""
    if not host.service(unit).is_running:
        pytest.skip(f"{unit} does not run on {host.name}.")


def assert_runs(host: CheckedHost, unit: str, state_directory: str = "") -> None:
    """Fail with the unit's state and the daemon's last words if it does not run.

    `state_directory`: slurmctld's, of which a damaged file is told with the ways out.
    """
    service = host.service(unit)
    assert not is_frozen(host, unit), (
        f"{unit}.service is active and does not answer: a signal (SIGSTOP) has stopped its process {pid(host, unit)}. "
        f"Repair: {deploy(host.name)}"
    )
    if service.is_running:
        return
    shown = service.systemd_properties
    if shown["LoadState"] != "loaded":
        raise AssertionError(f"{unit}.service is {shown['LoadState']}. Repair: {deploy(host.name)}")
    state = shown["ActiveState"] + (f" ({shown['Result']})" if shown["Result"] != "success" else "")
    said = last_words(host, unit)
    log_line = f"; {said}" if said else ""
    if name := damaged_file(said) if state_directory else "":
        file = f"{state_directory}/{name}"
        repair = way_out(file, host.run(look_at(file)).stdout, FAB)
        raise AssertionError(f"{unit}.service is {state}{log_line}. Repair: {repair}")
    raise AssertionError(f"{unit}.service is {state}{log_line}. Repair: {deploy(host.name)}")


def assert_listens(host: CheckedHost, daemon: str, number: int) -> None:
    """Fail if no process listens on a TCP port; skip if the daemon's unit does not run."""
    need_running(host, daemon)
    assert number in listening_ports(host), f"{daemon} does not listen on port {number}. Repair: {deploy(host.name)}"


def assert_is_current(host: CheckedHost, unit: str, complaint: str) -> None:
    """Fail, by Drifted, if a file of a daemon (unit in `WATCHED`) is newer than it; skip if it does not run."""
    complain(host, complaint, newer_files(host, unit))


def complain(host: CheckedHost, complaint: str, newer: Sequence[str]) -> None:
    """Fail, by `Drifted` with this complaint, if files are newer than a daemon."""
    if newer:
        raise Drifted(OLDER_FILE, f"{complaint} {' and '.join(newer)}. Repair: {deploy(host.name)}")
