"""Trains a model: batches, losses, updates, checkpoints and logs."""
