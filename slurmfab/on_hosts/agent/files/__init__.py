"""Files and directories of the host."""
