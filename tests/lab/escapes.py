"""Ways out of a container for its root: a script that tries each, harms nothing, and notes which are open."""

from __future__ import annotations

NOTES = "/var/tmp/escapes"  # where the script notes what it tried, on the host on which it runs

CALLS = r"""
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def closed(name, *args):
    done = libc.syscall(*args)
    if done >= 0 or ctypes.get_errno() not in (1, 13, 22, 38, 97):  # EPERM, EACCES, EINVAL, ENOSYS, EAFNOSUPPORT
        print("open", name, done, ctypes.get_errno())
handle = ctypes.create_string_buffer((8).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(8))
closed("a file by its handle", 304, os.open("/etc/slurm", os.O_RDONLY), handle, os.O_RDONLY)
closed("a module", 175, None, 0, b"")
closed("another kernel", 246, 0, 0, None, 0)
closed("the keys of a session", 250, 1, b"escape")
closed("ports of devices", 172, 3)
closed("swap", 167, b"/nowhere", 0)
closed("performance counters", 298, None, 0, -1, -1, 0)
closed("another way to sockets", 425, 8, ctypes.create_string_buffer(256))
for family in 38, 40:  # the kernel's ciphers, a hypervisor
    closed("family %d" % family, 41, family, socket.SOCK_STREAM, 0)
closed("raw packets", 41, socket.AF_PACKET, socket.SOCK_RAW, 0)
print("tried calls")
"""

SCRIPT = rf"""
id -u
tmp=$(mktemp -d)
tried() {{ name=$1; shift; if (eval "$*"); then echo "open $name"; fi; }}
writable() {{ dd if=/dev/null of="$1" conv=nocreat,notrunc; }}
tried core_pattern writable /proc/sys/kernel/core_pattern
tried 'core_pattern remounted' 'mount -o remount,bind,rw /proc/sys && writable /proc/sys/kernel/core_pattern'
mount -t proc proc $tmp
for name in sys/kernel/core_pattern sys/kernel/modprobe sys/kernel/hotplug sys/vm/drop_caches sysrq-trigger; do
    tried "proc $name" writable $tmp/$name
done
tried 'memory of the machine' 'head -c 1 '$tmp'/kcore || head -c 1 /dev/mem'
umount $tmp
mount -t sysfs sys $tmp
for name in kernel/uevent_helper power/state; do tried "sys $name" writable $tmp/$name; done
umount $tmp
for kind in b c; do tried "device $kind" mknod $tmp/$kind $kind 254 0; done
for name in memory devices freezer cpu pids cpuset name=systemd; do
    mount -t cgroup -o $name group $tmp && tried "agent of $name" writable $tmp/release_agent && umount $tmp
done
tried 'agent there' 'find /sys/fs/cgroup -name release_agent | grep .'
tried 'limit of the host' writable /sys/fs/cgroup/pids/pids.max
tried 'a terminal' ': </dev/tty'
grep -q '^Seccomp:.2' /proc/self/status || echo 'open all system calls'
mkdir -p $tmp/all
tried 'limit by another name' "unshare -m sh -ec 'mount --rbind /sys/fs/cgroup $tmp/all; mount -t tmpfs t /sys/fs/cgroup
    mkdir -p /sys/fs/cgroup/x; ln -s $tmp/all/pids/pids.max /sys/fs/cgroup/x/cgroup.procs
    dd if=/dev/null of=/sys/fs/cgroup/x/cgroup.procs conv=nocreat,notrunc'"
mkdir -p /sys/fs/cgroup/pids/named
tried 'limit behind a mount' "unshare -m sh -ec 'mount --bind /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids/named/tasks
    dd if=/dev/null of=/sys/fs/cgroup/pids/named/tasks conv=nocreat,notrunc'"
for kind in debugfs tracefs securityfs ext4; do tried "file system $kind" mount -t $kind /dev/vda $tmp; done
mount -t proc proc $tmp
tried 'namespace in namespace' 'unshare -Urmpf sh -c "mount -t proc proc '$tmp'; dd if=/dev/null of='$tmp/sys/kernel/core_pattern' conv=nocreat"'
tried 'address of another' ip address add 192.0.2.77/32 dev lo
tried 'this machine' ls /proc/1/root/var/lib/slurmfab/labs
gateway=$(ip -4 route show default | sed -n 's/.* via \([0-9.]*\) .*/\1/p')
for port in 22 25 111 2049 3306 6817; do tried "port $port" "timeout 2 bash -c 'exec 3<>/dev/tcp/$gateway/$port'"; done
python3 - <<'PYTHON'
{CALLS}
PYTHON
echo 'tried all'
"""  # noqa: E501

PROGRAM = f"#!/bin/sh\nexec >>{NOTES} 2>/dev/null </dev/null\n{SCRIPT}"


def found_open(notes: str) -> list[str]:
    """The ways that are open, by the script's notes; it must have tried all, as root of its host."""
    assert notes.splitlines()[:1] == ["0"], notes
    assert "tried calls" in notes, notes
    assert "tried all" in notes, notes
    return [line for line in notes.splitlines() if line.startswith("open ")]
