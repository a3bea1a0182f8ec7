# SPDX-License-Identifier: MIT
"""Sizes, counts and times as text, exactly as libzc's own summary prints them; times as read."""

from __future__ import annotations

SIZE_NAMES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
TIME_NAMES = ("ns", "us", "ms", "s")
COUNT_SUFFIXES = ("", "k", "M", "G", "T", "P")


def _in_units(count: int, unit: int, scale: int) -> int:
    """count / 1024^unit * scale, rounded to the nearest whole number."""
    shift = 10 * unit
    return (count * scale + ((1 << shift) >> 1)) >> shift


def size(count: int) -> str:
    """Bytes in powers of 1024: `659 KiB`, `64.6 MiB`, `64 MiB` where that is exact."""
    if count < 0:
        return "-" + size(-count)
    unit = 0
    while unit < len(SIZE_NAMES) - 1 and _in_units(count, unit, 1) >= 1024:
        unit += 1
    tenths = _in_units(count, unit, 10)
    if unit > 0 and tenths < 1000 and count & ((1 << 10 * unit) - 1):
        return f"{tenths // 10}.{tenths % 10} {SIZE_NAMES[unit]}"
    return f"{_in_units(count, unit, 1)} {SIZE_NAMES[unit]}"


def duration(ns: int) -> str:
    """Nanoseconds as text of at most eight columns: `687 us`, `3.4 ms`, `12 s`."""
    if ns < 0:
        return "-" + duration(-ns)
    unit, name = 1, 0
    while name < len(TIME_NAMES) - 1 and ns // unit >= 1000:
        unit *= 1000
        name += 1
    tenth = f".{ns % unit * 10 // unit}" if name > 0 and ns // unit < 100 else ""
    return f"{ns // unit}{tenth} {TIME_NAMES[name]}"


def about(seconds: float) -> str:
    """A time that is only known roughly: `40 s`, `4 min`, `1.5 h`."""
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def count(number: int) -> str:
    """A number of at most six columns: from 1,000,000 on in thousands, millions and so on."""
    step = 0
    while number >= (1000000 if step == 0 else 100000) and step < len(COUNT_SUFFIXES) - 1:
        number = (number + 500) // 1000
        step += 1
    return f"{number}{COUNT_SUFFIXES[step]}"


def percent(part: int, whole: int) -> str:
    """part of whole: `12 %`, `0.4 %` below one; `-` where there is no whole."""
    if whole <= 0:
        return "-"
    share = 100 * part / whole
    return f"{share:.1f} %" if 0 < share < 0.95 else f"{share:.0f} %"


def of_run(ns: int, wall_ns: int) -> str:
    """A time that threads took, as a part of the run: `54 % of the run`.  Side by side they may
    take more than the run."""
    if ns > wall_ns > 0:
        return f"{ns / wall_ns:.1f} times the time of the run, summed over threads"
    return f"{percent(ns, wall_ns)} of the run"


def rate(count: int, ns: int) -> str:
    """Bytes a second in GB/s (powers of 1000), as links are rated; `-` where no time passed."""
    if ns <= 0:
        return "-"
    return f"{count / ns:.1f} GB/s" if 10 * count >= ns else f"{1000 * count / ns:.1f} MB/s"


def seconds(text: str) -> float:
    """A time of the command line, for argparse."""
    value = float(text)
    if not 0 < value < 1e6:
        raise ValueError
    return value
