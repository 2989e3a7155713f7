#!/bin/sh
# What `make demo` shows: a lab, a deployment, its proof, and a job. BIN is where fab is, SUITE the lab's Debian release.
set -eu

passed=failed
trap '"$BIN/python" tests/lab/tried.py demo $passed' EXIT

say() { printf '\n== %s\n' "$*"; }
on_controller() { ssh -F /var/lib/slurmfab/labs/demo/ssh_config ctl "$@"; }

say "A lab: three bare hosts with systemd and sshd ($SUITE)"
"$BIN/fab" lab-down --name demo
"$BIN/fab" lab-up --name demo --nodes 2 --suite "$SUITE"

say "The deployment: fab deploy --cluster configs/lab-demo.yaml"
"$BIN/fab" deploy --cluster configs/lab-demo.yaml

say "The same again: nothing is touched"
"$BIN/fab" deploy --cluster configs/lab-demo.yaml

say "The proof: fab check-cluster"
"$BIN/fab" check-cluster --cluster configs/lab-demo.yaml

say "A job on both nodes: runuser -u slurm -- srun --nodes=2 hostname (Slurm refuses jobs of root)"
on_controller runuser -u slurm -- srun --nodes=2 --chdir=/tmp hostname
on_controller sinfo

say "The lab is still up: ssh -F /var/lib/slurmfab/labs/demo/ssh_config ctl (make demo-down removes it)"
passed=
