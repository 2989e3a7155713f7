"""Rows of what the usual cluster of the sentences has not: see `scenes`."""

from __future__ import annotations

from dataclasses import replace

from falsified import SAVED, Falsified, answering, closed, deaf, edited, stopped
from scenes import LIMITS, NEWER_ON

CGROUP, STATE = "/etc/slurm/cgroup.conf", "/shared/slurm/state"
CONF, SHARED_CONF = "/etc/slurm/slurm.conf", "/shared/slurm/etc/slurm.conf"
FAILURES, HISTORY = "/var/lib/slurmfab/power/n2", "/var/lib/slurmfab/gpu-checks/history.jsonl"
MAILER = "/usr/local/bin/mailer"
MPS = "/usr/local/bin/nvidia-cuda-mps-control"
SHORT = '{"run": "x", "time": "2026-01-01T00:00:00", "nodes": ["n1"], "outcome": "falls short", "why": "0.5 GB/s"}'
TARGETS = "http://ctl:9090/api/v1/targets?state=active"
DOWN = (
    'until python3 -c \'import urllib.request as r; print(r.urlopen("{}").read())\' | grep -q \'"health":"down"\'; '
    "do sleep 0.5; done"
)
PIPE = "/etc/systemd/system/slurmd.service.d/zz-pipe.conf"
PIPE_RELOADED = "systemctl daemon-reload && systemctl restart slurmd"
REST = "/etc/systemd/system/slurmrestd.service.d/slurmfab-rest.conf"
RELOADED = "systemctl daemon-reload && systemctl restart slurmrestd"
JUPYTER, JUPYTER_ROOTS = "slurmfab-jupyter", "/run/systemd/system/slurmfab-jupyter.service.d"
HUB_ANSWERS = "timeout 60 sh -c 'until ss -Hltn sport = :8000 | grep -q .; do sleep 0.3; done'"
HUB_AGAIN = f"systemctl daemon-reload && systemctl restart {JUPYTER} && {HUB_ANSWERS}"
AS_ROOT = "[Service]\\nDynamicUser=no\\nUser=root\\n"
REGISTRY = "/etc/docker/registry/config.yml"
CA = "/etc/containers/certs.d/ctl:5000/ca.crt"

OF_CONTROLLERS = (
    Falsified(
        "daemons.backup_runs", "n3", "slurmctld was stopped", **stopped("slurmctld"), says="slurmctld.service is"
    ),
    Falsified(
        "daemons.backup_can_use_the_state",
        "n3",
        "a file of slurmctld's state is root's",
        f"install -m 600 /dev/null {STATE}/falsified",
        f"rm {STATE}/falsified",
        "the slurm user cannot read and write",
    ),
    Falsified(
        "daemons.backup_answers",
        "n3",
        "what runs as slurmctld listens to nobody",
        **deaf("slurmctld"),
        says="`scontrol ping` says",
    ),
    Falsified(
        "daemons.backup_has_its_files",
        "n3",
        "slurm.conf was written after slurmctld's start",
        f"touch {CONF}",
        "systemctl restart slurmctld",
        "slurmctld was started before",
    ),
)
OF_SHARED_PLACES = (
    Falsified(
        "configuration.files_are_links_to_the_shared_directory",
        "n1",
        "slurm.conf is a file of the host's own",
        f"rm {CONF} && cp {SHARED_CONF} {CONF}",
        f"ln -sf {SHARED_CONF} {CONF} && systemctl restart slurmd",
        "slurm.conf in /etc/slurm is no link",
    ),
    Falsified(
        "configuration.site_files_are_as_the_cluster_file_says",
        "n1",
        "a file of the site's in Slurm's directory was edited",
        **edited("$(readlink -f /etc/slurm/plugstack.conf)", "$a # by hand"),
        says="plugstack.conf differs from the cluster file",
    ),
    Falsified(
        "storage.exports_are_served",
        "n2",
        "the NFS server was stopped",
        **stopped("nfs-server"),
        says="nfs-server is inactive",
    ),
    Falsified(
        "storage.quotas_are_set",
        "n2",
        "a user's limit is another one, as a stand-in for repquota tells",
        **edited(LIMITS, "s/,1048576,/,2097152,/"),
        says="instead of",
    ),
    Falsified(
        "network.services_are_reached",
        "n1",
        "what the node sends to the file server is dropped",
        **closed("dport", 2049),
        says="n1 cannot connect to NFS on n2",
    ),
    Falsified(
        "network.strangers_are_kept_out",
        "n1",
        "somebody deleted the rules",
        "nft delete table inet slurmfab",
        "systemctl reload slurmfab-firewall",
        "n1 has no rules of slurmfab's",
    ),
    Falsified(
        "storage.files_are_shared",
        "ctl",
        "the file server hangs",
        "pkill -STOP sftp-server",
        "pkill -CONT sftp-server",
        "no answer within 10 s",
    ),
)
OF_LOGINS = (
    Falsified(
        "ssh.controller_is_kept_out",
        "n1",
        "slurm's login to a node succeeds",
        **answering("/usr/bin/ssh", "exit 0"),
        says="the slurm user on ctl can log in to n1",
        at="ctl",
    ),
    Falsified(
        "ssh.host_is_kept_out_of_the_controller",
        "n1",
        "slurm's login to the controller succeeds",
        **answering("/usr/bin/ssh", "exit 0"),
        says="the slurm user on n1 can log in to ctl",
    ),
)
OF_POWER_AND_GPUS = (
    Falsified(
        "power.idle_nodes_are_looked_for",
        "ctl",
        "the timer was stopped",
        **stopped("slurmfab-power.timer"),
        says="slurmfab-power.timer is inactive",
    ),
    Falsified(
        "power.nodes_could_be_switched",
        "ctl",
        "a switch has failed",
        f"echo loose cable > {FAILURES}",
        f"rm {FAILURES}",
        "n2: loose cable",
    ),
    Falsified(
        "power.node_is_not_taken_for_switched_off",
        "n2",
        "Slurm powers the node down, and its switch does nothing",
        "scontrol update NodeName=n2 State=POWER_DOWN && "
        "until scontrol show node n2 | grep -q POWERED_DOWN; do sleep 0.2; done",
        "systemctl restart slurmd",
        "Slurm has it as powered down",
    ),
    Falsified(
        "gpus.idle_gpus_are_looked_for",
        "n1",
        "the service was stopped",
        **stopped("slurmfab-idle-gpus"),
        says="slurmfab-idle-gpus.service is not active",
    ),
    Falsified(
        "gpus.idle_gpus_have_consequences",
        "ctl",
        "the timer was stopped",
        **stopped("slurmfab-idle-gpus-policy.timer"),
        says="slurmfab-idle-gpus-policy.timer is inactive",
    ),
    Falsified(
        "gpus.job_with_a_share_has_one_gpu",
        "n1",
        "cgroup.conf of the node limits no devices",
        **edited(CGROUP, "s/^ConstrainDevices=.*/ConstrainDevices=no/", "slurmd"),
        says="a job that requested one GPU can open",
    ),
    Falsified(
        "mps.mps_daemon_runs_for_jobs_alone",
        "n2",
        "the daemon's program is gone",
        f"mv {MPS} {MPS}.was",
        f"mv {MPS}.was {MPS}",
        "there is no nvidia-cuda-mps-control",
    ),
    Falsified(
        "performance.gpus_are_measured",
        "ctl",
        "the timer was stopped",
        **stopped("slurmfab-gpu-check.timer", f"systemctl start slurmfab-gpu-check.timer && touch {HISTORY}"),
        says="slurmfab-gpu-check.timer is inactive",
    ),
    Falsified(
        "performance.gpus_are_fast_enough",
        "ctl",
        "the last measurement of a node fell short",
        f"mkdir -p $(dirname {HISTORY}) && echo '{SHORT}' > {HISTORY}",
        f"sed -i 's/falls short/passed/' {HISTORY}",
        "n1: 0.5 GB/s",
    ),
)
OF_WITNESSES = (
    Falsified(
        "accounting.jobs_need_no_account",
        "ctl",
        "slurmctld wants accounts",
        **answering("/usr/bin/scontrol", '$0.was "$@" | sed "s/^AccountingStorageEnforce .*/&,associations/"'),
        says="slurmctld requires accounts",
    ),
    Falsified(
        "mail.end_of_a_job_is_mailed",
        "ctl",
        "the mail program refuses mail",
        **edited(MAILER, "$a exit 3"),
        says="rejected the mail",
    ),
    Falsified(
        "monitoring.exporter_answers_where_it_should",
        "n1",
        "the exporter was stopped",
        **stopped("prometheus-node-exporter"),
        says="nothing listens on port 9100",
    ),
    Falsified(
        "monitoring.prometheus_answers_where_it_should",
        "ctl",
        "Prometheus was stopped",
        **stopped("prometheus"),
        says="nothing listens on port 9090",
    ),
    Falsified(
        "monitoring.figures_of_slurm_are_fresh",
        "ctl",
        "the timer was stopped",
        **stopped("slurmfab-metrics.timer"),
        says="slurmfab-metrics.timer is inactive",
    ),
    Falsified(
        "monitoring.prometheus_reaches_all",
        "ctl",
        "the exporter of a node was stopped",
        f"systemctl stop prometheus-node-exporter && {DOWN.format(TARGETS)}",
        "systemctl start prometheus-node-exporter",
        "Prometheus gets nothing from n1",
        at="n1",
    ),
)
OF_NEWER_SLURM = (
    Falsified(
        "gpus.gpus_are_divided_as_wanted",
        "n1",
        "somebody destroyed the instances of a GPU",
        "nvidia-smi mig -i 00000000:01:00.0 -dgi",
        "systemctl restart slurmfab-mig",
        "in MIG mode without instances, and should be 2g.10gb, 3g.20gb",
    ),
    Falsified(
        "jobs.jobs_do_not_ignore_sigpipe",
        "n1",
        "a drop-in of the site starts slurmd with SIGPIPE ignored",
        f"printf '[Service]\\nIgnoreSIGPIPE=yes\\n' >{PIPE} && {PIPE_RELOADED}",
        f"rm {PIPE} && {PIPE_RELOADED}",
        "jobs start with SIGPIPE ignored",
    ),
)
OF_DIRECTORY = (
    Falsified(
        "directory.servers_of_the_directory_answer",
        "n1",
        "the directory's server was stopped",
        **stopped("slapd"),
        says="no server of the directory can be asked",
        at="n3",
    ),
    Falsified("directory.sssd_answers", "n2", "SSSD was stopped", **stopped("sssd"), says="sssd does not run"),
    Falsified(
        "directory.numbers_of_hosts_are_nobodys_in_the_directory",
        "n2",
        "/etc/passwd has a user with the UID of one of the directory",
        "echo other:x:5002:6000::/:/bin/sh >>/etc/passwd",
        "sed -i /^other:x:5002/d /etc/passwd",
        "has the UID 5002 of other",
    ),
    Falsified(
        "directory.users_are_the_same_everywhere",
        "n1",
        "/etc/passwd has a user of the directory with another UID",
        "echo ann:x:4444:6000::/home/ann:/bin/sh >>/etc/passwd",
        "sed -i /^ann:x:4444/d /etc/passwd",
        "as UID, GID and groups, but",
    ),
)
OF_CONTAINERS = (
    Falsified(
        "registry.registry_answers_with_its_certificate",
        "n1",
        "the registry was stopped",
        **stopped("docker-registry"),
        says="no answer from ctl:5000",
        at="ctl",
    ),
    Falsified(
        "registry.registry_is_trusted_by_the_locks_authority_alone",
        "n1",
        "the host got another certificate in the place of the registry's authority",
        f"cp {CA} /root/ca.crt; echo >{CA}",
        f"cp /root/ca.crt {CA}",
        says="is not the certificate that the lock has",
    ),
    Falsified(
        "registry.registry_takes_no_image_without_a_login",
        "n1",
        "the registry wants no login",
        **edited(REGISTRY, '/^ "auth": {/,/^ }/d', "docker-registry"),
        says="without a login, not 401",
        at="ctl",
    ),
    Falsified(
        "rest.rest_takes_jobs_from_who_has_a_token",
        "ctl",
        "slurmrestd was stopped",
        **stopped("slurmrestd"),
        says="slurmrestd took no job",
    ),
    Falsified(
        "rest.rest_runs_as_a_user_of_its_own",
        "ctl",
        "slurmrestd was stopped",
        **stopped("slurmrestd"),
        says="slurmrestd does not run",
    ),
    Falsified(
        "daemons.daemons_listen_where_they_should",
        "ctl",
        "slurmrestd listens on a port as well",
        f"cp -a {REST} {SAVED} && sed -i 's/ unix:/ 127.0.0.1:6820 unix:/' {REST} && {RELOADED}",
        f"cp -a {SAVED} {REST} && {RELOADED}",
        "slurmrestd on 127.0.0.1:6820 of ctl",
    ),
    Falsified(
        "jupyter.jupyter_answers_over_tls",
        "ctl",
        "the hub was stopped",
        f"systemctl stop {JUPYTER}",
        f"systemctl start {JUPYTER} && {HUB_ANSWERS}",
        "JupyterHub does not ask for a login",
    ),
    Falsified(
        "jupyter.jupyter_is_no_root",
        "ctl",
        "a drop-in has the hub run as root",
        f"mkdir -p {JUPYTER_ROOTS} && printf '{AS_ROOT}' > {JUPYTER_ROOTS}/root.conf && {HUB_AGAIN}",
        f"rm -r {JUPYTER_ROOTS} && {HUB_AGAIN}",
        "it runs as root",
    ),
    Falsified(
        "jupyter.jupyter_has_slurmfabs_program",
        "n1",
        "what starts servers was edited on a node",
        **edited("/usr/local/lib/slurmfab/jupyter/run.py", "$a # more"),
        says="run.py is not slurmfab",
    ),
    Falsified(
        "docker.docker_answers",
        "n1",
        "Docker was stopped",
        "systemctl stop docker.socket docker",
        "systemctl start docker.socket docker",
        "Docker does not answer",
    ),
    Falsified(
        "docker.docker_is_for_its_users_alone",
        "n1",
        "somebody added a user to the group",
        "gpasswd --add nobody docker",
        "gpasswd --delete nobody docker",
        "nobody can use Docker",
    ),
    Falsified(
        "mpi.mpi_is_there",
        "n1",
        "mpirun is gone",
        "mv /usr/bin/mpirun /usr/bin/mpirun.was",
        "mv /usr/bin/mpirun.was /usr/bin/mpirun",
        "mpirun or libmpi.so.40 of Open MPI is missing",
    ),
    Falsified(
        "mpi.mpi_program_runs",
        "ctl",
        "Open MPI is set to a way of messages that is not there",
        r"printf '\npml = none-such\n' >>/etc/openmpi/openmpi-mca-params.conf",
        "sed -i /none-such/d /etc/openmpi/openmpi-mca-params.conf",
        "an MPI program on n1",
        at="n1",
    ),
    Falsified(
        "containers.srun_starts_containers",
        "n1",
        "Slurm's line about pyxis is gone",
        "mv /etc/slurm/plugstack.conf.d /root/plugstack.was",
        "mv /root/plugstack.was /etc/slurm/plugstack.conf.d",
        "srun has no --container-image",
    ),
    Falsified(
        "containers.apptainer_works_without_setuid",
        "n1",
        "a program of Apptainer works as root",
        "mkdir -p /usr/libexec/apptainer && install -m 4755 /bin/true /usr/libexec/apptainer/starter-suid",
        "rm -r /usr/libexec/apptainer",
        "works as root (setuid)",
    ),
    Falsified(
        "containers.containers_start_in_jobs",
        "n1",
        "Apptainer fails",
        **answering("/usr/bin/apptainer", "echo no container today >\\&2; exit 1"),
        says="a job cannot start a container by apptainer",
    ),
    Falsified(
        "containers.containers_have_the_gpus_of_their_job",
        "n1",
        "cgroup.conf of the node limits no devices",
        **edited(CGROUP, "s/^ConstrainDevices=.*/ConstrainDevices=no/", "slurmd"),
        says="a job that requested one GPU can open",
    ),
    Falsified(
        "containers.containers_are_held_to_the_memory_of_their_job",
        "n1",
        "cgroup.conf of the node limits no memory",
        **edited(CGROUP, "s/^\\(ConstrainRAMSpace\\|ConstrainSwapSpace\\)=.*/\\1=no/", "slurmd"),
        says="could use 400 MiB",
    ),
)
ROWS = (
    *(
        replace(row, scene="shared")
        for row in (*OF_CONTROLLERS, *OF_SHARED_PLACES, *OF_LOGINS, *OF_POWER_AND_GPUS, *OF_WITNESSES)
    ),
    *(replace(row, scene="directory") for row in OF_DIRECTORY),
    *(replace(row, scene="containers") for row in OF_CONTAINERS),
    *(replace(row, scene="newer", suites=NEWER_ON) for row in OF_NEWER_SLURM),
)
