"""Sums over tokens from which all similarities of two representations follow, so that no representation is kept.

A representation is a matrix [tokens, features]. The sums are in float64 and do not depend on how the tokens are cut
into batches. `Own` has those of one representation, `Cross` those of two.
"""

import numpy as np
from jaxtyping import Float, Float64

_BLOCK = 4096  # tokens that are added together, and within which a null permutes them


class Own:
  """Sums over the tokens of one representation.

  Rows are taken relative to the first one, because differences of large sums have no digits left.

  Attributes:
    count: number of tokens.
    total: sum of the rows.
    products: sum of the outer products of each row with itself.
    norms: sum of the squared lengths of rows; `squared_norms` of their squares.
    weighted: sum of the rows, each times its squared length.
  """

  def __init__(self, features: int):
    self.count = 0
    self.total: Float64[np.ndarray, " features"] = np.zeros(features)
    self.products: Float64[np.ndarray, "features features"] = np.zeros((features, features))
    self.norms = self.squared_norms = 0.0
    self.weighted: Float64[np.ndarray, " features"] = np.zeros(features)

  def add(self, rows: Float64[np.ndarray, "tokens features"]) -> None:
    """Adds some tokens."""
    lengths = np.square(rows).sum(1)
    self.count += len(rows)
    self.total += rows.sum(0)
    self.products += rows.T @ rows
    self.norms += float(lengths.sum())
    self.squared_norms += float(np.square(lengths).sum())
    self.weighted += lengths @ rows

  @property
  def scatter(self) -> Float64[np.ndarray, "features features"]:
    """Returns the sum of the outer products of the centred rows."""
    return self.products - np.outer(self.total, self.total) / self.count

  @property
  def deviations(self) -> Float64[np.ndarray, " features"]:
    """Returns the standard deviation of each feature."""
    return np.sqrt(np.maximum(0, np.diag(self.scatter)) / self.count)


class Cross:
  """Sums over the tokens of two representations of them.

  Attributes:
    products: sum of the outer products of the first one's row with the second one's.
    norms: sum of the products of their squared lengths.
    first_weighted: sum of the first one's rows, each times the squared length of the second one's; `second_weighted`
      the other way round.
  """

  def __init__(self, first: int, second: int):
    self.products: Float64[np.ndarray, "first second"] = np.zeros((first, second))
    self.norms = 0.0
    self.first_weighted: Float64[np.ndarray, " first"] = np.zeros(first)
    self.second_weighted: Float64[np.ndarray, " second"] = np.zeros(second)

  def add(
    self, x: Float64[np.ndarray, "tokens first"], y: Float64[np.ndarray, "tokens second"]
  ) -> None:
    """Adds some tokens."""
    x_lengths, y_lengths = np.square(x).sum(1), np.square(y).sum(1)
    self.products += x.T @ y
    self.norms += float(x_lengths @ y_lengths)
    self.first_weighted += y_lengths @ x
    self.second_weighted += x_lengths @ y

  def scatter(self, x: Own, y: Own) -> Float64[np.ndarray, "first second"]:
    """Returns the sum of the outer products of the centred rows."""
    return self.products - np.outer(x.total, y.total) / x.count


class Moments:
  """Sums over the tokens of several representations, and of some pairs of them.

  Attributes:
    own: of each representation.
    cross: of each pair.
    null: of each pair, where the second one's tokens are in random order: what a similarity is without any relation.
  """

  def __init__(
    self,
    features: list[int],
    pairs: list[tuple[int, int]],
    *,
    seed: int,
    scales: list[Float[np.ndarray, " _"]] | None = None,
  ):
    """Makes sums over no token.

    Args:
      features: the number of features of each representation.
      pairs: numbers of the representations that are compared.
      seed: of the random order. Tokens change places within blocks of 4,096.
      scales: for each representation, numbers by which its features are divided, see `Own.deviations`; None: by none.
    """
    self.own = [Own(number) for number in features]
    self.cross = {(i, j): Cross(features[i], features[j]) for i, j in pairs}
    self.null = {(i, j): Cross(features[i], features[j]) for i, j in pairs}
    self._scales = scales
    self._rng = np.random.default_rng(seed)
    self._origins: list[np.ndarray] | None = None
    self._waiting: list[list[np.ndarray]] = [[] for _ in features]
    self._number = 0  # of tokens that wait

  def add(self, representations: list[Float[np.ndarray, "tokens _"]]) -> None:
    """Adds some tokens: a matrix for each representation, whose rows belong together.

    Raises:
      ValueError: unequal numbers of rows, or a value that is not finite.
    """
    if len({len(rows) for rows in representations}) > 1:
      raise ValueError(
        f"{[len(rows) for rows in representations]} tokens; give the same ones of all"
      )
    if not all(np.isfinite(rows).all() for rows in representations):
      raise ValueError("a representation holds values that are not finite")
    if not len(representations[0]):
      return
    if self._origins is None:
      self._origins = [rows[0].astype(np.float64) for rows in representations]
    for i, rows in enumerate(representations):
      rows = rows.astype(np.float64) - self._origins[i]
      self._waiting[i].append(rows if self._scales is None else rows / self._scales[i])
    self._number += len(representations[0])
    while self._number >= _BLOCK:
      self._flush(_BLOCK)

  def finish(self) -> "Moments":
    """Adds what waits for its block to be full, and returns the sums; call it after the last token."""
    if self._number:
      self._flush(self._number)
    return self

  def _flush(self, number: int) -> None:
    blocks = [np.concatenate(rows) for rows in self._waiting]
    self._waiting = [[rows[number:]] for rows in blocks]
    self._number -= number
    blocks = [rows[:number] for rows in blocks]
    order = self._rng.permutation(number)
    for own, rows in zip(self.own, blocks, strict=True):
      own.add(rows)
    for (i, j), cross in self.cross.items():
      cross.add(blocks[i], blocks[j])
      self.null[i, j].add(blocks[i], blocks[j][order])
