"""Lowers programs for CUDA and TPU, on a machine that has neither: what cannot run there fails here.

`python -m pytest -m slow tests/test_lowering.py` lowers the other combinations, and all configs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from discipline_jax import models
from discipline_jax.command_line import parse
from discipline_jax.corpora.masking import Masking
from discipline_jax.inspect import program_of
from discipline_jax.models.functional import pretraining_function
from discipline_jax.models.initialise import abstract_params
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.programs import finetuning, pretraining
from discipline_jax.training.objectives import KINDS, Objective, RowBatch, pretraining_loss
from discipline_jax.training.sharding import make_mesh, place
from discipline_jax.training.state import TrainState
from discipline_jax.training.update import RATE, make_train_step
from tests.corpora.small_text import write_text
from tests.models.gradients import CONFIG, HEADS, HOPPER, TPU, gradient
from tests.test_configs import PRETRAININGS, TASKS, small  # noqa: F401

PLATFORMS = [pytest.param(TPU, "tpu", id="tpu"), pytest.param(HOPPER, "cuda", id="cuda")]
FAMILIES = {
  "bert": {},
  "roberta": {"model_type": "roberta", "type_vocab_size": 1},
  "albert": {"model_type": "albert", "embedding_size": 8},
  "plus_tfm": {"model_type": "plus_tfm"},
}


@pytest.mark.usefixtures("cudnn")
@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
  ("dtype", "dropout", "platform", "lowering"),
  [
    pytest.param(jnp.float32, 0.1, TPU, "tpu", id="float32-tpu", marks=pytest.mark.slow),
    pytest.param(jnp.float32, 0.1, HOPPER, "cuda", id="float32-cuda", marks=pytest.mark.slow),
    pytest.param(jnp.bfloat16, 0.0, TPU, "tpu", id="bfloat16-tpu", marks=pytest.mark.slow),
    pytest.param(jnp.bfloat16, 0.0, HOPPER, "cuda", id="bfloat16-cuda"),
  ],
)
def test_every_head_of_every_family_lowers(family, head, dtype, dropout, platform, lowering):
  """Without dropout of attention, bfloat16 is what cuDNN's kernel is for."""
  if isinstance(head, models.Pretraining) and family == "roberta":
    head = models.Pretraining(next_sentence=False)
  function, inputs = gradient(head, platform, dtype, dropout, 11, **FAMILIES[family])
  lowered = jax.jit(function).trace(*inputs).lower(lowering_platforms=(lowering,))
  assert "dot_general" in lowered.as_text()


@pytest.mark.usefixtures("cudnn")
@pytest.mark.parametrize(("platform", "lowering"), PLATFORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_objective_lowers(kind, platform, lowering):
  """A whole update, in two parts, of rows of 128 tokens, of which 21 are predicted."""
  head = models.Pretraining(next_sentence=KINDS[kind][1] is not None)
  fields = {"is_decoder": kind == "causal", "max_position_embeddings": 128}
  config = models.ModelConfig.from_dict(
    CONFIG.to_dict() | {"attention_probs_dropout_prob": 0.0} | fields, "this test"
  )
  mesh = make_mesh(1, 1, 1, jax.devices()[:1])
  forward = pretraining_function(config, head, jnp.bfloat16, platform)
  objective = Objective(kind, Masking(), make_vocabulary((), config.vocab_size))
  params = jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype), abstract_params(config, head)
  )
  optimizer = optax.adam(1e-3)
  state = place(mesh, jax.eval_shape(lambda params: TrainState.create(params, optimizer), params))
  step = make_train_step(pretraining_loss(forward, objective, 0), lambda _: optimizer, mesh, state)
  rows = RowBatch(
    jax.ShapeDtypeStruct((2, 4, 128), np.uint16),
    jax.ShapeDtypeStruct((2, 4), np.int32),
    jax.ShapeDtypeStruct((2, 4), np.int32),
  )
  text = step.trace(state, RATE, rows, None).lower(lowering_platforms=(lowering,)).as_text()
  assert ("cudnn" in text) == (lowering == "cuda")


@pytest.mark.slow
@pytest.mark.usefixtures("cudnn")
@pytest.mark.parametrize(("platform", "lowering"), PLATFORMS)
@pytest.mark.parametrize("name", [*TASKS, *PRETRAININGS])
def test_every_config_lowers(name, platform, lowering, small, tmp_path, monkeypatch):  # noqa: F811
  """Tasks over small files and a small model, pre-trainings with two layers of their own size; both in bfloat16."""
  arguments = [f"--config={name}", "--config.model.dtype=bfloat16"]
  if name in TASKS:
    arguments += [
      f"--config.data_dir={small}",
      f"--config.model.checkpoint={small / 'model'}",
      "--config.train.batch_size=8",
    ]
  else:
    if name == "pretrain_further":
      arguments[0] += f":{small / 'model'}"
    else:
      arguments += ["--config.model.config.num_hidden_layers=2"]
    if name not in ("pretrain_uniform", "pretrain_flat", "pretrain_nesting"):
      text = write_text(tmp_path / "text.txt")
      arguments += [
        f"--config.corpus.path={text}",
        f"--config.corpus.vocabulary={small / 'model'}",
        "--config.model.config.vocab_size=None",
      ]
  config = parse(["main", *arguments]).config
  for module in (finetuning, pretraining):
    monkeypatch.setattr(module, "platform_of", lambda *_: platform)
  program = program_of(config, jax.devices()[:1])
  for length, traced in program.trace().items():
    text = traced.lower(lowering_platforms=(lowering,)).as_text()
    assert "dot_general" in text, length
