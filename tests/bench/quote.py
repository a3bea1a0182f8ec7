# SPDX-License-Identifier: MIT
"""The figures that README.md quotes, from the kept results."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Iterator

from .result import Result, Session
from .row import Metric
from .tables import means, number, ratio, values_of


@dataclass(frozen=True)
class Quote:
    """A line of README's table: one metric of a row."""

    text: str             # what the program does, for a reader who has seen nothing else
    title: str            # of the row
    metric: str           # name
    label: str = "libzc"  # of the way that counts as libzc's
    short: str = ""       # the same for the picture


QUOTES = (
    Quote("llama.cpp: reads a prompt, half of the layers in a mapped file",
          "applications: llama.cpp, a prompt, half of the layers in a mapped file", "a later step",
          "everyday",
          short="llama.cpp: a prompt, layers in a file"),
    Quote("PyTorch and accelerate: a forward of a Llama whose weights lie on the host",
          "applications: accelerate cpu_offload, Llama, a forward", "a later step", "everyday",
          short="accelerate: a Llama, weights on the host"),
    Quote("PyTorch: training that keeps activations on the host",
          "applications: PyTorch's save_on_cpu, training", "main part", "everyday",
          short="PyTorch: training, activations on the host"),
    Quote("PyTorch: a state dict to the host, as for a checkpoint",
          "applications: a state dict to the host, tensors new each time", "main part", "everyday",
          short="PyTorch: a checkpoint's state dict"),
    Quote("PyTorch: features of a graph's nodes to the GPU, batch by batch",
          "applications: neighbours of a graph, features on the host", "copies to the GPU",
          "everyday",
          short="PyTorch: features of a graph's nodes"),
    Quote("PyTorch: an embedding table, 1 % of it read",
          "applications: embedding table, 1 % of the rows read", "main part", "best",
          short="PyTorch: an embedding table"),
    Quote("JAX: arrays of NumPy to the GPU and back", "applications: JAX over arrays of NumPy",
          "main part", "everyday",
          short="JAX: arrays of NumPy"),
    Quote("CuPy: chunks of NumPy's to the GPU and back", "applications: CuPy over chunks of NumPy",
          "main part", "everyday",
          short="CuPy: chunks of NumPy"),
    Quote("reads 1 % of the rows of a 1 GiB table: copy, kernel, result",
          "shared: 1 % of the rows of a 1 GiB table, brought back", "everything after the fill",
          short="1 % of the rows of a 1 GiB table"),
    Quote("the same, with allocation, fill and free",
          "shared: 1 % of the rows of a 1 GiB table, brought back", "whole program",
          short="the same, with allocation and fill"),
    Quote("adds two vectors of 256 MiB, all of it",
          "one pass and reuse: vector add, 3 x 256 MiB", "whole program",
          short="adds two vectors of 256 MiB"),
    Quote("copies 256 MiB to the GPU and back",
          "to the GPU and back, by size: 256 MiB", "one transfer",
          short="copies 256 MiB there and back"),
    Quote("sends 256 MiB through four streams in chunks",
          "copies and kernels on four streams: 256 MiB in 32 chunks", "from first copy to last",
          short="256 MiB through four streams"),
    Quote("copies the same unchanged 256 MiB again",
          "shared: 256 MiB copied 100 times unchanged", "one copy",
          short="the same 256 MiB once more"),
    Quote("grows an array to 1 GiB, 16 MiB at a time",
          "a vector that grows to 1 GiB: by 16 MiB at a time", "growing and appending",
          short="an array that grows to 1 GiB"),
    Quote("searches a graph, lists of 512 MiB: copy, kernels, result",
          "graphs, 16 edges a vertex: breadth-first search, 2^23 vertices", "after the fill",
          short="search in a graph"),
    Quote("compares 1,000 vectors with a million: copies, kernels",
          "cosine similarity, 1,000 queries of 768 floats: 1000000 targets, 1 batches",
          "after the fill",
          short="1,000 vectors against a million"),
    Quote("the same under a policy that does not fit it",
          "cosine similarity, 1,000 queries of 768 floats: 1000000 targets, 1 batches",
          "after the fill", "managed, accessed by",
          short="the same, a policy that does not fit"),
)


def time(metric: Metric, result: Result, label: str) -> str:
    """The median in ms, or in us where that is less than one."""
    values = values_of(metric, result, label)
    if not values:
        return "-"
    ms = median(values) / (1e3 if metric.unit == "us" else 1)
    return f"{number(ms)} ms" if ms >= 0.1 else f"{number(ms * 1e3)} us"


def seconds(ms: str) -> str:
    """A time of the above, in seconds from one on."""
    value, _, unit = ms.partition(" ")
    return f"{number(float(value) / 1e3)} s" if unit == "ms" and float(value) >= 1e3 else ms


def preset(result: Result, label: str) -> str:
    """A link to the policy of a way, or the label of one that is no preset."""
    policy = next((way.policy for way in result.row.ways if way.label == label), None) or ""
    name = policy.split(":")[0]
    return f"[{name}](policy/presets/{name}.conf)" if name else label


def measured(session: Session) -> Iterator[tuple[Quote, Metric, Result, float]]:
    """The lines that were measured, with the share of libzc's time in the bare one."""
    results = {result.row.title: result for result in session.results}
    for quote in QUOTES:
        result = results.get(quote.title)
        metric = next((metric for metric in result.row.metrics if metric.name == quote.metric),
                      None) if result else None
        part = ratio(metric, result, quote.label, "bare") if metric else None
        if part is not None:
            yield quote, metric, result, part


def first_words(session: Session) -> list[str]:
    """The beginning of README: the largest gains of people's programs, and all of them."""
    gains = sorted(measured(session), key=lambda one: one[3])
    told = [f"{quote.short} {seconds(time(metric, result, 'bare'))} \u2192 "
            f"{seconds(time(metric, result, quote.label))}"
            for quote, metric, result, _ in gains if result.row.group == "applications"][:3]
    found = means([result for result in session.results if result.row.group == "applications"])
    if not told or not found:
        return []
    return [f"**{'; '.join(told)}.**",
            f"All {found[0]} of people's programs that were measured, as whole processes: "
            f"{number(100 * found[1])} % of their time in the geometric mean."]


def quoted(session: Session) -> list[str]:
    """README's table, without what was not measured, and what people's programs come to."""
    lines = ["| unmodified program | bare | under libzc | of bare | process, of bare | by hand "
             "| policy |", "|" + "---|" * 7]
    for quote, metric, result, part in measured(session):
        process = ratio(result.row.measured()[-1], result, quote.label, "bare")
        cells = [quote.text, time(metric, result, "bare"), time(metric, result, quote.label),
                 f"{number(100 * part)} %", f"{number(100 * process)} %" if process else "-",
                 time(metric, result, "hand"), preset(result, quote.label)]
        lines.append(f"| {' | '.join(cells)} |")
    applications = [result for result in session.results if result.row.group == "applications"]
    if found := means(applications):
        count, process, main = found
        lines += ["", f"All {count} of people's programs under `everyday`, geometric means: "
                  f"{number(100 * main)} % of bare, {number(100 * process)} % as whole processes."]
    return lines
