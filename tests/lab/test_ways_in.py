"""Ways in: other users with sudo, keys with and without passphrases, agents, ssh_config and jump hosts."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import own_tasks
import pytest
from lab_cluster import DeployedLab, ended, eventually
from lab_user import Person, installed, running_lab, words_of
from suites import LIKE, NEWEST

from slurmfab import lab
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.fabfile import TEXT
from slurmfab.lab import LabSpec

pytestmark = pytest.mark.lab

SPEC = installed(LabSpec(name=f"hways{LIKE[-5:-3]}", suite=NEWEST, nodes=2, ssh_user="admin", sudo_password=True))
WHO = SPEC.ssh_user
ALL = ("ctl", "n1", "n2")
SOMETHING_TO_DO = 4
TAKE_RIGHTS = f"mv /etc/sudoers.d/lab /root/lab.sudoers || gpasswd --delete {WHO} sudo"
GIVE_RIGHTS = f"mv /root/lab.sudoers /etc/sudoers.d/lab || gpasswd --add {WHO} sudo"
"""What take and give the right to use sudo: a rule of the lab's, or on a look-alike of Ubuntu the group."""
LISTEN_ON_2222 = """\
set -e
printf 'Port 22\\nPort 2222\\n' >/etc/ssh/sshd_config.d/ports.conf
if systemctl --quiet is-active ssh.socket; then
    mkdir -p /etc/systemd/system/ssh.socket.d
    printf '[Socket]\\nListenStream=2222\\n' >/etc/systemd/system/ssh.socket.d/ports.conf
    systemctl daemon-reload
    systemctl stop ssh.service
    systemctl restart ssh.socket
else
    systemctl restart ssh
fi
"""
"""The second half is what Ubuntu's generator makes of the first."""

CLUSTER_FILE = """\
cluster: ways
ssh: {ssh}
{addresses}
controllers: [ctl]
nodes: [{{hosts: "n[1-2]"}}]
"""
WATCH = (
    "until [ -e /tmp/stop ]; do ps -eww -o args=; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; sleep 0.05; done"
    " >/tmp/seen 2>/dev/null"
)
"""Writes down all arguments and environments of all processes, as fast as it can."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    """Hosts that let nobody in as root, and whose sudo asks admin for a password."""
    with running_lab(SPEC, tmp_path_factory.mktemp("ways")) as made:
        yield made


@pytest.fixture
def person(tmp_path: Path, hosts: DeployedLab) -> Person:
    somebody = Person.at(tmp_path)
    somebody.has_seen(hosts.lab, *ALL)
    return somebody


@pytest.fixture
def trusted(hosts: DeployedLab) -> Iterator[None]:
    """Let admin use sudo without a password for a while."""
    for host in ALL:
        hosts.on(host, f"echo '{WHO} ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/zz-trusted")
    yield
    for host in ALL:
        hosts.on(host, "rm /etc/sudoers.d/zz-trusted")


def password(hosts: DeployedLab) -> str:
    return (hosts.lab.directory / "sudo_password").read_text()


def writes(person: Person, hosts: DeployedLab, ssh: str, *, addresses: bool = True) -> None:
    """Write a cluster file with this `ssh` section, with the hosts' addresses or with nothing but their names."""
    pairs = ", ".join(f"{name}: {hosts.lab.host(name).address}" for name in ALL)
    person.writes(CLUSTER_FILE.format(ssh=ssh, addresses=f"addresses: {{{pairs}}}" if addresses else ""))


def logins(hosts: DeployedLab, host: str, origin: str) -> int:
    """How often somebody has logged in on a host from an address, by its own log."""
    count = f"grep -c 'Accepted publickey for {WHO} from {origin} ' || true"
    return int(hosts.on(host, f"journalctl --sync; journalctl -o cat | {count}"))


def by_key(hosts: DeployedLab, more: str = "") -> str:
    return f"{{user: {WHO}, key: {hosts.lab.ssh_key}, become: sudo{more}}}"


@contextmanager
def agent(person: Person, key: Path) -> Iterator[Person]:
    """The person with an agent that holds this key; it ends with the context."""
    socket = person.home / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        eventually(socket.exists, "the agent listens", 20)
        holder = replace(person, variables={"SSH_AUTH_SOCK": str(socket)})
        subprocess.run(["ssh-add", "-q", str(key)], env=holder.environment, check=True, capture_output=True)
        yield holder
    finally:
        process.terminate()
        process.wait(20)


def test_sudo_without_a_password_when_planned_then_every_host_answers(
    hosts: DeployedLab,
    person: Person,
    trusted: None,  # noqa: ARG001
) -> None:
    writes(person, hosts, by_key(hosts))
    done = ended(person.slurmfab("plan"), SOMETHING_TO_DO)
    assert "would be made" in done.stdout


def test_sudo_with_a_password_when_it_comes_by_standard_input_then_every_host_answers(
    hosts: DeployedLab, person: Person
) -> None:
    writes(person, hosts, by_key(hosts))
    ended(person.slurmfab("plan", "--ask-sudo-password", stdin=password(hosts)), SOMETHING_TO_DO)


def test_sudo_with_a_password_when_a_command_runs_on_hosts_then_it_is_roots_and_nothing_of_it_is_left(
    hosts: DeployedLab, person: Person
) -> None:
    writes(person, hosts, by_key(hosts))
    done = person.slurmfab("run", "id -un", "--sudo", "--ask-sudo-password", stdin=password(hosts))
    assert ended(done, 0).stdout == f"{fold(ALL)}: root\n"
    assert ended(person.slurmfab("run", "id -un", "--on", "n1"), 0).stdout == f"n1: {WHO}\n"
    late = ("run", "sleep 1000", "--sudo", "--ask-sudo-password", "--timeout", "2")
    ended(person.slurmfab(*late, stdin=password(hosts)), 1)
    for host in ALL:
        hosts.until(host, "pgrep -fc 'sleep [1]000' || true", "0")
    refused = ended(person.slurmfab("run", "id -un", "--sudo"), 1)
    assert f"{fold(ALL)}: sudo asks for a password; give it with --ask-sudo-password." in words_of(refused)


def test_sudo_with_a_password_when_there_is_a_terminal_then_asks_there_once_for_all_hosts(
    hosts: DeployedLab, person: Person
) -> None:
    writes(person, hosts, by_key(hosts))
    code, said = at_a_terminal(person, "plan", answers=[password(hosts)])
    assert code == SOMETHING_TO_DO, said
    assert said.count("sudo password: ") == 1
    assert password(hosts).strip() not in said


@pytest.mark.parametrize("program", own_tasks.PROGRAMS)
def test_sudo_with_a_password_when_a_task_of_the_site_needs_it_then_it_is_asked_for_once_or_given_in_front(
    hosts: DeployedLab, person: Person, program: str
) -> None:
    writes(person, hosts, by_key(hosts))
    own_tasks.typed(person.directory)
    caller, roots = replace(person, program=tuple(own_tasks.argv(program))), [f"{host} root" for host in ALL]
    for option in ([], ["--prompt-for-sudo-password"]):
        code, said = at_a_terminal(caller, *option, "become", answers=[password(hosts)])
        assert (code, said.splitlines()[-len(ALL) :]) == (0, roots), said
        assert password(hosts).strip() not in said
        assert "slurmfab asks sudo" not in said
    answers = ["not-the-password\n", password(hosts)]
    code, said = at_a_terminal(caller, "--prompt-for-sudo-password", "become", answers=answers)
    assert (code, said.splitlines()[-len(ALL) :]) == (0, roots), said
    assert "sudo does not accept this password. Try again." in said
    silent = ended(own_tasks.call(program, person.directory, person.environment, "become", home=person.home), 1)
    assert "sudo asks for a password; give it with --prompt-for-sudo-password" in words_of(silent)


def test_sudo_with_a_password_when_pytest_runs_own_checks_then_it_may_come_by_standard_input(
    hosts: DeployedLab, person: Person
) -> None:
    writes(person, hosts, by_key(hosts))
    checks = person.cluster_file.parent / "checks"
    checks.mkdir()
    (checks / "test_root.py").write_text("def test_root(host):\n    assert host.check_output('id -un') == 'root'\n")
    words = ("-q", "-p", "slurmfab.testinfra", "--ask-sudo-password", str(checks))
    done = own_tasks.call(
        "pytest", person.directory, person.environment, *words, home=person.home, stdin=password(hosts)
    )
    assert f"{len(ALL)} passed" in ended(done, 0).stdout


def test_sudo_with_a_wrong_password_when_there_is_a_terminal_then_asks_again_and_shows_neither(
    hosts: DeployedLab, person: Person
) -> None:
    writes(person, hosts, by_key(hosts))
    code, said = at_a_terminal(person, "plan", answers=["not-the-password\n", password(hosts)])
    assert code == SOMETHING_TO_DO, said
    assert said.count("sudo password: ") == 2
    assert "sudo does not accept this password. Try again." in said
    assert "not-the-password" not in said
    assert password(hosts).strip() not in said


def at_a_terminal(person: Person, *words: str, answers: Sequence[str]) -> tuple[int, str]:
    """Run slurmfab at a terminal, and answer the questions that it asks, in their order."""
    ours, theirs = pty.openpty()
    argv = ["timeout", "--foreground", "120", *person.program, *words]
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *argv], stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
        cwd=person.directory, env=person.environment, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    said, left = b"", list(answers)
    with contextlib.suppress(OSError):  # what Linux gives for a terminal that everybody has left
        while data := os.read(ours, 4096):
            said += data
            if left and len(re.findall(b"password: |config value: ", said)) > len(answers) - len(left):
                os.write(ours, left.pop(0).encode())
    os.close(ours)
    return process.wait(60), said.decode(errors="replace")


def test_sudo_with_a_wrong_password_when_planned_then_each_host_says_so_in_one_line(
    hosts: DeployedLab, person: Person
) -> None:
    writes(person, hosts, by_key(hosts))
    done = ended(person.slurmfab("plan", "--ask-sudo-password", stdin="not-the-password\n"), 1)
    assert words_of(done).count(f"{fold(ALL)}: sudo does not accept the password.") == 1
    assert "not-the-password" not in words_of(done)


def test_sudo_with_a_password_when_nobody_can_be_asked_then_it_is_told_on_which_hosts_and_what_to_try(
    hosts: DeployedLab, person: Person
) -> None:
    writes(person, hosts, by_key(hosts))
    done = ended(person.slurmfab("plan"), 1)
    assert words_of(done).count(f"{fold(ALL)}: sudo asks for a password; give it with --ask-sudo-password.") == 1


def test_a_user_who_may_not_use_sudo_when_planned_then_sudos_own_words_are_told(
    hosts: DeployedLab, person: Person
) -> None:
    writes(person, hosts, by_key(hosts))
    hosts.on("n1", TAKE_RIGHTS)
    try:
        done = person.slurmfab("plan", "--ask-sudo-password", stdin=password(hosts))
    finally:
        hosts.on("n1", GIVE_RIGHTS)
    theirs = f"({WHO} is not in the sudoers file|sudo: I'm sorry {WHO}. I'm afraid I can't do that)"
    said = f"n1: sudo refused: {theirs}, so no password helps"
    assert re.search(said, words_of(done)), words_of(done)


def test_a_login_that_is_not_root_when_sudo_was_not_asked_for_then_that_is_said(
    hosts: DeployedLab, person: Person
) -> None:
    writes(person, hosts, f"{{user: {WHO}, key: {hosts.lab.ssh_key}}}")
    done = ended(person.slurmfab("plan"), 1)
    assert "become: sudo" in words_of(done)


def test_a_key_with_a_passphrase_when_named_then_an_agent_is_recommended_and_no_host_is_asked(
    hosts: DeployedLab, person: Person
) -> None:
    key = person.home / "locked"
    key.write_text(hosts.lab.ssh_key.read_text())
    key.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "open sesame", "-f", str(key)], check=True, capture_output=True)
    writes(person, hosts, f"{{user: {WHO}, key: {key}, become: sudo}}")
    done = ended(person.slurmfab("plan"), 2)
    assert f"The private key {key} has a passphrase. Add it to an SSH agent (ssh-add {key})" in words_of(done)


def test_a_key_that_is_missing_when_named_then_that_is_said(hosts: DeployedLab, person: Person) -> None:
    writes(person, hosts, f"{{user: {WHO}, key: /nowhere/id, become: sudo}}")
    done = person.slurmfab("plan")
    assert (done.returncode, "The private key /nowhere/id does not exist" in words_of(done)) == (2, True)


def test_a_key_that_hosts_do_not_know_when_used_then_all_that_refuse_are_one_line(
    hosts: DeployedLab, person: Person
) -> None:
    key = person.home / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    writes(person, hosts, f"{{user: {WHO}, key: {key}, become: sudo}}")
    done = ended(person.slurmfab("plan"), 1)
    addresses = fold(hosts.lab.host(host).address for host in ALL)
    said = f"{fold(ALL)}: {addresses} port 22 refused the login of {WHO} with the key {key}"
    assert words_of(done).count(said) == 1


def test_a_key_in_an_agent_when_no_key_is_named_then_it_is_used(
    hosts: DeployedLab,
    person: Person,
    trusted: None,  # noqa: ARG001
) -> None:
    writes(person, hosts, f"{{user: {WHO}, become: sudo}}")
    assert person.slurmfab("plan").returncode == 1
    with agent(person, hosts.lab.ssh_key) as holder:
        done = holder.slurmfab("plan")
    assert done.returncode == SOMETHING_TO_DO, words_of(done)


def test_ssh_when_asked_for_a_host_then_runs_the_command_there_and_ends_with_its_code(hosts: DeployedLab) -> None:
    done = hosts.slurmfab("ssh", "n1", "--", "hostname; id -un")
    assert (done.returncode, done.stdout) == (0, f"n1\n{WHO}\n"), words_of(done)
    assert hosts.slurmfab("ssh", "n1", "--", "exit 7").returncode == 7
    unknown = hosts.slurmfab("ssh", "n9", "--", "true")
    assert (unknown.returncode, "n9: not in " in unknown.stderr) == (2, True)


@pytest.mark.parametrize("program", ["fab", "slurmfab"])
def test_a_task_of_the_site_when_called_with_hosts_then_runs_there_and_an_unknown_key_is_refused(
    hosts: DeployedLab, person: Person, program: str
) -> None:
    site = "@task\ndef where(c):\n    c.run('hostname; id -un')\n\nnamespace.add_task(where)\n"
    (person.directory / "fabfile.py").write_text(f"{TEXT}{site}")
    addresses = {host: hosts.lab.host(host).address for host in ALL}
    words = [str(Path(sys.executable).with_name(program)), "-i", str(hosts.lab.ssh_key), "-H"]
    words += [",".join(f"{WHO}@{address}" for address in addresses.values()), "where"]

    def call() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=person.directory, env=person.environment, capture_output=True, text=True, check=False
        )

    done = call()
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ctl\n{WHO}\nn1\n{WHO}\nn2\n{WHO}\n", "")
    known = person.home / ".ssh/known_hosts"
    known.write_text("".join(line for line in known.read_text().splitlines(True) if addresses["n1"] not in line))
    done = call()
    assert (done.returncode, done.stdout) == (1, f"ctl\n{WHO}\nn2\n{WHO}\n"), words_of(done)
    assert done.stderr == f"{addresses['n1']}: Server '{addresses['n1']}' not found in known_hosts\n"


def test_the_ssh_config_when_another_program_uses_it_then_reaches_hosts_and_refuses_another_host_key(
    hosts: DeployedLab, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(hosts.slurmfab("ssh-config").stdout)
    command = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "n2", "hostname"]
    assert subprocess.check_output(command, text=True) == "n2\n"
    config.write_text(config.read_text().replace(hosts.lab.host("n2").address, hosts.lab.host("n1").address))
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (255, "")
    assert "HOST IDENTIFICATION HAS CHANGED" in refused.stderr


def test_a_gateway_when_the_cluster_file_names_it_then_the_others_are_reached_from_there(
    hosts: DeployedLab,
    person: Person,
    trusted: None,  # noqa: ARG001
) -> None:
    gateway = hosts.lab.host("ctl").address
    writes(person, hosts, by_key(hosts, f", gateway: {WHO}@{gateway}"))
    before = {host: logins(hosts, host, gateway) for host in ("n1", "n2")}
    ended(person.slurmfab("plan"), SOMETHING_TO_DO)
    assert ended(person.slurmfab("run", "uname -n", "--on", "n[1-2]"), 0).stdout == "n1: n1\nn2: n2\n"
    own_tasks.typed(person.directory)
    for program in own_tasks.PROGRAMS:
        call = partial(own_tasks.call, program, person.directory, person.environment, home=person.home)
        assert ended(call("scratch"), 0).stdout.count("Filesystem") == 2
        assert ended(call("-H", "n[1-2]", "driver"), 0).stdout == "n1 n1\nn2 n2\n"
    after = {host: logins(hosts, host, gateway) for host in before}
    assert after == {host: count + 6 for host, count in before.items()}


def test_a_gateway_whose_key_is_unknown_when_used_then_it_is_named_with_its_fingerprint(
    hosts: DeployedLab,
    person: Person,
    trusted: None,  # noqa: ARG001
) -> None:
    gateway = hosts.lab.host("ctl").address
    writes(person, hosts, by_key(hosts, f", gateway: {WHO}@{gateway}"))
    person.has_seen(hosts.lab, "n1", "n2")
    done = person.slurmfab("plan")
    assert done.returncode != 0
    assert f"{gateway}: the jump host's SSH host key is unknown: ssh-ed25519 SHA256:" in words_of(done)
    assert "log in there once with ssh" in done.stderr


def test_a_gateway_that_forwards_nothing_when_used_then_its_setting_is_named(
    hosts: DeployedLab,
    person: Person,
    trusted: None,  # noqa: ARG001
) -> None:
    hosts.on("ctl", "echo AllowTcpForwarding no >/etc/ssh/sshd_config.d/no.conf && systemctl restart ssh")
    writes(person, hosts, by_key(hosts, f", gateway: {WHO}@{hosts.lab.host('ctl').address}"))
    try:
        done = person.slurmfab("plan")
    finally:
        hosts.on("ctl", "rm /etc/ssh/sshd_config.d/no.conf && systemctl restart ssh")
    # Both hosts are one line where sshd's answer is the same for both; a busy one may not answer in time.
    for host in ("1", "2"):
        assert re.search(rf"n({host}|\[1-2\]): (unreachable: )?its jump host cannot connect to", words_of(done)), host
    assert "AllowTcpForwarding" in done.stdout


def test_a_gateway_that_is_down_when_used_then_it_is_tried_once_and_named(hosts: DeployedLab, person: Person) -> None:
    nobody = hosts.lab.host("ctl").address.rpartition(".")[0] + ".250"
    writes(person, hosts, by_key(hosts, f", gateway: {WHO}@{nobody}"))
    done = ended(person.slurmfab("plan"), 1)
    assert f"{nobody}: the jump host cannot be used: " in words_of(done)


def test_names_that_only_ssh_config_knows_when_planned_then_all_that_it_says_is_followed(
    hosts: DeployedLab,
    person: Person,
    trusted: None,  # noqa: ARG001
) -> None:
    gateway, behind, other = (hosts.lab.host(name).address for name in ALL)
    folder = person.home / ".ssh"
    used = person.home / "proxy-command-was-used"
    (folder / "cluster.d").mkdir()
    (folder / "config").write_text(f"Include cluster.d/*\nHost *\n  User {WHO}\n")
    (folder / "cluster.d" / "lab").write_text(
        f"Host ctl n1 n2\n  IdentityFile {hosts.lab.ssh_key}\n"
        f"Host ctl\n  HostName {gateway}\n"
        f"Host n1\n  HostName {behind}\n  Port 2222\n  ProxyJump ctl\n"
        f"Host n2\n  HostName {other}\n"
        f"  ProxyCommand bash -c 'exec 3<>/dev/tcp/%h/%p; touch {used}; cat <&3 & cat >&3'\n"
    )
    key = hosts.lab.host("n1").host_keys["ssh-ed25519"]
    with (folder / "known_hosts").open("a") as known:
        known.write(f"[{behind}]:2222 ssh-ed25519 {key}\n")
    hosts.on("n1", LISTEN_ON_2222)
    before = logins(hosts, "n1", gateway)
    writes(person, hosts, "{become: sudo}", addresses=False)
    ended(person.slurmfab("plan"), SOMETHING_TO_DO)
    assert logins(hosts, "n1", gateway) == before + 1
    assert used.exists()


def reaches(hosts: DeployedLab, person: Person, host: str) -> bool:
    """Whether ssh(1) itself logs in on a host with the ssh_config of the person."""
    config = person.home / ".ssh/config"
    argv = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-i"]
    words = [*argv, str(hosts.lab.ssh_key), host, "true"]
    return subprocess.run(words, env=person.environment, capture_output=True, check=False).returncode == 0


REFUSED = {
    "@revoked": "its SSH host key is revoked: ssh-ed25519",
    "RevokedHostKeys": "its SSH host key is revoked: ssh-ed25519",
    "a missing file": "its SSH host key is revoked: ssh-ed25519",
    "a negation": "its SSH host key is unknown: ssh-ed25519",
    "an authority": "slurmfab cannot verify host certificates",
}


@pytest.mark.parametrize("how", ["a pattern", *REFUSED])
def test_host_keys_that_files_of_ssh_revoke_or_exclude_then_are_believed_as_far_as_ssh_does(
    hosts: DeployedLab,
    person: Person,
    trusted: None,  # noqa: ARG001
    how: str,
) -> None:
    address, keys = hosts.lab.host("n1").address, hosts.lab.host("n1").host_keys
    folder, prefix = person.home / ".ssh", address.rpartition(".")[0]
    # What everybody may read says less than the user's own file, and is believed as far as it revokes.
    person.has_seen(hosts.lab, "ctl", *(("n1",) if how not in ("a pattern", "a negation", "an authority") else ()))
    names = {
        "a pattern": f"{prefix}.?,{prefix}.??,{prefix}.???,!{prefix}.0",
        "a negation": f"{prefix}.*,!{address}",
        "an authority": f"@cert-authority {prefix}.*",
        "@revoked": "@revoked *",
        "RevokedHostKeys": "other",
        "a missing file": "other",
    }
    (folder / "everybodys").write_text("".join(f"{names[how]} {kind} {key}\n" for kind, key in keys.items()))
    revoked = keys.items() if how == "RevokedHostKeys" else ()
    (folder / "revoked").write_text("".join(f"{kind} {key}\n" for kind, key in revoked))
    revoked_keys = folder / ("nowhere" if how == "a missing file" else "revoked")
    (folder / "config").write_text(
        "".join(f"Host {name}\n  HostName {hosts.lab.host(name).address}\n" for name in ("ctl", "n1"))
        + f"Host n1\n  RevokedHostKeys {revoked_keys}\n"
        + f"Host *\n  User {WHO}\n  UserKnownHostsFile {folder}/known_hosts\n"
        + f"  GlobalKnownHostsFile {folder}/everybodys\n  IdentitiesOnly yes\n"
    )
    person.writes(f"cluster: ways\nssh: {by_key(hosts)}\ncontrollers: [ctl]\nnodes: [{{hosts: n1}}]\n")
    done = person.slurmfab("plan")
    refusal = REFUSED.get(how, "")
    assert (done.returncode, reaches(hosts, person, "n1")) == ((3, False) if refusal else (SOMETHING_TO_DO, True)), (
        words_of(done)
    )
    assert refusal in words_of(done)
    assert reaches(hosts, person, "ctl")


@dataclass(frozen=True)
class Founded:
    """A first contact for which sudo's password was asked for once, while all processes were watched."""

    person: Person
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def founded(hosts: DeployedLab, tmp_path_factory: pytest.TempPathFactory) -> Founded:
    person = Person.at(tmp_path_factory.mktemp("founded"))
    for host in ALL:
        hosts.on(host, f'systemd-run --quiet --unit=watch sh -c "{WATCH}"')
    addresses = ",".join(hosts.lab.host(host).address for host in ALL)
    words = ["--hosts", addresses, "--user", WHO, "--key", str(hosts.lab.ssh_key), "--accept-new-host-keys"]
    done = person.slurmfab("deploy", *words, "--ask-sudo-password", "--verbose", stdin=password(hosts))
    for host in ALL:
        hosts.on(host, "touch /tmp/stop")
        hosts.until(host, "systemctl is-active watch || true", "inactive")
    return Founded(person, done)


def secrets_of(hosts: DeployedLab) -> tuple[str, ...]:
    return password(hosts).strip(), hosts.on("ctl", "base64 -w0 /etc/munge/munge.key")


def test_a_first_contact_when_sudo_asks_then_one_answer_is_enough(founded: Founded) -> None:
    assert founded.done.returncode == 0, words_of(founded.done)


def test_secrets_when_hosts_are_watched_then_are_in_no_argument_environment_or_file(
    hosts: DeployedLab,
    founded: Founded,  # noqa: ARG001
) -> None:
    secrets = "\n".join(secrets_of(hosts))
    for host in ALL:
        assert int(hosts.on(host, "grep -c 'python3 -I' /tmp/seen")) > 0
        assert int(hosts.on(host, f"grep -c ^SUDO_USER={WHO} /tmp/seen")) > 0
        search = ["grep", "-rlF", "-f", "-", "/etc", "/tmp", "/var/log", "/home"]
        looked = lab.run(hosts.lab, host, search, text=secrets)
        assert looked.stdout == ""


def test_secrets_when_a_first_contact_is_over_then_are_in_no_output_and_no_file_of_the_user(
    hosts: DeployedLab, founded: Founded
) -> None:
    written = [path.read_text() for path in founded.person.directory.rglob("*") if path.is_file()]
    assert len(written) >= 3
    for text in (founded.done.stdout, founded.done.stderr, *written):
        assert all(secret not in text for secret in secrets_of(hosts))


def test_a_cluster_whose_sudo_asks_when_deployed_again_then_nothing_is_changed(
    hosts: DeployedLab, founded: Founded
) -> None:
    done = founded.person.slurmfab("deploy", "--ask-sudo-password", stdin=password(hosts))
    assert (done.returncode, "nothing changed on 3 hosts" in words_of(done)) == (0, True)


def test_a_key_that_the_lock_pins_when_it_is_revoked_then_the_host_is_left_out(
    hosts: DeployedLab, founded: Founded
) -> None:
    (lock,) = founded.person.directory.rglob("*.lock.json")
    key = hosts.lab.host("n1").host_keys["ssh-ed25519"]
    assert key in lock.read_text()
    (founded.person.home / ".ssh/known_hosts").write_text(f"@revoked * ssh-ed25519 {key}\n")
    done = ended(founded.person.slurmfab("plan", "--ask-sudo-password", stdin=password(hosts)), 3)
    assert "n1: unreachable: its SSH host key is revoked" in words_of(done)
    again = founded.person.slurmfab("replace-node", "n1", "--accept-new-host-keys")
    assert (again.returncode, "its SSH host key is revoked" in words_of(again)) == (1, True)
