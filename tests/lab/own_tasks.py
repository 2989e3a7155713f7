"""Two tasks of a site, typed into the fabfile that a first contact writes, and called by either program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from slurmfab.cluster.inventory.fabfile import provide

PROGRAMS = ("fab", "slurmfab")
TYPED = '''
from invoke import Collection
from slurmfab import hosts


@task
def scratch(c, on="compute"):
    """Show the room on /tmp."""
    hosts(on).run("df -h /tmp", hide=False)


@task(hosts=hosts("gpu"))
def driver(c):
    print(c.host, c.run("cat /etc/hostname", hide=True).stdout.splitlines()[0])


@task
def become(c, on="all"):
    hosts(on).sudo("true")
    for one, done in hosts(on).sudo("id -un", hide=True).items():
        print(one.host, done.stdout.strip())


namespace.add_task(scratch)
namespace.add_task(driver)
namespace.add_task(become)
namespace.add_collection(Collection("site", driver, room=scratch))
'''
AS_MEMBERS = "tasks: {executor_class: slurmfab.hosts.executor.Executor}\n"
"""Fabric's setting by which its program reaches members of the cluster as we do without any fabfile, too."""


def typed(place: Path, text: str = TYPED) -> None:
    """Write the fabfile as a first contact does, and type tasks into it."""
    file = place / "fabfile.py"
    file.unlink(missing_ok=True)
    provide(place / "configs" / "cluster.yaml")
    file.write_text(f"{file.read_text()}{text}")
    (place / ".fabric.yaml").write_text(AS_MEMBERS)


def argv(program: str, *words: str) -> list[str]:
    """The command line of a call."""
    return [str(Path(sys.executable).with_name(program)), *words]


def call(
    program: str, place: Path, environment: Mapping[str, str], *words: str, home: Path | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Call a program in the directory of the fabfile, which is the home directory unless another one is."""
    return subprocess.run(
        argv(program, *words), cwd=place, env={**environment, "HOME": str(home or place)}, input=stdin,
        capture_output=True, text=True, timeout=300, check=False, start_new_session=True,
    )  # fmt: skip
