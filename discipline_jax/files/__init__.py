"""Reads, writes, locks and downloads files, whatever they hold."""
