# SPDX-License-Identifier: MIT
"""Flows: what kind of memory is copied to what kind."""

from __future__ import annotations

import sys
from typing import NamedTuple

from ..counters import NOT_COPIES
from ..logs import Record, string


class Flow(NamedTuple):
    """A direction with the memory kinds of both sides, as the program asked."""

    dir: str
    src: str
    dst: str

    @property
    def is_copy(self) -> bool:
        return self.dir not in NOT_COPIES

    @property
    def pageable(self) -> bool:
        return self.is_copy and "Pageable" in (self.src, self.dst)


def flow_of(record: Record) -> Flow:
    """The flow of a row or transfer; its strings are shared, because there are few."""
    return Flow(sys.intern(string(record, "dir", "?")), sys.intern(string(record, "src_kind", "?")),
                sys.intern(string(record, "dst_kind", "?")))
