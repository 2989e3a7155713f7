"""Commands and files for many hosts at once."""
