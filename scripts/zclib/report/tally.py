# SPDX-License-Identifier: MIT
"""Tables of bounded size whose sums are whole: of too many names the first by the alphabet are
kept, and the others are counted together.  Which comes first does not depend on the traffic, so
that the same is kept whatever is merged with what."""

from __future__ import annotations

from typing import Any

MOST_NAMES = 16
OTHERS = "others"


def count_name(names: dict[str, int], name: str, times: int) -> None:
    """Counts a name among MOST_NAMES at most."""
    names[name] = names.get(name, 0) + times
    for last in beyond(names, MOST_NAMES):
        names[OTHERS] = names.get(OTHERS, 0) + names.pop(last)


def by_count(names: dict[str, int]) -> dict[str, int]:
    """Names in the order of their counts."""
    return dict(sorted(names.items(), key=lambda item: (item[0] == OTHERS, -item[1], item[0])))


def beyond(table: dict[Any, Any], most: int) -> list[Any]:
    """The keys beyond the first `most`; OTHERS is none of them."""
    if len(table) <= most + (OTHERS in table):
        return []
    return sorted(key for key in table if key != OTHERS)[most:]
