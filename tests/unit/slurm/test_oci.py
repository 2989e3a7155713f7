"""The text of oci.conf, whole, for two versions that read it differently."""

from __future__ import annotations

from slurmfab.cluster.slurm.oci import oci_conf
from slurmfab.cluster.slurm.versions import SlurmVersion

OLD = """\
# Made by slurmfab from the cluster file, for containers: [oci]; edits here are overwritten.
# The runtime gives a container the GPUs of its job, and leaves it in the job's control groups.
RunTimeRun="/usr/bin/python3 -E -S -s -B /usr/local/lib/slurmfab/oci/run.py run %b %j.%s.%t TMPDIR,SCRATCH"
# Slurm wants all of these, and runs them as root when a step ends; it ends the processes of a step itself.
RunTimeQuery="/usr/bin/python3 -E -S -s -B /usr/local/lib/slurmfab/oci/run.py query"
RunTimeKill="/usr/bin/python3 -E -S -s -B /usr/local/lib/slurmfab/oci/run.py kill"
RunTimeDelete="/usr/bin/python3 -E -S -s -B /usr/local/lib/slurmfab/oci/run.py delete %j.%s %u"
"""
NEW = """\
# Where a container finds the files of its step: below /dev, so that no image needs a directory for them.
MountSpoolDir="/dev/slurm"
"""


def test_oci_conf_when_slurm_is_22_05_then_it_has_what_that_knows() -> None:
    assert oci_conf(SlurmVersion.parse("22.05.8"), ("SCRATCH", "TMPDIR")) == OLD


def test_oci_conf_when_slurm_is_newer_then_its_own_directory_is_below_dev() -> None:
    assert oci_conf(SlurmVersion.parse("24.11.5")) == OLD.replace(",SCRATCH", "") + NEW
