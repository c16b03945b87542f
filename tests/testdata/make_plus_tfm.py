"""Makes plus_tfm.pt and plus_tfm.npz: a small PLUS-TFM in PyTorch, under its authors' names, and what it gives.

  python -m tests.testdata.make_plus_tfm

Needs `pip install -e ".[test,torch]"`. Written from the description of the network, with PyTorch's own attention.
"""

import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

VOCAB, HIDDEN, LAYERS, HEADS, INNER = 25, 20, 3, 4, 28


class Norm(nn.Module):
  def __init__(self):
    super().__init__()
    self.gamma, self.beta = nn.Parameter(torch.ones(HIDDEN)), nn.Parameter(torch.zeros(HIDDEN))

  def forward(self, x):
    deviation = torch.std(x, dim=-1, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) * (deviation + 1e-12) ** -0.5 * self.gamma + self.beta


class Attention(nn.Module):
  def __init__(self):
    super().__init__()
    for name in ("proj_q", "proj_k", "proj_v"):
      setattr(self, name, nn.Linear(HIDDEN, HIDDEN))

  def forward(self, x, mask):
    query, key, value = (
      layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
      for layer in (self.proj_q, self.proj_k, self.proj_v)
    )
    y = F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
    return y.transpose(1, 2).flatten(2)


class FeedForward(nn.Module):
  def __init__(self):
    super().__init__()
    self.fc1, self.fc2 = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)


class Block(nn.Module):
  def __init__(self):
    super().__init__()
    self.attn, self.proj, self.pwff = Attention(), nn.Linear(HIDDEN, HIDDEN), FeedForward()
    self.norm1, self.norm2 = Norm(), Norm()

  def forward(self, x, mask):
    x = self.norm1(x + self.proj(self.attn(x, mask)))
    return self.norm2(x + self.pwff.fc2(F.gelu(self.pwff.fc1(x))))


class Embed(nn.Module):
  def __init__(self):
    super().__init__()
    self.tok_embed, self.seg_embed = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(2, HIDDEN)
    self.norm = Norm()

  def forward(self, ids, segments):
    waves = torch.zeros(ids.shape[1], HIDDEN)
    for position in range(len(waves)):
      for pair in range(HIDDEN // 2):
        angle = position / 10000 ** (2 * pair / HIDDEN)
        waves[position, 2 * pair] = math.sin(angle)
        waves[position, 2 * pair + 1] = math.cos(angle)
    return self.norm(self.tok_embed(ids) + waves + self.seg_embed(segments))


class Transformer(nn.Module):
  def __init__(self):
    super().__init__()
    self.embed, self.blocks = Embed(), nn.ModuleList(Block() for _ in range(LAYERS))


class PlusTfm(nn.Module):
  def __init__(self):
    super().__init__()
    self.transformer = Transformer()
    self.fc_lm, self.norm_lm = nn.Linear(HIDDEN, HIDDEN), Norm()
    self.decoder_bias = nn.Parameter(torch.zeros(VOCAB))
    self.cls = nn.Linear(HIDDEN, 2)


def main() -> None:
  torch.manual_seed(0)
  model = PlusTfm()
  with torch.no_grad():
    for parameter in model.parameters():
      parameter.add_(0.3 * torch.randn_like(parameter))
  rng = np.random.default_rng(0)
  ids = torch.tensor(rng.integers(1, 22, (3, 17)))
  mask = torch.tensor(np.arange(17)[None] < np.array([[17], [9], [4]]))
  segments = torch.tensor((np.arange(17) > 6)[None].repeat(3, 0).astype(int))
  x = model.transformer.embed(ids, segments)
  states = [x]
  for block in model.transformer.blocks:
    states.append(block(states[-1], mask))
  last = states[-1]
  table = model.transformer.embed.tok_embed.weight
  loss = F.cross_entropy(model.cls(last[:, 0]), torch.tensor([1, 0, 1]))
  loss.backward()
  golden = {
    "ids": ids,
    "mask": mask,
    "segments": segments,
    "states": torch.stack(states).detach(),
    "prediction_logits": (
      model.norm_lm(F.gelu(model.fc_lm(last))) @ table.T + model.decoder_bias
    ).detach(),
    "relation_logits": model.cls(last[:, 0]).detach(),
    **{
      f"gradient.{name}": parameter.grad
      for name, parameter in model.named_parameters()
      if parameter.grad is not None
    },
  }
  folder = pathlib.Path(__file__).parent
  np.savez_compressed(
    folder / "plus_tfm.npz", **{name: value.numpy() for name, value in golden.items()}
  )
  state = {f"module.{name}": value for name, value in model.state_dict().items()}
  state["module.transformer.embed.pos_embed.pe"] = torch.zeros(1, 40, HIDDEN)
  state["module.decoder.weight"] = state["module.transformer.embed.tok_embed.weight"]
  torch.save(state, folder / "plus_tfm.pt")


if __name__ == "__main__":
  main()
