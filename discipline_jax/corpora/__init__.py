"""Reads or generates the corpora of pre-training, and prepares rows of tokens from them."""
