"""In place of a kernel with SELinux: what a host has by which such a kernel is known. Nothing is denied or enforced."""

from __future__ import annotations

ENFORCE = "/sys/fs/selinux/enforce"
PLACE = "/run/fs-with-selinux"

APPEARS = (
    f"mkdir {PLACE} && mount -t tmpfs fs {PLACE} && mkdir {PLACE}/cgroup {PLACE}/selinux && "
    f"mount --rbind /sys/fs/cgroup {PLACE}/cgroup && echo 0 >{PLACE}/selinux/enforce && mount --rbind {PLACE} /sys/fs"
)
"""Lets the kernel of a host seem to have SELinux, which enforces nothing."""

GOES = f"umount -l /sys/fs && umount -l {PLACE} && rmdir {PLACE}"
"""Takes that back."""

AUDIT_LOG = "/var/log/audit/audit.log"


def denied(about: str, *, permissive: int = 0) -> str:
    """Text for `sh -c` that writes a denial of this second into the log of the audit, as auditd(8) does."""
    line = (
        f"type=AVC msg=audit($(date +%s).123:456): avc:  denied  {about} scontext=system_u:system_r:sshd_t:s0 "
        f"tcontext=unconfined_u:object_r:var_lib_t:s0 tclass=file permissive={permissive}"
    ).replace('"', '\\"')
    return f'mkdir -p $(dirname {AUDIT_LOG}) && echo "{line}" >>{AUDIT_LOG}'


KEYS_DENIED = '{ open read } for  pid=1011 comm="sshd" path="/var/lib/slurm/home/.ssh/authorized_keys" dev="dm-0" ino=7'
"""What the audit says of an sshd that could not read the slurm user's keys."""
