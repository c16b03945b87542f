"""Reads the samples of a task from tables, FASTA files and lines of text."""
