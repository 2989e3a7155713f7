"""Hosts from files that people have already: lists, /etc/hosts, Ansible inventories, genders, slurm.conf."""
