"""Packages, python3 and dpkg."""

from __future__ import annotations

from breakage import Breakage, Checked, Mended, Told

STATUS = "/var/lib/dpkg/status"
HALF = "sed -i '/^Package: {0}$/,/^$/s/^Status: install ok installed/Status: install ok half-configured/' " + STATUS

ROWS = (
    Breakage(
        name="slurmd-removed",
        what="the package slurmd was removed",
        breaks="dpkg --remove slurmd",
        check=("slurmd",),
        plan=("packages:", "slurmd: (none) -> installed"),
        deploy=Mended(),
    ),
    Breakage(
        name="munge-removed",
        what="the package munge was removed by force",
        breaks="dpkg --remove --force-depends munge",
        check=("munge",),
        plan=("packages:", "munge: (none) -> installed"),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmctld-removed",
        what="the package slurmctld was removed",
        host="ctl",
        breaks="dpkg --remove slurmctld",
        check=("slurmctld",),
        plan=("packages:", "slurmctld: (none) -> installed"),
        deploy=Mended(),
    ),
    Breakage(
        name="munge-removed-and-held",
        what="the package munge was removed and is held",
        breaks="dpkg --remove --force-depends munge && echo munge hold | dpkg --set-selections",
        check=("munge",),
        plan=("munge: (none) -> installed",),
        deploy=Told(
            ("munge is held (apt-mark showhold)", "apt-mark unhold munge", "not done: n1"),
            repair="apt-mark unhold munge",
        ),
    ),
    Breakage(
        name="slurmd-half-configured",
        what="dpkg was interrupted while it configured slurmd",
        breaks=HALF.format("slurmd"),
        check=("slurmd half-configured",),
        plan=("slurmd: half-configured -> installed",),
        deploy=Mended(),
    ),
    Breakage(
        name="tar-half-configured",
        what="dpkg was interrupted while it configured a package that is not Slurm's",
        breaks=HALF.format("tar"),
        check=("tar half-configured",),
        plan=("unfinished: tar half-configured -> (none)",),
        deploy=Mended(),
    ),
    Breakage(
        name="python3-removed",
        what="python3 was removed",
        breaks="dpkg --remove --force-depends python3-minimal",
        check=("there is no python3",),
        plan=("python3 is not installed", "apt-get install --reinstall python3 python3-minimal"),
        deploy=Mended(),
    ),
    Breakage(
        name="python3-file-gone",
        what="/usr/bin/python3 was deleted, and dpkg takes it for installed",
        breaks="rm /usr/bin/python3",
        check=("there is no python3",),
        plan=("python3 is not installed",),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmstepd-gone",
        what="/usr/sbin/slurmstepd was deleted, and dpkg takes it for installed",
        breaks="rm $(dpkg -L slurmd | grep 'bin/slurmstepd')",
        check=("/usr/sbin/slurmstepd-wlm is missing, says dpkg --verify",),
        plan=("missing files: /usr/sbin/slurmstepd", " of slurmd -> (none)"),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmstepd-unlinked",
        what="/usr/sbin/slurmstepd, a link that update-alternatives makes, was deleted",
        breaks="rm /usr/sbin/slurmstepd",
        check=("/usr/sbin/slurmstepd is missing, the link of update-alternatives to the program",),
        plan=("missing files: /usr/sbin/slurmstepd of slurmd -> (none)",),
        deploy=Mended(),
    ),
    Breakage(
        name="plugin-changed",
        what="a plugin of Slurm's is another file than that of its package",
        breaks="echo >>$(dpkg -L slurm-wlm-basic-plugins | grep '/select_linear.so$')",
        check=("select_linear.so is another file, says dpkg --verify",),
        deploy=Checked("apt-get install --reinstall slurm-wlm-basic-plugins"),
    ),
)
