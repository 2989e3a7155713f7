"""What makes the sentence of each check false, and the checks for which no row does.

Where a real host cannot be broken in that way, a program on the host answers as if it were (`answering`).
"""

from __future__ import annotations

from falsified import Falsified

NODES = 3
KEYS = """\
login: [n3]
database: {host: ctl}
slurm_ssh: both
homes: /home
mounts: [{path: /home, source: tmpfs, type: tmpfs, options: "size=64M"}]
users: [{name: ada, uid: 3000, accounts: physics}, {name: bob, uid: 3001, accounts: physics, shell: /bin/rbash}]
accounts: [{name: physics}]
health: {interval: 1}
backup: {directory: /var/backups/slurm, when: daily}
user_tools: true
private_tmp: true
node_logins: with_job
user_ssh: hostbased
motd: true
x11: true
scratch: {size: 1G}
modules: {system: environment-modules, path: [/sw/modules]}
mpi: pmix
containers: [podman]
files: {/etc/site.conf: {text: "ours\\n"}}
packages: {compute: [hello]}
"""
"""What the cluster of these rows has in its file: as much of what is checked as one small cluster can have."""

BEFORE = "mkdir -p /sw/modules"
"""What every host has before the first deployment."""

CONF, KEY, STATE = "/etc/slurm/slurm.conf", "/etc/munge/munge.key", "/var/lib/slurm/slurmctld"
SAVED = "/root/saved"


def answering(program: str, script: str) -> dict[str, str]:
    """A program that answers otherwise: `how` and `back`.

    Args:
        program: its path; the real one is `$0.was` meanwhile.
        script: text for `sh`, without an apostrophe.
    """
    write = f"printf '%s\\n' '#!/bin/sh' '{script}' > {program} && chmod 755 {program}"
    return {
        "how": f"test ! -e {program}.was && mv {program} {program}.was && {write}",
        "back": f"mv {program}.was {program}",
    }


def edited(path: str, sed: str, unit: str = "") -> dict[str, str]:
    """A file that is edited, and a unit that is restarted then and afterwards: `how` and `back`."""
    restart = f" && systemctl restart {unit}" if unit else ""
    return {
        "how": f"cp -a {path} {SAVED} && sed -i '{sed}' {path} && ! cmp -s {path} {SAVED}{restart}",
        "back": f"cp -a {SAVED} {path}{restart}",
    }


def not_seen(path: str, sed: str, unit: str) -> dict[str, str]:
    """A file that is edited; only putting it right restarts the unit that reads it: `how` and `back`."""
    changed = edited(path, sed)
    return {"how": changed["how"], "back": f"{changed['back']} && systemctl restart {unit}"}


def stopped(unit: str, back: str = "") -> dict[str, str]:
    """A unit that does not run: `how` and `back`."""
    return {"how": f"systemctl stop {unit}", "back": back or f"systemctl start {unit}"}


def deaf(unit: str) -> dict[str, str]:
    """A unit that runs and listens to nobody: `how` and `back`."""
    place = f"/run/systemd/system/{unit}.service.d"
    text = "[Service]\\nType=simple\\nExecStart=\\nExecStart=/bin/sleep infinity\\n"
    reload_ = f"systemctl daemon-reload && systemctl restart {unit}"
    return {
        "how": f"mkdir -p {place} && printf '{text}' > {place}/zz-deaf.conf && {reload_}",
        "back": f"rm -r {place} && {reload_}",
    }


def closed(direction: str, port: int) -> dict[str, str]:
    """A port that a rule of the network drops: `how` and `back`."""
    rule = f"ipproto 6 {direction} {port} blackhole"
    return {"how": f"ip rule add {rule}", "back": f"ip rule del {rule}"}


OTHER_KEY = f"cp -a {KEY} {SAVED} && head -c 128 /dev/urandom > {KEY}"
RIGHT_KEY = f"cp -a {SAVED} {KEY} && systemctl restart munge"
MOUNTED = "systemctl start home.mount; for user in ada bob; do install -d -o $user -g $user -m 755 /home/$user; done"
OF_HOSTS = (
    Falsified(
        "reachable.host_is_reachable",
        "n2",
        "root's `.bashrc` ends every shell",
        "touch /root/.bashrc && cp -a /root/.bashrc /root/saved.rc && sed -i '1i exit 1' /root/.bashrc && "
        "test -s /root/.bashrc || echo 'exit 1' > /root/.bashrc",
        "mv /root/saved.rc /root/.bashrc",
        "its login shell ends",
    ),
    Falsified(
        "release.release_is_the_controllers",
        "n2",
        "scontrol is of another release",
        **answering("/usr/bin/scontrol", "echo slurm-wlm 20.02.1"),
        says="20.02",
    ),
    Falsified(
        "release.daemons_run_what_is_installed",
        "n2",
        "the program of slurmd was replaced",
        "one=$(readlink -f /usr/sbin/slurmd) && cp -a $one $one.new && mv $one.new $one",
        "systemctl restart slurmd",
        "slurmd still runs the program of",
    ),
    Falsified(
        "system.users_can_read_slurm_conf",
        "n1",
        "/etc/slurm has mode 0700",
        "chmod 0700 /etc/slurm",
        "chmod 0755 /etc/slurm",
        "Permission denied",
    ),
    Falsified(
        "system.users_get_credentials",
        "n1",
        "/run/munge has mode 0700",
        "chmod 0700 /run/munge",
        "chmod 0755 /run/munge",
        "no user but root and munge",
    ),
    Falsified(
        "system.file_systems_have_room",
        "n1",
        "the file system of slurmd's log is full",
        "mount -t tmpfs -o size=1M tmpfs /var/log/slurmd; head -c 2M /dev/zero > /var/log/slurmd/x || true",
        "umount --lazy /var/log/slurmd",
        "/var/log/slurmd is full",
    ),
    Falsified(
        "system.packages_are_whole",
        "n1",
        "dpkg was interrupted",
        "touch /var/lib/dpkg/updates/0001",
        "rm /var/lib/dpkg/updates/0001",
        "dpkg was interrupted",
    ),
    Falsified(
        "system.python_is_there",
        "n1",
        "/usr/bin/python3 is gone",
        "mv /usr/bin/python3 /usr/bin/python3.was",
        "mv /usr/bin/python3.was /usr/bin/python3",
        "there is no python3",
    ),
    Falsified("daemons.munged_runs", "n1", "munged was stopped", **stopped("munge"), says="munge.service is inactive"),
    Falsified(
        "daemons.slurmctld_runs", "ctl", "slurmctld was stopped", **stopped("slurmctld"), says="slurmctld.service is"
    ),
    Falsified(
        "daemons.slurmd_runs", "n1", "slurmd was stopped", **stopped("slurmd"), says="slurmd.service is inactive"
    ),
    Falsified(
        "daemons.database_runs",
        "ctl",
        "MariaDB was stopped",
        **stopped("mariadb", "systemctl start mariadb slurmdbd"),
        says="mariadb.service is inactive",
    ),
    Falsified(
        "daemons.slurmdbd_runs",
        "ctl",
        "slurmdbd was stopped",
        **stopped("slurmdbd"),
        says="slurmdbd.service is inactive",
    ),
    Falsified(
        "daemons.daemons_start_at_boot",
        "n1",
        "slurmd is disabled",
        "systemctl disable --quiet slurmd",
        "systemctl enable --quiet slurmd",
        "slurmd will not start at the next boot",
    ),
    Falsified(
        "daemons.directories_are_theirs",
        "n1",
        "slurmd's directory is slurm's",
        "chown slurm /var/spool/slurmd",
        "chown root /var/spool/slurmd",
        "/var/spool/slurmd belongs to slurm, not to root",
    ),
    Falsified(
        "daemons.no_other_user_leads_slurmd_elsewhere",
        "n1",
        "everybody may write to the directory of slurmd's log",
        "chmod o+w /var/log/slurmd",
        "chmod o-w /var/log/slurmd",
        "in which others than root may write",
    ),
    Falsified(
        "daemons.no_other_user_leads_starting_daemons_elsewhere",
        "ctl",
        "slurmctld starts as root, with its log in a directory of slurm's",
        "mkdir -p /run/systemd/system/slurmctld.service.d && "
        "printf '[Service]\\nUser=root\\n' > /run/systemd/system/slurmctld.service.d/zz.conf && "
        "systemctl daemon-reload",
        "rm -r /run/systemd/system/slurmctld.service.d && systemctl daemon-reload",
        "the log of slurmctld, which starts as root",
    ),
    Falsified(
        "daemons.slurmctld_can_use_its_state",
        "ctl",
        "a file of slurmctld's state is root's",
        f"install -m 600 /dev/null {STATE}/falsified",
        f"rm {STATE}/falsified",
        "the slurm user cannot read and write",
    ),
    Falsified(
        "daemons.state_is_of_a_version_that_slurm_reads",
        "ctl",
        "the list of jobs is of Slurm 20.02",
        **answering("/usr/bin/od", 'echo " 00 00 00 11 50 52 4f 54 4f 43 4f 4c 5f 56 45 52 53 49 4f 4e 00 23 00"'),
        says="was written by Slurm 20.02",
    ),
    Falsified(
        "daemons.slurmctld_has_read_its_state",
        "ctl",
        "slurmctld's log says that it could not open its state",
        f'echo "[$(date +%FT%T.000)] error: Could not open job state file {STATE}/job_state: Permission denied" '
        ">> /var/log/slurm/slurmctld.log",
        "sed -i '/Could not open job state file/d' /var/log/slurm/slurmctld.log",
        "slurmctld started without the jobs",
    ),
    Falsified(
        "daemons.munge_socket_is_there",
        "n1",
        "munged's socket was removed",
        "mv /run/munge/munge.socket.2 /run/munge/moved",
        "mv /run/munge/moved /run/munge/munge.socket.2",
        "there is no socket",
    ),
    Falsified(
        "daemons.slurmctld_listens",
        "ctl",
        "what runs as slurmctld listens nowhere",
        **deaf("slurmctld"),
        says="slurmctld does not listen on port 6817",
    ),
    Falsified(
        "daemons.slurmd_listens",
        "n2",
        "what runs as slurmd listens nowhere",
        **deaf("slurmd"),
        says="slurmd does not listen on port 6818",
    ),
    Falsified(
        "daemons.controller_answers", "n1", "slurmctld was stopped", **stopped("slurmctld"), says="is DOWN", at="ctl"
    ),
    Falsified(
        "daemons.munged_has_its_key",
        "n1",
        "the key was written after munged's start",
        f"touch {KEY}",
        "systemctl restart munge",
        "munged was started before",
    ),
    Falsified(
        "daemons.slurmctld_has_its_files",
        "ctl",
        "slurm.conf was written after slurmctld's start",
        f"touch {CONF}",
        "systemctl restart slurmctld",
        "slurmctld was started before",
    ),
    Falsified(
        "daemons.slurmd_has_its_files",
        "n1",
        "slurm.conf was written after slurmd's start",
        f"touch {CONF}",
        "systemctl restart slurmd",
        "slurmd was started before",
    ),
    Falsified(
        "identity.user_has_its_ids.slurm",
        "n3",
        "slurm has another UID",
        **edited("/etc/passwd", "s/^slurm:x:[0-9]*/slurm:x:64999/"),
        says="slurm has UID and GID 64999",
    ),
    Falsified(
        "identity.user_has_its_ids.munge",
        "n3",
        "the group munge has another GID",
        **edited("/etc/group", "s/^munge:x:[0-9]*/munge:x:64999/"),
        says="the group munge has the GID 64999",
    ),
    Falsified(
        "identity.hostname_is_the_clusters",
        "n3",
        "the host has another name",
        "hostname other",
        "hostname n3",
        "its hostname is other",
    ),
    Falsified(
        "identity.names_resolve",
        "n2",
        "the controller's name leads elsewhere",
        **edited("/etc/hosts", "s/^[0-9.]* ctl$/10.255.255.1 ctl/"),
        says="ctl resolves to 10.255.255.1",
    ),
    Falsified(
        "people.users_have_their_numbers",
        "n1",
        "a user has another UID",
        **edited("/etc/passwd", "s/^ada:x:3000/ada:x:4000/"),
        says="ada has UID and GID 4000",
    ),
    Falsified(
        "people.homes_are_their_users",
        "n1",
        "everybody may write to a home",
        "chmod o+w /home/ada",
        "chmod o-w /home/ada",
        "others can write to /home/ada",
    ),
    Falsified(
        "people.shells_are_there",
        "n1",
        "a user's shell is gone",
        "mv /bin/rbash /bin/rbash.was",
        "mv /bin/rbash.was /bin/rbash",
        "there is no /bin/rbash",
    ),
    Falsified(
        "storage.mounts_are_there",
        "n2",
        "a mount was unmounted",
        "umount /home",
        MOUNTED,
        "/home is not mounted",
    ),
    Falsified(
        "storage.homes_are_on_their_mount",
        "n2",
        "the mount with the homes was unmounted, and a home is below it",
        "umount /home && mkdir -p /home/ada",
        f"rmdir /home/ada; {MOUNTED}",
        "/home/ada is on /",
    ),
    Falsified(
        "storage.scratch_has_its_place",
        "n1",
        "everybody may write to the directory of scratch",
        "chmod 0777 /scratch",
        "chmod 0755 /scratch",
        "is not root's directory with mode 755",
    ),
    Falsified(
        "munge.key_is_safe",
        "n2",
        "the group may read the key",
        f"chmod 0440 {KEY}",
        f"chmod 0400 {KEY} && systemctl restart munge",
        "has the mode 0440 instead of 0400",
    ),
    Falsified(
        "munge.key_is_the_controllers", "n2", "the key was edited", OTHER_KEY, RIGHT_KEY, "its munge key differs"
    ),
    Falsified(
        "munge.credential_of_the_controller_is_believed",
        "n2",
        "munged has another key",
        f"{OTHER_KEY} && systemctl restart munge",
        RIGHT_KEY,
        "n2 rejects a credential from ctl",
    ),
    Falsified(
        "munge.controller_believes_the_credential",
        "n2",
        "munged has another key",
        f"{OTHER_KEY} && systemctl restart munge",
        RIGHT_KEY,
        "ctl rejects a credential from n2",
    ),
    Falsified(
        "clock.clock_is_the_controllers",
        "n1",
        "the host's clock answers with a minute more",
        **answering("/usr/bin/date", 'exec $0.was --date="60 seconds" "$@"'),
        says="its clock is 60",
    ),
    Falsified(
        "ssh.controller_gets_in",
        "n1",
        "slurm's authorized_keys are gone",
        "mv /var/lib/slurm/home/.ssh/authorized_keys /root/saved.keys",
        "mv /root/saved.keys /var/lib/slurm/home/.ssh/authorized_keys",
        "the slurm user on ctl cannot log in to n1",
    ),
    Falsified(
        "ssh.host_gets_to_the_controller",
        "n1",
        "slurm's SSH key is gone",
        "mv /var/lib/slurm/home/.ssh /root/saved.ssh",
        "mv /root/saved.ssh /var/lib/slurm/home/.ssh",
        "the slurm user on n1 cannot log in to ctl",
    ),
    Falsified(
        "network.node_reaches_slurmctld",
        "n1",
        "what the node sends to slurmctld is dropped",
        **closed("dport", 6817),
        says="n1 cannot connect to slurmctld on ctl",
    ),
    Falsified(
        "network.node_is_reached_by_others",
        "n1",
        "what slurmd answers is dropped",
        **closed("sport", 6818),
        says="cannot connect to slurmd on n1",
    ),
)

CGROUP = "/etc/slurm/cgroup.conf"
SITES = "/etc/systemd/system/slurmd.service.d/site.conf"
RELOADED = "systemctl daemon-reload && systemctl restart slurmd"
PLUGIN = "$(dpkg -L slurm-wlm-basic-plugins | grep '/select_linear.so$')"
RESTARTS = "$(systemctl show --property=NRestarts --value slurmd)"
OF_THE_SYSTEM = (
    Falsified(
        "daemons.daemons_run_as_packaged",
        "n2",
        "a drop-in of the site limits the files that slurmd may open",
        f"mkdir -p $(dirname {SITES}) && printf '[Service]\\nLimitNOFILE=1024\\n' > {SITES} && {RELOADED}",
        f"rm {SITES} && {RELOADED}",
        "slurmd may open 1024 files",
    ),
    Falsified(
        "daemons.no_daemon_has_crashed",
        "n2",
        "slurmd was killed, and systemd started it again",
        f"systemctl kill --signal=KILL --kill-whom=main slurmd && until [ {RESTARTS} = 1 ]; do sleep 0.1; done; "
        "until systemctl --quiet is-active slurmd; do sleep 0.1; done",
        "systemctl reset-failed slurmd",
        "systemd started it again: slurmd once",
    ),
    Falsified(
        "daemons.slurmctld_saves_its_state",
        "ctl",
        "the directory of slurmctld's state was read-only for a while",
        f"mount --bind {STATE} {STATE} && mount -o remount,bind,ro {STATE} && scontrol update NodeName=n1 Weight=2 && "
        f'until grep -q "Can\'t save state" /var/log/slurm/slurmctld.log; do sleep 0.2; done; umount {STATE}',
        "scontrol update NodeName=n1 Weight=1",
        "Can't save state",
    ),
    Falsified(
        "system.package_files_are_there",
        "n2",
        "a plugin of Slurm's is another file than that of its package",
        f"cp -a {PLUGIN} {SAVED} && echo >> {PLUGIN}",
        f"cp -a {SAVED} {PLUGIN}",
        "select_linear.so is another file",
    ),
    Falsified(
        "system.tmp_takes_files_of_all",
        "n2",
        "/tmp has the mode 0755",
        "chmod 0755 /tmp",
        "chmod 1777 /tmp",
        "/tmp has the mode 755",
    ),
    Falsified(
        "system.names_are_looked_up_in_files",
        "n2",
        "hosts are not looked up in /etc/hosts",
        **edited("/etc/nsswitch.conf", "s/^hosts:.*/hosts: dns/"),
        says="leaves out /etc/hosts",
    ),
    Falsified(
        "system.no_variable_leads_slurm_elsewhere",
        "n2",
        "/etc/environment sets SLURM_CONF",
        f"cp -a /etc/environment {SAVED} && echo SLURM_CONF=/opt/slurm.conf >> /etc/environment",
        f"cp -a {SAVED} /etc/environment",
        "sets SLURM_CONF=/opt/slurm.conf",
    ),
)
OF_SLURM = (
    Falsified(
        "configuration.partitions_are_as_wanted",
        "ctl",
        "somebody set a partition down",
        "scontrol update PartitionName=main State=DOWN",
        "scontrol update PartitionName=main State=UP",
        "partition main is DOWN",
    ),
    Falsified(
        "configuration.files_are_the_controllers",
        "n1",
        "slurm.conf was edited",
        **not_seen(CONF, "$a # by hand", "slurmd"),
        says="slurm.conf differs from ctl's",
    ),
    Falsified(
        "configuration.files_are_no_links",
        "n1",
        "slurm.conf is a link",
        f"mv {CONF} {CONF}.was && ln -s {CONF}.was {CONF}",
        f"mv -T {CONF}.was {CONF} && systemctl restart slurmd",
        "slurm.conf is a symbolic link",
    ),
    Falsified(
        "configuration.files_are_as_the_cluster_file_says",
        "ctl",
        "slurm.conf was edited on the controller",
        **not_seen(CONF, "$a # by hand", "slurmctld"),
        says="slurm.conf differs from the cluster file",
    ),
    Falsified(
        "configuration.slurmctld_runs_with_this_file",
        "n1",
        "slurm.conf was edited, and slurmctld has loaded another one",
        **not_seen(CONF, "$a # by hand", "slurmd"),
        says="its slurm.conf matches neither",
    ),
    Falsified(
        "site.packages_of_the_site_are_installed",
        "n1",
        "a package of the site was removed",
        **edited("/var/lib/dpkg/status", "/^Package: hello$/,/^$/s/^Status: .*/Status: deinstall ok config-files/"),
        says="hello is missing",
    ),
    Falsified(
        "site.files_of_the_site_are_as_the_cluster_file_says",
        "n1",
        "a file of the site was edited",
        **edited("/etc/site.conf", "$a theirs"),
        says="/etc/site.conf differs from the cluster file",
    ),
    Falsified(
        "nodes.node_takes_jobs",
        "n1",
        "the node was drained",
        "scontrol update NodeName=n1 State=DRAIN Reason=fan",
        "scontrol update NodeName=n1 State=RESUME",
        "its state in Slurm is IDLE+DRAIN",
        at="ctl",
    ),
    Falsified(
        "nodes.hardware_is_the_locks",
        "n2",
        "`slurmd -C` finds other sockets",
        **answering("/usr/sbin/slurmd", '$0.was "$@" | sed "s/SocketsPerBoard=[0-9]*/SocketsPerBoard=77/"'),
        says="is 77 instead of",
    ),
    Falsified(
        "nodes.slurm_counts_the_hardware",
        "n1",
        "slurmctld counts other CPUs",
        **answering("/usr/bin/scontrol", '$0.was "$@" | sed "s/CPUTot=[0-9]*/CPUTot=1000/"'),
        says="CPUTot is 1000 instead of",
        at="ctl",
    ),
    Falsified(
        "nodes.slurm_counts_the_gpus",
        "n1",
        "slurmctld counts other GPUs",
        **answering("/usr/bin/scontrol", '$0.was "$@" | sed "s/Gres=gpu[^ ]*/Gres=gpu:1/"'),
        says="Slurm has 1 GPUs for the node instead of 3",
        at="ctl",
    ),
    Falsified(
        "health.health_is_looked_at",
        "n1",
        "the last health check was a day ago, by the clock",
        **answering("/usr/bin/date", 'exec $0.was --date="1 day" "$@"'),
        says="the last health check ran",
    ),
    Falsified(
        "health.node_is_well",
        "n1",
        "a GPU is gone",
        "mv /dev/nvidia1 /dev/lost",
        "mv /dev/lost /dev/nvidia1",
        "/dev/nvidia1 is gone",
    ),
    Falsified(
        "jobs.job_runs",
        "n1",
        "what the job runs fails on the node",
        **answering("/usr/bin/uname", '[ "$*" != -n ] || { echo no name >\\&2; exit 3; }; exec $0.was "$@"'),
        says="the job failed",
    ),
    Falsified(
        "jobs.job_runs_on_many_nodes",
        "ctl",
        "slurmd of a node is dead",
        **stopped("slurmd"),
        says="no job runs on n2 now",
        at="n2",
        needs=("slurmd_runs",),
    ),
    Falsified(
        "database.slurmdbd_listens",
        "ctl",
        "what runs as slurmdbd listens nowhere",
        **deaf("slurmdbd"),
        says="slurmdbd does not listen",
    ),
    Falsified(
        "database.slurmdbd_has_its_file",
        "ctl",
        "slurmdbd.conf was written after slurmdbd's start",
        "touch /etc/slurm/slurmdbd.conf",
        "systemctl restart slurmdbd",
        "slurmdbd was started before",
    ),
    Falsified(
        "database.mariadb_has_its_settings",
        "ctl",
        "MariaDB's settings were written after its start",
        "touch $(ls /etc/mysql/mariadb.conf.d/*slurm*)",
        "systemctl restart mariadb slurmdbd",
        "MariaDB was started before",
    ),
    Falsified(
        "database.password_is_slurms_alone",
        "ctl",
        "the group may read slurmdbd.conf",
        "chmod 0640 /etc/slurm/slurmdbd.conf",
        "chmod 0600 /etc/slurm/slurmdbd.conf && systemctl restart slurmdbd",
        "instead of slurm:slurm 0600",
    ),
    Falsified(
        "database.mariadb_is_local",
        "ctl",
        "MariaDB listens on every address",
        "printf '[mysqld]\\nbind-address=0.0.0.0\\nskip-networking=0\\n' > /etc/mysql/mariadb.conf.d/zzz.cnf && "
        "systemctl restart mariadb",
        "rm /etc/mysql/mariadb.conf.d/zzz.cnf && systemctl restart mariadb slurmdbd",
        "which other hosts can reach",
    ),
    Falsified(
        "accounting.slurmdbd_knows_the_cluster",
        "ctl",
        "slurmdbd was stopped",
        **stopped("slurmdbd"),
        says="slurmdbd does not answer ctl",
    ),
    Falsified(
        "accounting.finished_job_is_on_record",
        "ctl",
        "sacct tells another end of the job",
        **answering("/usr/bin/sacct", 'echo "COMPLETED|0:0|1|slurm"'),
        says="but sacct shows user slurm, state COMPLETED",
    ),
    Falsified(
        "accounting.accounts_are_in_force",
        "ctl",
        "somebody removed a user's account",
        "sacctmgr -i delete user where name=bob account=physics",
        "sacctmgr -i add user bob account=physics",
        "slurmctld does not know:",
    ),
    Falsified(
        "accounting.script_for_jobs_is_sound",
        "ctl",
        "job_submit.lua was edited",
        **edited("/etc/slurm/job_submit.lua", "$a -- by hand"),
        says="job_submit.lua has been changed",
    ),
    Falsified(
        "accounting.without_an_account_no_job_runs",
        "ctl",
        "the refusal of a job has another reason",
        **answering("/usr/bin/sbatch", "echo sbatch: error: no such luck >\\&2; exit 1"),
        says="but for another reason",
    ),
    Falsified(
        "limits.memory_is_limited",
        "n1",
        "cgroup.conf of the node limits no memory",
        **edited(CGROUP, "s/^\\(ConstrainRAMSpace\\|ConstrainSwapSpace\\)=.*/\\1=no/", "slurmd"),
        says="could use 400 MiB",
    ),
    Falsified(
        "limits.cores_are_limited",
        "n1",
        "cgroup.conf of the node limits no cores",
        **edited(CGROUP, "s/^ConstrainCores=.*/ConstrainCores=no/", "slurmd"),
        says="a job that requested one CPU can use",
    ),
    Falsified(
        "limits.tmp_is_the_jobs_own",
        "n1",
        "slurm.conf of the node gives jobs no /tmp of their own",
        **edited(CONF, "/^JobContainerType=/d", "slurmd"),
        says="a job sees files of another job",
    ),
    Falsified(
        "logins.node_is_closed_without_a_job",
        "n1",
        "a line of PAM lets everybody in",
        **edited("/etc/pam.d/sshd", "1i account sufficient pam_permit.so"),
        says="a user without a job on the node",
    ),
    Falsified(
        "logins.jobs_can_adopt_logins",
        "n1",
        "slurmctld has no PrologFlags=Contain",
        **answering("/usr/bin/scontrol", '$0.was "$@" | sed "s/^PrologFlags .*/PrologFlags = Alloc/"'),
        says="without Contain",
        at="ctl",
    ),
    Falsified(
        "logins.users_need_no_keys",
        "n1",
        "sshd believes no host",
        "printf 'Match all\\nHostbasedAuthentication no\\n' > /etc/ssh/sshd_config.d/00-first.conf",
        "rm /etc/ssh/sshd_config.d/00-first.conf",
        "sshd has HostbasedAuthentication no for nobody",
    ),
    Falsified(
        "logins.users_of_compute_nodes_need_keys_elsewhere",
        "n3",
        "sshd of the login host believes a compute node",
        "touch /etc/hosts.equiv && cp -a /etc/hosts.equiv /root/saved.equiv && echo n1 >> /etc/hosts.equiv",
        "mv /root/saved.equiv /etc/hosts.equiv; test -s /etc/hosts.equiv || rm /etc/hosts.equiv",
        "names n1",
    ),
    Falsified(
        "logins.users_are_greeted",
        "n3",
        "PAM shows no message of the day",
        **edited("/etc/pam.d/sshd", "/pam_motd/d"),
        says="shows",
    ),
    Falsified(
        "logins.windows_reach_users",
        "n3",
        "xauth is gone",
        "mv /usr/bin/xauth /usr/bin/xauth.was",
        "mv /usr/bin/xauth.was /usr/bin/xauth",
        "there is no xauth",
    ),
    Falsified(
        "logins.jobs_forward_windows",
        "ctl",
        "slurmctld has no PrologFlags=X11",
        **answering("/usr/bin/scontrol", '$0.was "$@" | sed "s/^PrologFlags .*/PrologFlags = Contain/"'),
        says="without X11",
    ),
    Falsified(
        "gpus.gpus_are_there",
        "n1",
        "a GPU is gone",
        "mv /dev/nvidia1 /dev/lost",
        "mv /dev/lost /dev/nvidia1",
        "/dev/nvidia1",
    ),
    *(
        Falsified(
            f"gpus.{check}",
            "n1",
            "cgroup.conf of the node limits no devices",
            **edited(CGROUP, "s/^ConstrainDevices=.*/ConstrainDevices=no/", "slurmd"),
            says=says,
        )
        for check, says in (
            ("job_has_the_gpu_that_it_asked_for", "a job that requested one GPU can open"),
            ("job_has_the_gpus_that_it_asked_for", "a job that requested two GPUs can open"),
            ("gpus_are_kept_apart", "a job that requested one GPU can open"),
            ("job_without_gpus_has_none", "a job that requested no GPU can open"),
        )
    ),
    Falsified(
        "tools.sstatus_answers_users",
        "ctl",
        "users may not run sstatus",
        "chmod 0700 $(readlink -f /usr/local/bin/sstatus)",
        "chmod 0755 $(readlink -f /usr/local/bin/sstatus)",
        "fails",
    ),
    Falsified(
        "modules.module_is_a_command",
        "n3",
        "the file that sets MODULEPATH is gone",
        "mkdir /root/profile && mv /etc/profile.d/*mod* /root/profile",
        "mv /root/profile/* /etc/profile.d && rmdir /root/profile",
        "login shell of nobody",
    ),
    Falsified(
        "modules.directories_of_modules_are_there",
        "n3",
        "users cannot read a directory of modules",
        "chmod 0700 /sw/modules",
        "chmod 0755 /sw/modules",
        "nobody cannot read /sw/modules",
    ),
    Falsified(
        "mpi.srun_can_start_mpi",
        "n3",
        "srun has no plugin for PMIx",
        **answering("/usr/bin/srun", "echo MPI plugin types are... none"),
        says="srun knows no --mpi=pmix",
    ),
    Falsified(
        "podman.users_have_their_subordinate_ids",
        "n1",
        "another user has numbers of a user's range",
        **edited("/etc/subuid", "$a eve:196608001:10"),
        says="eve has subordinate IDs of ada",
    ),
    Falsified(
        "podman.users_have_a_directory_for_images",
        "n1",
        "a user's directory for images is root's",
        "chown root /var/lib/podman-users/3000",
        "chown ada /var/lib/podman-users/3000",
        "ada cannot write to /var/lib/podman-users/3000",
    ),
    Falsified(
        "podman.images_are_pruned",
        "n1",
        "the timer that prunes was stopped",
        **stopped("slurmfab-containers.timer"),
        says="slurmfab-containers.timer is not active",
    ),
    Falsified(
        "backups.backups_are_made",
        "ctl",
        "the timer of backups was stopped",
        **stopped("slurmfab-backup.timer"),
        says="slurmfab-backup.timer is inactive",
    ),
)
ROWS = (*OF_HOSTS, *OF_THE_SYSTEM, *OF_SLURM)

SECOND_CONTROLLER = "a second controller"
FILE_SERVER = "a file server"
POWER = "nodes that sleep"
CGROUPS = "control groups of its own, and the lab's are the machine's"
KEPT_OUT = "`slurm_ssh: none`, and the cluster of the rows has `both`"
CONTAINERS = "containers in jobs of slurm"
MEASURED = "GPUs that can be measured"
MONITORING = "Prometheus, which takes too long to install"
WITHOUT = {
    "accounting.jobs_need_no_account": "accounts that jobs need not have",
    "jobs.jobs_do_not_ignore_sigpipe": "Slurm 26.05",
    "daemons.backup_runs": SECOND_CONTROLLER,
    "daemons.backup_can_use_the_state": SECOND_CONTROLLER,
    "daemons.backup_answers": SECOND_CONTROLLER,
    "daemons.backup_has_its_files": SECOND_CONTROLLER,
    "storage.exports_are_served": FILE_SERVER,
    "storage.quotas_are_set": FILE_SERVER,
    "storage.files_are_shared": FILE_SERVER,
    "ssh.controller_is_kept_out": KEPT_OUT,
    "ssh.host_is_kept_out_of_the_controller": KEPT_OUT,
    "configuration.files_are_links_to_the_shared_directory": "a directory that hosts share",
    "configuration.site_files_are_as_the_cluster_file_says": "`slurm_files`",
    "power.idle_nodes_are_looked_for": POWER,
    "power.nodes_could_be_switched": POWER,
    "power.node_is_not_taken_for_switched_off": POWER,
    "cgroups.node_has_usable_control_groups": CGROUPS,
    "cgroups.swap_space_is_accounted": CGROUPS,
    "logins.users_have_their_limits": "`login_limits`",
    "gpus.job_with_a_share_has_one_gpu": "shards of GPUs",
    "mps.mps_daemon_runs_for_jobs_alone": "mps",
    "mail.end_of_a_job_is_mailed": "a mail program",
    "registry.registry_answers_with_its_certificate": "a registry",
    "registry.registry_takes_no_image_without_a_login": "a registry",
    "docker.docker_answers": "Docker",
    "docker.docker_is_for_its_users_alone": "Docker",
    "mpi.mpi_is_there": "Open MPI",
    "containers.srun_starts_containers": "pyxis",
    "containers.apptainer_works_without_setuid": "Apptainer",
    "containers.containers_start_in_jobs": CONTAINERS,
    "containers.containers_have_the_gpus_of_their_job": CONTAINERS,
    "containers.containers_are_held_to_the_memory_of_their_job": CONTAINERS,
    "monitoring.exporter_answers_where_it_should": MONITORING,
    "monitoring.prometheus_answers_where_it_should": MONITORING,
    "monitoring.figures_of_slurm_are_fresh": MONITORING,
    "monitoring.prometheus_reaches_all": MONITORING,
    "performance.gpus_are_measured": MEASURED,
    "performance.gpus_are_fast_enough": MEASURED,
    "afterwards.node_still_takes_jobs": "a node that leaves service while checks run",
}
"""The checks that no row breaks, each with what it needs and the cluster of the rows has not."""
