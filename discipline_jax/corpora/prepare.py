"""Prepares a corpus once: its vocabulary, and unmasked instances as ArrayRecord files.

  python -m discipline_jax.corpora.prepare --config=pretrain_small --config.corpus.path=DIR

Pre-training does it by itself where it was not done before. The folder that it names can be copied to another machine
and given as `corpus.path`.
"""

import concurrent.futures.process
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from absl import flags, logging
from jaxtyping import Float64
from ml_collections import ConfigDict
from tokenizers import Tokenizer
from tqdm import tqdm

from discipline_jax import command_line
from discipline_jax.corpora import artificial
from discipline_jax.corpora.blocks import (
  PARTS,
  Block,
  LinesBlock,
  Settings,
  file_name,
  line_blocks,
  text_blocks,
  tokenise,
  write_block,
)
from discipline_jax.corpora.instances import PAIRING_OF
from discipline_jax.corpora.records import Records
from discipline_jax.corpora.text import Document, find_files, read_documents, read_tfds
from discipline_jax.corpora.vocabulary import SPECIAL_TOKENS, symbol_tokenizer, train_wordpiece
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.models.config import read_config
from discipline_jax.models.huggingface import resolve
from discipline_jax.models.tokenizer import Vocabulary, load_vocabulary
from discipline_jax.whole_files import whole_file

TEXTS = ("text", "tfds")
ARTIFICIAL = ("uniform", "flat", "nesting")
# Part of every name: to be raised when the same corpus is prepared in another way.
_VERSION = 1
_DESCRIPTION = "corpus.json"


@dataclasses.dataclass(frozen=True)
class Prepared:
  """A prepared corpus.

  Attributes:
    directory: with its files.
    vocabulary: of its tokens.
    description: what `corpus.json` holds: `name`, `pairing`, `lengths`, `draws`, `statistics`.
  """

  directory: pathlib.Path
  vocabulary: Vocabulary
  description: dict

  @classmethod
  def open(cls, directory: pathlib.Path) -> "Prepared":
    """Opens what `prepare` wrote; raises UserError where it is not whole."""
    try:
      description = json.loads((directory / _DESCRIPTION).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
      raise UserError(
        f"not a prepared corpus ({error}), {directory}; delete that folder, and run again"
      ) from None
    return cls(directory, load_vocabulary(directory), description)

  def records(self, part: str, length: int) -> Records:
    """The instances of a part at one of the lengths."""
    draws = range(self.description["draws"] if part == "train" else 1)
    files = [sorted(self.directory.glob(file_name(part, length, draw, "*"))) for draw in draws]
    expected = self.description["statistics"]["parts"][f"{part}_{length}"]["instances"]
    found = Records(files, length=length, vocabulary=self.vocabulary) if all(files) else None
    size = 0 if found is None else found.size
    if found is None or size != expected:
      raise UserError(
        f"the prepared corpus has {size} of its {expected} instances of {part} at {length} tokens, {self.directory};"
        " copy all its files, or delete that folder and run again"
      )
    return found


def prepare(config: ConfigDict) -> Prepared:
  """The prepared corpus of a pre-training config: that of `cache_dir`, or else it is made now.

  Args:
    config: see `defaults.pretrain`; `corpus`, `objective.kind`, `seed`, `cache_dir`, `model.checkpoint` and
      `model.config.vocab_size` are taken from it.

  Raises:
    UserError: no corpus, one that is too small, or a vocabulary that cannot be read.
  """
  check_corpus(config)
  corpus, pairing = config.corpus, PAIRING_OF[config.objective.kind]
  path = None if corpus.path is None else pathlib.Path(corpus.path).expanduser()
  if path is not None and (path / _DESCRIPTION).is_file():
    return _given(path, config, pairing)
  files = [] if path is None or corpus.name == "tfds" else find_files(path)
  directory = pathlib.Path(config.cache_dir).expanduser() / "corpora" / _key(config, pairing, files)
  with _alone(directory):
    if not (directory / _DESCRIPTION).is_file():
      logging.info("Preparing the corpus in %s", directory)
      _make(config, pairing, files, directory)
  return Prepared.open(directory)


def check_corpus(config: ConfigDict) -> None:
  """Raises UserError for settings of `config.corpus` that do not go together; reads nothing."""
  corpus = config.corpus
  if config.objective.kind not in PAIRING_OF:
    raise UserError(
      f"objective.kind = {config.objective.kind!r} is not one of: {', '.join(PAIRING_OF)}"
    )
  names = (*TEXTS, *ARTIFICIAL)
  if corpus.name not in names:
    raise UserError(f"corpus.name = {corpus.name!r} is not one of: {', '.join(names)}")
  if corpus.name in TEXTS and corpus.path is None:
    wanted = {
      "text": "a file or folder of text",
      "tfds": "a data set such as wikipedia/20230601.en",
    }[corpus.name]
    raise UserError(f"corpus.path is not set; set --config.corpus.path to {wanted}")
  path = pathlib.Path(corpus.path or ".").expanduser()
  if corpus.name != "tfds" and not path.exists():
    raise UserError(f"no such file or folder, {path}; set --config.corpus.path")
  if corpus.name in TEXTS and _source(config) is None and config.model.config.vocab_size is None:
    raise UserError(
      "neither corpus.vocabulary nor model.config.vocab_size is set; set one: a model whose vocabulary to take, or"
      " how many tokens to learn"
    )
  if (
    corpus.name in ARTIFICIAL
    and not (path / _DESCRIPTION).is_file()
    and (corpus.vocabulary is None) != (corpus.path is None)
  ):
    raise UserError(
      "an artificial corpus has the frequencies of a text with both corpus.path and corpus.vocabulary, or Zipf's with"
      " neither; set both or none"
    )
  if not corpus.length or not 0 < corpus.validation < 1 or corpus.draws < 1 or corpus.lines < 2:
    raise UserError(
      f"corpus.length = {corpus.length}, validation = {corpus.validation}, draws = {corpus.draws}, lines ="
      f" {corpus.lines}: give at least one length, a share between 0 and 1, at least 1 draw, and at least 2 lines"
    )
  if min(corpus.length) < 5:
    raise UserError(
      f"corpus.length = {corpus.length} leaves no room for text beside special tokens; give at least 5"
    )


def summary(prepared: Prepared) -> str:
  """A prepared corpus in a few lines."""
  numbers = prepared.description["statistics"]
  rows = {
    "corpus": f"{prepared.description['name']}: {numbers['documents']:,} documents, {numbers['sentences']:,} sentences,"
    f" {numbers['tokens']:,} tokens of {numbers['types']:,} types; unigram entropy {numbers['entropy']:.3f} nats",
    "vocabulary": f"{len(prepared.vocabulary.tokens):,} tokens, {100 * numbers['unknown']:.2f}% of the text unknown",
  }
  if "mean_distance" in numbers:
    rows["dependency"] = (
      f"mean distance to the next of its kind {numbers['mean_distance']:.2f} tokens"
    )
  for length in prepared.description["lengths"]:
    train, validation = (numbers["parts"][f"{part}_{length}"] for part in PARTS)
    filled = train["tokens"] / (train["instances"] * length)
    long = numbers["parts"][f"long_{length}"]
    rows[f"{length} tokens"] = (
      f"{train['instances']:,} instances in {prepared.description['draws']} draw(s), {validation['instances']:,} held"
      f" out; {100 * filled:.1f}% filled"
      + (f"; {long:,} longer sentences were cut" if long else "")
    )
  rows["folder"] = str(prepared.directory)
  return "\n".join(f"{name:10} {value}" for name, value in rows.items())


def _given(path: pathlib.Path, config: ConfigDict, pairing: str) -> Prepared:
  prepared = Prepared.open(path)
  corpus = config.corpus
  ours = {
    "name": corpus.name,
    "lengths": list(corpus.length),
    "pairing": pairing,
    "draws": corpus.draws,
  }
  for name, value in ours.items():
    if prepared.description.get(name) != value:
      raise UserError(
        f"the corpus was prepared with {name} {prepared.description.get(name)!r}, but this run has {value!r}, {path};"
        " prepare it again"
      )
  is_chosen = corpus.name in TEXTS and _source(config) is not None
  if is_chosen and _chosen_vocabulary(config).tokens != prepared.vocabulary.tokens:
    raise UserError(
      f"the corpus was prepared with another vocabulary than {_source(config)}, {path}; prepare it again"
    )
  return prepared


def _key(config: ConfigDict, pairing: str, files: Sequence[pathlib.Path]) -> str:
  """The name of a prepared corpus, made of all that it is made from."""
  settings = config.corpus.to_dict() | {"pairing": pairing, "seed": config.seed}
  if files:
    del settings["path"]  # the content counts
  settings["vocab_size"] = _vocab_size(config)
  if _source(config) is not None:
    settings["vocabulary"] = _chosen_vocabulary(config).fingerprint()
  digest = hashlib.sha256(json.dumps([_VERSION, settings], sort_keys=True).encode())
  for file in files:
    with file.open("rb") as content:
      digest.update(hashlib.file_digest(content, "sha256").digest())
  return f"{config.corpus.name}-{digest.hexdigest()[:16]}"


@contextlib.contextmanager
def _alone(directory: pathlib.Path) -> Iterator[None]:
  """One process prepares a corpus; another one that wants it waits."""
  directory.parent.mkdir(parents=True, exist_ok=True)
  with directory.with_name(f".{directory.name}.lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield


def _make(
  config: ConfigDict, pairing: str, files: list[pathlib.Path], directory: pathlib.Path
) -> None:
  corpus = config.corpus
  settings = Settings(
    corpus.language,
    tuple(corpus.length),
    corpus.draws,
    pairing,
    corpus.validation,
    config.seed,
  )
  for left in directory.parent.glob(f".{directory.name}.*.part"):  # by a process that was killed
    shutil.rmtree(left, ignore_errors=True)
  # A name of its own: workers of a process that was killed may still write to theirs.
  part = pathlib.Path(tempfile.mkdtemp(".part", f".{directory.name}.", directory.parent))
  part.chmod(0o755)
  before = signal.signal(signal.SIGTERM, _stop)
  try:
    _write_vocabulary(config, files, part)
    blocks = _blocks(config, files, pairing)
    counts, lines = _write_blocks(blocks, settings, part)
    description = {
      "name": corpus.name,
      "pairing": pairing,
      "lengths": list(settings.lengths),
      "draws": settings.draws,
      "statistics": _statistics(counts, load_vocabulary(part)) | lines,
    }
    with whole_file(part / _DESCRIPTION, text=True) as file:
      file.write(json.dumps(description, indent=2) + "\n")
    part.replace(directory)
  finally:
    signal.signal(signal.SIGTERM, before)
    shutil.rmtree(part, ignore_errors=True)


def _stop(*_) -> None:
  """What the platform's signal does while a corpus is prepared: all of it is cleared away."""
  print("stopped: the corpus is not prepared; run the same command again", file=sys.stderr)
  sys.exit(75)


def _documents(corpus: ConfigDict, files: Sequence[pathlib.Path]) -> Iterator[Document]:
  return read_tfds(corpus.path) if corpus.name == "tfds" else read_documents(files)


def _source(config: ConfigDict) -> str | None:
  """The model whose tokenizer is taken: `corpus.vocabulary`, or for a text the model that is gone on with."""
  is_text = config.corpus.name in TEXTS
  return config.corpus.vocabulary or (config.model.checkpoint if is_text else None)


def _vocab_size(config: ConfigDict) -> int | None:
  """Of a vocabulary that is made here: as the config says, or as the model has it that is gone on with."""
  if config.model.checkpoint is None:
    return config.model.config.vocab_size
  return read_config(resolve(config.model.checkpoint, weights=False)).vocab_size


def _chosen_vocabulary(config: ConfigDict) -> Vocabulary:
  """That of the model `_source`."""
  source = _source(config)
  assert source is not None
  directory = resolve(source, weights=False)
  has_config = (directory / "config.json").is_file()
  vocabulary = load_vocabulary(directory, read_config(directory).vocab_size if has_config else None)
  if vocabulary.tokenizer is None or len(vocabulary.tokens) == len(vocabulary.special_ids):
    raise UserError(f"no tokenizer of text, {source}; set another corpus.vocabulary")
  size = config.model.config.vocab_size
  is_used = config.corpus.name in TEXTS  # not only counted with
  if is_used and size is not None and size != len(vocabulary.tokens):
    raise UserError(
      f"model.config.vocab_size = {size}, but {source} has {len(vocabulary.tokens)} tokens; unset it"
    )
  return vocabulary


def _num_symbols(config: ConfigDict) -> int:
  size = _vocab_size(config)
  if size is not None and size < len(SPECIAL_TOKENS) + 2:
    raise UserError(
      f"model.config.vocab_size = {size} leaves no symbols beside {len(SPECIAL_TOKENS)} special tokens; set more"
    )
  return artificial.NUM_SYMBOLS if size is None else size - len(SPECIAL_TOKENS)


def _write_vocabulary(
  config: ConfigDict, files: Sequence[pathlib.Path], directory: pathlib.Path
) -> None:
  corpus, size = config.corpus, config.model.config.vocab_size
  tokenizer: Tokenizer | None
  if corpus.name in ARTIFICIAL:
    tokenizer = symbol_tokenizer(_num_symbols(config))
  elif _source(config) is not None:
    tokenizer = _chosen_vocabulary(config).tokenizer
  else:
    paragraphs = (text for one in _documents(corpus, files) for text in one.paragraphs)
    counted = tqdm(
      paragraphs, "vocabulary", unit=" paragraphs", unit_scale=True, mininterval=_interval()
    )
    tokenizer = train_wordpiece(counted, size, lowercase=corpus.lowercase)
    if tokenizer.get_vocab_size() != size:
      logging.warning(
        "The corpus is small: it gives a vocabulary of %d tokens, not of %d",
        tokenizer.get_vocab_size(),
        size,
      )
  assert tokenizer is not None
  tokenizer.save(str(directory / "tokenizer.json"))
  # So that transformers takes it as it is, and does not make one of the model's family of it.
  names = _vocabulary_names(load_vocabulary(directory))
  with whole_file(directory / "tokenizer_config.json", text=True) as file:
    file.write(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names}, indent=2) + "\n")


def _vocabulary_names(vocabulary: Vocabulary) -> dict[str, str]:
  """The special tokens, as a tokenizer_config.json has them."""
  ids = {
    "pad_token": vocabulary.pad_id,
    "unk_token": vocabulary.unk_id,
    "cls_token": vocabulary.cls_id,
    "sep_token": vocabulary.sep_id,
    "mask_token": vocabulary.mask_id,
  }
  return {name: vocabulary.tokens[i] for name, i in ids.items()}


def _blocks(config: ConfigDict, files: Sequence[pathlib.Path], pairing: str) -> Iterator[Block]:
  corpus = config.corpus
  if corpus.name in TEXTS:
    return text_blocks(_documents(corpus, files), pairing)
  return line_blocks(corpus.name, corpus.lines, config.seed, _frequencies(config, files))


def _frequencies(
  config: ConfigDict, files: Sequence[pathlib.Path]
) -> Float64[np.ndarray, " symbols"]:
  """Those of the tokens of a text, or Zipf's."""
  if not files:
    return artificial.zipf(_num_symbols(config))
  vocabulary = _chosen_vocabulary(config)
  counts = np.zeros(len(vocabulary.tokens), np.int64)
  for block in text_blocks(read_documents(files), "none"):
    for sentences in tokenise(block.documents, config.corpus.language, vocabulary):
      counts += np.bincount(np.concatenate(sentences), minlength=len(counts))
  counts[list(vocabulary.special_ids)] = 0
  return artificial.ranked(counts, _num_symbols(config))


def _write_blocks(
  blocks: Iterator[Block],
  settings: Settings,
  directory: pathlib.Path,
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
  """Has the blocks written, by as many processes as there are cores where there are several.

  Returns:
    The counts of `write_block`, and of an artificial corpus what its first block shows of dependencies.
  """
  first, second = next(blocks), next(blocks, None)
  lines = {}
  if isinstance(first, LinesBlock):
    lines["mean_distance"] = artificial.statistics(first.lines())["mean_distance"]
  if second is None:
    return write_block(0, first, settings, load_vocabulary(directory), directory), lines
  total: dict[str, np.ndarray] = {}
  workers = os.cpu_count() or 1
  pool = concurrent.futures.ProcessPoolExecutor(
    workers,
    multiprocessing.get_context("spawn"),  # JAX has threads, which a fork would lose
    _begin_worker,
    (settings, directory),
  )
  with tqdm(desc="instances", unit=" tokens", unit_scale=True, mininterval=_interval()) as bar:
    pending: set[concurrent.futures.Future] = set()

    def finish(limit: int) -> None:
      # No more blocks are held in memory than are worked on, however large the corpus.
      nonlocal pending
      while len(pending) > limit:
        done, pending = concurrent.futures.wait(
          pending, return_when=concurrent.futures.FIRST_COMPLETED
        )
        for future in done:
          try:
            counts = future.result()
          except concurrent.futures.process.BrokenProcessPool:
            raise RunFailed(
              "a process that prepares the corpus was killed, most likely for memory; free some, and run again"
            ) from None
          bar.update(int(counts["tokens"].sum()))
          for name, value in counts.items():
            total[name] = total.get(name, 0) + value

    try:
      pending.add(pool.submit(_work, 0, first))
      pending.add(pool.submit(_work, 1, second))
      for number, block in enumerate(blocks, 2):
        pending.add(pool.submit(_work, number, block))
        finish(2 * workers)
      finish(0)
    finally:
      pool.shutdown(cancel_futures=True)
  return total, lines


def _interval() -> float:
  """Seconds between two states of a progress bar; a log file needs few."""
  return 0.1 if sys.stderr.isatty() else 30


def _begin_worker(settings: Settings, directory: pathlib.Path) -> None:
  global _worker
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
  os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are enough
  _worker = (settings, load_vocabulary(directory), directory)


def _work(number: int, block: Block) -> dict[str, np.ndarray]:
  return write_block(number, block, *_worker)


def _statistics(counts: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> dict:
  tokens = counts["tokens"]
  shares = tokens[tokens > 0] / tokens.sum()
  parts: dict[str, object] = {}
  for name, value in counts.items():
    if name.startswith(PARTS):
      parts[name] = {"instances": int(value[0]), "tokens": int(value[1])}
    elif name.startswith("long_"):
      parts[name] = int(value)
  return {
    "documents": int(counts["documents"]),
    "sentences": int(counts["sentences"]),
    "tokens": int(tokens.sum()),
    "types": len(shares),
    "entropy": float(-(shares * np.log(shares)).sum()),
    "unknown": float(tokens[vocabulary.unk_id] / tokens.sum()),
    "parts": parts,
  }


def main(argv: Sequence[str]) -> None:
  """Prepares the corpus of a config, and says what it is."""
  flag_values = command_line.parse(argv)
  if flag_values.help:
    print(f"{__doc__}\n{flag_values.get_help()}")
    return
  config = flag_values.config
  if "corpus" not in config:
    raise UserError("the config has no corpus; give one of the pretrain_ configs")
  if flag_values["dry-run"].value:
    check_corpus(config)
    print(
      f"{config.corpus.name} ({config.corpus.path or 'drawn'}), into {config.cache_dir}/corpora"
    )
    return
  print(summary(prepare(config)))


if __name__ == "__main__":
  logging.use_absl_handler()
  flags.FLAGS.mark_as_parsed()  # absl's own flags keep their defaults; this stops a warning about them
  sys.exit(command_line.exit_code(lambda: main(sys.argv)))
