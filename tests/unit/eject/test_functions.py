"""The shell functions of an ejected cluster: they make what slurmfab itself makes of the same files."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from sshd_pam import AUTHSELECTS, COMMON, DEBIANS, ENTERPRISE_LINUXS

from slurmfab.commands.eject.saying import say
from slurmfab.commands.eject.script import Script
from slurmfab.commands.eject.scripts import needed_functions
from slurmfab.on_hosts.agent.core.resource import Context, Resource
from slurmfab.on_hosts.agent.files.hostbased_logins import REFUSED_HERE, HostbasedLogins
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.server_certificate import ServerCertificate
from slurmfab.on_hosts.agent.files.shared_names import SharedNames
from slurmfab.on_hosts.agent.packages import slurm_release
from slurmfab.on_hosts.agent.packages.packages import Packages
from slurmfab.on_hosts.agent.people import node_logins
from slurmfab.on_hosts.agent.people.node_logins import NodeLogins
from slurmfab.on_hosts.agent.slurm import package_source
from slurmfab.on_hosts.agent.slurm.package_source import SlurmSource

RELEASE = "VERSION_CODENAME=trixie\n"
ONE_LINE = """\
# deb http://old.example trixie main
deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/one.gpg] http://one.example/debian trixie main contrib # ours
deb-src http://one.example/debian trixie main
"""
STANZAS = """\
Types: deb deb-src
URIs: http://no.example/debian
Suites: trixie
Components: main
Enabled: no

# The mirror.
Types: deb
URIs: http://two.example/debian
Suites: trixie trixie-updates
Components: main non-free-firmware
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
"""
SOURCES = "/etc/apt/sources.list.d/debian.sources"
NAMED = ("slurm*", "libslurm*")


def play(root: Path, lines: list[str], before: str = "") -> None:
    """Run lines of a script on files below a directory, by the user who runs the tests."""
    functions = "\n".join(needed_functions(lines))
    script = "\n".join([f"set -euo pipefail\nchown() {{ :; }}\n{functions}", before, *lines])
    for place in ("/etc/", "/run/tmpfiles.d", "/usr/lib/tmpfiles.d"):
        script = script.replace(place, f"{root}{place}")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def write(root: Path, **files: str) -> Context:
    """Write files below a directory."""
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return Context(str(root))


def texts(root: Path, *paths: str) -> list[str | None]:
    """The texts of files below a directory, `None` for none."""
    places = [root / path.lstrip("/") for path in paths]
    return [place.read_text().replace(str(root), "") if place.exists() else None for place in places]


@pytest.mark.parametrize(
    ("sshd", "of_sessions"),
    [
        (DEBIANS, {"/etc/pam.d/common-session": COMMON}),
        (ENTERPRISE_LINUXS, {"/etc/pam.d/password-auth": AUTHSELECTS}),
        ("account required pam_permit.so\n", {}),
    ],
    ids=["debian", "enterprise linux", "neither"],
)
def test_pam_of_a_node_that_is_closed_then_is_as_slurmfab_writes_it_also_again(
    tmp_path: Path, sshd: str, of_sessions: dict[str, str]
) -> None:
    context = write(tmp_path, **{node_logins.SSHD: sshd, **of_sessions})
    closed = NodeLogins(("bob", "slurm"), "cn1")
    wanted = closed.wanted(context)
    paths = (node_logins.EXEMPT, node_logins.ACCOUNT, node_logins.SESSION, node_logins.SSHD)
    for _ in range(2):
        play(tmp_path, say(Script(), closed), "unset SUDO_USER")
        assert texts(tmp_path, *paths) == [wanted[path] for path in paths]


@pytest.mark.parametrize(
    ("path", "text"), [("/etc/apt/sources.list", ONE_LINE), (SOURCES, STANZAS)], ids=["one line", "deb822"]
)
def test_another_suite_of_a_host_then_comes_from_the_mirror_of_its_own(tmp_path: Path, path: str, text: str) -> None:
    context = write(tmp_path, **{path: text, "/etc/os-release": RELEASE})
    source = SlurmSource(suite="trixie-backports", version="26.05.*", names=NAMED)
    (line,) = [line for line in said(source) if line.startswith("put_other_suite")]
    play(tmp_path, [line])
    assert texts(tmp_path, slurm_release.SOURCES) == [source.text(context)]


def test_another_suite_that_the_host_has_already_then_gets_no_file(tmp_path: Path) -> None:
    both = {"/etc/apt/sources.list": ONE_LINE, SOURCES: STANZAS.replace("trixie-updates", "trixie-backports")}
    write(tmp_path, **both, **{"/etc/os-release": RELEASE})
    play(tmp_path, ["put_other_suite trixie-backports /etc/apt/sources.list.d/slurmfab-slurm.sources"])
    assert texts(tmp_path, slurm_release.SOURCES) == [None]


@pytest.mark.parametrize("version", ["", "26.05.*", "26.05.5"])
@pytest.mark.parametrize("release", [("Debian", "", "trixie-backports", "stable-backports"), ("", "", "", "")])
def test_pins_of_a_source_then_are_those_that_slurmfab_makes(
    tmp_path: Path, version: str, release: tuple[str, str, str, str]
) -> None:
    source = SlurmSource(uris=("https://deb.example.org/slurm",), suites=("./",), version=version, names=NAMED)
    shown = "|".join(
        f"{key}={value or '$(' + word + ')'}"
        for key, word, value in zip("olna", ("ORIGIN", "LABEL", "CODENAME", "SUITE"), release, strict=True)
    )
    (line,) = [line for line in said(source) if line.startswith("pin_slurm")]
    tells = f"apt-get() {{ [ $1 = update ] || echo '/etc/apt/sources.list.d/slurmfab-slurm.sources:1|./|{shown}'; }}"
    play(tmp_path, [line], tells)
    assert texts(tmp_path, package_source.PREFERENCES) == [source.pins([slurm_release.Release(*release)])]


def said(resource: Resource) -> list[str]:
    """The commands for a resource."""
    return say(Script(), resource)


def test_packages_then_have_the_versions_of_the_cluster_file() -> None:
    wanted = Packages(("munge", "slurmd", "tree"), versions=("tree=2.1*",), slurm=("slurmd", "libslurm43", "slurmctld"))
    script = Script(packages={"slurmd": "26.05.5-1", "libslurm43": "26.05.5-1"})
    assert say(script, wanted) == ["install_packages munge slurmd 'tree=2.1*'"]
    with_version = Packages(wanted.names, slurm=wanted.slurm, slurm_version="26.05.5")
    assert say(script, with_version) == ["install_packages 'libslurm43=26.05.5-*' munge 'slurmd=26.05.5-*' tree"]


def test_a_certificate_then_is_one_that_slurmfab_takes_and_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "certificates"
    wanted = ServerCertificate(("10.0.0.1", "ctl"), directory=str(place))
    lines = said(wanted)
    run = """mktemp() { if [ "$2" = -p ]; then command mktemp -d; else command mktemp "$@"; fi; }"""
    play(tmp_path, lines, run)
    before = (place / "server.pem").read_bytes()
    there = wanted.actual(Context("/"))
    assert {name: there[name] for name in there if not name.startswith("/")} == {
        name: value for name, value in wanted.wanted(Context("/")).items() if not name.startswith("/")
    }
    assert (place / "ca.crt").read_text() in (place / "authority.pem").read_text()
    play(tmp_path, lines, run)
    assert (place / "server.pem").read_bytes() == before


SUDOERS = r"""
Defaults env_reset, mail_badpass
Host_Alias HERE = n1, n2
Cmnd_Alias STOP = /sbin/halt, \
    /sbin/reboot
User_Alias OPS = alma, \
    bea
User_Alias MORE = %#1500
root ALL=(ALL:ALL) ALL
%sudo ALL=(ALL:ALL) ALL
OPS, MORE HERE=STOP
#1003 ALL=/bin/dd
#1999 ALL=/bin/dd
!carl, d.o@u HERE = NOPASSWD: ALL, !STOP
"""
DOAS = "# who may\npermit nopass doug as root\npermit persist :wheels\npermit setenv { A B }1004\ndeny eve\n"
PASSWD = (
    "root:x:0:0:::\nsyslog:x:104:110:::\nann:x:1001:100:::\nulf:x:1003:100:::\nCarla:x:1005:100:::\n"
    "cara2:x:1005:100:::\nuta:x:1004:100:::\nodd:x:a:b:::\n"
)
GROUP = "root:x:0:\nrooters:x:1500:\nrooters2:x:1500:\nothers:x:100:\nusers:x:100:\n"


RULED = [
    {"username": "root"}, {"usergroup": "sudo"}, {"useralias": "OPS"}, {"useralias": "MORE"}, {"useralias": "DAVE"},
    {"userid": 1003}, {"userid": 1999}, {"username": "d.o@u"}, {"username": "CARLA"}, {"usergroup": "Domänen-Admins"},
    {"nonunixgroup": "Domain Users"},
]  # fmt: skip
"""Whom these rules name, as cvtsudoers(1) says it in JSON."""

ALIASES = {
    "OPS": [{"username": "alma"}, {"username": "bea", "negated": True}, {"useralias": "LAST"}],
    "MORE": [{"usergid": 1500}],
    "LAST": [{"username": "zoe"}],
    "UNUSED": [{"username": "ann"}],
}


def refused(text: str) -> set[str]:
    """The words behind `Match User` and `Match Group` of sshd's settings."""
    return {name for line in re.findall("^Match (?:User|Group) (.*)$", text, re.MULTILINE) for name in line.split(",")}


@pytest.mark.parametrize("services", ["files systemd", "files [SUCCESS=merge] sss # systemd"])
@pytest.mark.parametrize("program", ["cvtsudoers", "cvtsudoers.ws"])
@pytest.mark.parametrize("sudoers", [SUDOERS, SUDOERS + "ALL ALL=/bin/true\n", ""], ids=["some", "everybody", "none"])
def test_who_may_become_root_on_a_host_then_is_refused_as_slurmfab_does(
    tmp_path: Path, sudoers: str, program: str, services: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [*RULED, *([{"username": "ALL"}] if "ALL ALL" in sudoers else [])]
    aliases = {"User_Aliases": ALIASES, "Host_Aliases": {"HERE": [{"hostname": "n1"}]}}
    specs = [{"User_List": named, "Host_List": [{"hostname": "ALL"}]}]
    told = json.dumps({**aliases, "User_Specs": specs}, indent=4, ensure_ascii=False)
    monkeypatch.setattr(Context, "must", lambda *_, **__: told)  # STAND-IN for cvtsudoers, as below
    rules = {"/etc/sudoers": sudoers, "/etc/doas.conf": DOAS} if sudoers else {}
    rules["/etc/nsswitch.conf"] = f"passwd: {services}\ngroup:{services}\nshadow: files sss\n"
    context = write(tmp_path, **{"/etc/passwd": PASSWD, "/etc/group": GROUP, **rules})
    text = f"Match Group users,wheel\n    X no\nMatch User cara2\n{REFUSED_HERE}Match User *\n    X yes\n"
    wanted = HostbasedLogins("user-ssh", (OwnedFile("/etc/ssh/sshd_config.d/x.conf", text),))
    (one,) = wanted.here(context).by_path().values()
    lines = [line for line in said(wanted) if line != "load_sshd"]
    there = f'command() {{ [ "$2" = {program} ] && echo "$2"; }}\n'  # whatever this machine has
    play(tmp_path, lines, there + f"{program}() {{ [ $1$2$3$4 = -c/dev/null-fjson ] && cat <<'END'\n{told}\nEND\n}}")
    (made,) = texts(tmp_path, one.path)
    assert refused(one.text) == refused(made)
    assert len(refused(one.text)) > 2 * bool(sudoers)
    assert "Match Group" in one.text.partition(REFUSED_HERE)[2]
    assert "others" in refused(one.text)
    assert ("zoe" in refused(one.text), "ann" in refused(made)) == (sudoers == SUDOERS, False)


@pytest.mark.parametrize(
    ("program", "rules"),
    [
        ("cvtsudoers() { return 1; }", {}),
        ('cvtsudoers() { echo \'    "group_plugin": "group_file.so /x"\'; }', {}),
        ("cvtsudoers() { echo '{}'; }", {"/etc/nsswitch.conf": "sudoers: files sss\n"}),
        ("cvtsudoers() { echo '{}'; }", {"/etc/nsswitch.conf": "Sudoers: SSS\n"}),
        ("cvtsudoers() { echo '{}'; }", {"/etc/sudo.conf": "Plugin sudoers_policy sudoers.so sudoers_file=/x\n"}),
        ("cvtsudoers() { echo '{}'; }", {"/etc/sudo.conf": "plugin sudoers_policy x \\\n sudoers_file=/x\n"}),
    ],
    ids=[
        "cvtsudoers fails",
        "a plugin for groups",
        "a directory",
        "a directory in capitals",
        "another file",
        "another file on two lines",
    ],
)
def test_rules_of_sudo_that_cannot_be_read_on_a_host_then_everybody_is_refused_as_slurmfab_does(
    tmp_path: Path, program: str, rules: dict[str, str]
) -> None:
    write(tmp_path, **{"/etc/passwd": PASSWD, "/etc/group": GROUP, "/etc/sudoers": "root ALL=ALL\n", **rules})
    text = f"{REFUSED_HERE}Match User *\n    HostbasedAuthentication yes\n"
    wanted = HostbasedLogins("user-ssh", (OwnedFile("/etc/ssh/sshd_config.d/x.conf", text),))
    play(tmp_path, [line for line in said(wanted) if line != "load_sshd"], program)
    assert "Match User *\n    HostbasedAuthentication no\n" in texts(tmp_path, "/etc/ssh/sshd_config.d/x.conf")[0]


@pytest.mark.parametrize("masked", [False, True])
def test_a_directory_that_ubuntu_lets_a_group_write_to_then_is_as_slurmfab_makes_it_also_again(
    tmp_path: Path, masked: bool
) -> None:
    logs = tmp_path / "var/log"
    text = f"# a comment\nz {logs} 0775 root syslog -\nz {logs}/auth.log 0640 syslog adm -\n"
    write(tmp_path, **{"/usr/lib/tmpfiles.d/00rsyslog.conf": text, "/usr/lib/tmpfiles.d/var.conf": "d /var 0755\n"})
    if masked:
        write(tmp_path, **{"/run/tmpfiles.d/00rsyslog.conf": "# nothing\n"})
    logs.mkdir(parents=True)
    logs.chmod(0o775)
    wanted = SharedNames(str(logs))
    copies = {"/etc/tmpfiles.d/00rsyslog.conf": wanted.head + wanted.closed(text)} if not masked else {}
    for _ in range(2):
        play(tmp_path, said(wanted), "stat() { command stat \"$@\" | sed 's/^[0-9]* 0/0 0/'; }")
        assert logs.stat().st_mode & 0o7777 == 0o1775
        assert {f"/{one.relative_to(tmp_path)}": one.read_text() for one in tmp_path.glob("etc/*/*")} == copies


@pytest.mark.parametrize("password", ["plain+/x", "x'; DROP DATABASE mysql; -- ", "\\"])
def test_a_password_that_slurm_has_changed_then_is_never_more_than_a_password(tmp_path: Path, password: str) -> None:
    write(tmp_path, **{"/etc/slurm/slurmdbd.conf": f"StorageUser=slurm\nStoragePass={password}\nStoragePass=y\n"})
    play(tmp_path, [f"make_database a a slurm >{tmp_path}/said"], "mariadb() { cat; }")
    quoted = password.replace("\\", "\\\\").replace("'", "\\'")
    assert f"IDENTIFIED BY '{quoted}';\nGRANT" in (tmp_path / "said").read_text()


NEEDS = """\
apt-get() {
    case "$*" in
    *slurm-plugin=26.05.5-1*libhwloc15/unstable*) return ;;
    *slurm-plugin=*) echo " slurm-plugin : Depends: libhwloc15 (>= 2.12) but 2.11-1 is to be installed" ;;
    esac
    echo " slurmdbd : Depends: slurm-plugin (= 26.05.5-1) but it is not going to be installed"
    return 1
}"""
PINS = "Package: *\nPin: release o=Debian,n=sid,a=unstable\nPin-Priority: 100\n"


def test_packages_of_another_release_then_bring_along_what_apt_would_not_take_from_there(tmp_path: Path) -> None:
    write(tmp_path, **{package_source.PREFERENCES: PINS})
    play(tmp_path, [f"with_needed 'slurmdbd=26.05.*' >{tmp_path}/names"], NEEDS)
    names = ["slurmdbd=26.05.*", "slurm-plugin=26.05.5-1", "libhwloc15/unstable"]
    assert (tmp_path / "names").read_text().split() == names


def test_packages_that_apt_cannot_install_then_are_asked_for_as_they_are(tmp_path: Path) -> None:
    write(tmp_path, **{package_source.PREFERENCES: PINS})
    play(tmp_path, [f"with_needed slurmd tree >{tmp_path}/names"], 'apt-get() { echo "E: broken"; return 100; }')
    assert (tmp_path / "names").read_text().split() == ["slurmd", "tree"]
