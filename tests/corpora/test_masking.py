"""Tests masking: how many tokens are chosen, which ones, and what replaces them."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discipline_jax.corpora.masking import MaskedBatch, Masking, mask_tokens

MASK, FIRST, VOCAB = 4, 10, 200
ORDINARY = jnp.arange(FIRST, VOCAB)
FIELDS = dataclasses.fields(MaskedBatch)


def batch(rows, length, seed=0):
  """Returns rows `[CLS] tokens [SEP] padding` of different lengths, and which tokens are candidates."""
  rng = np.random.default_rng(seed)
  ids = rng.integers(FIRST, VOCAB, (rows, length))
  lengths = rng.integers(2, length + 1, rows)
  ids[:, 0] = 2
  ids[np.arange(rows), lengths - 1] = 3
  ids[np.arange(length)[None] >= lengths[:, None]] = 0
  return ids.astype(np.int32), ids >= FIRST


_compiled = jax.jit(mask_tokens, static_argnames=("masking", "mask_id"))


def mask(ids, candidates, masking, seed=0):
  """Returns what `mask_tokens` does, in NumPy arrays; it is compiled as a whole, which takes less time."""
  given = map(jnp.asarray, (ids, candidates))
  key = jax.random.key(seed)
  output = _compiled(key, *given, masking, mask_id=MASK, ordinary_ids=ORDINARY)
  arrays = {field.name: np.asarray(getattr(output, field.name)) for field in FIELDS}
  return types.SimpleNamespace(**arrays)


def masked(masking, rows=400, length=128, seed=0):
  ids, candidates = batch(rows, length, seed)
  return ids, candidates, mask(ids, candidates, masking, seed)


@pytest.mark.parametrize(("rate", "places"), [(0.15, 20), (0.15, 500), (1.0, 1), (0.5, 77)])
def test_the_count_of_every_row_is_exact(rate, places):
  _, candidates, output = masked(Masking(rate=rate, max_positions=places))
  expected = [min(n, places, max(1, round(rate * n))) for n in candidates.sum(1).tolist()]
  np.testing.assert_array_equal(output.weights.sum(1), expected)
  assert output.positions.shape == (400, min(places, 128))


def test_positions_labels_and_the_rest_of_the_row():
  ids, candidates, output = masked(Masking())
  for row in range(len(ids)):
    real = output.weights[row] == 1
    positions = output.positions[row][real]
    assert (np.diff(positions) > 0).all(), "each once, in order"
    assert candidates[row][positions].all(), "no special token, no padding"
    np.testing.assert_array_equal(output.labels[row][real], ids[row][positions])
    others = np.setdiff1d(np.arange(ids.shape[1]), positions)
    np.testing.assert_array_equal(output.ids[row][others], ids[row][others])
    assert (output.positions[row][~real] == 0).all()
  assert (output.weights[:, :-1] >= output.weights[:, 1:]).all(), "surplus places come last"


@pytest.mark.parametrize(
  "shares", [(0.8, 0.1, 0.1), (1.0, 0.0, 0.0), (0.8, 0.0, 0.2), (0.8, 0.2, 0.0), (0.0, 0.0, 1.0)]
)
def test_the_mix_over_a_million_positions(shares):
  masked_share, same, random = shares
  masking = Masking(mask=masked_share, same=same, random=random, max_positions=20)
  seen, fates = 0, np.zeros(3)
  for seed in range(4):
    ids, _, output = masked(masking, rows=2000, seed=seed)
    seen += ids.size
    real = output.weights == 1
    after = np.take_along_axis(output.ids, output.positions, 1)[real]
    labels = output.labels[real]
    kept = after == labels
    assert (after[(after != MASK) & ~kept] >= FIRST).all(), "never a special token"
    # A random token is sometimes the original one, and then counts as kept.
    fates += [(after == MASK).sum(), kept.sum(), ((after != MASK) & ~kept).sum()]
  assert seen >= 1_000_000
  hidden = random / (VOCAB - FIRST)
  np.testing.assert_allclose(
    fates / fates.sum(), [masked_share, same + hidden, random - hidden], atol=0.005
  )


def test_every_candidate_is_as_likely_and_so_is_every_replacement():
  ids = np.full((20_000, 12), 50)
  ids[:, 0] = 2
  output = mask(ids, ids != 2, Masking(rate=0.3, mask=0.0, same=0.0, random=1.0))
  counts = np.bincount(output.positions.ravel(), output.weights.ravel(), 12)
  assert counts[0] == 0
  np.testing.assert_allclose(counts[1:] / counts.sum(), 1 / 11, atol=0.003)
  tokens = output.ids[output.ids >= FIRST]
  replacements = np.bincount(tokens, minlength=VOCAB)[FIRST:]
  replacements = np.delete(replacements, 50 - FIRST)
  assert replacements.min() > 0.7 * replacements.mean()


def test_a_row_without_a_candidate_is_left_alone():
  ids = np.array([[2, 3, 0, 0], [2, 60, 3, 0]])
  output = mask(ids, ids >= FIRST, Masking())
  np.testing.assert_array_equal(output.ids[0], ids[0])
  np.testing.assert_array_equal(output.weights.sum(1), [0, 1])


def test_masks_depend_on_the_key_alone():
  ids, candidates = batch(8, 64)
  first, again, other = (mask(ids, candidates, Masking(), seed) for seed in (0, 0, 1))
  for field in FIELDS:
    np.testing.assert_array_equal(getattr(first, field.name), getattr(again, field.name))
  assert not np.array_equal(first.positions, other.positions)


@pytest.mark.parametrize(
  ("changes", "fact"),
  [
    ({"rate": 0.0}, "rate = 0.0,"),
    ({"rate": 1.1}, "rate = 1.1,"),
    ({"mask": 0.7}, "mask = 0.7,"),
    ({"mask": 1.1, "same": -0.1, "random": 0.0}, "mask = 1.1, same = -0.1,"),
    ({"max_positions": 0}, "max_positions = 0 "),
  ],
)
def test_settings_that_are_an_error(changes, fact):
  with pytest.raises(ValueError, match=rf"masking\..*{fact}"):
    Masking(**changes)


@pytest.mark.parametrize(("rate", "expected"), [(1.0, 8), (0.55, 4)])
def test_a_row_of_candidates_alone(rate, expected):
  """round(0.55 * 8) is 4, and round(0.55 * 6) would be 3."""
  ids = np.full((2, 8), FIRST)
  output = mask(ids, ids >= FIRST, Masking(rate=rate))
  np.testing.assert_array_equal(output.weights.sum(1), expected)


class TestSpan:
  """Runs of neighbours, as overlapping k-mers need them."""

  @pytest.mark.parametrize("span", [2, 3, 6])
  @pytest.mark.parametrize("rate", [0.15, 0.4])
  def test_the_share_and_the_places(self, span, rate):
    """Rows are full, so that the mean over rows and positions is the rate; all positions are equally likely."""
    ids = np.random.default_rng(0).integers(FIRST, VOCAB, (4000, 60))
    output = mask(ids, np.ones(ids.shape, bool), Masking(rate=rate, span=span), seed=1)
    chosen = np.zeros(ids.shape)
    rows, slots = np.nonzero(output.weights)
    chosen[rows, output.positions[rows, slots]] = 1
    assert chosen.mean() == pytest.approx(rate, abs=0.006)
    np.testing.assert_allclose(chosen.mean(0), rate, atol=0.05)
    np.testing.assert_array_equal(chosen.sum(1), output.weights.sum(1))

  @pytest.mark.parametrize("span", [2, 5])
  def test_runs_are_whole_between_the_ends_of_a_segment(self, span):
    """A run that is shorter than the span touches a token that must not be masked."""
    ids, candidates, output = masked(Masking(rate=0.2, span=span))
    for row in range(len(ids)):
      chosen = np.zeros(ids.shape[1] + 2, int)
      chosen[1 + output.positions[row][output.weights[row] == 1]] = 1
      edges = np.flatnonzero(np.diff(chosen))
      assert candidates[row].any() == (len(edges) > 0)
      inner = np.pad(candidates[row], 1)
      for start, end in edges.reshape(-1, 2):
        is_at_end = not inner[start] or not inner[end + 1]
        assert end - start >= span or is_at_end
        assert inner[start + 1 : end + 1].all()

  def test_a_run_has_one_fate(self):
    """The mask token, the same tokens or random ones; a token that stays could be read in the middle of a run."""
    masking = Masking(rate=0.05, span=4, max_positions=4)  # one run a row
    ids, _, output = masked(masking, rows=3000)
    fates = []
    for row in range(len(ids)):
      real = output.weights[row] == 1
      new = output.ids[row][output.positions[row][real]]
      old = output.labels[row][real]
      if real.sum() == 4:
        is_masked, is_same = (new == MASK).all(), (new == old).all()
        assert is_masked or is_same or ((new != MASK).all() and (new != old).any())
        fates.append("mask" if is_masked else "same" if is_same else "random")
    shares = {fate: fates.count(fate) / len(fates) for fate in ("mask", "same", "random")}
    assert shares == pytest.approx({"mask": 0.8, "same": 0.1, "random": 0.1}, abs=0.03)

  def test_a_masked_run_of_kmers_hides_a_letter(self):
    """A letter is hidden only if all k-mers that contain it are masked."""
    k, length = 3, 40
    ids = np.full((200, length), FIRST)
    for span, expected in ((k, True), (1, False)):
      masking = Masking(rate=0.1, mask=1.0, same=0.0, random=0.0, span=span)
      is_seen = mask(ids, np.ones(ids.shape, bool), masking).ids == FIRST
      # Letter i of a row is in the k-mers i - k + 1 to i.
      letters = np.stack([np.pad(is_seen, ((0, 0), (i, k - 1 - i))) for i in range(k)]).any(0)
      assert (~letters).any(1).all() == expected

  def test_limits(self):
    _, _, output = masked(Masking(rate=0.5, span=4, max_positions=10))
    assert output.weights.sum(1).max() <= 8
    for fields, fact in (
      ({"span": 0}, "span = 0"),
      ({"span": 3, "max_positions": 2}, r"\b2 .*\b3\b"),
    ):
      with pytest.raises(ValueError, match=fact):
        Masking(**fields)
