"""Commands and files for many hosts, and a site's own tasks and checks, on real hosts: also the recipes of the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import own_tasks
import pytest
from guide_player import ROOT
from lab_cluster import AS_SLURM, PROGRAM, DeployedLab, ended, eventually, succeeded
from lab_user import Person, words_of
from stock import shared_in_turn

pytestmark = [pytest.mark.lab, shared_in_turn("deployed_lab", "many_hosts")]

BIN = Path(sys.executable).parent
PAGE = (ROOT / "docs" / "own-tasks.md").read_text()
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
SLEEPS = "pgrep -xc sleep || true"
LONG = "sleep 1000"

MANY_PORTS = """\
mkdir -p /run/sshd
for first in $(seq 2001 16 2200); do
    config=/run/many-$first.conf
    { echo MaxStartups 500; echo AddressFamily inet; for port in $(seq $first $((first + 15))); do echo Port $port; done
      echo PidFile /run/many-$first.pid; grep -hE '^(HostKey|UsePAM|PermitRootLogin|Subsystem)' /etc/ssh/sshd_config
    } >$config
    /usr/sbin/sshd -f $config
done
"""
"""Has a host's sshd listen at 200 ports and more: one process takes sixteen of them."""

MANY_END = "for pid in /run/many-*.pid; do kill $(cat $pid); done; rm -f /run/many-*"


def block(number: int) -> str:
    """The text of a block of the page, by its place among those of Python."""
    return [text for kind, text in BLOCK.findall(PAGE) if kind == "python"][number]


@pytest.fixture
def site(deployed_lab: DeployedLab, tmp_path: Path) -> Path:
    """A directory of the site's own, with its fabfile."""
    del deployed_lab
    return tmp_path


def environment(lab: DeployedLab) -> dict[str, str]:
    """The environment of a site's own programs, which find those of slurmfab and the cluster file."""
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "SLURMFAB_CLUSTER": str(lab.inventory_path)}


def fab(lab: DeployedLab, site: Path, text: str, *words: str, program: str = "fab") -> subprocess.CompletedProcess[str]:
    """Run Fabric's own program, or another one, with a fabfile of the site's."""
    (site / "fabfile.py").write_text(text)
    return own_tasks.call(program, site, environment(lab), *words)


@pytest.fixture
def off(deployed_lab: DeployedLab) -> Iterator[str]:
    """n3, on which sshd does not listen."""
    deployed_lab.on("n3", "systemctl stop ssh.socket 2>/dev/null; systemctl stop ssh; pkill -x sshd; true")
    yield "n3"
    deployed_lab.on("n3", "systemctl start ssh.socket 2>/dev/null || systemctl start ssh")


def test_a_command_when_run_on_all_hosts_then_equal_outputs_are_one(deployed_lab: DeployedLab) -> None:
    done = succeeded(deployed_lab.slurmfab("run", "cat /etc/debian_version | cut -c1-2; echo done"))
    assert done.stdout.splitlines()[0] == "ctl,n[1-3]:"
    assert done.stdout.splitlines()[-1] == "    done"
    assert done.stderr == ""
    own = succeeded(deployed_lab.slurmfab("run", "uname -n", "--on", "compute", "-x", "n2"))
    assert own.stdout == "n1: n1\nn3: n3\n"


def test_a_command_when_it_fails_somewhere_then_each_exit_code_is_told_and_the_own_one_is_1(
    deployed_lab: DeployedLab,
) -> None:
    words = ("run", "test $(uname -n) != n2 || { echo no >&2; exit 7; }", "--on", "compute")
    done = ended(deployed_lab.slurmfab(*words), 1)
    assert "n2 (exit code 7): no\n" in done.stdout
    assert done.stderr == "3 hosts: failed on 1 (n2).\n"
    told = json.loads(ended(deployed_lab.slurmfab(*words, "--json", "-"), 1).stdout)
    assert [(one["host"], one["exit_code"], one["output"]) for one in told["hosts"]] == [
        ("n1", 0, ""), ("n2", 7, "no\n"), ("n3", 0, "")
    ]  # fmt: skip


def test_a_command_when_a_host_is_silent_then_the_others_run_it_and_the_exit_code_is_3(
    deployed_lab: DeployedLab, off: str
) -> None:
    done = ended(deployed_lab.slurmfab("run", "echo here"), 3)
    assert done.stdout == "ctl,n[1-2]: here\n"
    assert f"{off}: nothing listens at " in done.stderr
    assert done.stderr.endswith("4 hosts: not reached: 1 (n3).\n")
    both = ended(deployed_lab.slurmfab("run", "false", "--on", "n[2-3]"), 1)
    assert both.stderr.endswith("2 hosts: failed on 1 (n2), not reached: 1 (n3).\n")


def test_words_when_they_name_groups_then_their_hosts_run_the_command(
    deployed_lab: DeployedLab, tmp_path: Path
) -> None:
    (tmp_path / "some").write_text("n1\nn3\n")
    deployed_lab.on("ctl", "scontrol update nodename=n2 state=drain reason=test")
    try:
        for words, hosts in {
            "controller": "ctl",
            "main": "n[1-3]",
            "gpu": "n[1-2]",
            "drained": "n2",
            "idle": "n[1,3]",
            f"@{tmp_path}/some": "n[1,3]",
            "role:compute,ctl": "ctl,n[1-3]",
        }.items():
            assert succeeded(deployed_lab.slurmfab("run", "echo .", "--on", words)).stdout == f"{hosts}: .\n", words
    finally:
        deployed_lab.on("ctl", "scontrol update nodename=n2 state=resume")
    deployed_lab.until("ctl", "sinfo -h -N -n n2 -p main -o %t", "idle")
    for words, said in {
        "nope": "--on nope: not in ",
        "drained": "--on drained: there is no such host now.",
        "state:nope": "--on state:nope: there is no such state.",
    }.items():
        assert said in words_of(ended(deployed_lab.slurmfab("run", "echo .", "--on", words), 2))
    assert "there is no such host now" in words_of(
        ended(deployed_lab.slurmfab("run", ":", "--on", "n1", "-x", "gpu"), 2)
    )


def test_output_when_it_is_binary_or_endless_then_it_is_written_out_and_cut_off(deployed_lab: DeployedLab) -> None:
    binary = succeeded(deployed_lab.slurmfab("run", r"printf 'a\033[2J\0\377b'", "--on", "n1"))
    assert binary.stdout == "n1: a\\x1b[2J\\x00\\xffb\n"
    endless = ended(deployed_lab.slurmfab("run", "yes", "--on", "compute"), 1)
    assert endless.stdout.startswith("n[1-3] (it was ended after 1024 KiB of output):\n    y\n    y\n")
    assert len(endless.stdout) < 8 << 20
    late = ended(deployed_lab.slurmfab("run", LONG, "--on", "n1", "--timeout", "1"), 1)
    assert late.stdout == "n1 (it was ended after 1 s):\n"
    deployed_lab.until("n1", "pgrep -xc yes || true", "0")
    deployed_lab.until("n1", SLEEPS, "0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("command", [LONG, f"{LONG} | cat & trap '' TERM HUP; wait"], ids=["one", "stubborn"])
def test_a_command_when_the_deployer_is_interrupted_or_killed_then_nothing_of_it_is_left(
    deployed_lab: DeployedLab, number: signal.Signals, command: str
) -> None:
    words = ["env", "--default-signal=INT", *PROGRAM, "run", command, "--on", "compute"]
    run = subprocess.Popen(
        words, env=environment(deployed_lab), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for node in ("n1", "n2", "n3"):
        deployed_lab.until(node, SLEEPS, "1")
    run.send_signal(number)
    _, said = run.communicate(timeout=30)
    if number == signal.SIGINT:
        assert (run.returncode, said) == (
            130, "Interrupted. The command was ended where it still ran: n[1-3].\n"
        )  # fmt: skip
    for node in ("n1", "n2", "n3"):
        deployed_lab.until(node, "pgrep -fc 'sleep [1]000' || true", "0")


def test_a_file_when_it_is_put_then_hosts_have_it_whole_with_owner_and_mode_and_links_are_not_followed(
    deployed_lab: DeployedLab, tmp_path: Path
) -> None:
    lab, file = deployed_lab, tmp_path / "notice"
    file.write_bytes(b"\0\xffnew\n")
    words = (
        "put",
        str(file),
        "/etc/slurmfab-notice",
        "--on",
        "compute",
        "--owner",
        "slurm",
        "--group",
        "adm",
        "--mode",
    )
    lab.on("n1", "echo old >/etc/slurmfab-notice; ln /etc/slurmfab-notice /root/kept")
    assert succeeded(lab.slurmfab(*words, "0640")).stdout == "n[1-3]: /etc/slurmfab-notice changed\n"
    for node in ("n1", "n2", "n3"):
        assert lab.on(node, "stat -c '%U %G %a' /etc/slurmfab-notice") == "slurm adm 640"
        assert lab.on(node, "od -An -c /etc/slurmfab-notice").split() == ["\\0", "377", "n", "e", "w", "\\n"]
    assert lab.on("n1", "cat /root/kept") == "old"  # the file was replaced, and not written into
    again = succeeded(lab.slurmfab(*words, "0640"))
    assert again.stdout == "n[1-3]: /etc/slurmfab-notice was there already\n"
    lab.on("n2", "rm /etc/slurmfab-notice; mkdir /etc/slurmfab-notice")
    lab.on("n3", "install -d -o slurm /srv/theirs; ln -s /etc /srv/theirs/place")
    told = json.loads(ended(lab.slurmfab(*words, "0600", "--json", "-"), 1).stdout)
    assert [(one["host"], one["status"]) for one in told["hosts"]] == [
        ("n1", "changed"), ("n2", "failed"), ("n3", "changed")
    ]  # fmt: skip
    linked = ended(lab.slurmfab("put", str(file), "/srv/theirs/place/slurmfab-x", "--on", "n3"), 1)
    assert "n3: " in linked.stderr
    assert lab.on("n3", "ls /etc/slurmfab-x", check=False) == ""
    for bad in ("etc/x", "/etc/../x", "/etc/x\n"):
        assert "give an absolute path" in words_of(ended(lab.slurmfab("put", str(file), bad), 2))
    lab.on("n3", "rm -r /srv/theirs")
    for node in ("n1", "n2", "n3"):
        lab.on(node, "rm -rf /etc/slurmfab-notice /root/kept")


@pytest.mark.parametrize("program", own_tasks.PROGRAMS)
def test_tasks_when_typed_into_the_fabfile_of_a_first_contact_then_both_programs_reach_hosts_as_deploy_does(
    deployed_lab: DeployedLab, site: Path, program: str
) -> None:
    own_tasks.typed(site)

    def told(*words: str) -> str:
        done = succeeded(own_tasks.call(program, site, environment(deployed_lab), *words))
        assert done.stderr == ""
        return done.stdout

    for words, count in {("scratch",): 3, ("scratch", "--on", "n[1,3]"): 2, ("site.room", "--on", "ctl"): 1}.items():
        assert told(*words).count("Filesystem") == count, words
    for words, answer in {
        ("driver",): "n1 n1\nn2 n2\n",
        ("-H", "n3,ctl", "driver"): "n3 n3\nctl ctl\n",
        ("-H", "n[1,3]", "site.driver"): "n1 n1\nn3 n3\n",
        ("-H", "n[2-3]", "--", "uname -n"): "n2\nn3\n",
        ("become", "--on", "n1"): "n1 root\n",
    }.items():
        assert told(*words) == answer, words


def test_a_command_with_much_input_when_it_reads_none_of_it_then_its_exit_code_is_told(
    deployed_lab: DeployedLab, site: Path
) -> None:
    for command, code in {"true": 0, "exit 7": 7}.items():
        words = ("-H", "n1", "--", command)
        ended(own_tasks.call("slurmfab", site, environment(deployed_lab), *words, stdin="line\n" * 200_000), code)


@pytest.mark.parametrize("program", own_tasks.PROGRAMS)
def test_tasks_of_the_site_when_a_host_is_off_then_the_others_are_done_and_the_exit_code_is_1(
    deployed_lab: DeployedLab, site: Path, off: str, program: str
) -> None:
    own_tasks.typed(site)
    for words, answer in {("scratch",): "Filesystem", ("-H", "n[1-3]", "driver"): "n2 n2\n"}.items():
        done = ended(own_tasks.call(program, site, environment(deployed_lab), *words), 1)
        assert done.stdout.count(answer) == (2 if words == ("scratch",) else 1)
        assert f"{off}: nothing listens at " in done.stderr
        assert "Traceback" not in done.stderr


def test_tasks_of_the_page_when_typed_into_a_fabfile_then_they_do_what_it_says(
    deployed_lab: DeployedLab, site: Path
) -> None:
    room = succeeded(fab(deployed_lab, site, block(0), "room"))
    assert room.stdout.count("Filesystem") == 3
    drivers = succeeded(fab(deployed_lab, site, block(0), "driver"))
    assert drivers.stdout == "n1 has no driver\nn2 has no driver\n"
    assert succeeded(fab(deployed_lab, site, block(0), "sizes")).stdout.split()[1] == "3"
    named = succeeded(fab(deployed_lab, site, block(0), "-H", "n3,ctl", "driver"))
    assert named.stdout == "n3 has no driver\nctl has no driver\n"


MISTAKES = """
from fabric import task
from slurmfab import hosts

@task
def nope(c):
    hosts("nope").run("true")

@task(hosts=hosts("drained"))
def nobody(c):
    c.run("true")

@task
def fails(c):
    hosts("compute").run("test $(uname -n) != n2", hide=True)

@task(hosts=hosts("compute"))
def each(c):
    c.run("uname -n")
"""


@pytest.mark.parametrize("program", own_tasks.PROGRAMS)
def test_tasks_of_the_site_when_hosts_fail_or_are_not_there_then_that_is_one_message_each(
    deployed_lab: DeployedLab, site: Path, off: str, program: str
) -> None:
    for text, task, code, said in (
        (MISTAKES.replace('hosts("nope")', 'hosts("n1", file="no.yaml")'), "nope", 2, "There is no cluster file"),
        (MISTAKES, "nope", 2, "hosts: nope: not in "),
        (MISTAKES, "nobody", 2, "hosts: drained: there is no such host now."),
        (MISTAKES, "fails", 1, "n2: `test $(uname -n) != n2` failed with exit code 1"),
        (MISTAKES, "fails", 1, f"{off}: nothing listens at "),
    ):
        done = ended(fab(deployed_lab, site, text, task, program=program), code)
        assert (said in done.stderr, "Traceback" in done.stderr, done.stdout) == (True, False, ""), done.stderr
        assert done.stderr.count("\n") == (1 if code == 2 else 2), done.stderr
    each = ended(fab(deployed_lab, site, MISTAKES, "each", program=program), 1)
    assert (each.stdout, "n3: nothing listens at " in each.stderr) == ("n1\nn2\n", True)
    silent = succeeded(fab(deployed_lab, site, block(1), "kernels", program=program))
    assert [line.partition(" ")[0] for line in silent.stdout.splitlines()[:3]] == ["ctl", "n1", "n2"]
    assert "n3: nothing listens at " in silent.stdout


@pytest.mark.parametrize("program", own_tasks.PROGRAMS)
def test_a_host_with_another_key_when_a_task_reaches_it_then_it_is_refused(
    deployed_lab: DeployedLab, site: Path, program: str
) -> None:
    lab = deployed_lab
    own_tasks.typed(site)
    restart = "systemctl restart ssh.socket 2>/dev/null; systemctl restart ssh"
    lab.on("n1", f"mkdir /root/keys; mv /etc/ssh/ssh_host_* /root/keys; ssh-keygen -A -q; {restart}")
    try:
        for words in (("driver",), ("-H", "n1", "driver"), ("-H", "n1", "--", "uname -n"), ("scratch", "--on", "n1")):
            done = ended(own_tasks.call(program, site, environment(lab), *words), 1)
            assert "n1: its SSH host key (" in done.stderr, (words, done.stderr)
            assert "n1\n" not in done.stdout
            assert "Filesystem" not in done.stdout
    finally:
        lab.on("n1", f"rm /etc/ssh/ssh_host_*; mv /root/keys/* /etc/ssh; rmdir /root/keys; {restart}")


def test_recipes_of_the_page_when_typed_then_they_do_what_it_says(deployed_lab: DeployedLab, site: Path) -> None:
    lab = deployed_lab
    driver = succeeded(fab(lab, site, block(2), "install-driver", "--package", "procps"))
    assert [line.split()[:2] for line in driver.stdout.splitlines()] == [["n1", "procps"], ["n2", "procps"]]

    (site / "issue.net").write_text("ours\n")
    lines = next(text for kind, text in BLOCK.findall(PAGE) if kind == "sh").splitlines()
    assert [line.split()[0] for line in lines] == ["fab", "fab"]
    for line in lines:
        said = subprocess.run(
            line.replace("fab ", "slurmfab ", 1), shell=True, cwd=site, env=environment(lab), capture_output=True,
            text=True, check=True,
        ).stdout  # fmt: skip
    assert said == "ctl,n[1-3]: ours\n"

    (site / "firmware.sh").write_text(
        "scontrol show node $(uname -n) | grep -o 'State=[A-Z+]*' >>/root/rolled; id -u >>/root/rolled\n"
    )
    job = lab.on("ctl", AS_SLURM + "sbatch --parsable -w n1 --mem=50 -o /dev/null --wrap 'sleep 8'")
    lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    succeeded(fab(lab, site, block(3), "firmware"))
    assert lab.on("ctl", f"squeue -h -j {job} -o %T", check=False) == ""
    for node in ("n1", "n2", "n3"):
        assert lab.on(node, "cat /root/rolled; rm /root/rolled").splitlines() == ["State=IDLE+DRAIN", "0"]
    lab.until("ctl", "sinfo -h -p main -o %t | sort -u", "idle")

    (site / "bin").mkdir()
    (site / "bin" / "sendmail").write_text(f"#!/bin/sh\ncat >{site}/mail\n")
    (site / "bin" / "sendmail").chmod(0o755)
    text = f"import os\nos.environ['PATH'] = '{site}/bin:' + os.environ['PATH']\n{block(4)}"
    succeeded(fab(lab, site, text, "monday"))
    mail = (site / "mail").read_text()
    assert "To: root" in mail
    assert re.search(r"n3: +\d+% /", mail)


def test_checks_of_the_site_when_pytest_runs_them_alone_then_they_have_the_hosts_of_the_cluster(
    deployed_lab: DeployedLab,
) -> None:
    lab, checks = deployed_lab, deployed_lab.inventory_path.parent / "checks"
    checks.mkdir(mode=0o755)
    try:
        (checks / "conftest.py").write_text(block(5))
        (checks / "test_licence.py").write_text(block(6))
        options = ("-q", "-p", "slurmfab.testinfra", "-p", "no:cacheprovider", "-rA")

        def pytest_alone(*words: str) -> subprocess.CompletedProcess[str]:
            argv: Sequence[object] = (BIN / "pytest", *options, *words, checks)
            return subprocess.run(
                list(map(str, argv)), cwd="/", env=environment(lab), capture_output=True, text=True, check=False
            )

        assert "4 passed" in succeeded(pytest_alone()).stdout
        assert "1 passed" in succeeded(pytest_alone("--hosts", "n2")).stdout
        assert "--hosts nope: not in " in pytest_alone("--hosts", "nope").stderr
        told = {(one["host"], one["check"], one["outcome"]) for one in lab.checks("own") if one["own"]}
        nodes = {(node, "licence_server_answers", "passed") for node in ("n1", "n2", "n3")}
        assert told == {*nodes, ("ctl", "licence_log_has_room", "passed")}
    finally:
        shutil.rmtree(checks)


@pytest.mark.parametrize("count", [2, 16, 200])
def test_many_endpoints_when_a_command_runs_then_all_answer_as_one(
    deployed_lab: DeployedLab, tmp_path: Path, count: int
) -> None:
    host = deployed_lab.lab.host("n2")
    person = Person.at(tmp_path)
    names = f"m[001-{count:03}]"
    person.writes(
        f"cluster: many\nssh: {{user: root, key: {deployed_lab.lab.ssh_key}, "
        f'endpoints: {{"{names}": "{host.address}:[2001-{2000 + count}]"}}}}\n'
        f'controllers: [m001]\nnodes: [{{hosts: "{names}"}}]\n'
    )
    keys = [
        f"[{host.address}]:{2000 + number} {kind} {key}\n"
        for number in range(1, count + 1)
        for kind, key in host.host_keys.items()
    ]
    (person.home / ".ssh" / "known_hosts").write_text("".join(keys))
    deployed_lab.on("n2", MANY_PORTS)
    try:
        done = succeeded(person.slurmfab("run", "uname -n"))
    finally:
        deployed_lab.on("n2", MANY_END)
    assert (done.stdout, done.stderr) == (f"{names}: n2\n", "")
    eventually(lambda: deployed_lab.on("n2", "pgrep -fc 'comman[d]=' || true") == "0", "commands are left")
