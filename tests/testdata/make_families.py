"""Makes the golden files of `families/` with PyTorch and transformers, which the tests themselves do not need.

  pip install -e ".[torch]" && python tests/testdata/make_families.py [DIR of the real models]

For each small configuration: a checkpoint with random weights and all heads, and `golden.npz` with inputs, every
layer's output, the heads' outputs, and the gradients of a classification loss. For each real model found in DIR:
`<name>.npz` with the outputs alone. Positions that are padding are left out: what is computed there means nothing, and
rounding errors grow in it from layer to layer.
"""

import pathlib
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).parent / "families"
SMALL = {
  "bert_relu": {
    "model_type": "bert",
    "vocab_size": 97,
    "hidden_size": 30,
    "num_hidden_layers": 3,
    "num_attention_heads": 5,
    "intermediate_size": 44,
    "max_position_embeddings": 33,
    "type_vocab_size": 3,
    "hidden_act": "relu",
    "layer_norm_eps": 1e-6,
  },
  "roberta_gelu": {
    "model_type": "roberta",
    "vocab_size": 61,
    "hidden_size": 28,
    "num_hidden_layers": 2,
    "num_attention_heads": 7,
    "intermediate_size": 41,
    "max_position_embeddings": 31,
    "type_vocab_size": 1,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
  },
  "roberta_silu": {
    "model_type": "roberta",
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 18,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "hidden_act": "silu",
    "layer_norm_eps": 1e-8,
    "pad_token_id": 4,
  },
  "albert_groups": {
    "model_type": "albert",
    "vocab_size": 71,
    "embedding_size": 12,
    "hidden_size": 36,
    "num_hidden_layers": 5,
    "num_hidden_groups": 2,
    "inner_group_num": 2,
    "num_attention_heads": 3,
    "intermediate_size": 50,
    "max_position_embeddings": 29,
    "type_vocab_size": 2,
    "hidden_act": "gelu_new",
    "layer_norm_eps": 1e-12,
  },
  "albert_shared": {
    "model_type": "albert",
    "vocab_size": 40,
    "embedding_size": 20,
    "hidden_size": 20,
    "num_hidden_layers": 4,
    "num_hidden_groups": 1,
    "inner_group_num": 1,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 30,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-7,
  },
  "electra_narrow": {
    "model_type": "electra",
    "vocab_size": 45,
    "embedding_size": 14,
    "hidden_size": 30,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 38,
    "max_position_embeddings": 28,
    "type_vocab_size": 2,
    "hidden_act": "relu",
    "layer_norm_eps": 1e-6,
  },
  "electra_square": {
    "model_type": "electra",
    "vocab_size": 40,
    "embedding_size": 24,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 30,
    "max_position_embeddings": 20,
    "type_vocab_size": 3,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
  },
  "distilbert_gelu": {
    "model_type": "distilbert",
    "vocab_size": 52,
    "dim": 28,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 46,
    "max_position_embeddings": 25,
    "activation": "gelu",
  },
  "distilbert_relu": {
    "model_type": "distilbert",
    "vocab_size": 33,
    "dim": 20,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 24,
    "max_position_embeddings": 18,
    "activation": "relu",
    "sinusoidal_pos_embds": True,
    "pad_token_id": 3,
  },
}
# How the names of classes begin, and the class with the head of the language model.
CLASSES = {
  "bert": ("Bert", "ForPreTraining"),
  "roberta": ("Roberta", "ForMaskedLM"),
  "albert": ("Albert", "ForPreTraining"),
  "electra": ("Electra", "ForMaskedLM"),
  "distilbert": ("DistilBert", "ForMaskedLM"),
}
REAL = ("minilm-l6-uncased", "bert-tiny-uncased", "albert-smiles", "roberta-antibody")
LENGTHS = (12, 1, 7)
COLUMNS = 100  # of the vocabulary's logits that are kept


def inputs(config) -> dict[str, torch.Tensor]:
  rng = np.random.default_rng(2)
  mask = np.arange(max(LENGTHS))[None] < np.array(LENGTHS)[:, None]
  ordinary = np.setdiff1d(np.arange(config.vocab_size), [config.pad_token_id])
  ids = np.where(mask, rng.choice(ordinary, mask.shape), config.pad_token_id)
  batch = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask).long()}
  if config.model_type == "distilbert":  # it has no segments
    return batch
  types = np.where(mask, rng.integers(0, config.type_vocab_size, mask.shape), 0)
  return batch | {"token_type_ids": torch.tensor(types)}


def kept(states: torch.Tensor, batch: dict) -> np.ndarray:
  return states[batch["attention_mask"].bool()].detach().numpy()


def outputs(model, language_model, batch: dict) -> dict[str, np.ndarray]:
  with torch.no_grad():
    output = model(**batch, output_hidden_states=True, output_attentions=True)
    arrays = {
      "hidden_states": np.stack([kept(state, batch) for state in output.hidden_states]),
      "attentions": np.stack([weights[0].numpy() for weights in output.attentions]),
    }
    if "pooler_output" in output:
      arrays["pooler_output"] = output.pooler_output.numpy()
    if language_model is not None:
      output = language_model(**batch)
      logits = output.logits if "logits" in output else output.prediction_logits
      arrays["prediction_logits"] = kept(logits[..., :COLUMNS], batch)
      for name in ("seq_relationship_logits", "sop_logits"):
        if name in output:
          arrays["seq_relationship_logits"] = output[name].numpy()
  return {**{name: tensor.numpy().astype(np.int32) for name, tensor in batch.items()}, **arrays}


def perturb(model) -> None:
  """Adds noise to all parameters, so that no bias and no LayerNorm is at its neutral value."""
  with torch.no_grad():
    for parameter in model.parameters():
      parameter.add_(0.1 * torch.randn_like(parameter))


def make_small(name: str, fields: dict) -> None:
  torch.manual_seed(0)
  folder = FOLDER / name
  folder.mkdir(parents=True, exist_ok=True)
  config = transformers.AutoConfig.for_model(**fields, num_labels=3, attn_implementation="eager")
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
  family, pretraining = CLASSES[config.model_type]

  def of(head: str):
    return getattr(transformers, family + head)(config).eval()

  base, classifier = of("Model"), of("ForSequenceClassification")
  language_model = of(pretraining)
  for model in (base, classifier, language_model):
    perturb(model)
  prefix = config.model_type
  for model in (classifier, language_model):
    getattr(model, prefix).load_state_dict(base.state_dict(), strict=False)
    model.tie_weights()
  state = {f"{prefix}.{key}": value for key, value in base.state_dict().items()}
  for model in (classifier, language_model):
    state |= {k: v for k, v in model.state_dict().items() if not k.startswith(f"{prefix}.")}
  if family == "Albert":  # it takes its number of outputs from the labels of the config
    state = {k: v for k, v in state.items() if not k.startswith("sop_classifier")}
  save_file({k: v.clone().contiguous() for k, v in state.items()}, folder / "model.safetensors")
  config.save_pretrained(folder)

  batch = inputs(config)
  arrays = outputs(base, language_model, batch)
  if family == "Albert":
    arrays.pop("seq_relationship_logits")
  labels = torch.tensor([2, 0, 1])
  output = classifier(**batch, labels=labels)
  output.loss.backward()
  gradients = {
    f"gradient.{key}": parameter.grad.numpy()
    for key, parameter in classifier.named_parameters()
    if parameter.grad is not None
  }
  np.savez_compressed(
    folder / "golden.npz",
    **arrays,
    labels=labels.numpy().astype(np.int32),
    logits=output.logits.detach().numpy(),
    **gradients,
  )


def make_real(directory: pathlib.Path) -> None:
  load = {"attn_implementation": "eager"}
  model = transformers.AutoModel.from_pretrained(directory, **load).eval()
  language_model = None
  if directory.name != "minilm-l6-uncased":  # it has no head
    language_model = transformers.AutoModelForMaskedLM.from_pretrained(directory, **load).eval()
  arrays = outputs(model, language_model, inputs(model.config))
  if directory.name in (
    "bert-tiny-uncased",
    "roberta-antibody",
  ):  # no pooler: transformers drew one
    arrays.pop("pooler_output")
  np.savez_compressed(FOLDER / f"{directory.name}.npz", **arrays)


if __name__ == "__main__":
  torch.set_num_threads(1)
  for name, fields in SMALL.items():
    make_small(name, fields)
  for folder in sys.argv[1:]:
    for name in REAL:
      make_real(pathlib.Path(folder) / name)
