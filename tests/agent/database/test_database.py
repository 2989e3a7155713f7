"""slurmdbd.conf and its password in a scratch root; passwords and names as a database server wants them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from outcomes import failure

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, apply
from slurmfab.on_hosts.agent.database import mariadb
from slurmfab.on_hosts.agent.database.slurmdbd_conf import PATH, SlurmdbdConf, password_in, place_in
from slurmfab.on_hosts.agent.database.storage import ALL_PRIVILEGES, StorageLogin
from slurmfab.on_hosts.agent.services.listening import Listening, last_errors, listens

OURS = "# Made by slurmfab\nDbdHost=ctl\nStorageHost=localhost\nStorageLoc=slurm_acct_db\n"
HERE = os.uname().nodename.partition(".")[0]
THEIRS = OURS.replace("localhost", "db.example.org")


@pytest.fixture
def conf(root: Path) -> Path:
    (root / "etc/slurm").mkdir()
    return root / PATH.lstrip("/")


def test_a_password_is_made_once_and_kept(conf: Path, context: Context) -> None:
    assert apply(SlurmdbdConf(OURS), context).status == "changed"
    made = password_in(conf.read_bytes())
    assert len(made) == 64
    assert conf.stat().st_mode & 0o7777 == 0o600
    assert apply(SlurmdbdConf(OURS), context).status == "ok"
    assert apply(SlurmdbdConf(f"{OURS}DebugLevel=info\n"), context).status == "changed"
    assert password_in(conf.read_bytes()) == made


def test_the_password_of_a_site_is_kept_wherever_its_line_is(conf: Path, context: Context) -> None:
    conf.write_text(f'storagepass = "from before"  # do not tell\n{OURS}DebugLevel=verbose\n')
    assert apply(SlurmdbdConf(OURS), context).status == "changed"
    assert conf.read_text() == f"{OURS}StoragePass=from before\n"


HAND_MADE = """\
# slurmdbd, set up by ann
dbdhost = localhost
DbdAddr=localhost
DbdPort=6819
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePass=from-before   # not for everybody
StorageLoc=slurm_acct_db
DebugLevel=info
PidFile=/var/run/slurmdbd.pid
"""


@pytest.mark.needs_root("only root gives files to groups")
@pytest.mark.parametrize(
    ("edit", "status"),
    [
        (("", ""), "ok"),
        (("DebugLevel=info", 'DebugLevel="info"'), "ok"),
        (("DebugLevel=info", "DebugLevel=debug"), "changed"),
        (("DebugLevel=info", "PurgeJobAfter=12months"), "changed"),
        (("DebugLevel=info", "include /etc/slurm/more.conf"), "changed"),
        (("DbdPort=6819", "DbdPort=7019"), "changed"),
        (("# slurmdbd, set up", "# Made by slurmfab"), "changed"),
    ],
)
def test_a_file_made_by_hand_is_right_when_it_says_the_same_to_slurmdbd(
    conf: Path, context: Context, edit: tuple[str, str], status: str
) -> None:
    conf.write_text(HAND_MADE.replace(*edit))
    conf.chmod(0o600)
    os.chown(conf, -1, 1)
    before = conf.read_bytes()
    wanted = SlurmdbdConf(f"{OURS}DbdPort=6819\nStorageType=accounting_storage/mysql\n".replace("=ctl", f"={HERE}"))
    assert apply(wanted, context).status == status
    assert password_in(conf.read_bytes()) == "from-before"
    assert (conf.read_bytes() == before) == (status == "ok")


def test_a_password_is_kept_only_where_there_is_one(conf: Path, context: Context) -> None:
    login = StorageLogin("db.example.org", 3306, "slurm", "slurm_acct_db", kept=True)
    with pytest.raises(ResourceFailed, match="has no password to keep"):
        login.kept_password(context)
    conf.write_text("StoragePass=from-before\n")
    assert login.kept_password(context) == "from-before"


def test_a_given_password_is_written_and_only_said_to_differ(conf: Path, context: Context) -> None:
    wanted = SlurmdbdConf(THEIRS, "correct-horse")
    assert apply(wanted, context).status == "changed"
    conf.write_text(f"{THEIRS}StoragePass=older\n")
    outcome = apply(wanted, context)
    (change,) = outcome.changes
    assert (change.name, change.actual, change.wanted) == ("password", "", "differs")
    assert password_in(conf.read_bytes()) == "correct-horse"
    assert "correct-horse" not in repr(wanted) + repr(outcome)


def test_no_outcome_shows_a_password_that_was_made(conf: Path, context: Context) -> None:
    outcomes = [apply(SlurmdbdConf(text), context) for text in (OURS, f"{OURS}DebugLevel=info\n")]
    assert password_in(conf.read_bytes()) not in repr(outcomes)


def test_only_its_mode_is_changed_where_only_that_differs(conf: Path, context: Context) -> None:
    apply(SlurmdbdConf(OURS), context)
    before = conf.read_bytes()
    conf.chmod(0o644)
    (change,) = apply(SlurmdbdConf(OURS), context).changes
    assert (change.name, change.actual, change.wanted) == ("mode", "0644", "0600")
    assert (conf.read_bytes(), conf.stat().st_mode & 0o7777) == (before, 0o600)


@pytest.mark.parametrize(
    "other", [THEIRS, OURS.replace("slurm_acct_db", "other_db"), THEIRS.replace(".org", ".org\nStoragePort=3307")]
)
def test_another_database_is_refused_and_the_file_left_alone(conf: Path, context: Context, other: str) -> None:
    apply(SlurmdbdConf(OURS), context)
    before = conf.read_bytes()
    assert "and the limits are not moved" in failure(SlurmdbdConf(other, "given"), context)
    assert conf.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (OURS, "slurm_acct_db at localhost"),
        ("StorageHost=127.0.0.1\nStoragePort=3306\n", "slurm_acct_db at localhost"),
        ("storagehost=DB9\nStorageLoc=acct\n", "acct at db9:3306"),
        ("#StorageHost=db9\nDbdHost=ctl\n", ""),
    ],
)
def test_a_database_is_told_by_its_server_and_name(text: str, place: str) -> None:
    assert place_in(text.encode()) == place


def test_a_password_goes_to_the_server_as_the_server_keeps_it() -> None:
    # SELECT PASSWORD('secret') on MariaDB 11.8
    assert mariadb.password_hash("secret") == "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"


def test_names_and_texts_cannot_end_their_quotes() -> None:
    assert mariadb.quoted("it's \\ so") == "'it''s \\\\ so'"
    assert mariadb.identifier("a`b") == "`a``b`"


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("GRANT ALL PRIVILEGES ON `slurm\\_acct\\_db`.* TO `slurm`@`localhost`", "`slurm\\_acct\\_db`"),
        ("GRANT ALL PRIVILEGES ON *.* TO `slurm`@`localhost` WITH GRANT OPTION", "*"),
        ("GRANT SELECT ON `slurm_acct_db`.* TO `slurm`@`localhost`", None),
    ],
)
def test_grants_are_all_or_not_enough(line: str, place: str | None) -> None:
    found = ALL_PRIVILEGES.match(line)
    assert (found and found[1]) == place


def test_who_listens_is_seen_and_who_does_not_is_missed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listens(port)
        assert apply(Listening("slurmdbd", port, 0, "/var/log/slurm/slurmdbd.log"), Context()).status == "ok"
    assert not listens(port)


def test_the_last_errors_of_a_log_come_once_and_without_their_times(tmp_path: Path) -> None:
    log = tmp_path / "slurmdbd.log"
    log.write_text("[2026-11-21T15:10:54] error: no socket\n[2026-11-21T15:10:59] error: no socket\n[x] info\n")
    assert last_errors(str(log)) == ["error: no socket"]
    assert last_errors(str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("complaints", "words"),
    [
        ("ERROR 1698 (28000): Access denied for user 'root'@'localhost'", "external: localhost"),
        ("ERROR 2002 (HY000): Can't connect to local server", "Can't connect"),
        ("", "the client failed without an error message"),
    ],
)
def test_a_server_that_refuses_is_quoted_with_what_to_try(complaints: str, words: str) -> None:
    told = mariadb.explain_error(complaints)
    assert words in told
    assert ("unix_socket" in told) == ("1698" in complaints)
