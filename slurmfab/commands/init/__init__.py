"""`fab init`: a few questions, and the cluster file that their answers make; no host is asked."""
