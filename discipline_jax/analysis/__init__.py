"""Measures what two networks have in common, and how a network behaves before training; one measure a file.

The functions take plain arrays, or a function of parameters, so that they can be used in a notebook.
"""
