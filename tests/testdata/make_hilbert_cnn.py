"""Makes hilbert_cnn.npz: what Hilbert-CNN gives in PyTorch, written a second time, as a convolution of a dense image.

  python -m tests.testdata.make_hilbert_cnn

Needs `pip install -e ".[test,torch]"`. Parameters are not stored but drawn from their names (`draw`), for PyTorch and
for the tests alike.
"""

import pathlib
import zlib

import numpy as np

SEQUENCES = (
  "ACGTTGCAACGTAGGCTTNACGTACCATGAGTCA",  # N: four words are none
  "GGGGGGGGCCCCCCCCAAAAAAAATTTTTTTTACGTAC",
  "TTAGC",
  "ACG",  # no word at all
)
LABELS = (0, 2, 1, 0)


def draw(name: str, shape: tuple[int, ...]) -> np.ndarray:
  """Returns the values of a parameter of the network."""
  values = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
  kind = name.rpartition(".")[2]
  if kind == "kernel":
    fan_in = int(np.prod(shape[:-1]))
    return (values * fan_in**-0.5).astype(np.float32)
  if kind in ("scale", "var"):
    return (1 + 0.5 * np.tanh(values)).astype(np.float32)
  return (0.3 * values).astype(np.float32)


def _image(sequence: str) -> np.ndarray:
  """Returns the image [256, 16, 32]; the bits of `d` give the place of word `d` (Warren, Hacker's Delight, 16-2)."""
  image = np.zeros((256, 16, 32), np.float32)
  for d in range(len(sequence) - 3):
    word = sequence[d : d + 4]
    if set(word) <= set("ACGT"):
      row, column = _place(d)
      image[sum("ACGT".index(letter) * 4 ** (3 - i) for i, letter in enumerate(word)), row, column] = 1  # fmt: skip
  return image


def _place(d: int) -> tuple[int, int]:
  x = y = 0
  side = 1
  while side < 32:
    right, up = 1 & (d // 2), 1 & (d ^ (d // 2))
    if up == 0:
      if right == 1:
        x, y = side - 1 - x, side - 1 - y
      x, y = y, x
    x, y = x + side * right, y + side * up
    d //= 4
    side *= 2
  return x, y


class _Network:
  """The network as plain functions. A parameter is made when its name is first asked for."""

  def __init__(self, is_training: bool):
    self.is_training = is_training
    self.parameters, self.statistics = {}, {}

  def parameter(self, name, shape):
    import torch

    if name not in self.parameters:
      self.parameters[name] = torch.tensor(draw(name, shape), requires_grad=True)
    return self.parameters[name]

  def convolution(self, name, x, size, out):
    import torch.nn.functional as F

    kernel = self.parameter(f"{name}.kernel", (size, size, x.shape[1], out))
    before, after = (size - 1) // 2, size // 2  # SAME, as TensorFlow pads
    return F.conv2d(F.pad(x, (before, after, before, after)), kernel.permute(3, 2, 0, 1))

  def norm(self, name, x):
    import torch.nn.functional as F

    features = (x.shape[1],)
    mean = self.parameter(f"{name}.mean", features).detach().clone()
    var = self.parameter(f"{name}.var", features).detach().clone()
    scale, bias = (self.parameter(f"{name}.{kind}", features) for kind in ("scale", "bias"))
    if not self.is_training:
      return F.batch_norm(x, mean, var, scale, bias, eps=1e-3)
    # By hand: PyTorch averages the unbiased variance.
    own_mean, own_var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
    self.statistics[f"{name}.mean"] = 0.35 * mean + 0.65 * own_mean.detach()
    self.statistics[f"{name}.var"] = 0.35 * var + 0.65 * own_var.detach()
    shape = (1, -1, 1, 1)
    y = (x - own_mean.view(shape)) / (own_var.view(shape) + 1e-3).sqrt()
    return y * scale.view(shape) + bias.view(shape)

  def shortcut(self, name, x, out):
    return x if x.shape[1] == out else self.convolution(name, x, 1, out)

  def unit(self, name, x, kernels, out):
    import torch.nn.functional as F

    y = F.elu(
      self.norm(f"{name}.first_norm.norm", self.convolution(f"{name}.first", x, kernels[0], 4))
    )
    y = self.norm(f"{name}.second_norm", self.convolution(f"{name}.second", y, kernels[1], out))
    return F.elu(self.norm(f"{name}.norm.norm", y + self.shortcut(f"{name}.shortcut", x, out)))

  def block(self, name, x, kernels, out):
    import torch.nn.functional as F

    total = self.unit(f"{name}.units.0", x, kernels[:2], out)
    total = total + self.unit(f"{name}.units.1", x, kernels[2:], out)
    total = total + self.shortcut(f"{name}.shortcut", x, out)
    return F.elu(
      self.norm(f"{name}.norm.norm", self.convolution(f"{name}.convolution", total, 1, out))
    )

  def logits(self, images):
    import torch.nn.functional as F

    def pool(x):
      return F.avg_pool2d(x, 2)

    x = self.convolution("base_model.words", images, 7, 64)
    x = self.convolution("base_model.convolution", x, 5, 64)
    x = pool(F.elu(self.norm("base_model.norm.norm", x)))
    x = pool(self.block("base_model.wide", x, (8, 4, 4, 3), 32))
    for i, kernels in enumerate(((2, 4, 4, 3), (2, 2, 2, 2), (3, 2, 2, 3))):
      x = self.block(f"base_model.blocks.{i}", x, kernels, 32)
    x = pool(F.elu(self.norm("base_model.last_norm.norm", pool(x))))
    x = x.permute(0, 2, 3, 1).flatten(1)
    for i, out in enumerate((100, 50, 3)):
      x = F.elu(x) if i else x
      name = f"classifier.layers.{i}"
      x = x @ self.parameter(f"{name}.kernel", (x.shape[1], out)) + self.parameter(
        f"{name}.bias", (out,)
      )
    return x


def main() -> None:
  import torch

  torch.manual_seed(0)
  images = torch.tensor(np.stack([_image(sequence) for sequence in SEQUENCES]))
  golden = {"evaluation": _Network(is_training=False).logits(images).detach().numpy()}
  network = _Network(is_training=True)
  logits = network.logits(images)
  loss = torch.nn.functional.cross_entropy(logits, torch.tensor(LABELS))
  penalty = sum(p.square().sum() for p in network.parameters.values() if p.ndim == 4)
  (loss + 1.5 * 5e-4 * penalty / 2).backward()
  golden["training"] = logits.detach().numpy()
  golden["loss"] = np.float32((loss + 1.5 * 5e-4 * penalty / 2).item())
  for name, value in network.statistics.items():
    golden[f"statistics.{name}"] = value.numpy()
  for name, value in network.parameters.items():
    if value.grad is not None:
      gradient = value.grad.numpy()
      golden[f"gradient.{name}"] = np.concatenate(
        [[np.linalg.norm(gradient)], gradient.ravel()[:: max(1, gradient.size // 50)][:50]]
      )
  path = pathlib.Path(__file__).with_name("hilbert_cnn.npz")
  np.savez_compressed(path, **golden)
  print(
    path, sum(p.numel() for n, p in network.parameters.items() if not n.endswith((".mean", ".var")))
  )


if __name__ == "__main__":
  main()
