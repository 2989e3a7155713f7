"""A stand-in for SchedMD's Debian packages (`slurm-smd-*`) in labs: Debian's own Slurm, packed anew.

The real ones are built by each site from Slurm's sources. These contain the binaries of Debian's packages under the
names, paths, units and conflicts of SchedMD's (its `debian/` directory, 24.11 to 26.05), and each one says that it is
a stand-in. Debian's binaries contain the path of their plugin directory. It is replaced by SchedMD's, which is shorter,
in the binaries themselves, so that hosts have no directory `slurm-wlm`, and programs name themselves `slurm`.

What differs from the real packages: Slurm's plugins that need further libraries (`LEFT_OUT`) and manual pages are left
out, slurm-smd-client does not depend on bash-completion, and the binaries have Debian's patches and options.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

REVISION = "0standin1"
"""Revision in the packages' versions, after the version of Slurm; real ones have a number from 1 on."""

NAME = "slurm-smd"
"""The package with libraries and plugins, which all others need."""

LEFT_OUT = frozenset(
    f"slurm-wlm-{name}-plugin{end}"
    for name, end in (
        ("elasticsearch", ""),
        ("hdf5", ""),
        ("influxdb", ""),
        ("ipmi", "s"),
        ("kafka", ""),
        ("rrd", ""),
        ("rsmi", ""),
    )
)
"""Debian's packages of plugins that are not packed: each needs further libraries on every host."""

PLUGINS_CONFLICTS = tuple(
    f"slurm-wlm{name}"
    for name in (
        "",
        "-basic-plugins",
        "-elasticsearch-plugin",
        "-emulator",
        "-hdf5-plugin",
        "-influxdb-plugin",
        "-ipmi-plugins",
        "-jwt-plugin",
        "-mysql-plugin",
        "-plugins",
        "-rrd-plugin",
        "-rsmi-plugin",
    )
)

MUNGE_RECOMMENDED = (26, 5)
"""From this version on SchedMD's packages only recommend munge."""

PAM_BY_ARCHITECTURE = (25, 11)
"""From this version on pam_slurm_adopt is in the architecture's directory, before in /lib/security."""


@dataclass(frozen=True)
class Packed:
    """One package of SchedMD's."""

    # pattern of a path in Debian's packages to the path here; `{arch}` is the architecture's directory
    files: Mapping[str, str]
    sources: tuple[str, ...]
    conflicts: tuple[str, ...]  # Debian's packages that cannot be installed beside it
    unit: str = ""  # name of the unit that it starts; empty for none
    directories: tuple[str, ...] = ()  # empty directories in it, of root
    is_alone: bool = False  # whether it needs no other package of the stand-in


def _daemon(name: str, *directories: str, programs: tuple[str, ...] = ()) -> Packed:
    """The package of a daemon; Debian's programs may have `-wlm` at the end of their names."""
    files = {rf"usr/sbin/{program}(-wlm)?": f"usr/sbin/{program}" for program in (name, *programs)}
    return Packed(files, (name,), () if name == "sackd" else (name,), name, directories)


PACKAGES: Mapping[str, Packed] = {
    NAME: Packed(
        {
            r"usr/lib/[^/]+/slurm-wlm/((?!.*_pbs\.so).*\.so)": r"usr/lib/{arch}/slurm/\1",
            r"usr/lib/[^/]+/(libslurm\.so.*)": r"usr/lib/{arch}/\1",
        },
        ("slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin", "slurm-wlm-jwt-plugin"),
        PLUGINS_CONFLICTS,
        directories=("etc/slurm",),
    ),
    f"{NAME}-client": Packed(
        {r"usr/bin/((?!sh5util|sview)s\w+)": r"usr/bin/\1"},
        ("slurm-client",),
        ("slurm-client", "slurm-client-emulator"),
        directories=("etc/slurm",),
    ),
    f"{NAME}-slurmctld": _daemon("slurmctld", "etc/slurm", "var/lib/slurm/slurmctld", "var/log/slurm"),
    f"{NAME}-slurmd": _daemon("slurmd", "etc/slurm", "var/log/slurm", programs=("slurmstepd",)),
    f"{NAME}-slurmdbd": _daemon("slurmdbd", "etc/slurm", "var/log/slurm"),
    f"{NAME}-slurmrestd": _daemon("slurmrestd"),
    f"{NAME}-sackd": _daemon("sackd"),
    f"{NAME}-libpam-slurm-adopt": Packed(
        {r"usr/lib/[^/]+/security/(pam_slurm_adopt\.so)": r"{pam}/\1"},
        ("libpam-slurm-adopt",),
        ("libpam-slurm-adopt",),
        is_alone=True,
    ),
}
"""The packages that are made, by name, where Debian's packages with their files are there."""

UNIT_HEAD = """\
[Unit]
Description=STAND-IN in a slurmfab lab: {name} of Slurm, as SchedMD's packages start it
Wants=network-online.target
After=network-online.target remote-fs.target munge.service sssd.service mariadb.service mysql.service mysqld.service
{condition}
[Install]
WantedBy=multi-user.target

[Service]
EnvironmentFile=-/etc/sysconfig/{name}
EnvironmentFile=-/etc/default/{name}
ExecReload=/bin/kill -HUP $MAINPID
RuntimeDirectory={runtime}
RuntimeDirectoryMode=0755
TasksMax=infinity
"""
OF_SLURM = "User=slurm\nGroup=slurm\n"
LIMITS = "LimitNOFILE=131072\nLimitMEMLOCK=infinity\nLimitSTACK=infinity\nKillMode=process\n"

UNITS: Mapping[str, tuple[str, str, str]] = {
    "slurmctld": (
        "slurm.conf",
        "slurmctld",
        f"Type=notify\n{OF_SLURM}LimitNOFILE=65536\nExecStart=/usr/sbin/slurmctld --systemd $SLURMCTLD_OPTIONS\n",
    ),
    "slurmd": (
        "",
        "slurm",
        f"Type=notify\nDelegate=yes\n{LIMITS}ExecStart=/usr/sbin/slurmd --systemd $SLURMD_OPTIONS\n",
    ),
    "slurmdbd": (
        "slurmdbd.conf",
        "slurmdbd",
        f"Type=simple\n{OF_SLURM}LimitNOFILE=65536\nExecStart=/usr/sbin/slurmdbd -D -s $SLURMDBD_OPTIONS\n",
    ),
    "slurmrestd": (
        "",
        "slurmrestd",
        "Type=simple\nEnvironment=SLURM_JWT=daemon\nEnvironment=SLURMRESTD_LISTEN=:6820\n"
        "ExecStart=/usr/sbin/slurmrestd $SLURMRESTD_OPTIONS\n",
    ),
    "sackd": ("", "slurm", f"Type=notify\n{OF_SLURM}{LIMITS}ExecStart=/usr/sbin/sackd --systemd $SACKD_OPTIONS\n"),
}
"""By daemon: the file of /etc/slurm without which it is not started, its directory below /run, and further settings of
its unit, with the meaning of Slurm's own units (etc/*.service.in)."""

CONFIGURE = """\
#!/bin/sh
# STAND-IN: what debhelper's dh_installsystemd makes, in the meaning of SchedMD's packages: nothing else is done.
set -e
if [ "$1" = configure ]; then
    deb-systemd-helper unmask {unit}.service >/dev/null || true
    if deb-systemd-helper --quiet was-enabled {unit}.service; then
        deb-systemd-helper enable {unit}.service >/dev/null || true
    else
        deb-systemd-helper update-state {unit}.service >/dev/null || true
    fi
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload >/dev/null || true
        if [ -n "$2" ]; then action=restart; else action=start; fi
        deb-systemd-invoke $action {unit}.service >/dev/null || true
    fi
fi
"""
STOP = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then deb-systemd-invoke stop {unit}.service >/dev/null || true; fi
"""
CLEAN = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl --system daemon-reload >/dev/null || true; fi
if [ "$1" = purge ] && [ -x /usr/bin/deb-systemd-helper ]; then
    deb-systemd-helper purge {unit}.service >/dev/null || true
fi
"""

CONTROL = """\
Package: {name}
Source: slurm-smd
Version: {version}
Architecture: {architecture}
Section: admin
Priority: optional
Maintainer: slurmfab lab <root@localhost>
{relations}Description: STAND-IN for SchedMD's {name} in a slurmfab lab: Debian's binaries, packed anew
"""

OWN = re.compile(r"slurm|libslurm|libpam-slurm|sackd")
"""Start of the names of Slurm's own packages in Debian."""


def pack(debs: Path, target: Path) -> tuple[Path, ...]:
    """Pack Debian's packages of one version of Slurm anew; their paths.

    Raises FileNotFoundError without that of the plugins; CalledProcessError if one cannot be read or made.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        trees = _unpack(debs, Path(place))
        return tuple(
            _build(name, packed, trees, Path(place), target)
            for name, packed in PACKAGES.items()
            if any(source in trees for source in packed.sources)
        )


def write_index(folder: Path) -> None:
    """Write the list `Packages` of a directory with Debian packages, so that apt takes it for a package source."""
    entries = []
    for deb in sorted(folder.glob("*.deb")):
        fields = _run("dpkg-deb", "--field", str(deb))
        checksum = hashlib.sha256(deb.read_bytes()).hexdigest()
        entries.append(f"{fields}\nFilename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {checksum}\n")
    (folder / "Packages").write_text("\n".join(entries))


def renamed(content: bytes) -> bytes:
    """A binary of Debian's with SchedMD's plugin directory, and with the name `slurm`, in place of Debian's.

    >>> renamed(b"..\\0slurm-wlm\\0/usr/lib/x86_64-linux-gnu/slurm-wlm\\0..")
    b'..\\x00slurm\\x00\\x00\\x00\\x00\\x00/usr/lib/x86_64-linux-gnu/slurm\\x00\\x00\\x00\\x00\\x00..'
    """
    # A text in a binary ends with a zero byte; more of them keep everything behind it at its place.
    return re.sub(rb"(\0|\0/usr/lib/[\w-]+/)slurm-wlm(?=\0)", rb"\1slurm\0\0\0\0", content)


def _unpack(debs: Path, place: Path) -> dict[str, Path]:
    """Unpack Slurm's packages in a directory; returns the tree of each by name, the newest of each name."""
    trees: dict[str, Path] = {}
    for deb in sorted(debs.glob("*.deb")):
        name = deb.name.partition("_")[0]
        if OWN.match(name) and name not in LEFT_OUT:
            trees[name] = place / "debian" / name
            shutil.rmtree(trees[name], ignore_errors=True)
            trees[name].parent.mkdir(exist_ok=True)
            _run("dpkg-deb", "--raw-extract", str(deb), str(trees[name]))
    if PACKAGES[NAME].sources[0] not in trees:
        raise FileNotFoundError(f"{debs} has no package {PACKAGES[NAME].sources[0]}.")
    return trees


def _build(name: str, packed: Packed, trees: Mapping[str, Path], place: Path, target: Path) -> Path:
    """Make one package."""
    plugins = trees[PACKAGES[NAME].sources[0]]
    fields = _fields(plugins)
    series = fields["Version"].partition("-")[0]
    version = f"{series}-{REVISION}"
    numbers = tuple(map(int, series.split(".")[:2]))
    architecture = next(plugins.glob("usr/lib/*/slurm-wlm")).parent.name
    pam = f"usr/lib/{architecture}/security" if numbers >= PAM_BY_ARCHITECTURE else "usr/lib/security"
    tree = place / "smd" / name
    for path in packed.directories:
        (tree / path).mkdir(parents=True, exist_ok=True)
    for source in trees.values():
        _copy(source, tree, packed, {"arch": architecture, "pam": pam})
    _add_daemon(tree, packed.unit)
    relations = _relations(packed, trees, version, numbers)
    control = CONTROL.format(name=name, version=version, architecture=fields["Architecture"], relations=relations)
    (tree / "DEBIAN").mkdir(exist_ok=True)
    (tree / "DEBIAN/control").write_text(control)
    deb = target / f"{name}_{version}_{fields['Architecture']}.deb"
    # Without compression hosts install it sooner, and it never leaves this machine.
    _run("dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(deb))
    return deb


def _copy(source: Path, tree: Path, packed: Packed, words: Mapping[str, str]) -> None:
    """Copy the files of one package of Debian's that belong into a package."""
    for file in sorted(source.rglob("*")):
        path = file.relative_to(source).as_posix()
        for pattern, place in packed.files.items():
            found = re.fullmatch(pattern, path)
            if not found or (file.is_dir() and not file.is_symlink()):
                continue
            new = tree / found.expand(place).format_map(words)
            new.parent.mkdir(parents=True, exist_ok=True)
            if file.is_symlink():
                new.symlink_to(file.readlink())
            else:
                new.write_bytes(renamed(file.read_bytes()))
                new.chmod(file.stat().st_mode & 0o777)


def _add_daemon(tree: Path, unit: str) -> None:
    """Add the unit of a daemon, its file in /etc/default and the scripts that start and stop it."""
    if not unit:
        return
    needed, runtime, settings = UNITS[unit]
    condition = f"ConditionPathExists=/etc/slurm/{needed}\n" if needed else ""
    text = UNIT_HEAD.format(name=unit, condition=condition, runtime=runtime) + settings
    files = {f"usr/lib/systemd/system/{unit}.service": text}
    if unit != "sackd":
        files[f"etc/default/{unit}"] = f'#{unit.upper()}_OPTIONS=""\n'
        files["DEBIAN/conffiles"] = f"/etc/default/{unit}\n"
    for script, content in (("postinst", CONFIGURE), ("prerm", STOP), ("postrm", CLEAN)):
        files[f"DEBIAN/{script}"] = content.replace("{unit}", unit)
    for path, content in files.items():
        file = tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        file.chmod(0o755 if path.startswith("DEBIAN/p") else 0o644)


def _relations(packed: Packed, trees: Mapping[str, Path], version: str, numbers: tuple[int, ...]) -> str:
    """The fields with the relations to other packages: libraries as Debian's packages need them, and SchedMD's own."""
    is_first = packed is PACKAGES[NAME]
    depends = [] if is_first or packed.is_alone else [f"{NAME} (= {version})"]
    recommends: list[str] = []
    if not packed.is_alone and packed.unit not in ("sackd", "slurmrestd"):
        (recommends if numbers >= MUNGE_RECOMMENDED else depends).append("munge")
    for source in packed.sources:
        depends += _libraries(_fields(trees[source]).get("Depends", "")) if source in trees else []
    kinds = (("Depends", dict.fromkeys(depends)), ("Recommends", recommends), ("Conflicts", packed.conflicts))
    return "".join(f"{kind}: {', '.join(names)}\n" for kind, names in kinds if names)


def _libraries(depends: str) -> Iterable[str]:
    """The libraries among the packages that one of Debian's depends on; Slurm's own one is in slurm-smd."""
    names = (name.strip() for name in depends.split(","))
    return [name for name in names if name.startswith("lib") and not OWN.match(name)]


def _fields(tree: Path) -> dict[str, str]:
    """The fields of a package's control file, each on one line."""
    text = re.sub(r"\n\s+", " ", (tree / "DEBIAN/control").read_text())
    return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def _run(*words: str) -> str:
    """What a program prints, which must succeed."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
