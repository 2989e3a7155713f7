"""The check of the daemons' directories: owners, and links that other users can change."""

from __future__ import annotations

import json

import pytest
from ruled_shells import RuledShell
from support import THREE_HOSTS, prepared_input

from slurmfab.base.paths import FORMER_SPOOL, SLURM_SPOOL
from slurmfab.commands.checks import test_directory
from slurmfab.commands.checks.directories import replaceable, wrong_directories
from slurmfab.commands.checks.hosts import CheckedHost

SSSD = "unix_users: false\ndirectory: {sssd: {servers: ldaps://a.example.org, base: 'dc=x', ca_file: c}}\n"
STATE = "/var/lib/slurm/slurmctld"
TOP = "drwxr-xr-x root  root  /\ndrwxr-xr-x root  root  var\ndrwxr-xr-x root  root  lib\n"
WAY = f"{TOP}drwxr-xr-x slurm slurm slurm\n"
BIN = "drwxr-xr-x root  root    /\ndrwxr-xr-x root  root    bin\n"
LINK = f"{STATE} leads through a symbolic link of"


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        pytest.param(f"{WAY}drwx------ slurm slurm slurmctld\n", "", id="slurm's"),
        pytest.param(
            f"{WAY}                       slurmctld - No such file or directory\n", f"there is no {STATE}", id="missing"
        ),
        pytest.param("", "", id="without namei"),
        pytest.param(
            f"{TOP}lrwxrwxrwx root root slurm -> /disk\n{BIN}drwx------ slurm slurm slurmctld\n", "", id="link of root"
        ),
        pytest.param(f"{WAY}drwx------ root root slurmctld\n", f"{STATE} belongs to root, not to slurm", id="root's"),
        pytest.param(
            f"{TOP}drwx------ root  root  slurm\ndrwx------ slurm slurm slurmctld\n",
            "slurm cannot pass /var/lib/slurm (drwx------ of root:root)",
            id="closed on the way",
        ),
        pytest.param(
            f"{TOP}drwxr-x--- root  slurm slurm\ndrwx------ slurm slurm slurmctld\n", "", id="open for slurm's group"
        ),
        pytest.param(
            f"{WAY}drwxrwxrwx slurm slurm slurmctld\n",
            f"others than slurm may write to {STATE} (drwxrwxrwx)",
            id="open for all",
        ),
        pytest.param(
            f"{WAY}lrwxrwxrwx slurm slurm slurmctld -> /usr/local/bin\n{BIN}",
            f"{LINK} slurm, slurmctld -> /usr/local/bin, which slurm can change",
            id="link of slurm",
        ),
        pytest.param(
            f"{WAY}lrwxrwxrwx root root slurmctld -> /bin\n{BIN}",
            f"{LINK} root, slurmctld -> /bin, which slurm can change",
            id="link of root in slurm's directory",
        ),
        pytest.param(
            f"{TOP.replace('drwxr-xr-x root  root  lib', 'drwxrwxr-x root  staff lib')}"
            f"lrwxrwxrwx root root slurm -> /bin\n{BIN}",
            f"{LINK} root, slurm -> /bin, which others than root can change",
            id="link in a directory of a group",
        ),
    ],
)
def test_a_directory_is_wrong_if_it_is_another_users_or_a_link_of_another_user_leads_there(
    shown: str, wrong: str
) -> None:
    host = CheckedHost("ctl", RuledShell({"namei": f"f: {STATE}\n{shown}"}))
    assert wrong_directories(host, {STATE: "slurm"}) == ([wrong] if wrong else [])


@pytest.mark.parametrize("spool", [SLURM_SPOOL, FORMER_SPOOL])
def test_a_spool_directory_that_jobs_cannot_pass_is_wrong(spool: str) -> None:
    way = f"{WAY}drwx------ root  root  slurmd\n"
    host = CheckedHost("n1", RuledShell({"namei": f"f: {spool}\n{way}"}))
    assert wrong_directories(host, {spool: "root"}) == [f"jobs cannot read their scripts in {spool} (drwx------)"]


LOG = "/var/log/slurmd/slurmd.log"
UBUNTUS = "drwxr-xr-x root root /\ndrwxr-xr-x root root var\ndrwxrwxr-{} root syslog log\n"
"""The way to /var/log on Ubuntu, with or without the sticky bit."""

LOGS = "drwxr-xr-x root  root  /\ndrwxr-xr-x root  root  var\ndrwxr-xr-x root  root  log\n"


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        pytest.param(f"{LOGS}drwxr-xr-x root root slurmd\n-rw------- root root slurmd.log\n", "", id="root's"),
        pytest.param(f"{LOGS}drwxr-x--- root adm slurmd\n-rw-r----- syslog adm slurmd.log\n", "", id="another's file"),
        pytest.param(f"{LOGS}                 slurmd - No such file or directory\n", "", id="not there yet"),
        pytest.param(f"{LOGS}lrwxrwxrwx root root slurmd -> /disk\n{BIN}", "", id="link of root"),
        pytest.param("", "", id="without namei"),
        pytest.param(
            f"{LOGS}drwxr-xr-x slurm slurm slurmd\n-rw------- root root slurmd.log\n",
            "is in /var/log/slurmd, which is slurm's",
            id="slurm's",
        ),
        pytest.param(
            f"{LOGS.replace('root  root  log', 'ann   ann   log')}drwxr-xr-x root root slurmd\n",
            "is in /var/log, which is ann's",
            id="another user's above",
        ),
        pytest.param(UBUNTUS.format("t") + "drwxr-xr-x root root slurmd\n", "", id="Ubuntu's, made safe"),
        pytest.param(
            UBUNTUS.format("x") + "drwxr-xr-x root root slurmd\n",
            "is in /var/log, in which others than root may write (drwxrwxr-x)",
            id="Ubuntu's",
        ),
        pytest.param(
            UBUNTUS.format("t") + "drwxr-xr-x syslog syslog slurmd\n",
            "is in /var/log, in which others than root may write (drwxrwxr-t)",
            id="Ubuntu's, with a directory of the group's",
        ),
        pytest.param(
            f"{LOGS}drwxrwsr-x root slurm slurmd\n",
            "is in /var/log/slurmd, in which others than root may write (drwxrwsr-x)",
            id="a group's",
        ),
        pytest.param(
            f"{LOGS}drwxrwxrwt root root slurmd\n",
            "is in /var/log/slurmd, in which others than root may write (drwxrwxrwt)",
            id="like /tmp",
        ),
        pytest.param(
            f"{LOGS}drwxr-xr-x root root slurmd\nlrwxrwxrwx slurm slurm slurmd.log -> /etc/x\n",
            "leads through a symbolic link of slurm, slurmd.log -> /etc/x",
            id="link of slurm",
        ),
    ],
)
def test_what_a_daemon_that_is_root_writes_is_wrong_where_another_user_can_replace_it(shown: str, wrong: str) -> None:
    host = CheckedHost("n1", RuledShell({"namei": f"f: {LOG}\n{shown}"}))
    assert replaceable(host, {LOG: "SlurmdLogFile"}) == ([f"SlurmdLogFile {LOG} {wrong}"] if wrong else [])


@pytest.mark.parametrize(
    ("access", "wrong"),
    [
        ("drwxr-xr-x slurm slurm", "is slurm's"),
        ("drwxrwxrwx root root", "is a directory in which others than root may write (drwxrwxrwx)"),
    ],
)
def test_a_directory_of_a_daemon_that_is_root_when_it_is_anothers_itself_then_it_is_called_so(
    access: str, wrong: str
) -> None:
    host = CheckedHost("n1", RuledShell({"namei": f"f: /var/log/d\n{LOGS}{access} d\n"}))
    assert replaceable(host, {"/var/log/d": "SlurmdSpoolDir"}) == [f"SlurmdSpoolDir /var/log/d {wrong}"]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({}, ""),
        ({"seen": ["toor has the UID 0 of root of this host"]}, "SSSD shows toor has the UID 0 of root"),
        ({"entries": ["group SUDO? has a name with characters"]}, "group SUDO? has a name with characters"),
        ({"entries": ["user ann has the UID 5001, which is below min_id"]}, ""),
        ({"trouble": "it does not find characters inside of cn"}, "cannot be compared with hosts: it does not find"),
    ],
)
def test_entries_of_a_directory_that_are_like_a_hosts_or_cannot_be_compared_fail_the_check(
    found: dict[str, object], told: str
) -> None:
    known = prepared_input(THREE_HOSTS + SSSD)
    answer = json.dumps({"seen": [], "entries": [], "trouble": "", **found})
    host = CheckedHost("n1", RuledShell({"python3 -I": answer}))
    try:
        test_directory.test_numbers_of_hosts_are_nobodys_in_the_directory(host, known.cluster, known.lock)
        said = ""
    except AssertionError as error:
        said = str(error)
    assert told in said if told else said == ""
