# SPDX-License-Identifier: MIT
"""Says which run is next, and runs as many at a time as are asked for."""

import concurrent.futures
import heapq


def side_by_side(runner, todo, places, referee, jobs):
    """Yields the rows of each program, bare first, as soon as it has ended.

    The places of a program run side by side once it has run bare, so that the longest program does
    not make the whole check as long as all of its places.  Programs that come first also end first.
    CUDA samples write into their own folder and name shared memory all alike: one place at a time.
    referee(program): how the log is compared with CUPTI's counts, a word for Runner.placed().
    """
    ready = [(number, 0) for number in range(len(todo))]  # a heap; place 0 is bare
    bare, rows, running = {}, {}, {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        while ready or running:
            while ready and len(running) < jobs:
                number, place = heapq.heappop(ready)
                program = todo[number]
                future = pool.submit(runner.placed, program, places[place - 1], bare[number],
                                     referee(program)) if place else \
                    pool.submit(runner.bare, program)
                running[future] = number, place
            ended = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ended.done:
                number, place = running.pop(future)
                if place:
                    rows[number][place] = future.result()
                else:
                    bare[number], row = future.result()
                    rows[number] = [row] + [None] * (len(places) if row.result == "same" else 0)
                for following in next_places(todo[number], place, len(rows[number])):
                    heapq.heappush(ready, (number, following))
                if all(rows[number]):
                    yield rows.pop(number)


def next_places(program, place, count):
    """The places, of fewer than `count`, that can run because `place` has ended."""
    if program.folder:
        return range(place + 1, min(place + 2, count))
    return () if place else range(1, count)
