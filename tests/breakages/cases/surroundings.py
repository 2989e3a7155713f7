"""What Slurm and its users find around them on a host: /tmp, the ways of looking up names, variables of all logins."""

from __future__ import annotations

from breakage import Breakage, Checked

ROWS = (
    Breakage(
        name="tmp-closed",
        what="/tmp has the mode 0755",
        breaks="chmod 0755 /tmp",
        check=("/tmp has the mode 755: programs of users and of jobs fail",),
        deploy=Checked("chmod 1777 /tmp"),
    ),
    Breakage(
        name="tmp-without-sticky-bit",
        what="users can remove each other's files in /tmp",
        breaks="chmod 0777 /tmp",
        check=("/tmp has the mode 777: users can remove files of others there",),
        deploy=Checked("chmod 1777 /tmp"),
    ),
    Breakage(
        name="tmp-full",
        what="/tmp is full",
        breaks="mount -t tmpfs -o size=64k,mode=1777 tmpfs /tmp; head -c 1M /dev/zero >/tmp/large 2>/dev/null || true",
        check=("/tmp is full (0 KiB left): programs of users and of jobs fail",),
        deploy=Checked("rm /tmp/large; umount /tmp"),
    ),
    Breakage(
        name="nsswitch-without-hosts-file",
        what="/etc/nsswitch.conf does not look up hosts in /etc/hosts",
        breaks="sed -i 's/^hosts:.*/hosts: dns/' /etc/nsswitch.conf",
        check=(
            "hosts in /etc/nsswitch.conf (dns) leaves out /etc/hosts",
            "write `files` into that line of /etc/nsswitch.conf",
        ),
        deploy=Checked("sed -i 's/^hosts:/& files/' /etc/nsswitch.conf"),
    ),
    Breakage(
        name="variable-of-all-logins",
        what="/etc/environment sets SLURM_CONF for all logins",
        breaks="cp -a /etc/environment /etc/environment.usual; echo SLURM_CONF=/opt/slurm.conf >>/etc/environment",
        host="ctl",
        check=("/etc/environment sets SLURM_CONF=/opt/slurm.conf",),
        deploy=Checked("mv /etc/environment.usual /etc/environment"),
    ),
    Breakage(
        name="another-address-in-hosts",
        what="a line of /etc/hosts gives a node another address beside its own",
        breaks="sed -i '1i 10.99.99.99 n2' /etc/hosts",
        check=("line 1 of /etc/hosts gives n2 another address, 10.99.99.99", "remove the name from that line on n1"),
        deploy=Checked("sed -i 1d /etc/hosts"),
    ),
)
