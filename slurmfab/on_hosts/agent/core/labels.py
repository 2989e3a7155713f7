"""SELinux's labels of files: where a kernel has SELinux, what root writes gets the label that the policy has for it.

libselinux tells the policy's label of a path; systemd and sshd need it, so that it is there. As for restorecon(8), a
label is right if its type is: user, role and level depend on who wrote the file. A type that sites give to paths of
their own choice (customizable_types(5)) is right everywhere. Without SELinux nothing here does anything.

None of this was ever used where a kernel enforced SELinux.
"""

from __future__ import annotations

import errno
import functools
import os
from contextlib import suppress
from typing import Any, Optional, Tuple

ENFORCE = "/sys/fs/selinux/enforce"  # is there where the kernel has SELinux (selinux(8)); 1 where it enforces
ATTRIBUTE = "security.selinux"
LIBRARY = "libselinux.so.1"
MOUNTS = "/proc/self/mountinfo"

FILES, FILE_OF_POLICY = 0, 3  # SELABEL_CTX_FILE and SELABEL_OPT_PATH (selabel_open(3))
NO_RULE = "default_t"
"""What the policy has for paths that it does not know, such as /scratch. Sites label those, and daemons that SELinux
confines have no business there, so that they stay as they are."""

MAX_LABEL = 4096  # bytes


class Policy:
    """The policy's labels of paths, from a file (file_contexts(5)), by default the one in use. OSError for none."""

    def __init__(self, file: str = "") -> None:
        import ctypes  # slow to import, and most hosts have no SELinux

        class Option(ctypes.Structure):
            _fields_ = (("type", ctypes.c_int), ("value", ctypes.c_char_p))

        self.ctypes: Any = ctypes
        self.library: Any = ctypes.CDLL(LIBRARY, use_errno=True)
        self.library.selabel_open.restype = ctypes.c_void_p
        self.library.selabel_open.argtypes = [ctypes.c_uint, ctypes.POINTER(Option), ctypes.c_uint]
        place, found = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
        self.library.selabel_lookup_raw.argtypes = [place, found, ctypes.c_char_p, ctypes.c_int]
        self.library.freecon.argtypes = [ctypes.c_void_p]
        option = Option(FILE_OF_POLICY, os.fsencode(file))
        self.handle = self.library.selabel_open(FILES, option if file else None, int(bool(file)))
        if not self.handle:
            code = ctypes.get_errno()
            raise OSError(code, "SELinux's policy has no readable labels of files: %s" % os.strerror(code))

    def label(self, path: str, mode: int) -> bytes:
        """The label for a path, as something of this kind (`st_mode`); empty where the policy has none for it."""
        found = self.ctypes.c_void_p()
        if self.library.selabel_lookup_raw(self.handle, self.ctypes.byref(found), os.fsencode(path), mode):
            return b""
        try:
            label: bytes = self.ctypes.string_at(found.value)
        finally:
            self.library.freecon(found)
        return b"" if type_of(label) == NO_RULE else label

    def is_free(self, label: bytes) -> bool:
        """Whether sites give this label to paths of their own choice."""
        return bool(self.library.is_context_customizable(label.rstrip(b"\0")) == 1)


@functools.lru_cache(maxsize=1)
def policy() -> Optional[Policy]:
    """The policy in use; `None` where the kernel has no SELinux, or a user writes own files. OSError as `Policy`."""
    return Policy() if os.path.exists(ENFORCE) and os.getuid() == 0 else None


def type_of(label: bytes) -> str:
    """The type in a label, such as `etc_t` of `system_u:object_r:etc_t:s0`; all of it where it has another form."""
    text = label.rstrip(b"\0").decode("ascii", "backslashreplace")
    return text.split(":")[2] if text.count(":") > 1 else text


def give(descriptor: int, path: str) -> None:
    """Give what was made just now, an open file or directory, the label for the path that it will have."""
    with suppress(PermissionError):  # of a root that is confined: the comparison tells what is wrong
        mend(descriptor, path)


def give_name(descriptor: int, name: str, path: str) -> None:
    """Give what was made just now in an open directory, which only root can change, the label for its later path."""
    known = policy()
    if known is not None:
        mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
        with suppress(PermissionError):
            put("/proc/self/fd/%d/%s" % (descriptor, name), known.label(path, mode), follow=False)


def mend(descriptor: int, path: str) -> None:
    """Give an open file or directory the label for its path. Raises OSError."""
    known = policy()
    if known is not None:
        put("/proc/self/fd/%d" % descriptor, known.label(path, os.fstat(descriptor).st_mode))


def put(place: str, label: bytes, *, follow: bool = True) -> None:
    """Write a label, if any, where the file system keeps labels. Raises OSError."""
    if not label:
        return
    try:
        os.setxattr(place, ATTRIBUTE, label + b"\0", follow_symlinks=follow)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise


def difference(descriptor: int, path: str) -> Optional[Tuple[str, str]]:
    """The type that an open file or directory has, empty for none, and the policy's; `None` where they agree.

    They agree, too, where the policy has no label for the path, or the file system keeps none.
    """
    known = policy()
    status = os.fstat(descriptor)
    wanted = known.label(path, status.st_mode) if known is not None else b""
    if known is None or not wanted:
        return None
    try:
        actual = os.getxattr("/proc/self/fd/%d" % descriptor, ATTRIBUTE)[:MAX_LABEL]
    except OSError as error:
        if error.errno != errno.ENODATA:
            return None
        actual = b""
    types = type_of(actual), type_of(wanted)
    if types[0] == types[1] or known.is_free(actual) or not keeps_labels(status.st_dev):
        return None
    return types


def keeps_labels(device: int) -> bool:
    """Whether a mounted file system keeps a label for each file, which NFS and others do not (`seclabel`, mount(8))."""
    number = "%d:%d" % (os.major(device), os.minor(device))
    with open(MOUNTS, encoding="utf-8", errors="replace") as file:
        mounts = [line.split() for line in file]
    with_labels = {fields[2] for fields in mounts if "seclabel" in fields[-1].split(",")}
    # btrfs has numbers of its own in stat(2), and no kernel with SELinux has no such mount.
    return not with_labels or number in with_labels or number not in {fields[2] for fields in mounts}
