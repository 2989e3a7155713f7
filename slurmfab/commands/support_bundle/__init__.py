"""`fab support-bundle`: one archive without secrets, for those who are asked for help."""
