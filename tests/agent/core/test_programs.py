"""Programs that the agent runs on a host: with which environment, in which session and as whom."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.language import SYSTEM_PATH, system_path
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

TOP = Path(__file__).parents[3]
SHOW = """
import json, os
print(json.dumps([dict(os.environ), os.getsid(0) == os.getpid()]))
"""


def test_a_program_speaks_english_whatever_the_host_speaks_and_is_found_in_the_systems_directories(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("LC_ALL", "de_DE.UTF-8"), ("LANG", "de_DE.UTF-8"), ("PATH", "/home/ann/bin")):
        monkeypatch.setenv(name, value)
    environment, _ = json.loads(Context().must([sys.executable, "-c", SHOW], env={"SLURM_CONF": "/x"}))
    assert environment["LC_ALL"] == "C.UTF-8"
    assert environment["PATH"] == SYSTEM_PATH
    assert environment["SLURM_CONF"] == "/x"


def test_a_program_has_a_session_of_its_own_so_that_a_lost_terminal_does_not_end_it() -> None:
    _, leads_session = json.loads(Context().must([sys.executable, "-c", SHOW]))
    assert leads_session


@pytest.mark.needs_root("only root can run programs as others")
def test_a_program_that_runs_as_another_user_has_none_of_roots_groups() -> None:
    agent = "import os; from slurmfab.on_hosts.agent.core.resource import Context; os.setgroups([0, 4713]); "
    agent += "print(Context().must(['sh', '-c', 'id -u; id -G'], account=(4711, 4712)))"
    assert Context().must([sys.executable, "-c", agent], env={"PYTHONPATH": str(TOP)}).split() == ["4711", "4712"]


def test_a_program_never_reads_the_requests_of_the_deployer() -> None:
    assert Context().must(["cat"]) == ""
    assert Context().must(["cat"], stdin=b"given") == "given"


def test_a_program_that_does_not_end_is_killed_and_named() -> None:
    with pytest.raises(ResourceFailed, match=r"^sleep 600 did not end within 0 s$"):
        Context().run(["sleep", "600"], seconds=0.1)


def test_a_program_that_is_missing_or_fails_is_told_with_its_last_lines() -> None:
    with pytest.raises(ResourceFailed, match=r"^no-such-program is not installed$"):
        Context().run(["no-such-program"])
    script = "for line in 1 2 3 4 5; do echo $line >&2; done; exit 3"
    with pytest.raises(ResourceFailed, match=r"ended with exit code 3: 2 \| 3 \| 4 \| 5$"):
        Context().must(["sh", "-c", script])


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The root of a host, with directories of root's, and a group staff without users."""
    for place in ("usr/local/sbin", "usr/local/bin", "etc"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "etc/group").write_text("root:x:0:\nstaff:x:50:\n")
    (tmp_path / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\n")
    return tmp_path


def staffed(host: Path, *places: str) -> None:
    """Give directories to the group staff, as Debian did on hosts that were installed long ago."""
    for place in places:
        os.chown(host / place, 0, 50)
        (host / place).chmod(0o2775)


USUAL = "/usr/sbin:/usr/bin:/sbin:/bin"
ALL = ("usr/local", "usr/local/sbin", "usr/local/bin")


@pytest.mark.needs_root("only root can give directories away")
@pytest.mark.parametrize(
    ("places", "group", "passwd", "local"),
    [
        ((), "", "", ":/usr/local/sbin:/usr/local/bin"),
        (ALL, "", "", ":/usr/local/sbin:/usr/local/bin"),
        (ALL, "staff:x:50:ann\n", "", ""),
        (ALL[1:2], "staff:x:50:ann\n", "", ":/usr/local/bin"),
        (ALL[:1], "staff:x:50:ann\n", "", ""),
        (ALL, "", "bob:x:1001:50::/:/bin/sh\n", ""),
    ],
)
def test_a_directory_that_users_may_put_programs_into_is_searched_by_nothing_that_runs_as_root(
    host: Path, places: tuple[str, ...], group: str, passwd: str, local: str
) -> None:
    staffed(host, *places)
    for name, more in (("group", group), ("passwd", passwd)):
        with (host / "etc" / name).open("a") as file:
            file.write(more)
    assert system_path(str(host)) == f"{USUAL}{local}"


@pytest.mark.needs_root("only root can give directories away")
def test_a_directory_of_somebody_elses_in_place_of_usr_local_is_not_searched(host: Path) -> None:
    (host / "usr/local").rename(host / "elsewhere")
    (host / "usr/local").symlink_to(host / "elsewhere")
    os.chown(host / "elsewhere", 1000, 1000)
    assert system_path(str(host)) == USUAL


def test_a_program_of_the_distribution_comes_before_one_of_the_same_name_in_usr_local() -> None:
    assert SYSTEM_PATH.startswith(f"{USUAL}:") or SYSTEM_PATH == USUAL
