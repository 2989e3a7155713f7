"""The power program of controllers, run by slurmctld and by a timer."""
