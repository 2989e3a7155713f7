"""A stand-in for Enterprise Linux 9 in labs: Debian with the real rpm and dnf, and Debian's Slurm packed as RPMs.

No package of an Enterprise Linux is in it. It is a tree of Debian whose package manager is dnf: apt and dpkg are taken
away with all that they know, os-release says Rocky Linux 9 and that it is a stand-in, and signed repositories are in
directories of the host: `system`, as a distribution has, with MUNGE and MariaDB, and three with Slurm under the names,
paths, dependencies and units of SchedMD's slurm.spec (24.11 to 26.05), of EPEL's packages, and of OpenHPC's. A host has
the file of one of the three in /etc/yum.repos.d.

Its `python3` is Debian 11's, 3.9 as that of Enterprise Linux 9, but for what needs dnf's modules.

It proves names, paths, order, parsers, holds, signatures, locks and transactions that are killed. It proves nothing
about SELinux, crypto-policies, authselect, firewalld, and the real packages: libraries are Debian's, no library has a
package, and daemons keep the sockets and files that are compiled into Debian's binaries.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slurmfab.base.errors import LabError
from slurmfab.lab import sources
from slurmfab.lab.smd_standin import UNIT_HEAD, UNITS, renamed

RELEASE = "0standin1.el9"
PLACE = "/var/lib/lab-packages"
KILLER = "/run/lab-kills-dnf"  # a file; while it is there, each package kills the dnf that has unpacked it
KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-lab"

MARK = "usr/lib/os-release"  # the file by which an overlay is known to have this tree
INSTALL = "dnf -q -y --setopt=install_weak_deps=False install"  # installs packages in a tree

OS_RELEASE = """\
NAME="Rocky Linux"
VERSION="9 (stand-in)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="9"
PLATFORM_ID="platform:el9"
PRETTY_NAME="STAND-IN of a slurmfab lab for Rocky Linux 9: Debian with rpm and dnf"
"""

REPOSITORY = """\
[lab-{name}]
name=STAND-IN in a slurmfab lab: {name}
baseurl=file://{place}/{name}
gpgcheck=1
gpgkey=file://{key}
"""

MUNGE_UNIT = """\
[Unit]
Description=STAND-IN in a slurmfab lab: MUNGE
After=network-online.target time-sync.target

[Service]
Type=forking
EnvironmentFile=-/etc/sysconfig/munge
ExecStart=/usr/sbin/munged $OPTIONS
PIDFile=/run/munge/munged.pid
RuntimeDirectory=munge
RuntimeDirectoryMode=0755
User=munge
Group=munge
Restart=on-abort

[Install]
WantedBy=multi-user.target
"""

MARIADB_UNIT = """\
[Unit]
Description=STAND-IN in a slurmfab lab: MariaDB
After=network.target

[Service]
Type=notify
User=mysql
Group=mysql
RuntimeDirectory=mysqld
RuntimeDirectoryMode=0755
ExecStartPre=/usr/libexec/mariadb-prepare-db-dir
ExecStart=/usr/sbin/mariadbd
TimeoutSec=300

[Install]
WantedBy=multi-user.target
"""

PREPARE = """\
#!/bin/sh
# STAND-IN: makes the first database, as the unit of Enterprise Linux does.
[ -d /var/lib/mysql/mysql ] ||
    exec mariadb-install-db --datadir=/var/lib/mysql --skip-test-db --auth-root-authentication-method=socket
"""

GROUP = "getent group {name} >/dev/null || groupadd --system {numbered} {name}\n"
USER = """\
getent passwd {name} >/dev/null ||
    useradd --system {numbered} --gid {name} --home-dir {home} --no-create-home --shell /sbin/nologin {name}
"""
ROTATION = "/var/log/slurm/* {\n    missingok\n    notifempty\n    copytruncate\n    rotate 5\n}\n"


@dataclass(frozen=True)
class Packed:
    """One RPM."""

    sources: tuple[str, ...] = ()  # Debian's packages
    files: Mapping[str, str] | None = None  # pattern of a path in these to the path here
    texts: Mapping[str, str] | None = None  # files that it has besides, by path
    tags: tuple[str, ...] = ()  # lines of its spec, such as `Requires: munge`
    directories: tuple[str, ...] = ()  # `MODE USER PATH` of empty ones
    account: tuple[str, str] = ("", "")  # user that it makes, and the home
    number: str = ""  # the user's number; empty for one that useradd finds


PLUGIN = r"usr/lib/[^/]+/slurm-wlm/"
MYSQL = "_mysql"  # the end of the name of plugins that are slurmdbd's


def _daemon(name: str, *more: str, files: Mapping[str, str] | None = None) -> Packed:
    """The package of a daemon; Debian's programs may have `-wlm` at the end of their names."""
    needed, runtime, settings = UNITS[name]
    condition = f"ConditionPathExists=/etc/slurm/{needed}\n" if needed else ""
    unit = UNIT_HEAD.format(name=name, condition=condition, runtime=runtime) + settings
    programs = {rf"usr/sbin/{one}(-wlm)?": f"usr/sbin/{one}" for one in (name, *more)}
    return Packed(
        (name, "slurm-wlm-mysql-plugin"),
        {**programs, **(files or {})},
        {f"usr/lib/systemd/system/{name}.service": unit},
        ("Requires: slurm = %{version}-%{release}",),
    )


LIBRARY = {r"usr/lib/[^/]+/(libslurm\.so.*)": r"usr/lib64/\1"}
PROGRAMS = {
    PLUGIN + rf"((?!.*(?:_pbs|{MYSQL})\.so).*\.so)": r"usr/lib64/slurm/\1",
    r"usr/bin/((?!sh5util|sview)s\w+)": r"usr/bin/\1",
}

SMD: Mapping[str, Packed] = {
    "slurm": Packed(
        ("slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin", "slurm-client", "libslurm[0-9]*"),
        {**PROGRAMS, **LIBRARY},
        tags=("Requires: munge",),
        directories=("0755 root /etc/slurm",),
    ),
    "slurm-slurmctld": _daemon("slurmctld"),
    "slurm-slurmd": _daemon("slurmd", "slurmstepd"),
    "slurm-slurmdbd": _daemon("slurmdbd", files={PLUGIN + rf"(.*{MYSQL}\.so)": r"usr/lib64/slurm/\1"}),
    # Debian's libpam looks for modules, and the linker for what they need, in Debian's directories alone.
    "slurm-pam_slurm": Packed(
        ("libpam-slurm-adopt", "libslurm[0-9]*"),
        {r"(usr/lib/[^/]+/(?:security/pam_slurm_adopt|libslurm)\.so.*)": r"\1"},
        tags=("Requires: slurm = %{version}-%{release}",),
    ),
}
"""SchedMD's packages of Slurm. Those of further daemons, Perl and others are left out, here and below."""

EPEL: Mapping[str, Packed] = {
    **SMD,
    "slurm": Packed(
        ("slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin", "slurm-client"),
        PROGRAMS,
        {
            "etc/slurm/slurm.conf": "ClusterName=cluster\nSlurmctldHost=localhost\nNodeName=localhost\n",
            "etc/slurm/cgroup.conf": "# An example.\n",
            "etc/logrotate.d/slurm": ROTATION,
            "usr/lib/tmpfiles.d/slurm.conf": "D /run/slurm 0755 root root -\n",
        },
        tags=("Requires: munge", "Requires: slurm-libs = %{version}-%{release}"),
        directories=("0755 root /etc/slurm", "0755 slurm /var/log/slurm"),
        account=("slurm", "/var/lib/slurm"),
    ),
    "slurm-libs": Packed(("libslurm[0-9]*",), LIBRARY),
    "slurm-slurmdbd": replace(
        SMD["slurm-slurmdbd"],
        texts={**(SMD["slurm-slurmdbd"].texts or {}), "etc/slurm/slurmdbd.conf": "DbdHost=localhost\n"},
    ),
}
"""EPEL's packages of Slurm: the library has one of its own, and examples of settings are where daemons read them."""

OPENHPC: Mapping[str, Packed] = {
    f"{name}-ohpc": replace(
        packed,
        tags=("Requires: munge",) if name == "slurm" else ("Requires: slurm-ohpc = %{version}-%{release}",),
        account=("slurm", "/etc/slurm") if name == "slurm" else ("", ""),
        number="202" if name == "slurm" else "",
    )
    for name, packed in SMD.items()
}
"""OpenHPC's packages of Slurm, which need its own PMIx besides."""

THERE = ("openssh-clients", "sudo", "dbus", "python3")

SYSTEM: Mapping[str, Packed] = {
    "munge": Packed(
        ("munge",),
        {r"(usr/s?bin/.*)": r"\1"},
        {"usr/lib/systemd/system/munge.service": MUNGE_UNIT, "etc/sysconfig/munge": "# OPTIONS=\n"},
        directories=("0700 munge /etc/munge", "0711 munge /var/lib/munge", "0700 munge /var/log/munge"),
        account=("munge", "/run/munge"),
    ),
    "mariadb": Packed(("mariadb-client", "mariadb-client-core"), {r"(usr/bin/.*)": r"\1"}),
    "mariadb-server": Packed(
        ("mariadb-server", "mariadb-server-core"),
        {r"(usr/(?:s?bin|lib/mysql|share/(?:mysql|mariadb))/.*)": r"\1"},
        {
            "usr/lib/systemd/system/mariadb.service": MARIADB_UNIT,
            "usr/libexec/mariadb-prepare-db-dir": PREPARE,
            "etc/my.cnf": "[client-server]\n!includedir /etc/my.cnf.d\n",
            "etc/my.cnf.d/mariadb-server.cnf": "[mariadbd]\ndatadir=/var/lib/mysql\n",
        },
        tags=("Requires: mariadb",),
        directories=("0755 mysql /var/lib/mysql",),
        account=("mysql", "/var/lib/mysql"),
    ),
    **{name: Packed() for name in (*THERE, "ipmitool")},
    "bash": Packed(tags=("Provides: /bin/sh",)),
    "rocky-release": Packed(tags=("Provides: system-release = 9", "Provides: system-release(releasever) = 9")),
}
"""The packages of the system; those without files stand for what the tree has already."""

SLURMS: Mapping[str, tuple[str, Mapping[str, Packed]]] = {
    "el-smd": ("slurm", SMD),
    "el": ("epel", EPEL),
    "el-openhpc": ("openhpc", OPENHPC),
}
"""The repository of each kind of Slurm's packages: its name, and what is in it."""

SPEC = """\
Name: {name}
Version: {version}
Release: {release}
Summary: STAND-IN in a slurmfab lab: Debian's binaries, packed anew
License: as Debian's package
AutoReqProv: no
{tags}
%description
STAND-IN in a slurmfab lab.
%install
mkdir -p %{{buildroot}}
cp -a %{{trees}}/{name}/. %{{buildroot}}/
%pre
{account}
%post -p <lua>
if posix.access("{killer}") then posix.kill(posix.getprocessid("pid"), 9) end
%preun
{stop}
%postun
{restart}
%files
{files}
"""

STOP = "[ $1 -gt 0 ] || systemctl --no-reload disable --now {unit} || :"
RESTART = "[ $1 -lt 1 ] || systemctl try-restart {unit} || :"
"""What the macros of systemd make for a unit: removed packages stop it, and replaced ones restart it."""

OLD_SUITE = "bullseye"  # the release of Debian with Python 3.9
OLD_PYTHON = "python3.9-minimal python3.9 libpython3.9-minimal libpython3.9-stdlib libssl1.1 libffi7 libmpdec3"
CHOICE = """\
#!/bin/sh
# STAND-IN: Enterprise Linux 9 has Python 3.9. The modules of dnf are Debian's here, for the Python of Debian.
case $* in *'import dnf'* | *', dnf'*) exec /usr/libexec/lab-dnf/python3 "$@" ;; esac
exec /usr/libexec/lab-python/python3 "$@"
"""

MAKE = r"""
inside() { DEBIAN_FRONTEND=noninteractive chroot "$root" "$@" </dev/null; }
pack() {  # packs what the specs of a kind say, into a directory
    for spec in "$root/build/packages/$1"/*.spec; do
        inside rpmbuild -bb --quiet --define '_topdir /build/top' --define "_rpmdir $2" \
            --define "trees /build/packages/$1" --define '__os_install_post %{nil}' --define 'debug_package %{nil}' \
            --define '_build_id_links none' --define '_binary_payload w1.zstdio' \
            "/build/packages/$1/${spec##*/}" >/dev/null
    done
}
gpg() { inside env GNUPGHOME=/build/gnupg gpg --batch --quiet "$@"; }
sign() {  # signs packages with a new key, whose public half goes into a file
    mkdir -m 700 "$root/build/gnupg"
    gpg --passphrase '' --quick-gen-key lab rsa2048 sign never
    gpg --armor --export lab >"$root$1"
    inside env GNUPGHOME=/build/gnupg sh -c \
        "rpmsign --define '_gpg_name lab' --define '__gpg /usr/bin/gpg' --addsign $2" >/dev/null
    inside env GNUPGHOME=/build/gnupg gpgconf --kill all
}
"""
"""Functions of shell scripts that make and sign packages in a tree, `$root`."""

BUILD = (
    r"""
set -e
FUNCTIONS
tree=$1 place=$2 root=$2/root
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$place/upper,workdir=$place/work" "$root"
mount -t proc proc "$root/proc"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
inside apt-get -qq update
needed=$(inside apt-get --simulate --no-install-recommends install slurmctld slurmd slurmdbd slurm-client munge \
    slurm-wlm-mysql-plugin mariadb-server |
    sed -n 's/^Inst \([^ ]*\) .*/\1/p' |
    grep -vE '^(munge|slurm.*|libslurm.*|mariadb-(server|client|plugin).*|galera.*)$')
inside apt-get -qq -y --no-install-recommends install rpm dnf createrepo-c gpg gpg-agent $needed >/dev/null
mkdir -p "$root/build" "$root/etc/rpm" "$root/etc/pki/rpm-gpg" "$root/etc/yum.repos.d" "$root/etc/sysconfig"
cp -a "$place/packages" "$root/build/"
printf '%%_dbpath /var/lib/rpm\n' >"$root/etc/rpm/macros"
for kind in KINDS; do pack "$kind" "PLACE/$kind"; done
sign KEY 'PLACE/*/*/*.rpm'
for kind in KINDS; do inside createrepo_c --quiet "PLACE/$kind"; done
cp "$place/lab-system.repo" "$root/etc/yum.repos.d/"
inside rpm --import "KEY"
for name in HAS; do inside sh -c "rpm --install --nodeps PLACE/system/*/$name-*"; done
cp "$place/old-python.sources" "$root/etc/apt/sources.list.d/"
inside apt-get -qq update
inside sh -c 'cd /build && apt-get -qq download OLD_PYTHON && for deb in *.deb; do dpkg-deb --extract "$deb" /; done'
mkdir -p "$root/usr/libexec/lab-python" "$root/usr/libexec/lab-dnf"
ln -s "$(readlink "$root/usr/bin/python3" | sed 's,^,/usr/bin/,')" "$root/usr/libexec/lab-dnf/python3"
ln -s /usr/bin/python3.9 "$root/usr/libexec/lab-python/python3"
grep -lm1 '^#!.*/python3' "$root"/usr/bin/* "$root"/usr/sbin/* |
    xargs -r sed -i '1s,/usr/bin/python3,/usr/libexec/lab-dnf/python3,'
rm "$root/usr/bin/python3"
install -m 755 "$place/python3" "$root/usr/bin/python3"
rm -rf "$root/build" "$root/etc/mysql" "$root/usr/sbin/policy-rc.d" "$root/etc/os-release"
cp "$place/os-release" "$root/usr/lib/os-release"
ln -s ../usr/lib/os-release "$root/etc/os-release"
ln -sf /dev/null "$root/etc/systemd/system/dnf-makecache.timer"
cd "$root"
rm -rf var/lib/dpkg var/lib/apt var/cache/apt etc/apt usr/bin/apt usr/bin/apt-* usr/bin/dpkg usr/bin/dpkg-deb \
    usr/bin/dpkg-query usr/bin/dpkg-split usr/lib/apt
cd /
umount "$root/proc" "$root"
""".replace("FUNCTIONS", MAKE)
    .replace("PLACE", PLACE)
    .replace("KEY", KEY)
    .replace("HAS", " ".join((*THERE, "bash", "rocky-release")))
    .replace("OLD_PYTHON", OLD_PYTHON)
    .replace("KINDS", " ".join(("system", *(name for name, _ in SLURMS.values()))))
)
"""Shell script that makes the overlay on Debian's base tree. `$place` has the packages' trees and specs, the files of
the sources, and os-release. Libraries come from this machine's mirror; then apt and dpkg are taken away."""


def prepare(debs: Path, place: Path) -> None:
    """Write what `BUILD` needs into a directory; `debs`: Debian's packages. CalledProcessError if one is broken.

    Raises LabError if this machine's mirror has no Debian 11.
    """
    old = sources.render(sources.machine_sources(OLD_SUITE))
    if not old:
        raise LabError("This machine uses no mirror of Debian, so Python 3.9 cannot be had for the stand-in.")
    (place / "old-python.sources").write_text(old)
    (place / "python3").write_text(CHOICE)
    for kind, packages in (("system", SYSTEM), *SLURMS.values()):
        write_packages(debs, place / "packages" / kind, packages)
    (place / "lab-system.repo").write_text(REPOSITORY.format(name="system", place=PLACE, key=KEY))
    (place / "os-release").write_text(OS_RELEASE)


def write_packages(debs: Path, folder: Path, packages: Mapping[str, Packed]) -> None:
    """Write the trees and specs of packages into a directory; `debs`: Debian's. CalledProcessError if one is broken."""
    for name, packed in packages.items():
        _write_package(debs, folder, name, packed)


def add_source(kind: str, upper: Path) -> None:
    """Write, into an overlay on such a tree, the file of the source of a kind of Slurm's packages."""
    name, _ = SLURMS[kind]
    texts = {f"etc/yum.repos.d/lab-{name}.repo": REPOSITORY.format(name=name, place=PLACE, key=KEY), MARK: OS_RELEASE}
    for path, text in texts.items():
        (upper / path).parent.mkdir(parents=True, exist_ok=True)
        (upper / path).write_text(text)


def _write_package(debs: Path, folder: Path, name: str, packed: Packed) -> None:
    """Write tree and spec of one package."""
    tree, version = folder / name, "9"
    tree.mkdir(parents=True)
    for source in packed.sources:
        for deb in sorted(debs.glob(f"{source}_*.deb")):
            version = re.split("[-~+]", deb.name.split("_")[1].rpartition("%3a")[2])[0] if version == "9" else version
            unpacked = folder / "debian"
            subprocess.run(["dpkg-deb", "--extract", str(deb), str(unpacked)], check=True)
            _copy(unpacked, tree, packed.files or {})
            shutil.rmtree(unpacked)
    for path, text in (packed.texts or {}).items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
        (tree / path).chmod(0o755 if path.startswith("usr/libexec") else 0o644)
    spec = SPEC.format(
        name=name,
        version=version,
        release=RELEASE,
        tags="\n".join(packed.tags),
        account=_account(packed) if packed.account[0] else ":",
        killer=KILLER,
        **_scripts(packed),
        files="\n".join(_files(tree, packed)),
    )
    (folder / f"{name}.spec").write_text(spec)


def _scripts(packed: Packed) -> dict[str, str]:
    """The scripts about a package's unit."""
    unit = next((Path(path).stem for path in packed.texts or () if path.endswith(".service")), "")
    return {name: text.format(unit=unit) if unit else ":" for name, text in (("stop", STOP), ("restart", RESTART))}


def _account(packed: Packed) -> str:
    """The script that makes a package's user."""
    (name, home), number = packed.account, packed.number
    lines = ((GROUP, "gid"), (USER, "uid"))
    return "".join(
        line.format(name=name, home=home, numbered=f"--{option} {number}" if number else "") for line, option in lines
    )


def _copy(source: Path, tree: Path, files: Mapping[str, str]) -> None:
    """Copy the files of one package of Debian's that belong into a package."""
    for file in sorted(source.rglob("*")):
        path = file.relative_to(source).as_posix()
        for pattern, place in files.items():
            found = re.fullmatch(pattern, path)
            if not found or (file.is_dir() and not file.is_symlink()):
                continue
            new = tree / found.expand(place)
            new.parent.mkdir(parents=True, exist_ok=True)
            if file.is_symlink():
                new.symlink_to(file.readlink())
            else:
                new.write_bytes(moved(file.read_bytes()))
                new.chmod(file.stat().st_mode & 0o777)


def moved(content: bytes) -> bytes:
    """A binary of Debian's with the plugin directory of Enterprise Linux, and with the name `slurm`, for Debian's.

    >>> moved(b"..\\0/usr/lib/x86_64-linux-gnu/slurm-wlm\\0..")[:20]
    b'..\\x00/usr/lib64/slurm\\x00'
    """
    pattern = rb"(?<=\0)/usr/lib/[\w-]+/slurm-wlm(?=\0)"
    return renamed(re.sub(pattern, lambda found: b"/usr/lib64/slurm".ljust(len(found[0]), b"\0"), content))


def _files(tree: Path, packed: Packed) -> Iterator[str]:
    """Yield the lines of a spec that name a package's files and directories."""
    for file in sorted(tree.rglob("*")):
        if file.is_symlink() or not file.is_dir():
            path = f"/{file.relative_to(tree).as_posix()}"
            yield f'%config(noreplace) "{path}"' if path.startswith("/etc/") else f'"{path}"'
    for text in packed.directories:
        mode, user, path = text.split()
        (tree / path[1:]).mkdir(parents=True, exist_ok=True)
        yield f"%dir %attr({mode}, {user}, {user}) {path}"
