"""Reads, writes, locks and downloads files; knows nothing of models or runs."""
