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
    nickname: str
    packages: tuple[str, ...]
    files: Mapping[str, str]  # texts of this release alone, as `FILES`
    rust: bool = False  # whether sudo and coreutils are those in Rust


USER = "ubuntu"

PACKAGES = (
    *("rsyslog", "logrotate", "cron", "cloud-init", "netplan.io", "systemd-resolved", "unattended-upgrades"),
    *("needrestart", "multipath-tools", "apparmor", "ufw", "squashfs-tools", "squashfuse", "fuse3"),
)
"""Packages that Ubuntu's server has from the start, and those for a mount like snapd's."""

LIKES: Mapping[str, Like] = {
    "ubuntu-24.04": Like(
        *("trixie", "noble", "Noble Numbat", (*PACKAGES, "systemd-timesyncd")),
        files={"etc/sysctl.d/10-ptrace.conf": "kernel.yama.ptrace_scope = 1\n"},
    ),
    "ubuntu-26.04": Like(
        *("sid", "resolute", "Resolute Raccoon", (*PACKAGES, "chrony", "sudo-rs", "rust-coreutils")),
        files={
            "usr/lib/sysctl.d/55-ptrace.conf": "kernel.yama.ptrace_scope = 1\n",
            "usr/lib/sysctl.d/55-network-security.conf": "net.ipv4.conf.all.rp_filter = 2\n",
            "usr/lib/sysctl.d/55-map-count.conf": "vm.max_map_count = 1048576\n",
            "usr/lib/sysctl.d/55-kernel-hardening.conf": "kernel.kptr_restrict = 1\n",
        },
        rust=True,
    ),
}

OS_RELEASE = """\
PRETTY_NAME="STAND-IN of a slurmfab lab for Ubuntu {version} LTS: Debian {suite}"
NAME="Ubuntu"
VERSION_ID="{version}"
VERSION="{version} LTS ({nickname})"
VERSION_CODENAME={suite}
ID=ubuntu
ID_LIKE=debian
HOME_URL="https://www.ubuntu.com/"
SUPPORT_URL="https://help.ubuntu.com/"
BUG_REPORT_URL="https://bugs.launchpad.net/ubuntu/"
PRIVACY_POLICY_URL="https://www.ubuntu.com/legal/terms-and-policies/privacy-policy"
UBUNTU_CODENAME={codename}
LOGO=ubuntu-logo
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
$RepeatedMsgReduction on
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

UPGRADES = """\
Unattended-Upgrade::Allowed-Origins {
    "${distro_id}:${distro_codename}";
    "${distro_id}:${distro_codename}-security";
    "${distro_id}ESMApps:${distro_codename}-apps-security";
    "${distro_id}ESM:${distro_codename}-infra-security";
};
"""

NEEDRESTART = "/usr/lib/needrestart/apt-pinvoke"
NEEDRESTART_CONF = f'DPkg::Post-Invoke {{ "test ! -x {NEEDRESTART} || {NEEDRESTART} -r a || true"; }};\n'
"""Ubuntu's hook says `-m u`, with which its needrestart restarts daemons, whatever NEEDRESTART_MODE says. Debian's
knows no such mode, and does the same with `-r a`."""

ESM = "apt-news.service esm-cache.service"
ESM_CONF = f'APT::Update::Pre-Invoke {{ "systemctl start --no-block {ESM} >/dev/null 2>&1 || true"; }};\n'
ESM_UNIT = """\
[Unit]
Description=STAND-IN: news of Ubuntu Pro, which apt alone shows
[Service]
Type=oneshot
ExecStart=/usr/bin/true
"""

HOSTS = """\
127.0.0.1 localhost

::1 ip6-localhost ip6-loopback
fe00::0 ip6-localnet
ff02::1 ip6-allnodes
ff02::2 ip6-allrouters
"""
"""/etc/hosts of a cloud image, which does not name the host."""

IMAGE = "etc/ssh/sshd_config.d/60-cloudimg-settings.conf"
"""A file of cloud images alone."""

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
    "etc/apt/apt.conf.d/50unattended-upgrades": UPGRADES,
    "etc/apt/apt.conf.d/20apt-esm-hook.conf": ESM_CONF,
    **{f"usr/lib/systemd/system/{unit}": ESM_UNIT for unit in ESM.split()},
    "etc/apt/apt.conf.d/99needrestart": NEEDRESTART_CONF,
    IMAGE: "PasswordAuthentication no\n",
    "etc/systemd/system/snap-core24-1.mount": SNAP,
    # Of the lab: its hosts have no udev, which this unit tells of the network at boot.
    "etc/systemd/system/netplan-configure.service.d/lab.conf": "[Service]\nExecStartPost=\n",
    "usr/lib/systemd/resolved.conf.d/ubuntu.conf": "[Resolve]\nLLMNR=no\nMulticastDNS=no\n",
    "etc/environment": f'PATH="{PATHS}"\n',
    "etc/sudoers.d/snap": f'Defaults use_pty\nDefaults secure_path="{SECURE}"\n',
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
for group in admin lxd netdev; do inside groupadd --system --force $group; done
sed -i '/^%sudo/i %admin ALL=(ALL) ALL' "$root/etc/sudoers"
cp -R "$place/files/." "$root/"
chmod 440 "$root/etc/sudoers.d/snap"
mkdir -p "$root/snap/core24/1" "$root/var/lib/snapd/snaps" "$root/snap/bin"
inside mksquashfs /usr/share/common-licenses /var/lib/snapd/snaps/core24_1.snap -quiet -no-progress >/dev/null
sed -i 's/^#* *HOME_MODE.*/HOME_MODE\t0750/' "$root/etc/login.defs"
mv "$root"/etc/apt/sources.list.d/*.sources "$root/etc/apt/sources.list.d/ubuntu.sources"
for unit in @UNMASKED@; do rm -f "$root/etc/systemd/system/$unit"; done
inside systemctl --quiet disable ssh.service
inside systemctl --quiet enable ssh.socket systemd-networkd systemd-resolved snap-core24-1.mount
if [ "$rust" = yes ]; then
    divert() { inside dpkg-divert --quiet --local --rename --divert "$2" --add "$1"; }
    for one in bin/sudo sbin/visudo bin/cvtsudoers bin/sudoreplay sbin/sudo_sendlog; do
        divert /usr/$one /usr/$one.ws
    done
    inside update-alternatives --quiet --install /usr/bin/sudo sudo /usr/lib/cargo/bin/sudo 50 \
        --slave /usr/sbin/visudo visudo /usr/lib/cargo/bin/visudo
    inside update-alternatives --quiet --install /usr/bin/sudo sudo /usr/bin/sudo.ws 40 \
        --slave /usr/sbin/visudo visudo /usr/sbin/visudo.ws
    for one in $(inside ls /usr/lib/cargo/bin/coreutils); do
        from=bin
        [ "$one" != chroot ] || from=sbin
        [ -e "$root/usr/$from/$one" ] || continue
        case $one in cp | df | mv | rm | true) ln -s "$one" "$root/usr/bin/gnu$one" && continue ;; esac
        divert "/usr/$from/$one" "/usr/bin/gnu$one"
        ln -s "../lib/cargo/bin/coreutils/$one" "$root/usr/bin/$one"
    done
fi
rm -rf "$root/var/lib/lab-lists" "$root/usr/sbin/policy-rc.d"
umount "$root/proc" "$root"
rm -rf "$place/upper/var/cache/apt" "$place/upper/var/lib/apt/lists"
""".replace("@UNMASKED@", UNMASKED)
"""Shell script that makes the overlay on Debian's base tree. The package lists and the apt cache stay the tree's."""


def suite_and_user(name: str) -> tuple[str, str]:
    """The suite of a look-alike's hosts and who logs in there; of other labs without a name, or with an unknown one."""
    return (LIKES[name].suite, USER) if name in LIKES else ("trixie", "root")


def write_files(name: str, folder: Path) -> None:
    """Write the texts of a look-alike below a directory."""
    like = LIKES[name]
    words = {"suite": like.suite, "codename": like.codename, "nickname": like.nickname}
    release = OS_RELEASE.format(version=name.removeprefix("ubuntu-"), **words)
    for path, text in {**FILES, **like.files, "usr/lib/os-release": release}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def seed(
    root: Path,
    name: str,
    key: str,
    *,
    like: Like,
    addresses: Iterable[str],
    gateway: str,
    resolver: str,
    password: str,
    is_bare: bool,
) -> None:
    """Write what cloud-init finds at the first boot of a host, as a cloud gives it, or Ubuntu's installer.

    `key`: the public key that lets the user in. `gateway`: empty for none. `resolver`: text like that of resolv.conf.
    `password`: what sudo asks for on a machine that was installed from the ISO image; empty on one of a cloud. The
    installer's user is in the group sudo; its hosts file and the hostname stay, and cloud-init does not run again.
    `is_bare`: whether a cloud says nothing of the hosts file, which then does not name the host, and of passwords.
    """
    lengths = {4: 24, 6: 64}
    device: dict[str, object] = {
        "addresses": [f"{one}/{lengths[family(one)]}" for one in addresses],
        "nameservers": {"addresses": re.findall(r"^nameserver\s+(\S+)", resolver, re.MULTILINE)},
    }
    if gateway:
        device["routes"] = [{"to": "default", "via": gateway}]
    network: dict[str, object] = {"version": 2, "ethernets": {"eth0": device}}
    data: dict[str, object] = {"ssh_authorized_keys": [key.strip()]}
    if is_bare:
        (root / "etc/hosts").write_text(HOSTS)
    else:
        data |= {"manage_etc_hosts": True, "ssh_pwauth": True}
    if password:
        groups = "adm,cdrom,dip,lxd,plugdev,sudo,users"
        user = {"name": USER, "groups": groups, "shell": "/bin/bash", "lock_passwd": False}
        user |= {"plain_text_passwd": password, "ssh_authorized_keys": [key.strip()]}
        off = ["touch", "/etc/cloud/cloud-init.disabled"]
        data = {"users": [user], "preserve_hostname": True, "ssh_pwauth": True, "runcmd": [off]}
        own = f"127.0.0.1 localhost\n127.0.1.1 {name}\n"
        (root / "etc/hosts").write_text(HOSTS.replace("127.0.0.1 localhost\n", own))
        (root / IMAGE).unlink()
    place = root / "var/lib/cloud/seed/nocloud"
    place.mkdir(parents=True)
    # JSON is YAML.
    (place / "meta-data").write_text(json.dumps({"instance-id": f"lab-{name}", "local-hostname": name}))
    (place / "user-data").write_text(f"#cloud-config\n{json.dumps(data)}\n")
    (place / "user-data").chmod(0o600)
    if password and like.rust:  # the installer of 26.04 writes it itself
        (root / "etc/cloud/cloud.cfg.d/90-installer-network.cfg").write_text("network: {config: disabled}\n")
        (root / "etc/netplan").mkdir(exist_ok=True)
        plan = root / "etc/netplan/00-installer-config.yaml"
        plan.touch(mode=0o600)
        plan.write_text(json.dumps({"network": network}))
    else:
        (place / "network-config").write_text(json.dumps(network))
    resolv = root / "etc/resolv.conf"
    resolv.unlink(missing_ok=True)
    resolv.symlink_to("../run/systemd/resolve/stub-resolv.conf")


def has_booted(root: Path, since: float) -> bool:
    """Whether cloud-init has ended on a host since a time in seconds since 1970, or is switched off there."""
    if (root / "etc/cloud/cloud-init.disabled").exists():
        return True
    return any(file.stat().st_mtime >= since for file in root.glob("var/lib/cloud/instances/*/boot-finished"))
