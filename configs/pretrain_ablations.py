"""Pre-trains BERT as in its ablations (Devlin et al. 2019): objectives (table 5), sizes (table 6), masks (table 8).

  python -m discipline_jax.main --config=configs/pretrain_ablations.py:no_nsp
  python -m discipline_jax.main --config=configs/pretrain_ablations.py:left_to_right
  python -m discipline_jax.main --config=configs/pretrain_ablations.py:3x768
  python -m discipline_jax.main --config=configs/pretrain_ablations.py:mask_0_20_80

The numbers of a mix of masks are percentages: tokens that become the mask token, that stay, and that become any other
token. Everything else is as in pretrain_bert_base. Expected: kept steps to fine-tune from, as for pretrain_bert_base.
"""

from discipline_jax.configs import pretrain_bert_base

from discipline_jax.errors import UserError

_SIZES = {  # layers, width, heads
  "3x768": (3, 768, 12),
  "6x768_3": (6, 768, 3),
  "6x768": (6, 768, 12),
  "12x768": (12, 768, 12),
  "12x1024": (12, 1024, 16),
  "24x1024": (24, 1024, 16),
}
_MASKS = {
  "_".join(["mask", *map(str, mix)]): mix
  for mix in ((80, 10, 10), (100, 0, 0), (80, 0, 20), (80, 20, 0), (0, 20, 80), (0, 0, 100))
}
_OBJECTIVES = {"no_nsp": "mlm", "left_to_right": "causal"}


def get_config(name: str = "no_nsp"):
  config = pretrain_bert_base.get_config()
  if name in _OBJECTIVES:
    config.objective.kind = _OBJECTIVES[name]
  elif name in _SIZES:
    layers, width, heads = _SIZES[name]
    config.model.config.update(
      num_hidden_layers=layers,
      hidden_size=width,
      num_attention_heads=heads,
      intermediate_size=4 * width,
    )
  elif name in _MASKS:
    mask, same, random = (share / 100 for share in _MASKS[name])
    config.masking.update(mask=mask, same=same, random=random)
  else:
    names = ", ".join([*_OBJECTIVES, *_SIZES, *_MASKS])
    raise UserError(
      f"no ablation {name!r}; after the config's name and a colon give one of: {names}"
    )
  return config
