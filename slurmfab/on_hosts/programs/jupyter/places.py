"""Paths of notebooks on hosts, which hub, root's part, servers and the deployer need."""

from __future__ import annotations

from slurmfab.on_hosts.agent.core import host_paths

JUPYTER_PROGRAM = host_paths.PROGRAMS + "/jupyter"
"""The program of notebooks: on the hub's host it proves logins and submits jobs, in jobs it starts servers."""

JUPYTER_SETTINGS = "/etc/slurmfab-jupyter.json"  # what users of the hub may ask for, on its host
JUPYTER_CERTIFICATES = "/etc/slurmfab-jupyter"  # the hub's certificate, if slurmfab makes it
JUPYTER_SOCKET = "/run/slurmfab-jupyter.socket"  # where the hub asks the part of the program that root runs
JUPYTER_RUN = "/run/slurmfab-jupyter"  # the hub's RuntimeDirectory: its owner is the user that systemd made for the hub
JUPYTER_TICKET = "/run/slurmfab-jupyter.ticket"
"""A user and a password for one login within a minute, which root makes to try the hub."""
PAM_SERVICE = "slurmfab-jupyter"  # the file in /etc/pam.d by which root proves logins
