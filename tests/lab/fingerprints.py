"""How hosts look when a deployment is through, and how each of their files looked at every moment on the way there."""

from __future__ import annotations

import shlex

from lab_cluster import DeployedLab

KEY = "/etc/munge/munge.key"
SLURM_FILES = tuple(f"/etc/slurm/{name}" for name in ("slurm.conf", "cgroup.conf", "gres.conf"))
MANAGED = (
    "/etc/hosts",
    *SLURM_FILES,
    "/etc/ssh/ssh_known_hosts",
    "/var/lib/slurm/home/.ssh/authorized_keys",
    KEY,
)
DIRECTORIES = (
    "/etc/slurm",
    "/etc/munge",
    "/var/lib/slurm",
    "/var/lib/slurm/home",
    "/var/spool/slurmd",
    "/var/log/slurm",
)
PACKAGE_KEY = f"[ -s {KEY} ] && stat -c %s {KEY} | sed 's/^128$/whole/' || echo absent"
"""The key that munge's package makes on every host is of 128 bytes, as is the one that replaces it."""
AT_WORK = "pgrep -fc '[p]ython3 -I -B' || true"
"""How many agents run on a host."""
INSTALLS = "pgrep -f '[d]pkg .*--(unpack|configure) ' >/dev/null && echo installs"
"""Whether packages are unpacked or set up on a host; apt runs dpkg for less long before that."""
LOCK_IS_FREE = "[ ! -e /run/slurmfab.lock ] || flock -n /run/slurmfab.lock true && echo free"
LEFTOVERS = (
    "find / /run -xdev -ignore_readdir_race '(' -name '*slurmfab*' -o -path '/usr/sbin/*policy-rc.d*' ')'"
    " ! -path /run/slurmfab.lock ! -path '/run/slurmfab-agent*' ! -path '/var/lib/slurmfab*'"
    " ! -path /etc/logrotate.d/slurmfab-slurmd ! -path '/etc/systemd/system/*.service.d/slurmfab-user.conf'"
    " ! -path '/etc/systemd/system/*.service.d/10-slurmfab.conf' ! -path '*/slurmfab-recovery*'"
    " ! -path /usr/local/lib/slurmfab ! -path '/usr/local/lib/slurmfab/recovery*' ! -path '/run/systemd/units/*'"
)
"""Temporary files and staging directories anywhere, and the policy that keeps daemons from starting; neither the lock
nor what hosts keep in memory of the agent, and for a rollback, nor files that each cluster has. systemd keeps a link in
/run/systemd/units while a service runs, such as that of the recovery, every 15 seconds."""

WATCH = f"""
import hashlib, time
last = {{}}
with open('/root/seen', 'a', buffering=1) as out:
    while True:
        for path in {MANAGED!r}:
            try:
                with open(path, 'rb') as stream:
                    content = stream.read()
                now = '%s %d' % (hashlib.sha256(content).hexdigest(), len(content))
            except OSError:
                now = 'absent'
            if last.get(path) != now:
                last[path] = now
                out.write(path + ' ' + now + '\\n')
        time.sleep(0.002)
"""
"""Notes each content that a managed file ever has."""

LOOK = f"""
stat -c '%n %a %U %G' {" ".join((*MANAGED, *DIRECTORIES))} 2>&1
sha256sum /etc/hosts {" ".join(SLURM_FILES)} 2>&1
for unit in munge slurmctld slurmd; do
    echo "$unit: $(systemctl is-enabled $unit 2>&1) $(systemctl is-active $unit 2>&1)"
done
getent passwd slurm munge; getent group slurm munge
dpkg-query --show --showformat='${{Package}} ${{Version}} ${{Status}}\\n'
dpkg --audit
{LEFTOVERS}
"""
"""All that a deployment decides, but for what is random: keys that were made anew have no sum here."""

CLUSTER = "scontrol -o show partition; sinfo --noheader --format='%P %N %T %E'"
"""What slurmctld makes of it."""


EVERY_FILE = (
    "find / -xdev '(' -path /run -o -path /var/log -o -path /var/lib/systemd -o -path /var/lib/slurm/slurmctld"
    " -o -path /var/spool/slurmctld -o -path /var/spool/slurmd -o -path /var/lib/slurm/slurmd -o -path /var/lib/mysql"
    " ')' -prune -o -printf '%p %y %m %U %G %s %T@ %C@\\n' | sort"
)
"""Name, kind, access, owner, size and times of every file, but for logs, and what daemons write without being asked."""


def every_file(hosts: DeployedLab, *names: str) -> dict[str, set[str]]:
    """All files of hosts; equal values mean that nobody has written, moved or removed any, not even the same text."""
    return {name: set(hosts.on(name, EVERY_FILE).splitlines()) for name in names}


def watch(hosts: DeployedLab, *names: str) -> None:
    """Begin to note how managed files look, until the hosts go down."""
    for name in names:
        hosts.on(name, f"systemd-run --quiet python3 -c {shlex.quote(WATCH)}")
        hosts.until(name, f"grep -c {KEY} /root/seen", "1")


def seen(hosts: DeployedLab, name: str) -> set[str]:
    """All contents that managed files had on a host since it is watched: path, sum and size, or `absent`."""
    return set(hosts.on(name, "cat /root/seen").splitlines())


def now(hosts: DeployedLab, name: str) -> set[str]:
    """The contents of managed files on a host at this moment, in the same form."""
    paths = " ".join(MANAGED)
    script = (
        f"for path in {paths}; do [ -e $path ] && set -- $(sha256sum $path) && echo $path $1 $(stat -c %s $path)"
        " || echo $path absent; done"
    )
    return set(hosts.on(name, script).splitlines())


def looks(hosts: DeployedLab, *names: str) -> dict[str, list[str]]:
    """How hosts look; two are equal when two deployments came to the same end."""
    return {name: hosts.on(name, LOOK).splitlines() for name in names}


def differences(one: dict[str, list[str]], other: dict[str, list[str]]) -> dict[str, list[str]]:
    """The lines by host that are in one of two looks alone; none if the hosts look the same."""
    return {host: odd for host in one if (odd := sorted(set(one[host]) ^ set(other[host])))}


def at_rest(hosts: DeployedLab, *names: str) -> None:
    """Wait until nobody works on hosts any more, and see that no lock is left."""
    for name in names:
        hosts.until(name, AT_WORK, "0", 120)
        # A process that ends loses its arguments, by which it is found above, a moment before its files and locks.
        hosts.until(name, LOCK_IS_FREE, "free", 10)
