"""A site's own checks, beside the cluster file: they run as slurmfab's do, and a file that cannot run is a sentence."""

from __future__ import annotations

import importlib.util
import marshal
import os
import struct
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree

import pytest
from _pytest.assertion.rewrite import PYC_TAIL as PYTEST_TAIL
from ruled_shells import file

from slurmfab.base import foreign
from slurmfab.base.errors import InputError
from slurmfab.base.json_output import as_json
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks import kept
from slurmfab.commands.checks.results import Result, Verdict
from slurmfab.commands.checks.shell import CommandResult

Look = Callable[..., Verdict]
OTHER = 4242

MOTD = '''
"""Checks of the message of the day."""

import pytest

from slurmfab.commands.checks.applies import DoesNotApply


def test_motd_is_ours(host):
    """the message of the day is ours"""
    assert host.file("/etc/motd").mode == 0o644


def test_nodes_have_room(node, cluster):
    assert node.file("/scratch").is_directory, f"{node.name} of {cluster.name} lacks it. Repair: mkdir /scratch"


@pytest.mark.parametrize("path", ["/a", "/b"])
def test_link(controller, path):
    """there is a link"""
    if path == "/a":
        raise DoesNotApply
    pytest.skip("not today")
'''


@pytest.fixture
def own(known: Inventory, shells: dict) -> Path:
    """The directory of a site's own checks, with one file; n2 has another mode of /etc/motd."""
    for name, shell in shells.items():
        shell.rules |= file("/etc/motd", access=f"root root {'600' if name == 'n2' else '644'}")
    known.path.touch(0o644)
    directory = known.path.parent / "checks"
    directory.mkdir(0o755)
    (directory / "test_motd.py").write_text(MOTD)
    (directory / "test_motd.py").chmod(0o644)
    return directory


def told(verdict: Verdict, check: str) -> list[Result]:
    return [one for one in verdict.results if one.check == check]


@pytest.mark.usefixtures("own")
def test_own_checks_run_on_their_hosts_and_tell_what_they_compared(look: Look) -> None:
    verdict = look("own")
    motd = told(verdict, "motd_is_ours")
    assert [(one.host, one.outcome) for one in motd] == [("ctl", "passed"), ("n1", "passed"), ("n2", "failed")]
    assert motd[2].cause == "assert 384 == 420, where 384 = <file /etc/motd>.mode"
    assert {(one.group, one.title, one.own) for one in motd} == {("own-motd", "the message of the day is ours", True)}
    room = told(verdict, "nodes_have_room")
    assert [(one.host, one.cause, one.repair) for one in room] == [
        (name, f"{name} of tiny lacks it.", "mkdir /scratch") for name in ("n1", "n2")
    ]
    assert room[0].title == "nodes have room"
    assert told(verdict, "link./a") == []
    assert [(one.outcome, one.cause) for one in told(verdict, "link./b")] == [("not run", "not today")]


@pytest.mark.usefixtures("own")
def test_own_checks_are_selected_as_others_are(look: Look) -> None:
    assert {one.group for one in look("own-motd").results} >= {"own-motd"}
    assert {one.check for one in look("nodes_have").results if one.own} == {"nodes_have_room"}
    assert {one.host for one in look("own", hosts=("n2",)).results} == {"n2"}
    with pytest.raises(InputError, match=r"mungo: no check is called that\. .*afterwards, own-motd\."):
        look("mungo")


@pytest.mark.usefixtures("own")
def test_own_checks_are_the_sites_in_every_output(look: Look, tmp_path: Path, known: Inventory) -> None:
    verdict = look("own", junit=tmp_path / "checks.xml")
    assert {one["own"] for one in as_json(verdict)["checks"] if one["group"] == "own-motd"} == {True}
    cases = ElementTree.parse(tmp_path / "checks.xml").getroot().iter("testcase")
    assert ("own.test_motd", "test_motd_is_ours[n2]") in {(case.get("classname"), case.get("name")) for case in cases}
    kept.keep(known.path, kept.this_run(verdict, datetime.now(timezone.utc)))
    stored = kept.last(known.path)
    assert stored is not None
    assert [one.own for one in stored.verdict.results] == [one.own for one in verdict.results]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def test_x(host:\n", "it cannot be loaded: SyntaxError: "),
        ("import nosuch\n", "it cannot be loaded: ModuleNotFoundError: No module named 'nosuch'"),
        ("1 / 0\n", "it cannot be loaded: ZeroDivisionError: division by zero"),
    ],
)
def test_a_broken_file_is_one_sentence_and_the_others_run(look: Look, own: Path, text: str, words: str) -> None:
    (own / "test_broken.py").write_text(text)
    verdict = look("own")
    (broken,) = told(verdict, "file_loads")
    assert broken.cause.startswith(f"{own / 'test_broken.py'}: {words}")
    assert "\n" not in broken.cause
    assert (broken.group, broken.outcome, broken.own) == ("own-broken", "failed", True)
    assert len(told(verdict, "motd_is_ours")) == 3


BROKEN = """
def test_a(host):
    host.nosuch

def test_b(host, nosuch):
    pass

def test_c(controller):
    assert False
"""


def test_a_check_that_is_broken_itself_says_where(look: Look, own: Path) -> None:
    (own / "test_mine.py").write_text(BROKEN)
    causes = {one.check: one.cause for one in look("own-mine").results if one.own}
    assert causes["a"] == "the check itself is broken (AttributeError: a host has no nosuch; test_mine.py, line 3)."
    assert causes["b"] == "the check itself is broken (LookupError: fixture 'nosuch' not found; test_mine.py)."
    assert causes["c"] == "assert False"


FIXTURES = {
    "conftest.py": """
import pytest

made = []

@pytest.fixture(scope="session")
def wanted_mode():
    made.append(1)
    assert len(made) == 1
    return 0o644

def pytest_generate_tests(metafunc):
    if "letter" in metafunc.fixturenames:
        metafunc.parametrize("letter", ["a", "b"])
""",
    "test_rich.py": '''
import pytest

@pytest.fixture
def motd(host):
    return host.file("/etc/motd")

def test_motd(motd, wanted_mode):
    """the message of the day is ours"""
    assert motd.mode == wanted_mode

@pytest.mark.on("n2")
def test_place(host, letter, tmp_path):
    assert host.name == "n2"

@pytest.mark.skipif(True, reason="not in summer")
def test_heating(controller):
    assert False

@pytest.mark.xfail(reason="the new room")
def test_room(node):
    assert node.name == "n1", f"{node.name} is elsewhere"

def test_said(controller):
    pytest.fail("no licence. Repair: buy one")
''',
}
"""A site's own checks with a conftest.py, fixtures, hooks and marks."""


def test_own_checks_have_fixtures_a_conftest_and_marks(look: Look, own: Path) -> None:
    for name, text in FIXTURES.items():
        (own / name).write_text(text)
        (own / name).chmod(0o644)
    verdict = look("own")
    motd = told(verdict, "motd")
    assert [(one.host, one.outcome) for one in motd] == [("ctl", "passed"), ("n1", "passed"), ("n2", "failed")]
    assert motd[2].cause == "assert 384 == 420, where 384 = <file /etc/motd>.mode"
    assert motd[2].title == "the message of the day is ours"
    places = [(one.host, one.outcome) for one in verdict.results if one.check.startswith("place.")]
    assert places == [("n2", "passed")] * 2
    assert [(one.outcome, one.cause) for one in told(verdict, "heating")] == [("not run", "not in summer")]
    rooms = {one.host: (one.outcome, one.cause) for one in told(verdict, "room")}
    assert rooms == {"n1": ("passed", ""), "n2": ("not run", "it is expected to fail: the new room.")}
    (said,) = told(verdict, "said")
    assert (said.outcome, said.cause, said.repair) == ("failed", "no licence.", "buy one")
    assert [one.host for one in told(verdict, "nodes_have_room")] == ["n1", "n2"]  # those of other files, too
    assert {one.check for one in look("own-rich", hosts=("n1",)).results if one.own} == {"motd", "room"}


def test_a_conftest_that_others_may_write_is_not_run(look: Look, own: Path) -> None:
    (own / "conftest.py").write_text(f"open('{own}/ran', 'w')\n")
    (own / "conftest.py").chmod(0o646)
    (refused,) = told(look("own"), "file_loads")
    assert f"others may write to {own}/conftest.py" in refused.cause
    assert not (own / "ran").exists()


@pytest.mark.parametrize(
    ("place", "mode"),
    [
        ("checks/__init__.py", 0o666),
        ("checks/helper.py", 0o646),
        ("checks/sub/__init__.py", 0o646),
        ("checks/sub/deeper/helper.py", 0o646),
        ("checks/sub", 0o777),
        ("__init__.py", 0o666),
    ],
)
def test_a_module_beside_checks_that_others_may_write_is_not_run(look: Look, own: Path, place: str, mode: int) -> None:
    (own / "sub/deeper").mkdir(mode=0o755, parents=True)
    for name in ("checks/__init__.py", "checks/helper.py", "checks/sub/__init__.py", "checks/sub/deeper/helper.py"):
        (own.parent / name).write_text(f"open('{own}/ran', 'w')\n")
        (own.parent / name).chmod(0o644)
    (own.parent / "__init__.py").write_text(f"open('{own}/ran', 'w')\n")
    (own / "test_motd.py").write_text(f"{MOTD}\nfrom . import helper\nfrom .sub.deeper import helper\n")
    (own.parent / place).chmod(mode)
    refused = told(look("own"), "file_loads")
    assert any(f"others may write to {own.parent / place} (mode " in one.cause for one in refused)
    assert not (own / "ran").exists()
    assert told(look("own"), "motd_is_ours") == []


def test_modules_beside_checks_of_the_admins_own_are_loaded(look: Look, own: Path) -> None:
    for name in ("__init__.py", "helper.py"):
        (own / name).write_text("MODE = 0o644\n")
        (own / name).chmod(0o644)
    (own / "test_motd.py").write_text(f"from .helper import MODE\n{MOTD}")
    assert len(told(look("own"), "motd_is_ours")) == 3


def test_a_conftest_that_cannot_be_loaded_is_told(look: Look, own: Path) -> None:
    (own / "conftest.py").write_text("import nosuch\n")
    (own / "conftest.py").chmod(0o644)
    (refused,) = told(look("own"), "file_loads")
    assert "conftest.py: it cannot be loaded: ModuleNotFoundError: No module named 'nosuch'" in refused.cause


@pytest.mark.parametrize("place", ["checks/test_motd.py", "checks", "checks/__pycache__"])
@pytest.mark.parametrize("mode", [0o002, 0o020], ids=["others", "group"])
def test_a_file_that_others_may_write_is_not_run(look: Look, own: Path, place: str, mode: int) -> None:
    (own / "__pycache__").mkdir(exist_ok=True, mode=0o755)
    (own / "test_motd.py").write_text(f"{MOTD}\nopen('{own}/ran', 'w')\n")
    path = own.parent / place
    path.chmod(path.stat().st_mode | mode)
    (refused,) = told(look("own"), "file_loads")
    assert f"others may write to {path} (mode " in refused.cause
    assert refused.cause.endswith("would run as you. Nothing in this file was run.")
    assert not (own / "ran").exists()


def test_a_group_that_may_write_to_the_admins_directory_may_write_checks(
    look: Look, own: Path, known: Inventory
) -> None:
    for path in (known.path.parent, own, own / "test_motd.py"):
        path.chmod(path.stat().st_mode | 0o020)
    assert told(look("own"), "file_loads") == []


@pytest.mark.needs_root("only root can give files to other users")
def test_checks_beside_the_cluster_file_of_somebody_else_are_not_run(
    look: Look, own: Path, known: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own / "test_motd.py").write_text(f"{MOTD}\nopen('{own}/ran', 'w')\n")
    for path in (known.path, own, own / "test_motd.py"):
        os.chown(path, OTHER, OTHER)
    monkeypatch.setattr(foreign, "is_in", lambda _user, _group: True)
    (refused,) = told(look("own"), "file_loads")
    assert f"{own} belongs to another user (UID {OTHER})" in refused.cause
    assert not (own / "ran").exists()


def test_a_module_of_checks_behind_a_link_to_where_others_may_write_is_not_run(
    look: Look, own: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/helper.py").write_text(f"open('{own}/ran', 'w')\n")
    (tmp_path / "elsewhere").chmod(0o777)
    (own / "sub").symlink_to(tmp_path / "elsewhere")
    (own / "test_motd.py").write_text(f"{MOTD}\nfrom sub import helper\n")
    (refused,) = told(look("own"), "file_loads")
    assert f"others may write to {tmp_path / 'elsewhere'} (mode 0777)" in refused.cause
    assert not (own / "ran").exists()


def test_the_example_of_the_documentation_works(look: Look, own: Path, shells: dict) -> None:
    text = (Path(__file__).parents[3] / "docs" / "checks.md").read_text()
    (own / "test_example.py").write_text(text.split("```python\n")[1].split("```")[0])
    for shell in shells.values():
        shell.rules["^dpkg-query .* -W vim-tiny$"] = "install ok installed"
        shell.rules["^dpkg-query .* -W nano$"] = CommandResult(1)
    verdict = look("own-example")
    assert {(one.outcome, one.cause, one.repair) for one in told(verdict, "editors_are_there")} == {
        ("failed", "there is no nano.", "apt-get install nano")
    }
    assert told(verdict, "data_is_mounted") == []


def test_a_check_that_others_have_compiled_is_compiled_anew(look: Look, own: Path) -> None:
    check, place = own / "test_motd.py", own / "__pycache__"
    code = marshal.dumps(compile(f"open({str(own / 'ran')!r}, 'w').close()", str(check), "exec"))
    place.mkdir(exist_ok=True, mode=0o755)
    planted = place / f"{check.stem}{PYTEST_TAIL}"
    checked_by_hash = 3
    digest = importlib.util.source_hash(check.read_bytes())
    planted.write_bytes(importlib.util.MAGIC_NUMBER + struct.pack("<L", checked_by_hash) + digest + code)
    planted.chmod(0o666)
    before = sys.pycache_prefix, sys.dont_write_bytecode
    assert len(told(look("own"), "motd_is_ours")) == 3
    assert not (own / "ran").exists()
    assert (sys.pycache_prefix, sys.dont_write_bytecode) == before
