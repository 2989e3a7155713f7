"""Hosts that are unusual, and whose jobs run all the same."""

from __future__ import annotations

from breakage import Oddity

KEEP = "cp -a {0} {0}.usual"
BACK = "mv {0}.usual {0}"
INSTALL = (
    "test -x /usr/bin/{0} || "
    "DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends {0} "
    ">/dev/null 2>&1"
)


def in_bashrc(name: str, what: str, line: str, host: str = "n1") -> Oddity:
    """A line at the beginning of root's .bashrc, where it counts for shells that are not interactive, too.

    Args:
        name: the row's name.
        what: what is unusual.
        line: the line.
        host: the host.
    """
    file = "/root/.bashrc"
    return Oddity(
        name=name,
        what=what,
        does=f"{KEEP.format(file)}; {{ cat <<'E'\n{line}\nE\ncat {file}.usual; }} >{file}",
        undoes=BACK.format(file),
        host=host,
    )


def login_shell(name: str, what: str, shell: str) -> Oddity:
    """Another login shell of root, from a package, with a start file that prints something."""
    files = {"tcsh": "/root/.cshrc", "fish": "/etc/fish/config.fish", "zsh": "/root/.zshenv"}
    return Oddity(
        name=name,
        what=what,
        does=f"{INSTALL.format(shell)}; install -d $(dirname {files[shell]}); usermod --shell /usr/bin/{shell} root && "
        f"echo 'echo welcome to this host!' >{files[shell]}",
        undoes=f"usermod --shell /bin/bash root; rm {files[shell]}",
    )


HUNG = """\
mkdir -p /srv/hung
cat >/root/hung.py <<'END'
import ctypes, os, time
device = os.open("/dev/fuse", os.O_RDWR)
options = b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % device
assert ctypes.CDLL(None).mount(b"nowhere", b"/srv/hung", b"fuse", 0, options) == 0
time.sleep(3600)
END
systemd-run --quiet --unit hung python3 /root/hung.py
for try in $(seq 100); do grep -q ' /srv/hung fuse' /proc/mounts && exit; sleep 0.1; done; exit 1
"""
"""Mounts a file system that answers no question, as that of a server that is gone."""

ROWS = (
    in_bashrc("bashrc-prints", "root's `.bashrc` prints a line", "echo 'Welcome, root!'; echo 'be careful' >&2"),
    in_bashrc("bashrc-prints-no-line-end", "root's `.bashrc` prints half a line", "printf 'NodeName=n9 CPUs=0 '"),
    in_bashrc("bashrc-prints-on-the-controller", "root's `.bashrc` prints on the controller", "date; uptime", "ctl"),
    in_bashrc("bashrc-traces", "root's `.bashrc` says `set -x`", "set -x"),
    in_bashrc("bashrc-is-strict", "root's `.bashrc` says `set -eu`", "set -eu -o pipefail"),
    in_bashrc(
        "bashrc-aliases",
        "root's `.bashrc` has aliases, another prompt and another history",
        "shopt -s expand_aliases; alias ls='ls --color=always' grep='grep -n' cat=tac; PS1='%'; HISTCONTROL=ignoreboth",
    ),
    in_bashrc("umask-077", "root's umask is 077", "umask 077"),
    in_bashrc("path-is-short", "root's PATH has no `/usr/sbin`", "PATH=/usr/bin:/bin"),
    in_bashrc("language-is-german", "root's language is German", "export LANG=de_DE.UTF-8 LANGUAGE=de:en LC_ALL=de_DE"),
    in_bashrc("language-is-unset", "root has no language", "unset LANG LC_ALL LANGUAGE"),
    Oddity(
        name="profile-has-a-timeout",
        what="`/etc/profile.d` sets a readonly TMOUT, prints a line, and starts screen",
        does="printf 'readonly TMOUT=5\\necho idle shells end\\nscreen -ls\\n' >/etc/profile.d/timeout.sh",
        undoes="rm /etc/profile.d/timeout.sh",
    ),
    Oddity(
        name="bash-bashrc-prints",
        what="`/etc/bash.bashrc` and `.bash_profile` print a line",
        does="cp -a /etc/bash.bashrc /etc/bash.bashrc.usual; sed -i '1i echo for all users' /etc/bash.bashrc; "
        "echo 'echo login' >/root/.bash_profile",
        undoes="mv /etc/bash.bashrc.usual /etc/bash.bashrc; rm /root/.bash_profile",
    ),
    login_shell("tcsh-for-root", "root's shell is tcsh", "tcsh"),
    login_shell("fish-for-root", "root's shell is fish", "fish"),
    Oddity(
        name="banners",
        what="sshd shows a banner, and logins show a message of the day",
        does="echo 'Authorized use only. STATUS: Success (0)' >/etc/issue.net; echo hello >/etc/motd; "
        "echo 'Banner /etc/issue.net' >/etc/ssh/sshd_config.d/banner.conf; systemctl reload ssh",
        undoes="rm /etc/ssh/sshd_config.d/banner.conf /etc/motd; systemctl reload ssh",
    ),
    Oddity(
        name="time-zone",
        what="the host has another time zone",
        does="ln -sf /usr/share/zoneinfo/Asia/Kolkata /etc/localtime; systemctl restart slurmd",
        undoes="rm /etc/localtime; systemctl restart slurmd",
    ),
    Oddity(
        name="noexec-tmp",
        what="`/tmp` is mounted with noexec",
        does="mount -t tmpfs -o noexec,nosuid,nodev,mode=1777 tmpfs /tmp",
        undoes="umount --lazy /tmp",
    ),
    Oddity(
        name="held-foreign-package",
        what="a package that is not Slurm's is held",
        does="apt-mark hold tar",
        undoes="apt-mark unhold tar",
    ),
    Oddity(
        name="half-removed-foreign-package",
        what="a package that is not Slurm's was removed, and its configuration files are left",
        does="""awk -v RS= -v ORS='\\n\\n' '{print} /^Package: tar\\n/ {sub(/^Package: tar/, "Package: old-thing"); """
        """sub(/install ok installed/, "deinstall ok config-files"); sub(/\\nEssential: yes/, ""); print}' """
        "/var/lib/dpkg/status >/root/status && cp -a /var/lib/dpkg/status /root/status.usual && "
        "cat /root/status >/var/lib/dpkg/status",
        undoes="mv /root/status.usual /var/lib/dpkg/status; rm /root/status",
    ),
    Oddity(
        name="no-ipv6",
        what="no interface has an IPv6 address",
        does="ip -6 address flush dev eth0; ip -6 address flush dev lo",
        undoes="ip -6 address add ::1/128 dev lo",
    ),
    Oddity(
        name="more-lines-in-etc-hosts",
        what="`/etc/hosts` names other hosts, too",
        does="cp -a /etc/hosts /root/hosts; echo '192.0.2.10 license.example printer n10' >>/etc/hosts",
        undoes="cat /root/hosts >/etc/hosts; rm /root/hosts",
    ),
    Oddity(
        name="failed-foreign-unit",
        what="a unit of systemd that is not Slurm's has failed",
        does="systemd-run --quiet --unit=foreign false; systemctl is-failed --quiet foreign || sleep 0.5",
        undoes="systemctl reset-failed foreign",
    ),
    Oddity(
        name="user-with-a-high-uid",
        what="a user has a UID above 2,000,000,000",
        does="useradd --uid 2000000001 --no-create-home domain-user",
        undoes="userdel domain-user",
    ),
    Oddity(
        name="sudo-lectures",
        what="sudo lectures",
        does="echo 'Defaults lecture=always' >/etc/sudoers.d/lecture; chmod 440 /etc/sudoers.d/lecture",
        undoes="rm /etc/sudoers.d/lecture",
    ),
    Oddity(
        name="hung-foreign-mount",
        what="a file system that Slurm does not use answers no question, as that of a server that is gone",
        does=HUNG,
        undoes="systemctl stop hung; umount --lazy /srv/hung 2>/dev/null; rm /root/hung.py",
    ),
    Oddity(
        name="full-foreign-disk",
        what="a file system that Slurm does not use is full",
        does="mkdir /srv/full; mount -t tmpfs -o size=64k tmpfs /srv/full; cat /dev/zero >/srv/full/zero || true",
        undoes="umount /srv/full; rmdir /srv/full",
    ),
    Oddity(
        name="etc-nologin-on-the-controller",
        what="/etc/nologin exists on the controller, to which the slurm user has no login",
        does="touch /etc/nologin",
        undoes="rm /etc/nologin",
        host="ctl",
    ),
)
