"""Times two programs that take turns, one block of updates each, so that changes in the machine's speed affect both."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection


def serve(block: Callable[[int], None], connection: Connection) -> None:
  """Runs as many updates as each number received says, and sends the seconds back; 0 is the end."""
  block(2)  # compiles, and fills caches
  connection.send(None)
  while num_updates := connection.recv():
    start = time.perf_counter()
    block(num_updates)
    connection.send(time.perf_counter() - start)


def take_turns(
  sides: Mapping[str, Callable[..., None]], arguments: tuple, *, updates: int, blocks: int
) -> dict[str, list[float]]:
  """Returns the seconds that an update of each side takes, for each block.

  Args:
    sides: functions that call `serve` at the end, with their last argument; each runs in its own process.
    arguments: the arguments that all sides are called with.
    updates: number of updates in a block.
    blocks: number of blocks of each side.
  """
  context = multiprocessing.get_context("spawn")
  connections = {}
  for name, target in sides.items():
    ours, theirs = context.Pipe()
    context.Process(target=target, args=(*arguments, theirs), daemon=True).start()
    theirs.close()  # so that a side that dies ends the benchmark, with EOFError
    ours.recv()
    connections[name] = ours
  seconds: dict[str, list[float]] = {name: [] for name in sides}
  for _ in range(blocks):
    for name, connection in connections.items():
      connection.send(updates)
      seconds[name].append(connection.recv() / updates)
  for connection in connections.values():
    connection.send(0)
  return seconds


def ratios(seconds: Mapping[str, list[float]]) -> list[float]:
  """Returns the ratio of the second side's time to the first side's, for each pair of neighbouring blocks."""
  first, second = seconds.values()
  return [theirs / ours for ours, theirs in zip(first, second, strict=True)]


def report(seconds: Mapping[str, list[float]], amount: float, unit: str) -> dict:
  """Prints rates and their ratio, and returns them.

  Args:
    seconds: what `take_turns` returned.
    amount: how much an update works through, in `unit`.
    unit: what is counted, such as tokens.
  """
  rates = {name: amount / statistics.median(values) for name, values in seconds.items()}
  for name, rate in rates.items():
    each = ", ".join(f"{value:.2f}" for value in seconds[name])
    print(f"  {name:6} {rate:10,.2f} {unit}/s   (seconds an update: {each})")
  found = ratios(seconds)
  ratio = statistics.median(found)
  print(f"  {' / '.join(rates)} {ratio:.2f}   (from {min(found):.2f} to {max(found):.2f})")
  return {
    "seconds_an_update": dict(seconds),
    f"{unit.replace(' ', '_')}_per_second": rates,
    "ratio": ratio,
    "ratios": found,
  }
