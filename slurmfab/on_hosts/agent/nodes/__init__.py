"""Compute nodes as slurmctld sees them: drained, resumed, rebooted, tried with a job."""
