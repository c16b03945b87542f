"""The numbers of all random streams. They keep the uses of one seed independent of each other.

Two uses take the seed alone: the initial parameters (`jax.random.key`) and the split of a data set
(`numpy.random.default_rng`). Changing a number here changes the results of every run.
"""

# The second number in `numpy.random.default_rng([seed, STREAM, ...])`.
EPOCH_ORDER = 1  # order of the training samples; 0 is not used, because [seed, 0] gives the stream of the seed alone
TOKEN_MAP = 2  # random token maps
CONTROLS = 4  # weights of which only the statistics or the values are a checkpoint's
RECORD_ORDER = 3  # order of the instances of a prepared corpus

# The number in `jax.random.fold_in(jax.random.key(seed), STREAM)`.
DROPOUT = 0xD0  # dropout of fine-tuning
STRANDS = 0xACF7  # which strand of DNA fine-tuning reads
PRETRAINING = 0x5EED  # masks and dropout of pre-training
HELD_OUT_MASKS = 0xE7A1  # masks of the held-out set; this is the seed itself, so that they are the same in every run
