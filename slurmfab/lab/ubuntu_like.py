"""Look-alikes of Ubuntu in labs: Debian with those habits of Ubuntu's that concern slurmfab, all of them at once.

No package of Ubuntu is in it. `ubuntu-24.04` is made of Debian 13, and `ubuntu-26.04` of sid, whose systemd, Python,
sudo-rs and uutils are nearest. Packages that both distributions have do what they do on Ubuntu: cloud-init makes the
user, netplan the network, and systemd starts sshd with its first connection. What Ubuntu patches or configures is a
text here. docs/lab.md lists each difference with its source, and what cannot be had.

os-release says Ubuntu and that it is a stand-in; VERSION_CODENAME is Debian's, since the packages are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurmfab.base.ip_addresses import family


@dataclass(frozen=True)
class Like:
    """A release of Ubuntu, and the suite of Debian that its look-alike is made of."""

    suite: str
    codename: str
    packages: tuple[str, ...]
    rust: bool = False  # whether sudo and coreutils are those in Rust


USER = "ubuntu"

PACKAGES = (
    *("rsyslog", "logrotate", "cron", "cloud-init", "netplan.io", "systemd-resolved", "unattended-upgrades"),
    *("needrestart", "multipath-tools", "apparmor", "ufw", "squashfs-tools", "squashfuse", "fuse3"),
)
"""Packages that Ubuntu's server has from the start, and those for a mount like snapd's."""

LIKES: Mapping[str, Like] = {
    "ubuntu-24.04": Like("trixie", "noble", (*PACKAGES, "systemd-timesyncd")),
    "ubuntu-26.04": Like("sid", "resolute", (*PACKAGES, "chrony", "sudo-rs", "rust-coreutils"), rust=True),
}

OS_RELEASE = """\
PRETTY_NAME="STAND-IN of a slurmfab lab for Ubuntu {version} LTS: Debian {suite}"
NAME="Ubuntu"
VERSION_ID="{version}"
VERSION="{version} LTS (stand-in)"
VERSION_CODENAME={suite}
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME={codename}
"""

CLOUD = """\
system_info:
  distro: ubuntu
  network: {renderers: [netplan, eni, sysconfig]}
  default_user:
    name: ubuntu
    lock_passwd: true
    gecos: Ubuntu
    groups: [adm, cdrom, dip, lxd, sudo]
    sudo: ["ALL=(ALL) NOPASSWD:ALL"]
    shell: /bin/bash
# Of the lab: a host has no disk of its own, its SSH host keys are known, and it has this one source of its data.
datasource_list: [NoCloud, None]
growpart: {mode: "off"}
resize_rootfs: false
ssh_deletekeys: false
ssh_genkeytypes: []
"""

RSYSLOG_CONF = """\
module(load="imuxsock")
$FileOwner syslog
$FileGroup adm
$FileCreateMode 0640
$DirCreateMode 0755
$Umask 0022
$PrivDropToUser syslog
$PrivDropToGroup syslog
$WorkDirectory /var/spool/rsyslog
$IncludeConfig /etc/rsyslog.d/*.conf
"""

RSYSLOG_RULES = """\
auth,authpriv.*			/var/log/auth.log
*.*;auth,authpriv.none		-/var/log/syslog
kern.*				-/var/log/kern.log
mail.*				-/var/log/mail.log
*.emerg				:omusrmsg:*
"""

RSYSLOG_TMPFILES = """\
z /var/log 0775 root syslog -
z /var/log/auth.log 0640 syslog adm -
z /var/log/kern.log 0640 syslog adm -
z /var/log/mail.log 0640 syslog adm -
z /var/log/syslog 0640 syslog adm -
"""

PERIODIC = 'APT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "1";\n'

ESM = "/usr/lib/ubuntu-advantage/apt-esm-hook"
ESM_CONF = f'APT::Install::Post-Invoke-Success {{ "[ ! -f {ESM} ] || {ESM} post-invoke-success || true"; }};\n'
ESM_HOOK = """\
#!/bin/sh
# STAND-IN: the news of Ubuntu Pro between the lines of apt-get.
echo
echo "Get more security updates through Ubuntu Pro with 'esm-apps' enabled:"
echo "  libslurm39 slurm-client slurmd"
echo "Learn more about Ubuntu Pro at https://ubuntu.com/pro"
"""

# Not before local-fs.target, as other mounts are: it needs /dev/fuse, which systemd-tmpfiles makes after that.
SNAP = """\
[Unit]
Description=STAND-IN: Mount unit for core24, revision 1
DefaultDependencies=no
After=systemd-tmpfiles-setup.service
Conflicts=umount.target
Before=umount.target
[Mount]
What=/var/lib/snapd/snaps/core24_1.snap
Where=/snap/core24/1
Type=fuse.squashfuse
Options=nodev,ro,x-gdu.hide,x-gvfs-hide,allow_other
LazyUnmount=yes
[Install]
WantedBy=multi-user.target
"""

PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/games:/snap/bin"
SECURE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"

FILES = {
    "etc/cloud/cloud.cfg.d/90-lab.cfg": CLOUD,
    "etc/rsyslog.conf": RSYSLOG_CONF,
    "etc/rsyslog.d/50-default.conf": RSYSLOG_RULES,
    # Debian's rsyslogd stays root, so that its unit does not let it become another user.
    "usr/lib/systemd/system/rsyslog.service.d/user.conf": "[Service]\nCapabilityBoundingSet=CAP_SETUID CAP_SETGID\n",
    "usr/lib/tmpfiles.d/00rsyslog.conf": RSYSLOG_TMPFILES,
    "etc/apt/apt.conf.d/20auto-upgrades": PERIODIC,
    "etc/apt/apt.conf.d/20apt-esm-hook.conf": ESM_CONF,
    ESM[1:]: ESM_HOOK,
    "etc/needrestart/conf.d/ubuntu.conf": "$nrconf{restart} = 'a';\n1;\n",
    "etc/systemd/system/snap-core24-1.mount": SNAP,
    # Of the lab: its hosts have no udev, which this unit tells of the network at boot.
    "etc/systemd/system/netplan-configure.service.d/lab.conf": "[Service]\nExecStartPost=\n",
    "usr/lib/systemd/resolved.conf.d/ubuntu.conf": "[Resolve]\nLLMNR=no\nMulticastDNS=no\n",
    "etc/environment": f'PATH="{PATHS}"\n',
    "etc/sudoers.d/snap": f'Defaults use_pty\nDefaults secure_path="{SECURE}"\n',
    "etc/sysctl.d/10-ptrace.conf": "kernel.yama.ptrace_scope = 1\n",
}
"""Texts of Ubuntu's, by path below the root directory."""

UNMASKED = (
    "systemd-networkd.service systemd-networkd.socket systemd-networkd-wait-online.service systemd-resolved.service "
    "systemd-timesyncd.service"
)

BUILD = """
set -e
tree=$1 place=$2 root=$2/root rust=$3
shift 3
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$place/upper,workdir=$place/work" "$root"
mount -t proc proc "$root/proc"
inside() { DEBIAN_FRONTEND=noninteractive chroot "$root" "$@" </dev/null; }
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
printf '#!/bin/sh\\nexit 101\\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mkdir -p "$root/var/lib/lab-lists/partial"
inside apt-get -qq -o Dir::State::lists=/var/lib/lab-lists update
inside apt-get -qq -y -o Dir::State::lists=/var/lib/lab-lists --no-install-recommends install "$@" >/dev/null
inside useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin syslog
inside usermod --append --groups adm syslog
inside groupadd --system lxd
cp -R "$place/files/." "$root/"
chmod 755 "$root@ESM@"
chmod 440 "$root/etc/sudoers.d/snap"
mkdir -p "$root/snap/core24/1" "$root/var/lib/snapd/snaps" "$root/snap/bin"
inside mksquashfs /usr/share/common-licenses /var/lib/snapd/snaps/core24_1.snap -quiet -no-progress >/dev/null
sed -i 's/^#* *HOME_MODE.*/HOME_MODE\t0750/' "$root/etc/login.defs"
mv "$root"/etc/apt/sources.list.d/*.sources "$root/etc/apt/sources.list.d/ubuntu.sources"
for unit in @UNMASKED@; do rm -f "$root/etc/systemd/system/$unit"; done
inside systemctl --quiet disable ssh.service
inside systemctl --quiet enable ssh.socket systemd-networkd systemd-resolved snap-core24-1.mount
if [ "$rust" = yes ]; then
    inside dpkg-divert --quiet --local --rename --divert /usr/bin/sudo.ws --add /usr/bin/sudo
    ln -s ../lib/cargo/bin/sudo "$root/usr/bin/sudo"
    inside dpkg-divert --quiet --local --rename --divert /usr/sbin/visudo.ws --add /usr/sbin/visudo
    ln -s ../lib/cargo/bin/visudo "$root/usr/sbin/visudo"
    for one in $(inside ls /usr/lib/cargo/bin/coreutils); do
        case $one in cp | mv | rm) continue ;; esac
        [ -e "$root/usr/bin/$one" ] || continue
        inside dpkg-divert --quiet --local --rename --divert "/usr/bin/gnu$one" --add "/usr/bin/$one"
        ln -s "../lib/cargo/bin/coreutils/$one" "$root/usr/bin/$one"
    done
fi
rm -rf "$root/var/lib/lab-lists" "$root/usr/sbin/policy-rc.d"
umount "$root/proc" "$root"
rm -rf "$place/upper/var/cache/apt" "$place/upper/var/lib/apt/lists"
""".replace("@UNMASKED@", UNMASKED).replace("@ESM@", ESM)
"""Shell script that makes the overlay on Debian's base tree. The package lists and the apt cache stay the tree's."""


def suite_and_user(name: str) -> tuple[str, str]:
    """The suite of a look-alike's hosts and who logs in there; of other labs without a name, or with an unknown one."""
    return (LIKES[name].suite, USER) if name in LIKES else ("trixie", "root")


def write_files(name: str, folder: Path) -> None:
    """Write the texts of a look-alike below a directory."""
    like = LIKES[name]
    release = OS_RELEASE.format(version=name.removeprefix("ubuntu-"), suite=like.suite, codename=like.codename)
    for path, text in {**FILES, "usr/lib/os-release": release}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def seed(
    root: Path, name: str, key: str, *, addresses: Iterable[str], gateway: str, resolver: str, password: str
) -> None:
    """Write what cloud-init finds at the first boot of a host, as a cloud gives it, or Ubuntu's installer.

    `key`: the public key that lets the user in. `gateway`: empty for none. `resolver`: text like that of resolv.conf.
    `password`: what sudo asks for on a machine that was installed from the ISO image; empty on one of a cloud. The
    installer's user is in the group sudo; its hosts file and the hostname stay, and cloud-init does not run again.
    """
    lengths = {4: 24, 6: 64}
    device: dict[str, object] = {
        "addresses": [f"{one}/{lengths[family(one)]}" for one in addresses],
        "nameservers": {"addresses": re.findall(r"^nameserver\s+(\S+)", resolver, re.MULTILINE)},
    }
    if gateway:
        device["routes"] = [{"to": "default", "via": gateway}]
    data: dict[str, object] = {"manage_etc_hosts": True, "ssh_pwauth": True, "ssh_authorized_keys": [key.strip()]}
    if password:
        user = {"name": USER, "groups": "adm,cdrom,dip,lxd,sudo", "shell": "/bin/bash", "lock_passwd": False}
        user |= {"plain_text_passwd": password, "ssh_authorized_keys": [key.strip()]}
        off = ["touch", "/etc/cloud/cloud-init.disabled"]
        data = {"users": [user], "preserve_hostname": True, "ssh_pwauth": True, "runcmd": [off]}
        (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n\n::1 ip6-localhost ip6-loopback\n")
    place = root / "var/lib/cloud/seed/nocloud"
    place.mkdir(parents=True)
    # JSON is YAML.
    (place / "meta-data").write_text(json.dumps({"instance-id": f"lab-{name}", "local-hostname": name}))
    (place / "user-data").write_text(f"#cloud-config\n{json.dumps(data)}\n")
    (place / "network-config").write_text(json.dumps({"version": 2, "ethernets": {"eth0": device}}))
    (place / "user-data").chmod(0o600)
    resolv = root / "etc/resolv.conf"
    resolv.unlink(missing_ok=True)
    resolv.symlink_to("../run/systemd/resolve/stub-resolv.conf")


def has_booted(root: Path, since: float) -> bool:
    """Whether cloud-init has ended on a host since a time in seconds since 1970, or is switched off there."""
    if (root / "etc/cloud/cloud-init.disabled").exists():
        return True
    return any(file.stat().st_mtime >= since for file in root.glob("var/lib/cloud/instances/*/boot-finished"))
