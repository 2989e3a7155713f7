"""The plan: which resources each host should have. Pure functions: they contact no host and read no file."""
