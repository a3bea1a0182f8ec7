# SPDX-License-Identifier: MIT
"""Programs under ZC_POLICY=auto, which learns in the runs that do not count, against the preset
that it begins with, bare, and what zc tune finds without promises: those of kernels/, people's, and
ten that no rule was made for."""

from __future__ import annotations

from dataclasses import replace

from . import app_rows, preset_rows
from .row import Goal, Metric, Row, Way

GROUP = "learned from runs"
AUTO, TUNED = "auto", "tuned"
GOALS = (Goal("bare", 1.01, AUTO), Goal("everyday", 1.02, AUTO), Goal(TUNED, 1.11, AUTO))
PEAK = Metric("peak memory", ("peak_bytes",), "MiB", goals=(Goal("bare", 1.10, AUTO),))


def learning(row: Row, group: str, *metrics: Metric) -> Row:
    """The job of a row, four ways; its notes are those of its own suite."""
    ways = tuple(Way(label, row.ways[0].program, policy)
                 for label, policy in (("bare", None), ("everyday", "everyday"), (TUNED, TUNED),
                                   (AUTO, AUTO)))
    return replace(row, group=group, ways=ways, metrics=metrics, process=GOALS, note="")


def script(name: str, file: str, small: str) -> Row:
    return app_rows.application(name, file, "", small, "")


ROWS = tuple(learning(row, GROUP, row.metrics[0]) for row in preset_rows.ROWS)
# Left as they are, so that what is learned is tried on programs that it was not made with.
UNSEEN = (
    script("answers to requests of 1 to 8 MiB", "served_batches", "--features 256 --requests 50"),
    script("heat in a plate, its frames written", "heat_frames", "--side 1024 --outputs 4"),
    script("batches of padded sentences", "ragged_batches", "--batches 10 --rows 16"),
    script("k-means over chunks of the host", "kmeans_chunks", "--chunks 4 --mib 16"),
    script("rows of a table on the host, trained", "row_lookups", "--rows 200000 --batch 4000"),
    script("frames of a film", "video_frames", "--frames 40"),
    script("an external sort", "sorted_runs", "--runs 4 --mib 16"),
    script("a signal filtered block by block", "fft_blocks", "--mib 128 --block 2"),
    script("a training that is saved", "train_saved", "--width 512"),
    script("crops of volumes", "volume_crops", "--volumes 6 --side 192"),
)
SCRIPTS = tuple(learning(row, f"{GROUP}: applications", row.metrics[0], PEAK)
                for row in app_rows.ROWS + UNSEEN)
