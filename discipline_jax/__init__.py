"""Pre-trains BERT-like encoders in JAX, and fine-tunes them on token sequences of any discipline."""
