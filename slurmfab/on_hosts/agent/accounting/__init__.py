"""Accounts, users, QOS and limits in slurmdbd, read and changed by sacctmgr(1)."""
