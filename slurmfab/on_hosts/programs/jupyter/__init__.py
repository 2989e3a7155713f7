"""Notebooks in the browser: what the hub asks root for, and what starts a server in a job."""
