"""Values of Slurm's keys that Slurm refuses: named with their line, and what to write, before anything is stopped."""

from __future__ import annotations

from breakage import Setting

LEFT = "Slurm's files and daemons were left as they are."

ROWS = (
    Setting(
        name="number-in-letters",
        what="`SlurmdTimeout: five`",
        text="slurm_conf:\n  SlurmdTimeout: five\n",
        plan=('slurm_conf.SlurmdTimeout: "five" is not a whole number of seconds',),
        deploy=('slurm_conf.SlurmdTimeout: "five" is not a whole number of seconds',),
    ),
    Setting(
        name="time-in-words",
        what="`MaxTime: 7 days`",
        replaces="MaxTime: 1-00:00:00",
        text="MaxTime: 7 days",
        plan=('partitions[0].MaxTime: "7 days" is not a time of Slurm; write MaxTime: 7-00:00:00',),
        deploy=('partitions[0].MaxTime: "7 days" is not a time of Slurm; write MaxTime: 7-00:00:00',),
    ),
    Setting(
        name="memory-with-a-unit",
        what="`RealMemory: 900G`",
        replaces="- hosts: n[1-2]\n",
        text="- hosts: n[1-2]\n    RealMemory: 900G\n",
        plan=('nodes[0].RealMemory: "900G" is not a whole number of MB; write RealMemory: 900000',),
        deploy=('nodes[0].RealMemory: "900G" is not a whole number of MB; write RealMemory: 900000',),
    ),
    Setting(
        name="memory-above-the-hardware",
        what="`RealMemory` above what the nodes have",
        replaces="- hosts: n[1-2]\n",
        text="- hosts: n[1-2]\n    RealMemory: 90000000\n",
        plan=("n[1-2]: the cluster file gives RealMemory=90000000, and the lock has", "`slurmd -C`"),
        deploy=("n[1-2]: the cluster file gives RealMemory=90000000", "Nothing was changed"),
    ),
    Setting(
        name="cpus-above-the-hardware",
        what="`CPUs` above what the nodes have",
        replaces="- hosts: n[1-2]\n",
        text="- hosts: n[1-2]\n    CPUs: 6000\n",
        plan=("n[1-2]: the cluster file gives CPUs=6000, and the lock has", "`slurmd -C`"),
        deploy=("n[1-2]: the cluster file gives CPUs=6000", "Nothing was changed"),
    ),
    Setting(
        name="preemption-without-a-mode",
        what="`PreemptType` without `PreemptMode`",
        text="slurm_conf:\n  PreemptType: preempt/partition_prio\n",
        plan=("slurm_conf.PreemptType: Slurm on ctl refuses it", "PreemptType and PreemptMode values incompatible"),
        deploy=("slurm_conf.PreemptType: Slurm on ctl refuses it", LEFT),
        database=True,
    ),
)
