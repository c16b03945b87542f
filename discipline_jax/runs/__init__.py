"""Keeps the workdir of a run: which run owns it, which files it read, and its results."""
