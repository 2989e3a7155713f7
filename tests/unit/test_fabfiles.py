"""A fabfile of a site: its own tasks beside ours, by `fab` and by `slurmfab`, and what is said where it is wrong."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import struct
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import slurmfab
from slurmfab.cluster.inventory.fabfile import TEXT

BIN = Path(sys.executable).parent
PROGRAMS = ("fab", "slurmfab")

OWN = """
from invoke import Collection
import beside

@task
def scratch(c, on="compute"):
    \"\"\"Show the room on /scratch.\"\"\"
    print("scratch of", on, beside.WORD)

@task(hosts=["root@127.0.0.1:1", "root@127.0.0.2:1"])
def driver(c):
    c.run("true")

@task
def boom(c):
    raise ZeroDivisionError("no node left")

@task(pre=[namespace["plan"]])
def planned(c):
    print("never")

@task(hosts=["root@127.0.0.1:1"])
def broken(c):
    open("/no/such/file")

namespace.add_task(scratch)
namespace.add_task(driver)
namespace.add_task(planned)
namespace.add_task(broken)
namespace.add_task(boom)
gpu = Collection("gpu")
gpu.add_task(scratch, name="room")
namespace.add_collection(gpu)
"""
OF_ITS_OWN = """
from invoke import Collection

@task
def hello(c):
    print("hello")

ours, namespace = namespace, Collection(hello)
namespace.add_collection(ours, "cluster")
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    return tmp_path


def run(place: Path, program: str, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [BIN / program, *words], cwd=place, env={**os.environ, "HOME": str(place), "SLURMFAB_CLUSTER": ""},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_task_of_the_site_when_added_to_our_namespace_then_works_beside_ours(place: Path, program: str) -> None:
    (place / "fabfile.py").write_text(TEXT + OWN)
    assert run(place, program, "scratch", "--on", "gpu") == (0, "scratch of gpu beside\n", "")
    assert run(place, program, "gpu.room") == (0, "scratch of compute beside\n", "")
    for words in (("scratch", "deploy"), ("planned",)):
        code, _, err = run(place, program, *words)
        assert (code, "There is no cluster file configs/cluster.yaml" in err) == (2, True), err
    assert "  scratch            Show the room on /scratch.\n" in run(place, program, "--list")[1]
    assert "Tasks of the fabfile:\n  scratch " in run(place, program, "help")[1]
    assert "Show the room on /scratch." in run(place, program, "scratch", "--help")[1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_fabfile_of_an_earlier_slurmfab_when_it_is_still_there_then_works(place: Path, program: str) -> None:
    (place / "fabfile.py").write_text("import sys\n\ndel sys.path[0]\nfrom slurmfab.fabfile import namespace\n")
    code, out, err = run(place, program, "help")
    assert (code, "  deploy " in out, err) == (0, True, "")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_task_on_hosts_when_they_are_off_then_each_is_told_and_the_exit_code_is_1(place: Path, program: str) -> None:
    (place / "fabfile.py").write_text(TEXT + OWN)
    for words in (["driver"], ["-H", "root@127.0.0.1:1,root@127.0.0.2:1", "driver"]):
        code, out, err = run(place, program, *words)
        assert (code, out, [line.partition(": ")[0] for line in err.splitlines()]) == (
            1,
            "",
            ["127.0.0.1", "127.0.0.2"],
        )


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_group_when_there_is_no_cluster_file_then_that_is_the_one_message(place: Path, program: str) -> None:
    text = (
        "\nfrom slurmfab import hosts\n\n@task(hosts=hosts('n1'))\ndef each(c):\n    pass\n\nnamespace.add_task(each)\n"
    )
    (place / "fabfile.py").write_text(TEXT + text)
    code, out, err = run(place, program, "each")
    assert (code, out, err.count("\n"), "There is no cluster file configs/cluster.yaml" in err) == (2, "", 1, True), err


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_task_when_it_raises_then_its_own_traceback_is_shown_and_none_of_ours(place: Path, program: str) -> None:
    (place / "fabfile.py").write_text(TEXT + OWN)
    code, _, err = run(place, program, "boom")
    assert code == 2
    assert err.count("  File ") == err.count(f'File "{place}/fabfile.py"') == 1
    assert err.endswith("A task of the fabfile failed: ZeroDivisionError: no node left\n")
    code, _, err = run(place, program, "broken")
    assert (code, err.splitlines()[-1].partition(": [")[0]) == (2, "A task of the fabfile failed: FileNotFoundError")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_collection_of_the_sites_own_when_it_includes_ours_then_both_are_called(place: Path, program: str) -> None:
    (place / "fabfile.py").write_text(TEXT + OF_ITS_OWN)
    assert run(place, program, "hello") == (0, "hello\n", "")
    code, _, err = run(place, program, "cluster.plan")
    assert (code, "There is no cluster file configs/cluster.yaml" in err) == (2, True)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_task_with_the_name_of_one_of_ours_is_refused(place: Path, program: str) -> None:
    (place / "fabfile.py").write_text(f"{TEXT}@task\ndef deploy(c):\n    pass\n\nnamespace.add_task(deploy)\n")
    code, out, err = run(place, program, "deploy")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "The task deploy of fabfile has the name of a task of slurmfab." in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def broken(:\n", "fabfile.py:1: invalid syntax: def broken(:"),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("from fabric import task\n@task\ndef plan(c): pass\n", "its task plan has the name of a task of slurmfab"),
        ("from fabric import task\n@task(help={'a': 'b'})\ndef x(c): pass\n", "Help field was set for param(s) that"),
    ],
)
def test_a_fabfile_when_wrong_then_slurmfab_tells_it_in_one_message(place: Path, text: str, told: str) -> None:
    (place / "fabfile.py").write_text(f"{text}# for slurmfab\n")
    code, out, err = run(place, "slurmfab", "--list")
    assert (code, out, told in err) == (2, "", True), err
    assert "slurmfab/cli" not in err


@pytest.mark.parametrize("text", ["def broken(:\n", "import no_such_module\n"])
def test_a_fabfile_when_it_cannot_be_loaded_then_fab_tells_it_as_python_does_without_a_line_of_ours(
    place: Path, text: str
) -> None:
    (place / "fabfile.py").write_text(TEXT + text)
    code, out, err = run(place, "fab", "--list")
    assert (code, out, err.count("Traceback"), f'File "{place}/fabfile.py", line ' in err) == (1, "", 1, True), err
    assert f"{Path(slurmfab.__file__).parent}/" not in err


def test_a_task_when_it_was_not_added_to_the_namespace_then_slurmfab_says_so(place: Path) -> None:
    (place / "fabfile.py").write_text(f"{TEXT}\n@task\ndef some_room(c):\n    pass\n")
    told = "There is no task some-room. The fabfile has it, and does not add it: namespace.add_task(some_room)."
    assert run(place, "slurmfab", "some-room")[::2] == (2, f"{told} All tasks: slurmfab --list.\n")


def test_a_fabfile_when_it_is_about_something_else_then_slurmfab_does_not_load_it(place: Path) -> None:
    (place / "fabfile.py").write_text("raise RuntimeError\n")
    assert run(place, "slurmfab", "--list")[::2] == (0, "")


def test_a_fabfile_when_the_environment_forbids_it_then_slurmfab_does_not_load_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURMFAB_FABFILE", "no")
    (place / "fabfile.py").write_text("raise RuntimeError  # for slurmfab\n")
    assert run(place, "slurmfab", "--list")[::2] == (0, "")


@pytest.mark.parametrize("open_to_others", ["fabfile.py", "."])
def test_a_fabfile_when_others_may_write_it_then_slurmfab_does_not_load_it(place: Path, open_to_others: str) -> None:
    (place / "fabfile.py").write_text("raise RuntimeError  # for slurmfab\n")
    (place / open_to_others).chmod(0o777)
    code, _, err = run(place, "slurmfab", "help")
    assert (code, "is not loaded: others may write to" in err, "Traceback" in err) == (0, True, False)


FOREIGN = "raise RuntimeError('run')\n"


def open_to_others(place: Path) -> Path:
    """A file or directory with its mode such that others may write to it."""
    place.chmod(place.stat().st_mode | 0o022)
    return place


def a_module(place: Path) -> Path:
    (place / "beside.py").write_text(FOREIGN)
    return open_to_others(place / "beside.py")


def a_package_without_a_first_module(place: Path) -> Path:
    (place / "beside").mkdir()
    (place / "beside/gpu.py").write_text(FOREIGN)
    return open_to_others(place / "beside")


def a_directory_in_a_package(place: Path) -> Path:
    (place / "beside/gpu").mkdir(parents=True)
    (place / "beside/__init__.py").touch()
    (place / "beside/gpu/__init__.pyc").write_bytes(b"planted")
    return open_to_others(place / "beside/gpu")


def a_library(place: Path) -> Path:
    path = place / f"beside{EXTENSION_SUFFIXES[0]}"
    path.write_bytes(b"planted")
    return open_to_others(path)


def a_link(place: Path) -> Path:
    (place / "elsewhere").mkdir()
    (place / "elsewhere/gpu.py").write_text(FOREIGN)
    (place / "beside").symlink_to("elsewhere")
    return open_to_others(place / "elsewhere")


def a_directory_of_compiled_modules(place: Path) -> Path:
    (place / "beside.py").write_text("gpu = 1\n")
    (place / "__pycache__").mkdir()
    open_to_others(place / "__pycache__")
    return place / "__pycache__"


OF_OTHERS = (a_module, a_package_without_a_first_module, a_directory_in_a_package, a_library, a_link)


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("made", OF_OTHERS)
def test_a_module_beside_a_fabfile_when_others_may_write_it_then_slurmfab_does_not_load_it(
    tmp_path: Path, made: Callable[[Path], Path], is_late: bool
) -> None:
    opened = made(tmp_path)
    imports = "import beside.gpu" if (tmp_path / "beside").is_dir() else "import beside"
    late = f"@task\ndef late(c):\n    {imports}\n\nnamespace.add_task(late)\n"
    (tmp_path / "fabfile.py").write_text(TEXT + (late if is_late else f"{imports}\n"))
    code, _, err = run(tmp_path, "slurmfab", "late" if is_late else "help")
    assert (code, "RuntimeError" in err) == (2, False), err
    assert "is not loaded: others may write to" in err
    assert f"{opened} (mode" in err
    assert err.endswith("and what is in it would run as you.\n")


def test_a_fabfile_that_is_a_package_when_others_may_write_below_it_then_slurmfab_loads_no_module_from_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "fabfile/sub").mkdir(parents=True)
    (tmp_path / "fabfile/sub/m.py").write_text(FOREIGN)
    open_to_others(tmp_path / "fabfile/sub")
    (tmp_path / "fabfile/__init__.py").write_text(f"{TEXT}from fabfile.sub import m\n")
    code, _, err = run(tmp_path, "slurmfab", "help")
    assert (code, "is not loaded: others may write to" in err, "Traceback" in err) == (2, True, False), err


def test_a_fabfile_when_others_may_put_compiled_modules_beside_it_then_slurmfab_does_not_load_it(place: Path) -> None:
    opened = a_directory_of_compiled_modules(place)
    (place / "fabfile.py").write_text(TEXT + "import beside\n")
    code, _, err = run(place, "slurmfab", "help")
    assert (code, f"is not loaded: others may write to {opened}" in err) == (0, True), err


@pytest.mark.parametrize("kind", ["pipe", "directory", "loop", "endless"])
def test_what_is_no_fabfile_and_has_its_name_is_passed_over(place: Path, kind: str) -> None:
    path = place / "fabfile.py"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to({"loop": "fabfile.py", "endless": "/dev/zero"}[kind])
    code, out, err = run(place, "slurmfab", "help")
    assert (code, out.startswith("slurmfab turns"), err) == (0, True, "")


def test_a_compiled_fabfile_is_not_loaded_in_place_of_its_source(place: Path) -> None:
    text = TEXT + "@task\ndef told(c):\n    print('source')\n\nnamespace.add_task(told)\n"
    (place / "fabfile.py").write_text(text)
    other = place / "other.py"
    other.write_text(text.replace("'source'", "'planted'"))
    status = (place / "fabfile.py").stat()
    compiled = Path(importlib.util.cache_from_source(str(place / "fabfile.py")))
    py_compile.compile(str(other), cfile=str(compiled), dfile=str(place / "fabfile.py"))
    planted = bytearray(compiled.read_bytes())
    planted[8:16] = struct.pack("<II", int(status.st_mtime), status.st_size)
    compiled.write_bytes(planted)
    other.unlink()
    assert run(place, "slurmfab", "told") == (0, "source\n", "")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", ["fabric.yaml", "fabric.yml", "fabric.json"])
def test_settings_that_others_may_write_beside_a_fabfile_are_refused(place: Path, program: str, name: str) -> None:
    (place / "fabfile.py").write_text(TEXT)
    (place / name).write_text("{}")
    (place / name).chmod(0o666)
    told = f"{place / name} is not read: others may write to {place / name} (mode 0666)"
    assert run(place, program, "--list")[::2] == (2, f"{told}, and the commands that it names would run as you.\n")


@pytest.mark.parametrize("program", PROGRAMS)
def test_settings_beside_a_fabfile_when_they_are_data_then_count_and_when_they_are_code_are_not_run(
    place: Path, program: str
) -> None:
    (place / "fabfile.py").write_text(
        f"{TEXT}@task\ndef told(c):\n    print(c.config.site)\n\nnamespace.add_task(told)\n"
    )
    (place / "fabric.yml").write_text("site: here\n")
    (place / "fabric.py").write_text("raise RuntimeError\n")
    assert run(place, program, "told") == (0, "here\n", "")


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_a_site_prints_is_left_as_it_is_and_what_our_tasks_print_is_harmless(place: Path, program: str) -> None:
    (place / "fabfile.py").write_text(
        f"{TEXT}@task\ndef red(c):\n    print('\\x1b[31mred')\n\nnamespace.add_task(red)\n"
    )
    assert run(place, program, "red")[1] == "\x1b[31mred\n"
    assert "\x1b" not in run(place, program, "deploy", "--cluster", "\x1b[31mred")[2]
