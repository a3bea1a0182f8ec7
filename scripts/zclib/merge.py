# SPDX-License-Identifier: MIT
"""Parts of a report of many logs, for whoever reads them by an engine of their own:

    map_log(path, options)  what one log comes to, a Partial of bounded size however long the log is
    merge(a, b)             what both come to together; neither is changed

merge() is associative and commutative: whatever is merged with what, in which order and on which
machine, the report is the same to the byte.  So a Partial may be made where a log lies, sent by
pickle, and merged in a tree, by a fold, or as it comes.  Beside the sums it holds some hundred
bytes of each process.  `version` tells what a Partial is; merge() raises VersionError where two do
not fit.
"""

from __future__ import annotations

from typing import Sequence

from .report.totals import VERSION, Options, Totals, VersionError

__all__ = ["VERSION", "Options", "Partial", "VersionError", "map_log", "map_logs", "merge"]

Partial = Totals


def map_log(path: str, options: Options = Options()) -> Partial:
    """The sums of one log, damaged or missing as it may be: the Partial has the faults, too."""
    return map_logs([path], options)


def map_logs(paths: Sequence[str], options: Options = Options()) -> Partial:
    """The sums of several logs, which takes less than to merge that of each."""
    partial = Partial(options)
    for path in paths:
        partial.read_log(path)
    partial.settle()
    return partial


def merge(a: Partial, b: Partial) -> Partial:
    """The sums of both.  Raises VersionError."""
    both = Partial(a.options)
    both.merge(a)
    both.merge(b)
    return both
