"""Tests of Hilbert-CNN against PyTorch, of its number of parameters, and of the options that do not apply to it."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from discipline_jax.errors import UserError
from discipline_jax.main import main
from discipline_jax.models.functional import classifier_function
from discipline_jax.models.heads import Classifier
from discipline_jax.models.hilbert_cnn import HilbertConfig, alpha_dropout, hilbert_curve
from discipline_jax.models.initialise import initial_params
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.tasks.answers import Class
from discipline_jax.training.samples import Batch, Samples, sample_loss
from discipline_jax.training.sharding import make_mesh
from discipline_jax.training.state import TrainState
from discipline_jax.training.update import make_train_step
from tests.testdata import tiny
from tests.testdata.make_hilbert_cnn import LABELS, SEQUENCES, draw
from tests.testdata.small_files import write_data
from tests.whole_runs import one_device

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "A", "C", "G", "T", "N")
CONFIG = HilbertConfig(TOKENS, len(TOKENS))
IDS = {token: i for i, token in enumerate(TOKENS)}
HEAD = Classifier(3)


def batch(sequences, length=45):
  ids = np.zeros((len(sequences), length), np.int32)
  for row, sequence in zip(ids, sequences, strict=True):
    row[: len(sequence) + 2] = [IDS["[CLS]"], *(IDS[letter] for letter in sequence), IDS["[SEP]"]]
  return jnp.array(ids), jnp.array(ids != 0)


def drawn_params(config=CONFIG):
  flat = flatten_dict(initial_params("scratch", config, HEAD, None, 0))
  letters = ("base_model", "embeddings", "word_embeddings", "weight")
  return unflatten_dict(
    {
      path: leaf if path == letters else jnp.array(draw(".".join(map(str, path)), leaf.shape))
      for path, leaf in flat.items()
    }
  )


@pytest.fixture(scope="module")
def golden():
  with np.load(pathlib.Path(__file__).parents[1] / "testdata" / "hilbert_cnn.npz") as arrays:
    return dict(arrays)


def test_the_logits_of_the_evaluation(golden):
  forward = jax.jit(classifier_function(CONFIG, HEAD))
  output = forward(drawn_params(), *batch(SEQUENCES), None, None)
  np.testing.assert_allclose(output.logits, golden["evaluation"], rtol=1e-4, atol=2e-5)


def test_logits_loss_gradient_and_averages_of_training(golden):
  """The batch has an empty row, which must not change any of them."""
  ids, mask = batch([*SEQUENCES, ""])
  mask = mask.at[-1].set(False)

  def loss(params):
    output = classifier_function(CONFIG, HEAD)(params, ids, mask, None, jax.random.key(0))
    losses = optax.softmax_cross_entropy_with_integer_labels(output.logits[:-1], jnp.array(LABELS))
    return losses.mean() + output.penalty, output

  (value, output), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(drawn_params())
  np.testing.assert_allclose(output.logits[:-1], golden["training"], rtol=1e-4, atol=5e-5)
  np.testing.assert_allclose(value, golden["loss"], rtol=1e-5)
  statistics = {".".join(map(str, p)): x for p, x in flatten_dict(output.statistics).items()}
  assert len(statistics) == 2 * 30
  for name, ours in statistics.items():
    np.testing.assert_allclose(
      ours, golden[f"statistics.{name}"], rtol=1e-4, atol=1e-5, err_msg=name
    )
  compared = 0
  for path, ours in flatten_dict(gradient).items():
    name = f"gradient.{'.'.join(map(str, path))}"
    if name not in golden:
      assert not ours.any(), f"{name} must not be trained"
      continue
    compared += 1
    flat = np.asarray(ours).ravel()
    norm, samples = golden[name][0], golden[name][1:]
    np.testing.assert_allclose(np.linalg.norm(flat), norm, rtol=1e-4, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(
      flat[:: max(1, flat.size // 50)][:50],
      samples,
      rtol=1e-3,
      atol=1e-4 * norm + 1e-6,
      err_msg=name,
    )
  assert compared == 25 + 2 * 30 + 6  # kernels, scales and biases, dense layers


def test_the_number_of_parameters_is_the_published_one():
  """The expected number is computed from the widths and kernels that the authors give."""

  def unit(first, second, wide, narrow):
    shortcut = wide * narrow if wide != narrow else 0
    return first**2 * wide * 4 + 8 + second**2 * 4 * narrow + shortcut + 2 * (2 * narrow)

  def block(kernels, wide, narrow):
    shortcut = wide * narrow if wide != narrow else 0
    units = unit(*kernels[:2], wide, narrow) + unit(*kernels[2:], wide, narrow)
    return units + shortcut + narrow**2 + 2 * narrow

  expected = 7 * 7 * 256 * 64 + 5 * 5 * 64 * 64 + 2 * 64
  expected += block((8, 4, 4, 3), 64, 32)
  expected += sum(block(k, 32, 32) for k in ((2, 4, 4, 3), (2, 2, 2, 2), (3, 2, 2, 3)))
  expected += 2 * 32 + 64 * 100 + 100 + 100 * 50 + 50 + 50 * 2 + 2
  flat = flatten_dict(initial_params("scratch", CONFIG, Classifier(2), None, 0))
  count = sum(
    leaf.size
    for path, leaf in flat.items()
    if path[-1] not in ("mean", "var") and "word_embeddings" not in path
  )
  assert count == expected == 963_460


@pytest.mark.parametrize("order", [1, 2, 4, 32])
def test_the_curve_visits_every_pixel_and_moves_to_neighbours(order):
  curve = hilbert_curve(order)
  assert sorted(curve.ravel()) == list(range(order**2))
  places = np.argwhere(np.ones_like(curve))[np.argsort(curve.ravel())]
  np.testing.assert_array_equal(np.abs(np.diff(places, axis=0)).sum(1), 1)
  assert curve[: (order + 1) // 2].max() == curve[: (order + 1) // 2].size - 1, "upper half"


def test_alpha_dropout_keeps_mean_and_variance():
  x = jax.random.normal(jax.random.key(0), (1000, 500))
  y = alpha_dropout(jax.random.key(1), x, 0.5)
  assert abs(float(y.mean())) < 0.01
  assert abs(float(y.var()) - 1) < 0.01
  _, counts = np.unique(y, return_counts=True)
  assert abs(counts.max() / y.size - 0.5) < 0.01, "half of the values are equal"
  assert alpha_dropout(None, x, 0.5) is x


def test_padding_and_length_do_not_matter():
  forward, params = jax.jit(classifier_function(CONFIG, HEAD)), drawn_params()
  short = forward(params, *batch(SEQUENCES[2:], 8), None, None).logits
  long = forward(params, *batch(SEQUENCES[2:], 517), None, None).logits
  np.testing.assert_allclose(short, long, rtol=1e-6)


def test_gradient_accumulation_with_batch_normalization():
  """Two equal parts give the averages of the whole batch; the table of letters does not change."""
  ids, mask = batch(SEQUENCES[:2])
  mesh = make_mesh(1, 1, 1, jax.devices()[:1])
  params = jax.tree.map(lambda x: jnp.array(x)[None], drawn_params())
  symbols = jnp.where(mask, ids, 0).astype(jnp.uint8)
  samples = Samples(symbols, None, {"labels": jnp.array([0, 1])})
  lookup, seeds = jnp.arange(len(TOKENS))[None], jnp.array([7])
  loss = sample_loss(classifier_function(CONFIG, HEAD), Class(("0", "1")), length=45)
  optimizer = optax.sgd(0.1)
  states = []
  for indices in ([[[0, 1], [0, 1]]], [[[0, 1, -1, -1]]]):
    state = TrainState.create(jax.tree.map(jnp.copy, params), optimizer)
    step = make_train_step(loss, lambda _: optimizer, mesh, state)
    states.append(step(state, 0.1, samples, Batch(jnp.array(indices), lookup, seeds))[0].params)
  for path, leaf in flatten_dict(states[1]).items():
    np.testing.assert_allclose(
      leaf, flatten_dict(states[0])[path], rtol=1e-4, atol=1e-6, err_msg=str(path)
    )
  flat = flatten_dict(states[0])
  np.testing.assert_array_equal(
    flat["base_model", "embeddings", "word_embeddings", "weight"][0][5:9], np.eye(4)
  )
  mean = ("base_model", "norm", "norm", "mean")
  assert not np.allclose(flat[mean], flatten_dict(params)[mean])


def hilbert_arguments(folder, *more):
  return [
    *("main", "--config=dna_splice:hilbert_cnn", f"--config.data_dir={folder}"),
    *("--config.train.batch_size=8", "--config.train.steps=3", "--config.replicas=2"),
    f"--workdir={folder / 'run'}",
    *more,
  ]


def test_a_run_and_its_predictions(tmp_path, capsys):
  write_data(tmp_path)
  with one_device():
    assert main([*hilbert_arguments(tmp_path)[:4], "--dry-run"]) == 0
    assert "workdir    runs/dna_splice_hilbert_cnn" in capsys.readouterr().out
    assert main(hilbert_arguments(tmp_path)) == 0
    (tmp_path / "new.csv").write_text("sequence\nACGTACGTNNACG\nacguacgunnacg\nAC\n")
    predict = ("--config.mode=predict", f"--config.task.path={tmp_path / 'new.csv'}")
    output = f"--config.predict.output={tmp_path / 'out.csv'}"
    assert main(hilbert_arguments(tmp_path, *predict, output)) == 0
    _, first, second, third = (tmp_path / "out.csv").read_text().splitlines()
    assert first.split(",")[1:] == second.split(",")[1:] != third.split(",")[1:]
    export = ("--config.mode=export", f"--config.export.output={tmp_path / 'out'}")
    assert main(hilbert_arguments(tmp_path, *export)) == 2
    assert "hilbert_cnn" in capsys.readouterr().err


@pytest.mark.parametrize(
  ("changes", "fact"),
  [
    ({"token_map.kind": "random"}, "--config.token_map.kind=identity"),
    ({"train.weight_decay": 0.1}, "--config.train.weight_decay=0"),
    ({"model.config.hidden_size": 8}, "--config.model.config.hidden_size=None"),
    ({"model.attention_dropout": 0.1}, "--config.model.attention_dropout=None"),
    ({"train.grad_accumulation": 2}, "--config.train.grad_accumulation=1"),
    ({"task.name": "protein_stability"}, "protein_stability .*E"),
    ({"task.name": "glue_rte"}, "glue_rte .*pairs"),
    ({"model.init": "pretrained"}, "model.init = 'pretrained' .*--config.model.checkpoint"),
  ],
)
def test_an_option_that_does_not_apply_is_an_error(changes, fact, tmp_path):
  write_data(tmp_path)
  config = tiny.get_config()
  with config.ignore_type():
    for name in config.model.config:
      config.model.config[name] = None
  config.data_dir, config.cache_dir = str(tmp_path), str(tmp_path / "c")
  config.task.name, config.token_map.kind = "dna_splice", "identity"
  config.model.init, config.model.config.model_type = "scratch", "hilbert_cnn"
  config.train.grad_accumulation = 1
  config.update_from_flattened_dict(changes)
  with pytest.raises(UserError, match=fact) as caught:
    make_plan(config)
  assert "\n" not in str(caught.value)
