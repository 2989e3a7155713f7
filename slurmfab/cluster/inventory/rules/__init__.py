"""Rules between the keys of a cluster file, in one module for each subject."""
