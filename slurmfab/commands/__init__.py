"""What each task does, a folder each, named as the task."""
