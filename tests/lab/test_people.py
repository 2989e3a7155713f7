"""People on real hosts: the same numbers everywhere, logins by key, jobs, sudo, and nothing lost when they leave."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, succeeded
from lab_user import PLATFORM, words_of
from stock import Stock, in_turn
from suites import PACKAGES

from slurmfab import lab

pytestmark = pytest.mark.lab

HOSTS = ("ctl", "n1", "n2")
STATE = (
    "stat -c '%n %z %i' /etc/passwd /etc/shadow /etc/group /etc/gshadow /etc/sudoers.d /etc/sudoers.d/* /home /home/* "
    "/home/*/.ssh /home/*/.ssh/* /shared /shared/* /shared/*/.ssh/*"
)
USERS = """\
users:
  - name: ann
    comment: Ann Example
    groups: [ml, video]
    sudo: yes
    keys: ["{ann}"]
  - {{name: bob, uid: 3000, home: /shared/bob, keys: ["{bob}"]}}
"""


ODD_PROCESS = r"""
cat > /tmp/odd <<'END'
#!/bin/sh
printf '\033[2J\007\rwanted' > /proc/self/comm
sleep 600
END
chmod 755 /tmp/odd; systemd-run --quiet --uid eve --unit lingering /tmp/odd
"""
"""Shell command: a process of eve whose name clears a terminal."""

SPEAKS_GERMAN = """\
LC_ALL=C.UTF-8 LANGUAGE=de apt-get install no-such-package 2>&1 | grep -c 'Paket no-such-package kann nicht gefunden'
"""
OWN = "/usr/bin/apt-get.own"
IN_GERMAN = f"""\
printf 'LANG=de_DE.UTF-8\\nLANGUAGE=de\\n' > /etc/environment
dpkg --remove --force-depends {PLATFORM.client}
mkdir -p /root/apt /root/lists
mv /etc/apt/sources.list* /root/apt/
find /var/lib/apt/lists -maxdepth 1 -type f ! -name lock -exec mv -t /root/lists {{}} +
test "$({SPEAKS_GERMAN.strip()})" = 1 && exit
mv /usr/bin/apt-get /usr/bin/apt-get.own
cat > /usr/bin/apt-get <<'END'
#!/bin/sh
test -z "$LANGUAGE" && exec /usr/bin/apt-get.own "$@"
/usr/bin/apt-get.own "$@" 2>&1 | sed 's/Unable to locate package \\(.*\\)/Paket \\1 kann nicht gefunden werden/'
exit 100
END
chmod +x /usr/bin/apt-get
"""
"""Shell command: a host whose programs print German, and to which a package is missing that no source has.

A glibc as of Debian 12 translates messages in C.UTF-8 if LANGUAGE is set; for newer ones there is a stand-in.
"""

HANGING_HOME = """\
cat > /root/hanging-home.py <<'END'
import ctypes, os, time
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
assert ctypes.CDLL(None).mount(b"nowhere", b"/home/mallory", b"fuse", 0, options) == 0
time.sleep(3600)
END
systemd-run --quiet --unit hanging-home python3 /root/hanging-home.py
for try in $(seq 100); do grep -q ' /home/mallory fuse' /proc/mounts && exit; sleep 0.1; done; exit 1
"""
"""Shell command: a file system on the home of mallory that answers nothing, as one of a file server that is down."""


@dataclass
class Peopled:
    """A cluster with people, whose private keys are at hand.

    Args:
        hosts: its lab.
        directory: where the keys are.
        public: the public keys by name.
    """

    hosts: DeployedLab
    directory: Path
    public: dict[str, str] = field(default_factory=dict)

    def make_key(self, name: str) -> str:
        """A new key pair; its public half."""
        file = self.directory / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file], check=True)
        self.public[name] = file.with_suffix(".pub").read_text().strip()
        return self.public[name]

    def login(self, name: str, host: str, script: str, key: str = "") -> subprocess.CompletedProcess[str]:
        """Run a script over SSH as somebody, with this or their own key and no other."""
        options = ["IdentitiesOnly=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes",
                   "PreferredAuthentications=publickey", "LogLevel=ERROR"]  # fmt: skip
        words = [word for option in options for word in ("-o", option)]
        place = f"{name}@{self.hosts.lab.host(host).address}"
        argv = ["ssh", "-F", "none", *words, "-i", self.directory / (key or name), place, script]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    def says(self, name: str, host: str, script: str) -> str:
        """What a script prints that runs for somebody, and has to succeed."""
        done = self.login(name, host, script)
        assert done.returncode == 0, f"{name} on {host}: {script}: {done.stderr}"
        return done.stdout.strip()

    def same(self, script: str) -> str:
        """What a script prints on all hosts alike."""
        said = {host: self.hosts.on(host, script) for host in HOSTS}
        assert len(set(said.values())) == 1, said
        return said["ctl"]

    def state(self) -> dict[str, str]:
        """All that a run about people may touch, with the times of its last changes."""
        return {host: self.hosts.on(host, STATE, check=False) for host in HOSTS}

    @property
    def text(self) -> str:
        return self.hosts.inventory_path.read_text()

    def write(self, text: str) -> None:
        self.hosts.inventory_path.write_text(text)


@pytest.fixture(scope="module", params=in_turn("people"))
def peopled(
    request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peopled]:
    with stock.copy(request.param, nodes=2, shared=("/shared",)) as hosts:
        people = Peopled(hosts, tmp_path_factory.mktemp("people"))
        people.write(people.text + USERS.format(ann=people.make_key("ann"), bob=people.make_key("bob")))
        hosts.deploy()
        yield people


def test_people_of_the_first_deployment_have_the_same_numbers_on_every_host(peopled: Peopled) -> None:
    assert peopled.same("id ann") == "uid=2000(ann) gid=2000(ann) groups=2000(ann),44(video),2001(ml)"
    assert peopled.same("getent passwd ann bob").splitlines() == [
        "ann:x:2000:2000:Ann Example:/home/ann:/bin/bash",
        "bob:x:3000:3000::/shared/bob:/bin/bash",
    ]
    assert peopled.same("stat -c '%a %U %G' /home/ann; stat -c '%a %U' /shared/bob") == "700 ann ann\n700 bob"
    assert peopled.same("ls -A /shared") == "bob"
    assert peopled.same("getent shadow ann | cut -d: -f 2") == "*"


def test_people_log_in_by_key_everywhere_and_run_jobs(peopled: Peopled) -> None:
    for host in HOSTS:
        assert peopled.says("ann", host, "id -un; pwd") == "ann\n/home/ann"
        assert peopled.says("bob", host, "pwd") == "/shared/bob"
    assert peopled.login("bob", "ctl", "true", key="ann").returncode == 255
    assert peopled.says("ann", "ctl", "srun --chdir=/tmp -N2 id -u") == "2000\n2000"


def test_sudo_is_for_the_controller_and_for_those_who_have_it(peopled: Peopled) -> None:
    assert peopled.says("ann", "ctl", "sudo -n id -u") == "0"
    assert peopled.login("bob", "ctl", "sudo -n true").returncode != 0
    assert peopled.login("ann", "n1", "sudo -n true").returncode != 0
    assert peopled.hosts.on("ctl", "stat -c '%a %U' /etc/sudoers.d/slurmfab; visudo -c >/dev/null && echo sound") == (
        "440 root\nsound"
    )


def test_a_second_deployment_touches_nothing(peopled: Peopled) -> None:
    before = peopled.state()
    assert peopled.hosts.deploy()["steps"] == []
    assert peopled.state() == before


def test_a_key_of_their_own_stays_and_one_that_is_not_declared_any_more_goes(peopled: Peopled) -> None:
    own, old = peopled.make_key("own"), peopled.public["ann"]
    peopled.says("ann", "n1", f"echo '{own}' >> .ssh/authorized_keys")
    peopled.write(peopled.text.replace(old, peopled.make_key("new")))
    peopled.hosts.deploy()
    assert peopled.login("ann", "n1", "true", key="ann").returncode == 255
    assert [peopled.login("ann", "n1", "true", key=key).returncode for key in ("own", "new")] == [0, 0]
    peopled.write(peopled.text.replace(peopled.public["new"], old))
    peopled.hosts.deploy()


def test_a_number_that_somebody_else_has_on_one_host_leaves_out_that_host_whose_node_gets_no_jobs(
    peopled: Peopled,
) -> None:
    text, lock = peopled.text, peopled.hosts.inventory_path.with_name(f"{peopled.hosts.inventory_path.stem}.lock.json")
    peopled.hosts.on("n2", "useradd --uid 3500 stranger; groupadd --gid 1600 dan")
    before, lock_before = peopled.state(), lock.read_text()
    added = ended(peopled.hosts.slurmfab("add-user", "dan", "--uid", "3500"), 3)
    assert "UID 3500, wanted for dan, belongs to stranger there." in words_of(added)
    assert "n2: drained: a UID or GID of the cluster is somebody else's there." in words_of(added)
    assert "drain" in peopled.hosts.on("ctl", "sinfo --noheader --Node --nodes=n2 --format=%T")
    after = peopled.state()
    assert (after["n2"], after["n1"] == before["n1"]) == (before["n2"], False)
    assert peopled.hosts.on("n1", "id -u dan") == "3500"
    ended(peopled.hosts.slurmfab("deploy"), 3)
    peopled.hosts.on("n2", "userdel stranger; groupdel dan")
    peopled.hosts.deploy()
    assert peopled.same("id -u dan") == "3500"
    succeeded(peopled.hosts.slurmfab("resume", "n2"))
    succeeded(peopled.hosts.slurmfab("remove-user", "dan"))
    peopled.write(text)
    lock.write_text(lock_before)
    peopled.hosts.deploy()


def test_somebody_who_is_added_can_log_in_and_run_jobs(peopled: Peopled) -> None:
    before, key = peopled.text, peopled.make_key("eve")
    added = succeeded(
        peopled.hosts.slurmfab("add-user", "eve", "--key", "-", "--groups", "ml", stdin=f"# eve\n{key}\n")
    )
    assert "added eve, with UID 2002" in added.stderr
    assert peopled.text.startswith(before)
    assert peopled.same("id eve") == "uid=2002(eve) gid=2002(eve) groups=2002(eve),2001(ml)"
    assert peopled.says("eve", "n1", "srun --chdir=/tmp -w n2 id -un") == "eve"
    assert peopled.hosts.deploy()["steps"] == []


def test_somebody_who_is_added_twice_gets_what_is_new_and_nothing_else(peopled: Peopled) -> None:
    again = succeeded(peopled.hosts.slurmfab("add-user", "eve", "--key", str(peopled.directory / "eve.pub")))
    assert "has all of this for eve already" in again.stderr
    assert "nothing changed" in again.stdout
    peopled.make_key("eve2")
    succeeded(peopled.hosts.slurmfab("add-user", "eve", "--key", str(peopled.directory / "eve2.pub"), "--sudo"))
    assert [peopled.login("eve", "ctl", "sudo -n true", key=key).returncode for key in ("eve", "eve2")] == [0, 0]


def test_a_private_key_is_refused(peopled: Peopled) -> None:
    before = peopled.text
    refused = peopled.hosts.slurmfab("add-user", "fred", "--key", str(peopled.directory / "eve"))
    assert (refused.returncode, peopled.text) == (2, before)
    assert "this is a private key" in words_of(refused)
    assert "OPENSSH" not in words_of(refused)


def test_somebody_whose_jobs_run_is_not_removed(peopled: Peopled) -> None:
    before = peopled.text
    job = peopled.says("eve", "ctl", "cd /tmp; sbatch --parsable -o /dev/null -w n2 --wrap 'sleep 600'")
    peopled.hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    refused = peopled.hosts.slurmfab("remove-user", "eve")
    assert (refused.returncode, peopled.text) == (1, before)
    assert f"eve has jobs: {job} (running)" in words_of(refused)
    peopled.hosts.on("ctl", f"scancel {job}")
    peopled.hosts.until("ctl", "squeue -h -u eve", "")


def test_somebody_whose_processes_run_is_not_removed_and_their_names_steer_no_terminal(peopled: Peopled) -> None:
    peopled.hosts.on("ctl", ODD_PROCESS)
    peopled.hosts.until("ctl", "pgrep -u eve -c wanted", "1")
    refused = ended(peopled.hosts.slurmfab("remove-user", "eve"), 1)
    assert "ctl: eve has processes here:" in words_of(refused)
    assert r"(\x1b[2J\x07\rwanted)" in words_of(refused)
    assert not set(refused.stderr + refused.stdout) & set("\x1b\x07\r")
    peopled.hosts.on("ctl", "systemctl stop lingering")


def test_a_job_name_steers_no_terminal(peopled: Peopled) -> None:
    peopled.says(
        "ann",
        "ctl",
        "cd /tmp; sbatch --hold -o /dev/null --job-name=\"$(printf 'x\\033[2J\\302\\233\\r')\" --wrap true",
    )
    shown = peopled.hosts.slurmfab("status", "--user", "ann")
    peopled.hosts.on("ctl", "scancel --user ann")
    assert shown.returncode == 0, words_of(shown)
    assert "Job details for user ann" in shown.stdout
    assert not set(shown.stdout + shown.stderr) & set("\x1b\x9b\r")


def test_a_host_that_speaks_german_is_understood(peopled: Peopled) -> None:
    peopled.hosts.on("n2", IN_GERMAN)
    assert peopled.hosts.on("n2", SPEAKS_GERMAN) == "1"
    try:
        broken = peopled.hosts.slurmfab("deploy")
    finally:
        peopled.hosts.on("n2", "mv /root/apt/* /etc/apt/; mv /root/lists/* /var/lib/apt/lists/", check=False)
    assert broken.returncode == 3
    assert "n2: packages:" in words_of(broken)
    told = "this host's package sources have no package {}" if PACKAGES == "debian" else "no {} 24.11.* in "
    assert told.format(PLATFORM.client) in words_of(broken)
    assert peopled.hosts.slurmfab("deploy").returncode == 0
    assert peopled.hosts.on("n2", "sinfo --version").startswith("slurm")
    checked = peopled.hosts.slurmfab("check-cluster", "--hosts", "n2", "--only", "reachable,daemons,people,munge,nodes")
    peopled.hosts.on("n2", f"rm -f /etc/environment; test ! -e {OWN} || mv {OWN} /usr/bin/apt-get")
    assert checked.returncode == 0, words_of(checked)


def test_somebody_who_is_removed_has_no_login_and_keeps_the_files(peopled: Peopled) -> None:
    peopled.hosts.on("n1", "echo results > /home/eve/thesis")
    before = peopled.text
    peopled.hosts.until("n2", "pgrep -u eve", "")
    peopled.hosts.on("n1", "systemd-run --quiet --unit=stays --uid=eve sleep 600")
    told = words_of(succeeded(peopled.hosts.slurmfab("remove-user", "eve")))
    assert "n1: eve is still a user there" in told
    assert "eve" not in peopled.text
    assert peopled.hosts.on("ctl", "getent passwd eve", check=False) == ""
    assert peopled.hosts.on("n1", "getent shadow eve | cut -d: -f2,8") == "!*:1"
    peopled.hosts.on("n1", "systemctl stop stays")
    assert peopled.hosts.deploy()["steps"]
    assert before.startswith(peopled.text.rstrip())
    assert peopled.same("id -u eve 2>/dev/null; getent group ml") == "ml:x:2001:ann"
    assert peopled.same("cat /home/eve/.ssh/authorized_keys") == ""
    assert peopled.hosts.on("n1", "cat /home/eve/thesis; stat -c %u /home/eve/thesis") == "results\n0"
    assert "eve" not in peopled.hosts.on("ctl", "cat /etc/sudoers.d/slurmfab")
    assert peopled.login("eve", "n1", "true").returncode == 255
    assert peopled.hosts.deploy()["steps"] == []


def test_a_number_of_somebody_who_has_left_is_not_given_to_another(peopled: Peopled) -> None:
    succeeded(peopled.hosts.slurmfab("add-user", "gil"))
    assert peopled.same("id -u gil") == "2003"


def test_a_host_that_was_down_gets_who_has_come_and_loses_who_has_left_later(peopled: Peopled) -> None:
    lab.kill_host(peopled.hosts.lab, "n2")
    try:
        come = peopled.hosts.slurmfab("add-user", "hal")
        gone = peopled.hosts.slurmfab("remove-user", "gil")
    finally:
        lab.start_host(peopled.hosts.lab, "n2")
    assert (come.returncode, gone.returncode) == (3, 3), words_of(come) + words_of(gone)
    assert peopled.hosts.on("n2", "id -u gil; id -u hal", check=False) == "2003"
    assert peopled.hosts.on("n1", "id -u gil; id -u hal", check=False) == "2004"
    peopled.hosts.deploy()
    assert peopled.same("id -u gil 2>/dev/null; id -u hal") == "2004"
    assert peopled.hosts.deploy()["steps"] == []


def test_somebody_who_was_taken_out_by_hand_stays_until_that_is_wanted(peopled: Peopled) -> None:
    peopled.write(peopled.text.replace("  - name: hal\n", ""))
    told = succeeded(peopled.hosts.slurmfab("deploy"))
    assert "ctl,n[1-2]: hal is not in the cluster file any more; the user was not removed." in told.stderr
    assert peopled.same("id -u hal") == "2004"
    peopled.hosts.deploy("--prune")
    assert peopled.same("id -u hal 2>/dev/null; stat -c %u /home/hal") == "2004"


def test_a_home_that_is_somebody_elses_is_told_of_and_left(peopled: Peopled) -> None:
    peopled.hosts.on("n1", "chown root /home/ann")
    told = succeeded(peopled.hosts.slurmfab("deploy"))
    assert "n1: /home/ann belongs to UID 0 and not to ann (UID 2000); it was not changed." in told.stderr
    found = ended(peopled.hosts.slurmfab("check-cluster", "--only", "people"), 1)
    assert "/home/ann belongs to UID 0 instead of ann" in found.stdout
    peopled.hosts.on("n1", "chown ann /home/ann")
    assert peopled.hosts.slurmfab("check-cluster", "--only", "people").returncode == 0


def test_what_a_user_does_to_the_home_stops_no_deployment_and_not_the_users_removal(peopled: Peopled) -> None:
    key = peopled.make_key("mallory")
    assert peopled.hosts.slurmfab("add-user", "mallory", "--key", "-", stdin=key).returncode == 0
    peopled.says("mallory", "ctl", "chmod 500 ~/.ssh")
    peopled.says("mallory", "n1", "rm -r ~/.ssh; mkdir ~/.ssh; mkfifo ~/.ssh/authorized_keys")
    peopled.write(peopled.text.replace(key, peopled.make_key("mallory2")))
    peopled.hosts.on("n2", HANGING_HOME)
    try:
        told = ended(peopled.hosts.slurmfab("deploy"), 3)
        unreached = "n2: person-home:/home/mallory: the home of mallory, /home/mallory, cannot be reached: "
        assert f"{unreached}it does not answer; is its file server up?" in told.stdout
        for host, cause in (
            ("ctl", "/home/mallory/.ssh cannot be written by its user (mode 0500"),
            ("n1", "it is not a regular file"),
        ):
            remark = "slurmfab did not write mallory's SSH keys: /home/mallory/.ssh/authorized_keys: "
            lines = [line for line in words_of(told).splitlines() if line.startswith(f"{host}: ") and remark in line]
            assert any(cause in line for line in lines), words_of(told)
        peopled.hosts.until("ctl", "pgrep -u mallory", "")
        peopled.hosts.until("n1", "pgrep -u mallory", "")
        removed = peopled.hosts.slurmfab("remove-user", "mallory")
    finally:
        peopled.hosts.on("n2", "systemctl stop hanging-home; umount -l /home/mallory", check=False)
    assert removed.returncode == 0, words_of(removed)
    assert "ctl: /home/mallory stays, with UID" in removed.stderr
    assert peopled.same("id -u mallory 2>/dev/null; getent shadow mallory; true") == ""
    assert [peopled.login("mallory", host, "true").returncode for host in HOSTS] == [255] * 3
    assert peopled.hosts.on("ctl", "grep -c mallory /home/mallory/.ssh/authorized_keys") == "1"
    assert peopled.hosts.deploy()["steps"] == []


def test_a_node_that_joins_gets_all_people_unless_somebody_there_is_in_the_way(peopled: Peopled) -> None:
    succeeded(peopled.hosts.slurmfab("remove-node", "n2"))
    peopled.hosts.on("n2", "systemctl stop user@2000; userdel ann; useradd --uid 2000 stranger")
    join = ("add-node", peopled.hosts.lab.host("n2").address, "--accept-new-host-keys")
    before = peopled.text
    refused = ended(peopled.hosts.slurmfab(*join), 1)
    assert "n2: UID 2000, wanted for ann, belongs to stranger there." in words_of(refused)
    assert peopled.text == before
    peopled.hosts.on("n2", "userdel stranger")
    succeeded(peopled.hosts.slurmfab(*join))
    assert peopled.same("id ann") == "uid=2000(ann) gid=2000(ann) groups=2000(ann),44(video),2001(ml)"
    assert peopled.says("ann", "ctl", "srun --chdir=/tmp -w n2 id -un") == "ann"


def test_people_are_left_to_a_directory_service_where_the_file_says_so(peopled: Peopled) -> None:
    before, text = peopled.state(), peopled.text
    peopled.write(f"{text.partition('users:')[0]}unix_users: false\nusers: [{{name: ann}}]\n")
    assert peopled.hosts.deploy("--prune")["steps"] == []
    assert peopled.state() == before
    assert peopled.hosts.slurmfab("check-cluster", "--only", "people").returncode == 0
    peopled.hosts.on("n1", "usermod --uid 4000 ann")
    found = ended(peopled.hosts.slurmfab("check-cluster", "--only", "people"), 1)
    assert "ann has UID and GID 4000 and 2000, not 2000 and 2000" in found.stdout


def test_a_node_that_does_not_let_itself_be_cleaned_when_it_is_abandoned_then_it_is_out_and_others_get_a_new_key(
    peopled: Peopled,
) -> None:
    hosts = peopled.hosts
    hosts.on("n2", "mount --bind /etc/munge /etc/munge && mount -o remount,ro,bind /etc/munge")
    for words in (("rotate-munge-key",), ("remove-node", "n2", "--now")):
        assert "remove-node n2 --abandon" in words_of(ended(hosts.slurmfab(*words), 1))
    assert "n2" in hosts.inventory_path.read_text()
    said = words_of(succeeded(hosts.slurmfab("remove-node", "n2", "--now", "--abandon")))
    assert "n2: not contacted, so munge key, SSH keys and daemons are still there" in said
    assert "n2" not in hosts.inventory_path.read_text()
    key = hosts.on("n2", "sha256sum /etc/munge/munge.key")
    succeeded(hosts.slurmfab("rotate-munge-key"))
    assert hosts.on("n1", "sha256sum /etc/munge/munge.key") != key
    assert hosts.on("n2", "sha256sum /etc/munge/munge.key") == key
    assert hosts.on("ctl", AS_SLURM + "srun -w n1 hostname") == "n1"
