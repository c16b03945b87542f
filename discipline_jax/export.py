"""Exports the model of a finished fine-tuning in Hugging Face's format."""

import json
import pathlib

import jax
from absl import logging
from flax import nnx
from ml_collections import ConfigDict

from discipline_jax import models
from discipline_jax.errors import UserError
from discipline_jax.files.whole_files import whole_file
from discipline_jax.models.heads import encoder_of
from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.programs.finetuning_plan import token_map
from discipline_jax.programs.model import resolve_model
from discipline_jax.runs.check_inputs import check_model
from discipline_jax.runs.saved import Saved, read_model
from discipline_jax.tasks.features import NUM_SPECIAL


def export(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Writes a directory that transformers opens: `config.json`, `model.safetensors`, tokenizer, and `input_ids.json`.

  If the run has several replicas, the one that is best on validation is exported. Its trained rows are put back into
  the whole embedding table. `input_ids.json` holds the token map: the id that the run has for each special token and
  each symbol of its alphabet or, if the task is on text, for each id of the tokenizer.

  Args:
    config: `export.output` is taken from it; everything else is the run's.
    workdir: of the finished run.
    dry_run: only say what would be written.

  Raises:
    UserError: no finished run, or an output that cannot be written.
  """
  saved = read_model(workdir)
  check_model(saved, workdir, weights=True)
  if config.export.output is None:
    raise UserError("mode = export needs --config.export.output, a directory")
  output = pathlib.Path(config.export.output).expanduser()
  replica = saved.best
  summary = f"{saved.describe(replica)} of {workdir}: {output}"
  model = resolve_model(saved.config, saved.task)
  if not isinstance(model.config, models.ModelConfig):
    raise UserError(
      f"Hugging Face's format has no {model.config.model_type}; use the run with --config.mode=predict"
    )
  if dry_run:
    print(summary)
    return
  build = saved.task.answer.head.build
  model_config = model.config
  graph, state = nnx.split(nnx.eval_shape(lambda: build(model_config, rngs=nnx.Rngs(0))))
  params = saved.whole_params(replica, model.checkpoint, model_config)
  nnx.replace_by_pure_dict(state, jax.tree.map(jax.numpy.asarray, params))
  network = nnx.merge(graph, state)
  encoder_of(network).source = model.checkpoint
  models.save(network, output, labels=saved.task.answer.labels)
  with whole_file(output / "input_ids.json", text=True) as file:
    content = _input_ids(saved, replica, model.vocabulary)
    file.write(json.dumps(content, ensure_ascii=False) + "\n")
  logging.info("%s", summary)
  print(summary)


def _input_ids(saved: Saved, replica: int, vocabulary: Vocabulary) -> dict[str, int] | list[int]:
  alphabet, symbol_ids = saved.task.alphabet, saved.inputs.symbol_ids
  if alphabet is None:
    return token_map(
      saved.config, saved.result["token_map"], vocabulary, symbol_ids, replica
    ).tolist()
  _, rows, lookup = saved.weights(saved.inputs.seeds[replica])
  names = [vocabulary.tokens[i] for i in symbol_ids[:NUM_SPECIAL]] + [*alphabet.symbols]
  names += [vocabulary.tokens[vocabulary.unk_id]] * alphabet.is_open
  return dict(zip(names, rows[lookup].tolist(), strict=True))
