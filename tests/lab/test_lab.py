"""The lab itself, for real: what its hosts are like, and that nothing of it stays behind."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import other_nspawn
import pytest
from suites import SUITES

from slurmfab import lab
from slurmfab.base.errors import InputError, LabError
from slurmfab.lab import Lab, LabSpec, machine

pytestmark = pytest.mark.lab

ROUGH = LabSpec(
    name="trough",
    suite="trixie",
    nodes=4,
    gpus=("n1:2",),
    no_python=("n2",),
    ssh_user="admin",
    sudo_password=True,
    down=("n3",),
    hanging=("n4",),
    packages=("n1:psmisc",),
)
KILLED = "tkilled"
LABS = Path("/var/lib/slurmfab/labs")
GOES_UP = """
import sys
from pathlib import Path
from slurmfab import lab
lab.up(lab.LabSpec(name=sys.argv[1], suite="bookworm", no_python=("n1",)), Path(sys.argv[2]))
"""
OBSTACLES = "from slurmfab.lab import needs; print(*needs.obstacles(), sep='\\n', end='')"


def poll(condition: Callable[[], bool], what: str, patience: float = 60.0) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience} s: {what}"
        time.sleep(0.005)


def leftovers(name: str) -> list[str]:
    """Everything on this machine that carries the names of a lab, as the machine's own tools list it."""

    def listing(*argv: str) -> list[str]:
        # No check: `find` fails when things of other labs go while it looks.
        return subprocess.run(argv, check=False, capture_output=True, text=True).stdout.splitlines()

    assert listing("ip", "-o", "link")
    found = Path("/proc/self/mountinfo").read_text().splitlines()
    found += listing("ip", "-o", "link") + listing("ip", "route") + listing("ip", "netns")
    found += listing("nft", "list", "tables") + listing("ps", "-e", "-o", "pid,args")
    places = ("/sys/fs/cgroup", "/run/systemd/nspawn", "/run/netns", "/var/lib/slurmfab", "/var/cache/slurmfab")
    found += listing("find", *places, "-maxdepth", "5")
    marks = (f"sf-{name}", f"sf{name}-", f"slurmfab_{name}", f"slurmfab-{name}", f"labs/{name}")
    return [line for line in found if any(mark in line for mark in marks)]


def routes_into(network: str) -> list[str]:
    """First words of the routes to exactly this network: `unreachable`, or the network itself."""
    command = ["ip", "route", "show", "exact", network]
    return [
        line.split()[0]
        for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    ]


def ssh(made: Lab, host: str, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    options = ["-F", str(made.directory / "ssh_config"), "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
    return subprocess.run(["ssh", *options, host, *words], input=text, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def rough(tmp_path_factory) -> Iterator[Lab]:
    lab.down(ROUGH.name)
    yield lab.up(ROUGH, tmp_path_factory.mktemp("rough"))
    lab.down(ROUGH.name)
    assert leftovers(ROUGH.name) == []


@pytest.fixture
def no_lab() -> Iterator[str]:
    lab.down(KILLED)
    yield KILLED
    lab.down(KILLED)


def test_host_when_reached_by_ssh_then_its_key_is_the_one_in_the_lock(rough):
    answer = ssh(rough, "n1", "hostname")
    assert (answer.returncode, answer.stdout) == (0, "n1\n")
    lock = json.loads(rough.cluster_file.with_suffix(".lock.json").read_text())
    shown = lab.run(rough, "n1", ["cat", "/etc/ssh/ssh_host_ed25519_key.pub"]).stdout.split()[1]
    assert lock["hosts"]["n1"]["host_keys"]["ssh-ed25519"] == shown
    assert lock["hosts"]["ctl"]["host_keys"]["ssh-ed25519"] != shown


def test_host_when_it_is_up_then_systemd_has_nothing_to_complain_about(rough):
    assert lab.run(rough, "n1", ["systemctl", "is-system-running", "--wait"]).stdout == "running\n"


def test_host_when_it_is_up_then_it_knows_no_other_host_by_name(rough):
    assert lab.run(rough, "n1", ["getent", "hosts", "n1"]).returncode == 0
    assert lab.run(rough, "n1", ["getent", "hosts", "ctl"]).returncode == 2
    assert lab.run(rough, "n1", ["ping", "-c1", "-W2", rough.host("ctl").address]).returncode == 0


def test_host_when_it_is_up_then_slurm_is_not_installed_but_at_hand(rough):
    assert lab.run(rough, "n1", ["sh", "-c", "command -v slurmd munged"]).returncode != 0
    packages = ["munge", "slurmctld", "slurmd", "slurm-client", "slurmdbd", "mariadb-server"]
    fetched = lab.run(rough, "ctl", ["apt-get", "install", "--yes", "--no-download", "--download-only", *packages])
    assert fetched.returncode == 0, fetched.stderr


def test_host_when_it_has_packages_from_the_start_then_other_hosts_do_not(rough):
    assert lab.run(rough, "n1", ["fuser", "--version"]).returncode == 0
    assert lab.run(rough, "ctl", ["sh", "-c", "command -v fuser"]).returncode != 0


def test_host_when_it_is_up_then_it_reaches_the_package_mirror_and_gets_the_whole_lists(rough):
    other = ["apt-cache", "show", "hello"]
    assert lab.run(rough, "ctl", other).returncode != 0, "the lists name only what is installed or was fetched"
    updated = lab.run(rough, "ctl", ["apt-get", "update", "--error-on=any"])
    assert updated.returncode == 0, updated.stderr
    assert lab.run(rough, "ctl", other).returncode == 0


def test_host_when_controllers_are_mounted_then_it_can_make_cgroups_in_them(rough):
    script = (
        "for d in $(awk '$3 == \"cgroup\" {print $2}' /proc/mounts); do mkdir $d/try && rmdir $d/try || exit 1; done"
    )
    done = lab.run(rough, "n1", ["sh", "-c", script])
    assert done.returncode == 0, done.stderr


def test_host_when_asked_for_without_python_then_only_that_one_has_none(rough):
    assert ssh(rough, "n2", "command -v python3").returncode != 0
    assert ssh(rough, "n1", "python3 -c 'import shutil, json'").returncode == 0
    installed = lab.run(rough, "n2", ["apt-get", "install", "--yes", "--no-download", "python3"])
    assert installed.returncode == 0, installed.stderr


def test_host_when_sudo_asks_for_a_password_then_the_labs_password_opens_it(rough):
    assert ssh(rough, "n1", "sudo -n true").returncode != 0
    file = rough.directory / "sudo_password"
    assert file.stat().st_mode & 0o777 == 0o600
    assert ssh(rough, "n1", "sudo -S -p '' id -u", text=file.read_text()).stdout == "0\n"


def test_host_when_it_has_stand_in_gpus_then_devices_and_nvidia_smi_agree(rough):
    assert len(ssh(rough, "n1", "nvidia-smi -L").stdout.splitlines()) == 2
    devices = ssh(rough, "n1", "stat -c '%n %F %t %T' /dev/nvidia0 /dev/nvidia1").stdout.splitlines()
    assert devices == ["/dev/nvidia0 character special file c3 0", "/dev/nvidia1 character special file c3 1"]
    assert ssh(rough, "n2", "nvidia-smi -L").returncode == 127


def test_status_when_hosts_are_down_and_hanging_then_it_tells_them_apart(rough):
    states = {host.name: host.state for host in lab.status(rough.name)}
    assert states == {"ctl": "answers", "n1": "answers", "n2": "answers", "n3": "off", "n4": "silent"}
    assert "n3" in rough.cluster_file.read_text()


def test_host_when_its_power_fails_and_returns_then_its_files_are_there(rough):
    lab.run(rough, "n1", ["touch", "/root/kept"])
    lab.kill_host(rough, "n1")
    killed = {host.name: (host.state, host.pid) for host in lab.status(rough.name)}
    assert killed["n1"] == ("off", None)
    with pytest.raises(LabError, match="switched off"):
        lab.run(rough, "n1", ["true"])
    lab.start_host(rough, "n1")
    assert lab.run(rough, "n1", ["test", "-e", "/root/kept"]).returncode == 0
    assert ssh(rough, "n1", "nvidia-smi -L").returncode == 0


def test_host_when_it_was_down_from_the_start_then_it_can_be_switched_on(rough):
    lab.start_host(rough, "n3")
    assert ssh(rough, "n3", "hostname").stdout == "n3\n"
    lab.kill_host(rough, "n3")


def test_up_when_the_lab_is_up_already_then_it_is_left_alone(rough, tmp_path):
    with pytest.raises(LabError, match="is up already"):
        lab.up(ROUGH, tmp_path)
    assert ssh(rough, "ctl", "true").returncode == 0


def test_up_when_the_cluster_file_is_somebody_elses_then_nothing_is_started(tmp_path):
    mine = tmp_path / f"lab-{KILLED}.yaml"
    mine.write_text("cluster: mine\n")
    with pytest.raises(InputError, match="was not written by a lab"):
        lab.up(LabSpec(name=KILLED, suite="bookworm"), tmp_path)
    assert mine.read_text() == "cluster: mine\n"
    assert leftovers(KILLED) == []


def test_labs_when_two_are_up_then_removing_one_leaves_the_other(rough, no_lab, tmp_path):
    other = lab.up(LabSpec(name=no_lab, suite="bookworm", nodes=1), tmp_path)
    assert not {host.address for host in other.hosts} & {host.address for host in rough.hosts}
    assert "12" in lab.run(other, "ctl", ["cat", "/etc/debian_version"]).stdout
    network = json.loads((other.directory / "state.json").read_text())["network"]
    assert sorted(routes_into(network)) == [network, "unreachable"]
    root = (other.directory / "hosts/n1/root").stat()
    nspawn_lock = Path(f"/run/systemd/nspawn/locks/inode-{root.st_dev}:{root.st_ino}")
    assert nspawn_lock.exists()
    lab.down(no_lab)
    assert leftovers(no_lab) == []
    assert not nspawn_lock.exists()
    assert routes_into(network) == []
    assert not other.cluster_file.exists()
    assert ssh(rough, "ctl", "true").returncode == 0


def test_host_when_it_is_as_an_installer_leaves_it_then_it_has_no_package_lists_and_a_loopback_name(no_lab, tmp_path):
    spec = LabSpec(name=no_lab, suite="bookworm", nodes=1, ssh_user="admin", apt_lists=False, loopback_name=True)
    made = lab.up(spec, tmp_path)
    assert ssh(made, "n1", "sudo -n id -u").stdout == "0\n"
    assert ssh(made, "n1", "getent ahostsv4 n1").stdout.startswith("127.0.1.1 ")
    assert "Candidate: 22.05" not in ssh(made, "n1", "apt-cache policy slurmd").stdout
    assert ssh(made, "n1", "sudo apt-get update").returncode == 0
    assert "Candidate: 22.05" in ssh(made, "n1", "apt-cache policy slurmd").stdout


def test_up_when_the_bridge_is_gone_then_the_lab_counts_as_down_and_starts_anew(no_lab, tmp_path):
    spec = LabSpec(name=no_lab, suite="bookworm", nodes=1)
    lab.up(spec, tmp_path)
    subprocess.run(["ip", "link", "delete", f"sf-{no_lab}"], check=True)
    with pytest.raises(InputError, match="There is no lab"):
        lab.load(no_lab)
    made = lab.up(spec, tmp_path)
    assert ssh(made, "n1", "hostname").stdout == "n1\n"


def test_down_when_there_is_no_lab_then_it_is_done(no_lab):
    lab.down(no_lab)
    assert no_lab not in lab.names()


@pytest.mark.parametrize(
    "moment",
    [
        LABS / KILLED,
        LABS / KILLED / "state.json",
        Path("/sys/class/net", f"sf-{KILLED}"),
        LABS / KILLED / "hosts/n1/root/etc/hostname",
        LABS / KILLED / "ssh_config",
        Path("/sys/class/net", f"sf{KILLED}-n1"),
        LABS / KILLED / "hosts/ctl/console.log",
        LABS / KILLED / "hosts/n2/console.log",
    ],
    ids=lambda path: "-".join(path.parts[-2:]),
)
def test_down_when_up_was_killed_then_nothing_is_left(no_lab, tmp_path, moment):
    process = subprocess.Popen([sys.executable, "-c", GOES_UP, no_lab, str(tmp_path)], start_new_session=True)
    poll(lambda: os.path.lexists(moment) or process.poll() is not None, f"{moment} exists")
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    # What it had just begun of the network outlives it by an instant, in which `down` would look too early.
    poll(lambda: subprocess.run(["pgrep", "-g", str(process.pid), "-x", "ip"], check=False).returncode == 1, "ip ends")
    lab.down(no_lab)
    assert leftovers(no_lab) == []
    assert list(tmp_path.iterdir()) == []


def test_down_when_a_base_tree_was_half_built_then_neither_it_nor_its_builder_is_left(no_lab, tmp_path):
    other_recipe = "from slurmfab.lab import base\nbase.MASKED += ' unheard-of.service'\n"
    process = subprocess.Popen(
        [sys.executable, "-c", other_recipe + GOES_UP, no_lab, str(tmp_path)], start_new_session=True
    )
    half = Path(f"/var/cache/slurmfab/.building-bookworm-{process.pid}")
    # Another test process may be building a tree, which it waits for.
    poll((half / "tree/usr/bin/dpkg").exists, "packages are being unpacked", patience=300)
    process.send_signal(signal.SIGKILL)
    process.wait()
    lab.down(no_lab)
    assert not half.exists()
    arguments = subprocess.run(["ps", "-e", "-o", "args"], check=True, capture_output=True, text=True).stdout
    assert half.name not in arguments


def test_up_when_an_earlier_up_was_killed_then_it_starts_anew(no_lab, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", GOES_UP, no_lab, str(tmp_path)], start_new_session=True)
    poll((LABS / no_lab / "hosts/ctl/console.log").exists, "the controller boots")
    process.send_signal(signal.SIGKILL)
    process.wait()
    made = lab.up(LabSpec(name=no_lab, suite="bookworm", nodes=1), tmp_path)
    assert [host.state for host in lab.status(made.name)] == ["answers", "answers"]


def test_lab_of_the_newest_systemd_nspawn_when_it_ended_in_any_way_then_starts_again(no_lab, tmp_path, monkeypatch):
    others = Path("/run/systemd/nspawn/unix-export/somebody-elses")
    other_nspawn.use(SUITES[-1], tmp_path / "bin", monkeypatch)
    made = lab.up(LabSpec(name=no_lab, suite="bookworm", nodes=1), tmp_path)
    assert len(other_nspawn.running(no_lab)) == 2
    assert all(f"/{SUITES[-1]}-" in words for words in other_nspawn.running(no_lab).values())
    lab.kill_host(made, "n1")
    assert [line for line in leftovers(no_lab) if "/run/systemd/nspawn" in line and line.endswith("-n1")] == []
    lab.start_host(made, "n1")
    for pid in other_nspawn.running(no_lab):
        os.kill(pid, signal.SIGKILL)
    lab.kill_host(made, "n1")
    lab.start_host(made, "n1")
    for pid in other_nspawn.running(no_lab):
        os.kill(pid, signal.SIGKILL)
    others.mkdir(parents=True)
    lab.down(no_lab)
    assert leftovers(no_lab) == []
    others.rmdir()
    process = subprocess.Popen([sys.executable, "-c", GOES_UP, no_lab, str(tmp_path)], start_new_session=True)
    poll((LABS / no_lab / "hosts/ctl/console.log").exists, "the controller boots")
    process.send_signal(signal.SIGKILL)
    process.wait()
    lab.up(LabSpec(name=no_lab, suite="bookworm", nodes=1), tmp_path)
    assert {host.state for host in lab.status(no_lab)} == {"answers"}


ON_AN_OVERLAY = """
import subprocess, sys
from pathlib import Path
from slurmfab import lab
place, name, directory = "/var/lib/slurmfab", sys.argv[1], Path(sys.argv[2])
layers = [directory / one for one in ("lower", "upper", "work")]
for layer in layers:
    layer.mkdir()
options = "lowerdir=%s,upperdir=%s,workdir=%s" % tuple(layers)
subprocess.run(["mount", "-t", "overlay", "containers-root", "-o", options, place], check=True)
try:
    made = lab.up(lab.LabSpec(name=name, suite="bookworm", nodes=1), directory, progress=print)
    print("hostname:", lab.run(made, "n1", ["hostname"]).stdout)
finally:
    lab.down(name)
"""


def test_lab_on_an_overlay_as_containers_have_it_when_started_then_its_disks_are_in_memory(no_lab, tmp_path):
    command = ["unshare", "--mount", sys.executable, "-c", ON_AN_OVERLAY, no_lab, str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = "/var/lib/slurmfab is on a file system (overlayfs) that cannot hold the disks of hosts, as in a container"
    assert done.stdout.count(told) == 1
    assert "hostname: n1" in done.stdout
    assert leftovers(no_lab) == []


@pytest.mark.parametrize(("before", "told"), [("true", []), ("mount --bind -o ro /proc/sys /proc/sys", ["sysctl -w"])])
def test_needs_when_settings_are_as_the_kernel_starts_them_then_only_those_that_cannot_be_raised_are_told(before, told):
    # Network namespaces start with the kernel's own values, as a machine on which no lab has run.
    script = f"{before} && exec {sys.executable} -c {shlex.quote(OBSTACLES)}"
    done = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", script], check=True, capture_output=True, text=True
    )
    found = done.stdout.splitlines()
    assert len(found) == len(told)
    assert all(part in line for part, line in zip(told, found, strict=True))


NODES, MANAGEMENT = "tfwd-a", "tfwd-b"  # network namespaces as two networks of this machine
ALONE = "tfwd-m"  # one as a machine of its own

RECEIVES = """
import socket
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as ear:
    ear.bind(("::", 623))
    ear.settimeout(60)
    print("ready", flush=True)
    ends = 0
    while ends < 2:
        word, place = ear.recvfrom(99)
        ends += word == b"end"
        if word == b"out":
            ear.sendto(b"answer", place)
        print(word.decode(), place[0].removeprefix("::ffff:"))
"""
SENDS = """
import socket, sys
for word, source, target in (words.split() for words in sys.argv[1:]):
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as mouth:
        mouth.bind((source, 0))
        mouth.sendto(word.encode(), (target, 623))
        if word == "out":
            mouth.settimeout(30)
            assert mouth.recv(9) == b"answer"
"""
LABS_NETWORKS = """
import sys
from ipaddress import IPv4Network
from pathlib import Path
from slurmfab.lab import machine, network
from slurmfab.lab.layout import LabLayout
machine.MEMORY, machine.WANTED = Path(sys.argv[1]), {machine.FORWARDING: 1}
for word in sys.argv[2:]:
    lab, _, place = word.partition("=")
    if word == "restore":
        machine.restore()
    elif place:
        net = IPv4Network(place)
        machine.prepare()
        network.make_network(LabLayout(lab), net, ipv6=True)
        for host, places in network.host_addresses(net, ["n1", "n2"], dual=["n1", "n2"]).items():
            network.plug_in(LabLayout(lab).host(host), places, net)
    else:
        network.remove_network(LabLayout(lab), "")
"""


def inside(namespace: str, *argv: str) -> list[str]:
    """The command to run a program in a network namespace; this machine's own if it is empty."""
    return [*(["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []), *argv]


def batch(namespace: str, *commands: str) -> None:
    subprocess.run(inside(namespace, "ip", "-batch", "-"), input="\n".join(commands), text=True, check=True)


@contextmanager
def two_networks(of: str) -> Iterator[None]:
    """Two networks of this machine, or of one that is a namespace, with a machine in each whose gateway it is."""
    made = [one for one in (of, NODES, MANAGEMENT) if one]
    try:
        for name in made:
            subprocess.run(["ip", "netns", "add", name], check=True)
        for name, number in ((NODES, 81), (MANAGEMENT, 82)):
            batch(
                of,
                f"link add {name} type veth peer name eth0 netns {name}",
                f"address add 198.18.{number}.1/24 dev {name}",
                f"address add 2001:db8:{number}::1/64 dev {name} nodad",
                f"link set {name} up",
                *(["link set lo up"] if of else []),
            )
            batch(
                name,
                "link set lo up",
                f"address add 198.18.{number}.2/24 dev eth0",
                f"address add 2001:db8:{number}::2/64 dev eth0 nodad",
                "link set eth0 up",
                f"route add default via 198.18.{number}.1",
                f"route add default via 2001:db8:{number}::1",
            )
        yield
    finally:
        for name in (NODES, MANAGEMENT):
            subprocess.run(inside(of, "ip", "link", "delete", name), check=False)
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def heard(receivers: Iterable[str], sent: dict[str, list[str]], ends: list[str], of: str) -> dict[str, set[str]]:
    """What arrives in namespaces, as `WORD SOURCE`, of what is sent: `WORD SOURCE TARGET`, by namespace.

    `ends`: sent last, by the machine `of` itself, which always arrives, and before which all else has.
    """
    python = (sys.executable, "-c")
    ears = {
        name: subprocess.Popen(inside(name, *python, RECEIVES), stdout=subprocess.PIPE, text=True) for name in receivers
    }
    try:
        for ear in ears.values():
            assert ear.stdout is not None
            assert ear.stdout.readline() == "ready\n"
        for name, words in (*sent.items(), (of, ends)):
            subprocess.run(inside(name, *python, SENDS, *words), check=True)
        lines = {name: ear.communicate()[0].splitlines() for name, ear in ears.items()}
        assert {ear.returncode for ear in ears.values()} == {0}
    finally:
        for ear in ears.values():
            ear.kill()
            ear.wait()
    return {name: {line for line in found if not line.startswith("end ")} for name, found in lines.items()}


def test_lab_when_it_is_up_then_this_machine_forwards_to_and_from_its_hosts_alone_and_nobody_passes_as_one(rough):
    was_off = machine.FORWARDING in json.loads(machine.MEMORY.read_text())
    passes = set() if was_off else {"across 198.18.81.2"}
    host = rough.host("n1").address
    false = host.rpartition(".")[0] + ".200"
    connect = f"timeout 2 bash -c '</dev/tcp/{host}/22'"
    with two_networks(""):
        batch(NODES, f"address add {false}/32 dev lo")
        sent = {NODES: ["across 198.18.81.2 198.18.82.2", f"false {false} 198.18.82.2"]}
        ends = ["end 198.18.82.1 198.18.82.2"] * 2
        assert heard([MANAGEMENT], sent, ends, "") == {MANAGEMENT: passes}
        assert subprocess.run(inside(NODES, "sh", "-c", connect), check=False).returncode == 124
    assert subprocess.run(["sh", "-c", connect], check=False).returncode == 0


@pytest.mark.parametrize("forwarded", [False, True])
def test_labs_when_forwarding_was_off_or_on_then_other_networks_are_as_before_and_no_lab_is_reached_from_outside(
    tmp_path, forwarded
):
    """In network namespaces alone: a machine with two networks and two labs, of which the second goes first."""

    def labs(*words: str) -> None:
        argv = inside(ALONE, sys.executable, "-c", LABS_NETWORKS, str(tmp_path / "machine.json"), *words)
        subprocess.run(argv, check=True)

    def setting(words: str) -> str:
        done = subprocess.run(inside(ALONE, "sysctl", "-n", *words.split()), check=True, capture_output=True, text=True)
        return done.stdout.strip()

    first, near, second = "sf-tfwdx-n1", "sf-tfwdx-n2", "sf-tfwdy-n1"
    always = {"out 198.18.82.1", "across6 2001:db8:81::2"}
    passes = {"across 198.18.81.2"} if forwarded else set()
    sent = {
        NODES: [
            "across 198.18.81.2 198.18.82.2",
            "across6 2001:db8:81::2 2001:db8:82::2",
            "false 198.18.73.200 198.18.82.2",
            "into 198.18.81.2 198.18.73.10",
            "into6 2001:db8:81::2 fd53:6c66:c612:4900::10",
        ],
        first: [
            "out 198.18.73.10 198.18.82.2",
            "out6 fd53:6c66:c612:4900::10 2001:db8:82::2",
            "other 198.18.81.77 198.18.82.2",
            "near6 fd53:6c66:c612:4900::10 fd53:6c66:c612:4900::11",
            "among 198.18.73.10 198.18.74.10",
        ],
    }
    ends = ["end 198.18.82.1 198.18.82.2", "end 2001:db8:82::1 2001:db8:82::2"]
    for last in (10, 11):
        ends += [f"end 198.18.73.1 198.18.73.{last}", f"end fd53:6c66:c612:4900::1 fd53:6c66:c612:4900::{last}"]
    of_second = ["end 198.18.74.1 198.18.74.10", "end fd53:6c66:c612:4a00::1 fd53:6c66:c612:4a00::10"]
    with two_networks(ALONE):
        setting(f"-w net.ipv4.ip_forward={int(forwarded)} net.ipv6.conf.all.forwarding=1")
        if Path("/proc/sys/net/bridge").exists():  # packets between hosts of one bridge come to these rules as well
            setting("-w net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1")
        try:
            labs("tfwdx=198.18.73.0/24", "tfwdy=198.18.74.0/24")
            assert setting("net.ipv4.ip_forward") == "1"
            batch(NODES, "address add 198.18.73.200/32 dev lo")
            batch(first, "address add 198.18.81.77/32 dev lo", "route add default via fd53:6c66:c612:4900::1")
            wanted = {MANAGEMENT: always | passes, first: set(), near: {"near6 fd53:6c66:c612:4900::10"}}
            assert heard([*wanted, second], sent, ends + of_second, ALONE) == wanted | {second: set()}
            labs("tfwdy")
            assert heard(wanted, sent, ends, ALONE) == wanted
            # Its remains, before the last settings are restored, open nothing either.
            labs("tfwdx")
            only = {NODES: ["across 198.18.81.2 198.18.82.2"]}
            assert heard([MANAGEMENT], only, ends[:2], ALONE) == {MANAGEMENT: passes}
            labs("restore")
            assert setting("net.ipv4.ip_forward") == str(int(forwarded))
            tables = inside(ALONE, "nft", "list", "tables")
            assert subprocess.run(tables, check=True, capture_output=True, text=True).stdout == ""
        finally:
            for name in (first, near, second, second.replace("n1", "n2")):
                subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)
