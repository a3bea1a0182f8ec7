# SPDX-License-Identifier: MIT
"""Cost of many ranks' logs and of a node's counters, against the goals of tests/bench/
REPORTS.md.

    many_ranks.py [RANKS]    10,000 by default

Writes RANKS logs that are all different (rank_logs.py, 40 call paths each) to a new folder of
TMPDIR, and prints one line of JSON a command: zc report as text, as a page and by each engine that
is installed, whose reports must be the same to the byte; zc pack; and a scrape of 64 processes by
zc export.  Removes the folder at the end.  Exit status 1 where reports differ.

ZC_BUILD  the build folder, whose simulated GPU and sample program make counters (build)
"""

import filecmp
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import rank_logs
import report_scale

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SCRAPED, SCRAPES = 64, 50
MPI = ("mpirun", "--oversubscribe", "-n", str(len(os.sched_getaffinity(0))))


def measure(*words, **options):
    # The logs have faults, which zc names.
    report_scale.measure(*words, errors=subprocess.DEVNULL, **options)


def has(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"],
                          stderr=subprocess.DEVNULL).returncode == 0


def reports(logs, folder):
    """The report by each engine; whether all are the same."""
    out = {}
    for engine, module, start in (("local", "json", ()), ("dask", "dask", ()),
                                  ("mpi", "mpi4py.MPI", MPI), ("ray", "ray", ())):
        if has(module):
            out[engine] = os.path.join(folder, engine)
            measure(f"report --json --engine {engine}", "report", "--json",
                                 "--engine", engine, logs, start=start, out=out[engine])
    same = all(filecmp.cmp(out["local"], other, shallow=False) for other in out.values())
    print(json.dumps({"engines": list(out), "same": same}), flush=True)
    return same


def scrape(folder):
    """Reads the counters of processes, all as one that was killed left them."""
    build = os.path.join(TOP, os.environ.get("ZC_BUILD") or "build")
    first = os.path.join(folder, "0.counters")
    env = {**os.environ, "LD_PRELOAD": os.path.join(build, "libzc.so"), "ZC_SUMMARY": "0",
           "LD_LIBRARY_PATH": os.path.join(build, "sim"),
           "ZC_LOG": first[:-len("counters")] + "jsonl"}
    subprocess.run([os.path.join(build, "tests/preload/programs/killed"), "4"], env=env)
    for number in range(1, SCRAPED):
        shutil.copy(first, os.path.join(folder, f"{number}.counters"))
    sys.path.insert(0, os.path.join(TOP, "scripts"))
    from zclib import prometheus

    exporter = prometheus.Exporter(lambda: [os.path.join(folder, name) for name in
                                            os.listdir(folder) if name.endswith(".counters")])
    exporter.look()
    wall, cpu = [], []
    for _ in range(SCRAPES):
        before = time.perf_counter(), time.process_time()
        text = exporter.text()
        wall.append(1e3 * (time.perf_counter() - before[0]))
        cpu.append(1e3 * (time.process_time() - before[1]))
    print(json.dumps({"command": "scrape", "processes": SCRAPED, "samples": text.count("} "),
                      "median_ms": round(statistics.median(wall), 1),
                      "median_cpu_ms": round(statistics.median(cpu), 1),
                      "least_cpu_ms": round(min(cpu), 1)}), flush=True)


def main(ranks):
    os.environ["PYTHONPATH"] = os.path.join(TOP, "build", "deps", "python")
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    folder = tempfile.mkdtemp(prefix="zc-ranks-")
    try:
        logs = os.path.join(folder, "logs")
        rank_logs.write(logs, ranks)
        sizes = [entry.stat().st_size for entry in os.scandir(logs)]
        print(json.dumps({"logs": len(sizes), "mib": sum(sizes) >> 20}), flush=True)
        measure("report", "report", logs, out=os.path.join(folder, "text"))
        page = os.path.join(folder, "page.html")
        measure("page", "report", "--html", page, logs)
        print(json.dumps({"text_lines": sum(1 for _ in open(os.path.join(folder, "text"))),
                          "page_kib": os.path.getsize(page) >> 10}), flush=True)
        same = reports(logs, folder)
        if has("pyarrow"):
            measure("pack", "pack", "-o", os.path.join(folder, "packed"), logs)
        os.mkdir(os.path.join(folder, "node"))
        scrape(os.path.join(folder, "node"))
        return 0 if same else 1
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
