"""Hilbert-CNN, a network for DNA (Yin et al. 2018, "An image representation based convolutional network for DNA
classification"), which follows its authors' code.

The 4-letter words of a sequence become the pixels of an image, along a Hilbert curve, and a small convolutional network
reads the image. A pixel is one-hot over the 256 words. It is 0 if it has no word: after the end of the sequence, and
for a word with an ambiguity code. (The authors' code first fills the image with -1, but then overwrites all of it.)
"""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from discipline_jax.models.attention import AttentionMask
from discipline_jax.models.key_stream import Rngs
from discipline_jax.models.layers import hash_bits, split_key

NUCLEOTIDES = "ACGT"
_WORD = 4  # letters in a word
_NUM_WORDS = len(NUCLEOTIDES) ** _WORD
_HEIGHT, _WIDTH = 16, 32  # the upper half of a curve of order 32
_L2 = 1.5 * 5e-4  # factor of half the kernels' squared norm
_ALPHA = -1.7580993408473766  # limit of SELU at minus infinity


@dataclasses.dataclass(frozen=True)
class HilbertConfig:
  """The options of the network, whose sizes are fixed.

  Attributes:
    tokens: tokens of the vocabulary, in the order of their ids.
    vocab_size: number of rows in the table of letters.
    dropout: rate of alpha dropout before each dense layer. The authors' code has a rate of 0.5, but never turns
      dropout on.
    model_type: name of the family, as in `ModelConfig`.
  """

  tokens: tuple[str, ...]
  vocab_size: int
  dropout: float = 0.0
  model_type: str = "hilbert_cnn"

  @property
  def max_length(self) -> int:
    """Returns the largest number of tokens in a row of a batch: one word for each pixel, and [CLS] and [SEP]."""
    return _HEIGHT * _WIDTH + _WORD - 1 + 2

  @property
  def summary(self) -> str:
    """Returns the name of the family, for messages."""
    return self.model_type


class HilbertCNN(nnx.Module):
  """A classifier of DNA, with the inputs and outputs of `heads.SequenceClassifier`."""

  def __init__(
    self, config: HilbertConfig, num_labels: int, *, rngs: Rngs, dtype: DTypeLike = jnp.float32
  ):
    self.base_model = Trunk(config, rngs, dtype)
    self.classifier = DenseLayers(num_labels, config.dropout, rngs, dtype)

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: AttentionMask | None = None,
    token_type_ids: Int[Array, "batch length"] | None = None,
    dropout_key: jax.Array | None = None,
  ) -> Float[Array, "batch num_labels"]:
    """Returns the logits.

    In training, batch normalization uses the statistics of the batch, and updates its running averages.

    Args:
      ids: token ids, which are rows of the table of letters; [CLS] is the first.
      attention_mask: 1 or True for tokens. A row without tokens fills up the batch: batch normalization ignores it.
      token_type_ids: not used.
      dropout_key: one PRNG key in training; None in evaluation.
    """
    del token_type_ids
    rows = None
    if dropout_key is not None:
      rows = jnp.ones(len(ids), bool) if attention_mask is None else attention_mask.any(1)
    x = self.base_model(ids, rows)
    return self.classifier(x, dropout_key)

  def penalty(self) -> jax.Array:
    """Returns the L2 term of the training loss, over the kernels of all convolutions."""
    leaves = jax.tree.leaves(nnx.state(self, nnx.Param))
    squares = [jnp.square(kernel).sum() for kernel in leaves if kernel.ndim == 4]
    return 0.5 * _L2 * jnp.stack(squares).sum()


class Trunk(nnx.Module):
  """The convolutional part of the network, from ids to 64 features."""

  def __init__(self, config: HilbertConfig, rngs: Rngs, dtype: DTypeLike):
    self.embeddings = Letters(config)
    self.words = WordConvolution(7, 64, rngs, dtype)
    self.convolution = _convolution(5, 64, 64, rngs, dtype)
    self.norm = NormAndElu(64, rngs, dtype)
    self.wide = Block((8, 4, 4, 3), 64, 32, rngs, dtype)
    self.blocks = nnx.List(
      [
        Block(kernels, 32, 32, rngs, dtype)
        for kernels in ((2, 4, 4, 3), (2, 2, 2, 2), (3, 2, 2, 3))
      ]
    )
    self.last_norm = NormAndElu(32, rngs, dtype)

  def __call__(
    self, ids: Int[Array, "batch length"], rows: Bool[Array, " batch"] | None
  ) -> Float[Array, "batch 64"]:
    """Returns the features.

    Args:
      ids: token ids, with [CLS] first.
      rows: True for the rows that batch normalization uses, in training; None in evaluation.
    """
    x = self.convolution(self.words(_pixels(self.embeddings.words(ids))))
    x = _pool(self.norm(x, rows))
    x = _pool(self.wide(x, rows))
    for block in self.blocks:
      x = block(x, rows)
    x = _pool(self.last_norm(_pool(x), rows))
    return x.reshape(len(x), -1)


class Letters(nnx.Module):
  """The table that maps tokens to nucleotides. It is not trained, and takes the place of BERT's word embeddings."""

  def __init__(self, config: HilbertConfig):
    self.word_embeddings = LetterTable(config)

  def words(self, ids: Int[Array, "batch length"]) -> Int[Array, "batch words"]:
    """Returns the number of each 4-letter word after [CLS]; `_NUM_WORDS` if its letters are not all nucleotides."""
    letters = jax.lax.stop_gradient(self.word_embeddings.weight[...])[ids[:, 1:]]
    code, known = letters.argmax(-1), letters.any(-1)
    count = code.shape[1] - _WORD + 1
    word, whole = jnp.zeros((), code.dtype), jnp.ones((), bool)
    for i in range(_WORD):
      word = word * len(NUCLEOTIDES) + code[:, i : i + count]
      whole = whole & known[:, i : i + count]
    return jnp.where(whole, word, _NUM_WORDS)


class LetterTable(nnx.Module):
  """A row for each token: one-hot over the nucleotides, or zeros for any other token."""

  def __init__(self, config: HilbertConfig):
    rows = [[token == letter for letter in NUCLEOTIDES] for token in config.tokens]
    self.weight = nnx.Param(jnp.array(rows[: config.vocab_size], jnp.float32))


class WordConvolution(nnx.Module):
  """The first convolution of the image, computed as a sum of rows of its kernel.

  A one-hot pixel selects one row of the kernel for each offset. An ordinary convolution over the 256 channels, which
  are nearly all zero, would be nine tenths of the network's arithmetic.
  """

  def __init__(self, size: int, out_features: int, rngs: Rngs, dtype: DTypeLike):
    shape = (size, size, _NUM_WORDS, out_features)
    self.kernel = nnx.Param(_kernel_init(size, out_features)(rngs.params(), shape, jnp.float32))
    self.dtype = dtype

  def __call__(
    self, words: Int[Array, "batch height width"]
  ) -> Float[Array, "batch height width out"]:
    # In float32, as a convolution adds up: here each of the 49 sums would be rounded, and in the gradient many more.
    kernel = self.kernel[...]
    size, (height, width) = kernel.shape[0], words.shape[1:]
    border = size // 2
    words = jnp.pad(words, ((0, 0), (border, border), (border, border)), constant_values=_NUM_WORDS)
    total = jnp.zeros((), kernel.dtype)
    for i, j in itertools.product(range(size), repeat=2):
      here = words[:, i : i + height, j : j + width]
      total = total + jnp.take(kernel[i, j], here, axis=0, mode="fill", fill_value=0)
    return total.astype(self.dtype)


class Block(nnx.Module):
  """The sum of two parallel residual units and their input, a 1 x 1 convolution, batch normalization and ELU."""

  def __init__(
    self,
    kernels: tuple[int, int, int, int],
    features: int,
    out_features: int,
    rngs: Rngs,
    dtype: DTypeLike,
  ):
    self.units = nnx.List(
      [Unit(pair, features, out_features, rngs, dtype) for pair in (kernels[:2], kernels[2:])]
    )
    self.shortcut = _shortcut(features, out_features, rngs, dtype)
    self.convolution = _convolution(1, out_features, out_features, rngs, dtype)
    self.norm = NormAndElu(out_features, rngs, dtype)

  def __call__(self, x: jax.Array, rows) -> jax.Array:
    total = self.units[0](x, rows) + self.units[1](x, rows) + self.shortcut(x)
    return self.norm(self.convolution(total), rows)


class Unit(nnx.Module):
  """A residual unit of two convolutions, with a bottleneck of four channels between them."""

  def __init__(
    self,
    kernels: tuple[int, int],
    features: int,
    out_features: int,
    rngs: Rngs,
    dtype: DTypeLike,
  ):
    self.first = _convolution(kernels[0], features, 4, rngs, dtype)
    self.first_norm = NormAndElu(4, rngs, dtype)
    self.second = _convolution(kernels[1], 4, out_features, rngs, dtype)
    self.second_norm = _batch_norm(out_features, rngs, dtype)
    self.shortcut = _shortcut(features, out_features, rngs, dtype)
    self.norm = NormAndElu(out_features, rngs, dtype)

  def __call__(self, x: jax.Array, rows: jax.Array | None) -> jax.Array:
    y = self.second(self.first_norm(self.first(x), rows))
    y = _normalize(self.second_norm, y, rows)
    return self.norm(y + self.shortcut(x), rows)


class NormAndElu(nnx.Module):
  """Batch normalization and ELU."""

  def __init__(self, features: int, rngs: Rngs, dtype: DTypeLike):
    self.norm = _batch_norm(features, rngs, dtype)

  def __call__(self, x: jax.Array, rows) -> jax.Array:
    return jax.nn.elu(_normalize(self.norm, x, rows))


class DenseLayers(nnx.Module):
  """Dense layers of 100, 50 and `num_labels` outputs on 64 features, with alpha dropout before each.

  The last one is computed in float32.
  """

  def __init__(self, num_labels: int, dropout: float, rngs: Rngs, dtype: DTypeLike):
    init = nnx.initializers.variance_scaling(1.0, "fan_in", "uniform")
    self.layers = nnx.List(
      [
        nnx.Linear(features, out, kernel_init=init, rngs=rngs, dtype=own)  # type: ignore[arg-type]
        for (features, out), own in zip(
          itertools.pairwise((64, 100, 50, num_labels)), (dtype, dtype, jnp.float32), strict=True
        )
      ]
    )
    self.dropout = dropout

  def __call__(self, x: jax.Array, key: jax.Array | None) -> jax.Array:
    for i, (layer, own) in enumerate(zip(self.layers, split_key(key, 3), strict=True)):
      x = layer(alpha_dropout(own, jax.nn.elu(x) if i else x, self.dropout))
    return x


def hilbert_curve(order: int) -> np.ndarray:
  """Returns the Hilbert curve of a square: each pixel's position along the curve.

  Args:
    order: width of the square in pixels, a power of two.
  """
  curve = np.zeros((1, 1), int)
  while len(curve) < order:
    n = curve.size
    curve = np.block([[curve.T, curve + n], [curve.T[::-1, ::-1] + 3 * n, curve + 2 * n]])
  return curve


def alpha_dropout(
  key: jax.Array | None, x: Float[Array, "*shape"], rate: float
) -> Float[Array, "*shape"]:
  """Sets a random share of `x` to SELU's limit, and keeps mean 0 and variance 1 (Klambauer et al. 2017)."""
  if key is None or rate == 0:
    return x
  kept = hash_bits(key, x.shape) >= jnp.uint32(rate * 2**32)
  scale = ((1 - rate) * (1 + rate * _ALPHA**2)) ** -0.5
  return (scale * (jnp.where(kept, x, _ALPHA) - rate * _ALPHA)).astype(x.dtype)


def _pixels(words: Int[Array, "batch words"]) -> Int[Array, "batch height width"]:
  """Returns the image, whose pixels are the words along the curve."""
  count = _HEIGHT * _WIDTH
  words = words[:, :count]
  words = jnp.pad(words, ((0, 0), (0, count - words.shape[1])), constant_values=_NUM_WORDS)
  return words[:, hilbert_curve(_WIDTH)[:_HEIGHT]]


def _kernel_init(size: int, out_features: int) -> nnx.initializers.Initializer:
  return nnx.initializers.normal((2 / 9 / (size * size * out_features)) ** 0.5)


def _convolution(
  size: int, features: int, out_features: int, rngs: Rngs, dtype: DTypeLike
) -> nnx.Conv:
  return nnx.Conv(
    features,
    out_features,
    (size, size),
    use_bias=False,
    kernel_init=_kernel_init(size, out_features),
    rngs=rngs,  # type: ignore[arg-type]
    dtype=dtype,
  )


def _shortcut(features: int, out_features: int, rngs: Rngs, dtype: DTypeLike):
  """Returns the identity, or a 1 x 1 convolution if the number of features changes."""
  return (
    (lambda x: x)
    if features == out_features
    else _convolution(1, features, out_features, rngs, dtype)
  )


def _batch_norm(features: int, rngs: Rngs, dtype: DTypeLike) -> nnx.BatchNorm:
  return nnx.BatchNorm(features, momentum=0.35, epsilon=1e-3, rngs=rngs, dtype=dtype)  # type: ignore[arg-type]


def _normalize(norm: nnx.BatchNorm, x: jax.Array, rows: jax.Array | None) -> jax.Array:
  mask = None if rows is None else rows[:, None, None, None]
  return norm(x, use_running_average=rows is None, mask=mask)


def _pool(x: Float[Array, "batch height width features"]) -> jax.Array:
  return nnx.avg_pool(x, (2, 2), (2, 2))
