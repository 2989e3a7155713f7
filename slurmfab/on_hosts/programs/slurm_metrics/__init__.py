"""The program that writes Slurm's figures for Prometheus' node exporter, run by a timer on controllers."""
