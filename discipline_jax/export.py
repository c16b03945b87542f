"""Gives a finished run's model away, in Hugging Face's format."""

import json
import pathlib

import jax
from absl import logging
from flax import nnx
from ml_collections import ConfigDict

from discipline_jax import models
from discipline_jax.errors import UserError
from discipline_jax.models.heads import encoder_of
from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.plan import model_parts, token_map
from discipline_jax.saved import Saved, read_model
from discipline_jax.tasks.features import NUM_SPECIAL
from discipline_jax.whole_files import whole_file


def export(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Writes a directory that transformers opens: `config.json`, `model.safetensors`, tokenizer, and `input_ids.json`.

  Of a run with several replicas the one that is best on validation is taken. The trained rows stand in their places
  in the whole embedding table. `input_ids.json` says which id the run has for each symbol of its alphabet and for the
  special tokens, or, for a task on text, for each id of the tokenizer: the token map.

  Args:
    config: `export.output` is taken from it; all else is the run's.
    workdir: of the finished run.
    dry_run: only say what would be written.

  Raises:
    UserError: no finished run, or an output that cannot be written.
  """
  saved = read_model(workdir)
  if config.export.output is None:
    raise UserError("mode = export needs --config.export.output, a directory")
  output = pathlib.Path(config.export.output).expanduser()
  replica = saved.best
  summary = (
    f"the replica with seed {saved.seeds[replica]} ({saved.task.metric}"
    f" {saved.result['validation']['runs'][replica]:.1f} on validation) of {workdir}: {output}"
  )
  checkpoint, model_config, vocabulary = model_parts(saved.config, saved.task)
  if not isinstance(model_config, models.ModelConfig):
    raise UserError(
      f"{model_config.model_type} has no form in Hugging Face's format; use the run with --config.mode=predict"
    )
  if dry_run:
    print(summary)
    return
  head = models.Classifier(saved.task.num_outputs)
  graph, state = nnx.split(nnx.eval_shape(lambda: head.build(model_config, rngs=nnx.Rngs(0))))
  params = saved.whole_params(replica, checkpoint, model_config)
  nnx.replace_by_pure_dict(state, jax.tree.map(jax.numpy.asarray, params))
  model = nnx.merge(graph, state)
  encoder_of(model).source = checkpoint
  models.save(model, output, labels=saved.task.labels)
  with whole_file(output / "input_ids.json", text=True) as file:
    file.write(json.dumps(_input_ids(saved, replica, vocabulary), ensure_ascii=False) + "\n")
  logging.info("%s", summary)
  print(summary)


def _input_ids(saved: Saved, replica: int, vocabulary: Vocabulary) -> dict[str, int] | list[int]:
  alphabet = saved.task.alphabet
  if alphabet is None:
    return token_map(saved.config, vocabulary, saved.symbol_ids, replica).tolist()
  _, rows, lookup = saved.weights(saved.seeds[replica])
  names = [vocabulary.tokens[i] for i in saved.symbol_ids[:NUM_SPECIAL]] + [*alphabet.symbols]
  names += [vocabulary.tokens[vocabulary.unk_id]] * alphabet.is_open
  return dict(zip(names, rows[lookup].tolist(), strict=True))
