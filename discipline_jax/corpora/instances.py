"""Pre-training instances: rows `[CLS] A [SEP] B [SEP]`, as BERT and ALBERT have them, or `[CLS] A [SEP]`.

Follows Devlin et al. 2019 (appendix A.2), and for the order of segments Lan et al. 2020 (section 3.1). Tokens are not
masked here: `corpora.masking` masks other tokens each time an instance is used.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int

PAIRINGS = ("none", "next_sentence", "order")
# The pairing of each `objective.kind`.
PAIRING_OF = {
  "mlm": "none",
  "mlm_nsp": "next_sentence",
  "mlm_sop": "order",
  "causal": "none",
}
_SHORT = 0.1  # share of the instances whose target length is random, and mostly shorter than a row
_OTHER = 0.5  # share of the pairs whose second segment is from another document, or is swapped with the first

# The token ids of each sentence; sentences differ in length.
Document = Sequence[Int[np.ndarray, " _"]]


@dataclasses.dataclass(frozen=True)
class Instance:
  """One row to train on, without special tokens.

  Attributes:
    first: token ids of the first segment.
    second: token ids of the second segment, or None if there is one segment.
    label: 0 if the second segment follows the first; 1 if it is from another document, or if the two are swapped.
  """

  first: Int[np.ndarray, " first"]
  second: Int[np.ndarray, " second"] | None
  label: int = 0


def make_instances(
  documents: Sequence[Document], *, length: int, pairing: str, seed: int | Sequence[int]
) -> Iterator[Instance]:
  """Yields the instances of one pass over the documents. Another seed gives other segments and other pairs.

  With the pairing `none` nothing is random: each row holds as many whole sentences as fit, as RoBERTa's do.

  Args:
    documents: documents of at least one sentence each.
    length: the most tokens of a row, special tokens included.
    pairing: `none`: one segment; `next_sentence`: half of the second segments are from another document; or `order`:
      the segments of half of the pairs are swapped.
    seed: the seed of the segments and pairs.

  Raises:
    ValueError: the pairing is unknown, a row has no room for text, or `next_sentence` has a single document.
  """
  if pairing not in PAIRINGS:
    raise ValueError(f"pairing {pairing!r} is not one of: {', '.join(PAIRINGS)}")
  room = length - (2 if pairing == "none" else 3)
  if room < 2:
    raise ValueError(f"rows of {length} tokens leave no room for text; give at least 5")
  if pairing == "next_sentence" and len(documents) < 2:
    raise ValueError(
      f"pairing 'next_sentence' needs another document to take segments from, but there is {len(documents)} in all;"
      " give at least 2, or choose another pairing"
    )
  rng = np.random.default_rng(seed)
  for number in range(len(documents)):
    if pairing == "none":
      yield from _whole(documents[number], room)
    else:
      yield from _pairs(documents, number, room, pairing, rng)


def _target(room: int, rng: np.random.Generator) -> int:
  """Returns how many tokens an instance is to have. A few are short, because inputs of fine-tuning often are."""
  return int(rng.integers(2, room + 1)) if rng.random() < _SHORT else room


def _whole(document: Document, room: int) -> Iterator[Instance]:
  """Yields rows of as many whole sentences as fit; cuts a sentence that is longer than a row."""
  tokens = np.concatenate(document)
  ends = np.cumsum([len(sentence) for sentence in document])
  start = 0
  while start < len(tokens):
    limit = start + room
    fitting = ends[(ends > start) & (ends <= limit)]
    end = int(fitting[-1]) if len(fitting) else min(limit, len(tokens))
    yield Instance(tokens[start:end], None)
    start = end


def _pairs(
  documents: Sequence[Document], number: int, room: int, pairing: str, rng: np.random.Generator
) -> Iterator[Instance]:
  """Yields the pairs of segments of one document; other documents give it next sentences that do not follow."""
  document = documents[number]
  start = 0
  while start < len(document):
    target = _target(room, rng)
    end, gathered = start, 0
    while end < len(document) and (gathered < target or end == start):
      gathered += len(document[end])
      end += 1
    count = end - start
    middle = start + (int(rng.integers(1, count)) if count > 1 else 1)
    first = np.concatenate(document[start:middle])
    is_other = pairing == "next_sentence" and (count == 1 or rng.random() < _OTHER)
    if is_other:
      second = _elsewhere(documents, number, max(1, target - len(first)), rng)
      end = middle  # the sentences that would have followed are used for the next instance
    elif count == 1:
      # A single sentence is left, so it is cut into two segments that have an order.
      if len(first) < 2:
        return
      cut = len(first) // 2
      first, second = first[:cut], first[cut:]
    else:
      second = np.concatenate(document[middle:end])
    first, second = _cut(first, second, room, rng)
    label = int(is_other)
    if pairing == "order" and rng.random() < _OTHER:
      first, second, label = second, first, 1
    yield Instance(first, second, label)
    start = end


def _elsewhere(
  documents: Sequence[Document], number: int, target: int, rng: np.random.Generator
) -> Int[np.ndarray, " tokens"]:
  """Returns about `target` tokens from another document: whole sentences, from a random one on."""
  other = int(rng.integers(len(documents) - 1))
  document = documents[other + (other >= number)]
  start = end = int(rng.integers(len(document)))
  gathered = 0
  while end < len(document) and gathered < target:
    gathered += len(document[end])
    end += 1
  return np.concatenate(document[start:end])


def _cut(
  first: Int[np.ndarray, " first"],
  second: Int[np.ndarray, " second"],
  room: int,
  rng: np.random.Generator,
) -> tuple[Int[np.ndarray, " left"], Int[np.ndarray, " right"]]:
  """Removes tokens from the longer segment, each from a random end, until both segments fit.

  As in BERT, this is done token by token. Of two equally long segments, the second one loses a token.
  """
  keep = [len(first), len(second)]
  surplus = sum(keep) - room
  if surplus > 0:
    # The lengths are computed at once: the longer segment comes down to the shorter one, then both lose in turn.
    shorter = min(keep)
    long_side = 0 if keep[0] > keep[1] else 1
    alone = min(surplus, max(keep) - shorter)
    keep[long_side] -= alone
    rest = surplus - alone
    keep[1] -= -(-rest // 2)
    keep[0] -= rest // 2
  parts = []
  for tokens, length in zip((first, second), keep, strict=True):
    front = int(rng.binomial(len(tokens) - length, 0.5))
    parts.append(tokens[front : front + length])
  return parts[0], parts[1]
