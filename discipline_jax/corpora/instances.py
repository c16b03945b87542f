"""Instances for pre-training: `[CLS] A [SEP] B [SEP]` out of documents, as BERT and ALBERT have it, or `[CLS] A [SEP]`.

Follows Devlin et al. 2019 (appendix A.2), and for the order of segments Lan et al. 2020 (section 3.1). Tokens are not
masked here: that is drawn anew each time an instance is used (`corpora.masking`).
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int

PAIRINGS = ("none", "next_sentence", "order")
# By `objective.kind`.
PAIRING_OF = {
  "mlm": "none",
  "mlm_nsp": "next_sentence",
  "mlm_sop": "order",
  "causal": "none",
}
_SHORT = 0.1  # share of the instances that are shorter than they might be
_OTHER = 0.5  # share of the pairs whose second segment is of another document, or comes first

# The tokens of each sentence.
Document = Sequence[Int[np.ndarray, " tokens"]]


@dataclasses.dataclass(frozen=True)
class Instance:
  """One row to train on, without special tokens.

  Attributes:
    first, second: tokens of the segments; `second` is None where there is one segment.
    label: 0 where the second segment follows the first; 1 where it is of another document, or the two are swapped.
  """

  first: Int[np.ndarray, " tokens"]
  second: Int[np.ndarray, " tokens"] | None
  label: int = 0


def make_instances(
  documents: Sequence[Document], *, length: int, pairing: str, seed: int | Sequence[int]
) -> Iterator[Instance]:
  """Yields the instances of one pass over the documents; another seed is another draw of segments and partners.

  Without pairs nothing is drawn: rows are as long as they can be (RoBERTa's).

  Args:
    documents: with at least one sentence each.
    length: the most tokens of a row, special ones counted.
    pairing: `none`; `next_sentence`: half of the second segments are of another document, never of the same one; or
      `order`: half of the pairs are swapped.
    seed: of all that is drawn.

  Raises:
    ValueError: an unknown pairing, no room for tokens, or `next_sentence` with a single document.
  """
  if pairing not in PAIRINGS:
    raise ValueError(f"pairing {pairing!r} is not one of: {', '.join(PAIRINGS)}")
  room = length - (2 if pairing == "none" else 3)
  if room < 2:
    raise ValueError(f"rows of {length} tokens leave no room for text; give at least 5")
  if pairing == "next_sentence" and len(documents) < 2:
    raise ValueError(
      "one document has no other to take a next sentence from; give more documents, or mask alone"
    )
  rng = np.random.default_rng(seed)
  for number in range(len(documents)):
    if pairing == "none":
      yield from _whole(documents[number], room)
    else:
      yield from _pairs(documents, number, room, pairing, rng)


def _target(room: int, rng: np.random.Generator) -> int:
  """How many tokens to gather for an instance: rarely fewer than there is room for, as fine-tuning will have it."""
  return int(rng.integers(2, room + 1)) if rng.random() < _SHORT else room


def _whole(document: Document, room: int) -> Iterator[Instance]:
  """Whole sentences, as many as fit; a longer one is cut into parts."""
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
      end = middle  # what would have followed is used later
    elif count == 1:
      # A last sentence by itself has an order only if it is cut.
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
) -> np.ndarray:
  """Sentences of another document, from any on."""
  other = int(rng.integers(len(documents) - 1))
  document = documents[other + (other >= number)]
  start = end = int(rng.integers(len(document)))
  gathered = 0
  while end < len(document) and gathered < target:
    gathered += len(document[end])
    end += 1
  return np.concatenate(document[start:end])


def _cut(
  first: np.ndarray, second: np.ndarray, room: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
  """Takes tokens from the longer one, at either end by chance, until both fit."""
  keep = [len(first), len(second)]
  surplus = sum(keep) - room
  if surplus > 0:
    # One by one from the longer one, the second of equals, comes to this.
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
