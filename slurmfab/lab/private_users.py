"""Hosts whose root is nobody on this machine: their users have numbers of their own, in a user namespace.

What such a host's root may do, it may do to the host alone: the kernel refuses it devices, the settings in /proc/sys,
modules, file systems of disks and other users' processes. The files on its disk keep their numbers, by mounts that map
them, so that nothing is copied for that. This file is also a program of its own, since the mounts are made as root of
such a host, and system calls are closed for good.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import re
import select
import shutil
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

FIRST, COUNT = 1 << 30, 1 << 31
"""The numbers on this machine of such a host's users: its root is `FIRST`. Users of this machine have smaller ones."""

OPTIONS = (
    f"--private-users={FIRST}:{COUNT}",
    "--private-users-ownership=off",
    "--drop-capability=CAP_AUDIT_CONTROL,CAP_DAC_READ_SEARCH,CAP_IPC_OWNER,CAP_LEASE,CAP_LINUX_IMMUTABLE,CAP_MKNOD,"
    "CAP_NET_BROADCAST,CAP_NET_RAW,CAP_SYS_TTY_CONFIG",
)
"""Options of systemd-nspawn. Without others it leaves the capabilities and system calls that systemd needs, and shows
/proc/sys and /sys read-only; the network namespace is not the host's own, so its root changes nothing there."""

OF_NETWORK = {"ip_unprivileged_port_start": "0", "ping_group_range": "0 2147483647"}
"""Settings in /proc/sys/net/ipv4 of such a host's network namespace: ports below 1024, and ping, are for everybody."""

ASKED = "run/lab-run"  # the socket of a host's init, below its root, that takes commands

NOT_ASKED = "The host cannot be asked: "  # the beginning of what `run` says where it has run nothing

MOST_PROCESSES = 8192  # of one host

FAMILIES = (1, 2, 10, 16)  # of sockets that such a host may have: UNIX, INET, INET6, NETLINK
"""Others, such as those to a hypervisor, know no network namespaces."""

NUMBERS = {"x86_64": (0xC000003E, 41, 257, 317), "aarch64": (0xC00000B7, 198, 56, 277)}
"""By machine: what seccomp(2) calls it, and the numbers of socket(2), openat(2) and seccomp(2)."""

ATTACHING = re.compile(rb"/sys/fs/cgroup/[\w,=]+/(?:[^\n]*/)?(?:cgroup\.procs|tasks)")
"""Files by which a process is put into a control group."""

_IO_URING_SETUP, _OF_OTHER_ABI = 425, 0x40000000  # a system call that makes sockets by itself; the first number of x32
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = (
    0x20,
    0x54,
    0x15,
    0x35,
    0x06,
)  # operations of the kernel's filters (linux/bpf_common.h)
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16  # where a filter finds them (struct seccomp_data)
_ASK = 0x7FC00000  # asks the one who holds the filter's descriptor
_SECOND_ARGUMENT = 32  # the third, counted from one: how a file is opened
_SET_FILTER, _NEW_LISTENER = 1, 1 << 3  # of seccomp(2)
_RECEIVE, _SEND, _ADD = 0xC0502100, 0xC0182101, 0x40182103  # of ioctl(2) (linux/seccomp.h)
_CONTINUE, _ANSWERS = 1, 1 << 1
_LONGEST_PATH = 4096  # with its end (PATH_MAX of linux/limits.h)
_IS_VALID = 0x40082102  # of ioctl(2): whether who asked still waits
_OPENAT2, _CGROUP_MAGIC = 437, 0x27E0EB
_NO_MOUNTS, _NO_LINKS, _BENEATH, _IN_ROOT = 0x01, 0x04, 0x08, 0x12  # of openat2(2) (linux/openat2.h)
_MOST_LEVELS = 8192  # of control groups in one another
_ANSWER_SECONDS = 10.0  # how long a host may take to take a command

_CLONE_NEWUSER = 0x10000000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # numbers of system calls, the same on all architectures
_CLONE, _EMPTY_PATH, _SOURCE_IS_DESCRIPTOR, _IDMAP = 1, 0x1000, 4, 0x00100000
_AT_WORKING_DIRECTORY, _DETACH, _PRIVATE = -100, 2, 1 << 18
_SET_SECURE_BITS, _KEEP_CAPABILITIES = 28, 1 << 2  # of prctl(2): a change of users leaves the capabilities
_libc = ctypes.CDLL(None, use_errno=True)


class Attributes(ctypes.Structure):
    """What mount_setattr(2) changes."""

    _fields_ = (
        ("set", ctypes.c_uint64),
        ("cleared", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def mounting(layers: Sequence[str], directory: Path, root: Path, name: str) -> list[str]:
    """The command that mounts a host's root file system: an overlay whose files belong to the host's users.

    `layers`: the lower directories, topmost first. `directory`: the host's, with the directories `upper` and `work`.
    """
    return [sys.executable, "-I", __file__, "mount", str(root), name, str(directory), *layers]


def closed(argv: Sequence[str], groups: Sequence[Path] = ()) -> list[str]:
    """The command that runs another one for which `FAMILIES` are the only sockets. `groups`: its control groups."""
    return [sys.executable, "-I", __file__, "close", *map(str, groups), "--", *argv]


def asking(pid: int, argv: Sequence[str]) -> list[str]:
    """The command by which a host's own init runs another one. `pid`: of that init."""
    return [sys.executable, "-I", __file__, "run", str(pid), *argv]


def changing(root: Path) -> list[str]:
    """The command that makes changes in a host's root file system: `Step`s in JSON, on its standard input."""
    return [sys.executable, "-I", __file__, "change", str(root)]


Step = tuple[str, str, str, int]
"""A change: what (`file`, `link`, `folder`, `empty`, `gone`), the path on the host, text or target, and mode."""


def own(directory: Path, names: Sequence[str] = ()) -> None:
    """Give a directory, and files in it, to the root of such hosts; those that are not there are passed over."""
    for path in (directory, *(directory / name for name in names)):
        with suppress(FileNotFoundError):
            os.chown(path, FIRST, FIRST, follow_symlinks=False)


def require(result: int, what: str) -> int:
    """The result of a system call; OSError if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def user_namespace() -> int:
    """A descriptor of a user namespace with the numbers of such hosts; it exists as long as that is open."""
    (made, tell_made), (ended, end) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        done = _libc.unshare(_CLONE_NEWUSER)
        os.write(tell_made, b"0" if done else b"1")
        os.read(ended, 1)
        os._exit(0)
    try:
        require(int(os.read(made, 1)) - 1, "a user namespace")
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{child}/{kind}").write_text(f"0 {FIRST} {COUNT}")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    finally:
        os.write(end, b"1")
        os.waitpid(child, 0)


def mount_mapped(source: str, place: Path, userns: int) -> None:
    """Mount a directory so that its files belong to the users of a user namespace."""
    place.mkdir()
    tree = require(_libc.syscall(_OPEN_TREE, _AT_WORKING_DIRECTORY, source.encode(), _CLONE | os.O_CLOEXEC), source)
    # Private: where mounts are shared, as systemd makes them, its end would end what is mounted in its source as well.
    wanted = Attributes(_IDMAP, 0, _PRIVATE, userns)
    changed = _libc.syscall(_MOUNT_SETATTR, tree, b"", _EMPTY_PATH, ctypes.byref(wanted), ctypes.sizeof(wanted))
    require(changed, f"users of {source}")
    where = _AT_WORKING_DIRECTORY, str(place).encode()
    require(_libc.syscall(_MOVE_MOUNT, tree, b"", *where, _SOURCE_IS_DESCRIPTOR), str(place))


def mount(root: str, name: str, directory: str, *layers: str) -> None:
    """Mount an overlay as root of such hosts, which its files that are written belong to."""
    userns, places = user_namespace(), Path(directory, "mapped")
    places.mkdir(exist_ok=True)
    mapped = [places / str(number) for number in range(len(layers) + 1)]
    try:
        for source, place in zip((directory, *layers), mapped, strict=True):
            mount_mapped(source, place, userns)
        upper, lower = mapped[0], ":".join(map(str, mapped[1:]))
        require(_libc.prctl(_SET_SECURE_BITS, _KEEP_CAPABILITIES, 0, 0, 0), "capabilities")
        _libc.setfsgid(ctypes.c_uint(FIRST))
        _libc.setfsuid(ctypes.c_uint(FIRST))
        options = f"lowerdir={lower},upperdir={upper}/upper,workdir={upper}/work"
        require(_libc.mount(name.encode(), root.encode(), b"overlay", ctypes.c_ulong(0), options.encode()), root)
    finally:
        _libc.setfsuid(0)
        _libc.setfsgid(0)
        for place in mapped:
            _libc.umount2(str(place).encode(), _DETACH)  # the overlay holds what it needs
            if place.is_dir():
                place.rmdir()


class Filter(ctypes.Structure):
    """The length and the place of a filter."""

    _fields_ = (("length", ctypes.c_ushort), ("rows", ctypes.c_char_p))


def close(*words: str) -> None:
    """Run a command that can have no other sockets, nor its children. System calls of other machines are refused.

    `words`: the control groups of the command, `--`, and the command.
    """
    groups, argv = words[: words.index("--")], words[words.index("--") + 1 :]
    machine, socket_, openat, seccomp = NUMBERS[os.uname().machine]
    # Operation, how many rows a jump skips if it is so and if not, and the value.
    rows = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 0, 10 + len(FAMILIES), machine),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 8 + len(FAMILIES), 0, _OF_OTHER_ABI),
        (_EQUAL, 7 + len(FAMILIES), 0, _IO_URING_SETUP),
        (_EQUAL, 0, 4, openat),
        (_LOAD, 0, 0, _SECOND_ARGUMENT),
        (_AND, 0, 0, 0xFFFFFFFF & ~os.O_CLOEXEC),
        (_EQUAL, 0, 4 + len(FAMILIES), os.O_WRONLY),
        (_RETURN, 0, 0, _ASK),
        (_EQUAL, 0, 2 + len(FAMILIES), socket_),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        *((_EQUAL, len(FAMILIES) - number, 0, family) for number, family in enumerate(FAMILIES)),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    packed = b"".join(struct.pack("HBBI", *row) for row in rows)
    program = Filter(len(rows), packed)
    here, there = socket.socketpair()
    if not os.fork():
        here.close()
        _, (listener, *_), _, _ = socket.recv_fds(there, 1, 1)
        there.close()
        attach(listener, groups)
        os._exit(0)
    there.close()
    listener = _libc.syscall(seccomp, _SET_FILTER, _NEW_LISTENER, ctypes.byref(program))
    socket.send_fds(here, [b"1"], [require(listener, "a filter of system calls")])
    here.close()
    os.close(listener)
    os.execvp(argv[0], argv)  # noqa: S606 - there is nothing for a shell


def attach(listener: int, own_groups: Sequence[str]) -> None:
    """Open, for root of a host, the files by which it puts processes of its users into its control groups.

    In control groups of version 1 the kernel lets nobody do that but root of this machine, and each its own processes.
    """
    tops = [Path(place).stat() for place in own_groups]
    ends = select.poll()
    ends.register(listener, select.POLLIN)
    while all(not event & select.POLLHUP for _, event in ends.poll()):
        asked = bytearray(80)
        try:
            fcntl.ioctl(listener, _RECEIVE, asked)
        except OSError:
            continue  # who asked has ended
        number, pid, _, _, _, _, _, path = struct.unpack_from("QIIiIQQQ", asked)
        opened = -1
        # Whatever a host asks, the next one who asks is answered.
        with suppress(Exception), ExitStack() as held:
            opened = open_group(
                pid, path, tops, partial(fcntl.ioctl, listener, _IS_VALID, struct.pack("Q", number)), held
            )
        with suppress(OSError):
            if opened >= 0:
                fcntl.ioctl(listener, _ADD, struct.pack("QIIII", number, _ANSWERS, opened, 0, os.O_CLOEXEC))
            else:
                fcntl.ioctl(listener, _SEND, struct.pack("QqiI", number, 0, 0, _CONTINUE))
        if opened >= 0:
            os.close(opened)


def open_group(
    pid: int, place: int, tops: Sequence[os.stat_result], require_valid: Callable[[], object], held: ExitStack
) -> int:
    """A descriptor of the file that a process names at a place of its memory, if root of a host may have it; or -1.

    `tops`: the host's own control groups. `require_valid`: raises OSError if the process is no more the one that asked.
    `held`: closes what else is opened.
    """
    status = Path(f"/proc/{pid}/status").read_bytes()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        memory.seek(place)
        path = memory.read(_LONGEST_PATH).partition(b"\0")[0]  # less where the process has no memory behind it
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    held.callback(os.close, root)
    require_valid()
    is_root = re.search(rb"^Uid:\t\d+\t%d\t" % FIRST, status, re.MULTILINE)
    if not is_root or not ATTACHING.fullmatch(path):
        return -1
    folder, _, name = path.rpartition(b"/")
    group = open_below(root, folder, os.O_PATH | os.O_DIRECTORY, _IN_ROOT)
    held.callback(os.close, group)
    if not is_group(group) or not is_below(group, tops):
        return -1
    # The name itself: nothing that is mounted on it, and nothing that it leads to.
    return open_below(group, name, os.O_WRONLY | os.O_NONBLOCK, _BENEATH | _NO_LINKS | _NO_MOUNTS)


def open_below(directory: int, path: bytes, flags: int, resolve: int) -> int:
    """A descriptor of a file, by a path whose links lead nowhere out of an open directory (openat2(2))."""
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, 0, resolve)
    return int(require(_libc.syscall(_OPENAT2, directory, path, how, len(how)), os.fsdecode(path)))


def is_group(descriptor: int) -> bool:
    """Whether an open directory is a control group of version 1."""
    about = ctypes.create_string_buffer(256)
    require(_libc.fstatfs(descriptor, about), "a control group")
    return int.from_bytes(about.raw[:8], sys.byteorder) == _CGROUP_MAGIC


def is_below(group: int, tops: Sequence[os.stat_result]) -> bool:
    """Whether an open control group is one of these, or inside of one; hosts make no more than some thousand levels."""
    here = os.dup(group)
    try:
        for _ in range(_MOST_LEVELS):
            if any(os.path.samestat(os.fstat(here), top) for top in tops):
                return True
            above = os.open("..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = above
            if not is_group(here):
                return False
    finally:
        os.close(here)
    return False


def run(pid: str, *argv: str) -> None:
    """Have a host's own init run a command with this program's input and outputs, and end with its exit code.

    `pid`: of that init. So the command has what the host's other processes have, and nothing of this one's but these.
    """
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    place = open_below(root, ASKED.encode(), os.O_PATH | os.O_NOFOLLOW, _IN_ROOT | _NO_LINKS)
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(_ANSWER_SECONDS)
        asked.connect(f"/proc/self/fd/{place}")
        socket.send_fds(asked, [b" "], [0, 1, 2])
        asked.sendall(json.dumps(argv).encode() + b"\n")
        asked.settimeout(None)
        answer = asked.recv(8)
    code = int(answer) if re.fullmatch(rb"-?\d{1,3}\n", answer) else None
    if code is None:
        sys.exit("The host did not say how the command has ended.")
    sys.exit(code if code >= 0 else 128 - code)


def change(root: str) -> None:
    """Make changes in a host's root file system, where it has put what it likes: nothing leads out of it.

    Links on the way lead to places in it, as on the host; one in the place of a file is replaced. Nothing is imported
    once it is the root.
    """
    steps: list[Step] = json.load(sys.stdin)
    os.chroot(root)
    os.chdir("/")
    for what, place, text, mode in steps:
        if what in ("folder", "empty"):
            os.makedirs(place, exist_ok=True)  # noqa: PTH103 - pathlib may import more
        if what == "empty":
            with os.scandir(place) as found:
                for entry in list(found):
                    remove = shutil.rmtree if entry.is_dir(follow_symlinks=False) else os.unlink
                    remove(entry.path)
        if what in ("file", "link", "gone"):
            new = f"{place}.slurmfab-new"
            for old in (place, new):
                with suppress(FileNotFoundError):
                    os.unlink(old)  # noqa: PTH108
        if what in ("file", "link"):
            os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120
        if what == "link":
            os.symlink(text, place)  # noqa: PTH211
        if what == "file":
            opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            with os.fdopen(opened, "w", encoding="utf-8") as file:
                file.write(text)
                os.fchmod(opened, mode)  # whatever the umask
            os.rename(new, place)  # noqa: PTH104


if __name__ == "__main__":
    try:
        known: dict[str, Callable[..., None]] = {"close": close, "mount": mount, "run": run, "change": change}
        known[sys.argv[1]](*sys.argv[2:])
    except OSError as error:
        if sys.argv[1] in ("run", "change"):
            sys.exit(f"{NOT_ASKED}{error}")
        sys.exit(
            f"The hosts cannot have users of their own: {error.filename}: {error.strerror}. "
            "That needs Linux 5.19 or newer, and 6.3 for a tmpfs."
        )
