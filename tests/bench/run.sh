#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs a suite of benches: unmodified programs of kernels/ bare and under libzc, and what an expert
# writes by hand, in turn; prints tables.  Exit status 77 where no driver answers, 1 if a program
# failed, gave wrong results or others than it does bare.
#
#   tests/bench/run.sh SUITE [OPTION...]    SUITE: classic, shared, ...; --help: the options
#   tests/bench/run.sh apps [OPTION...]     people's programs of tests/gpu/apps, with their presets
#   tests/bench/run.sh tune [OPTION...]     zc tune against an exhaustive search
#   tests/bench/run.sh gallery FOLDER      programs watched, with their pages, for docs/gallery
#   tests/bench/run.sh gallery FOLDER --keep docs/gallery   writes it of them and of kept results
#   tests/bench/run.sh keep [PART.json...]  files of OUT_DIR go into kernels/RESULTS.md, README.md
#   tests/bench/run.sh keep-tune [FILE...]  tune.jsonl of OUT_DIR goes into kernels/RESULTS.md
#   tests/bench/run.sh keep --print         all tables of the kept results
#
# SIM        1: on the simulated GPU and with small sizes, to show that it all runs
# ZC_BUILD   the build folder (build)
# ZC_COMMIT  what the tables call this version of libzc
# OUT_DIR    folder for the tables and the figures of all runs
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
if [[ ${1:-} == keep || ${1:-} == keep-tune ]]; then
    parts=()
    for part in "${@:2}"; do
        [[ $part == --* ]] || part=$(realpath -m -- "$part")
        parts+=("$part")
    done
    module=bench.keep
    [[ $1 == keep ]] || module=bench.tuned_page
    cd tests && exec python3 -B -m "$module" "${parts[@]}"
fi
build=$(realpath "${ZC_BUILD:-build}")
if [[ ${1:-} == gallery && ${3:-} == --keep ]]; then
    set -- "$(realpath -m "$2")" --keep "$(realpath -m "$4")"
    cd tests && exec python3 -B -m bench.gallery "$@"
fi
settings=(--build "$build")
[[ -z ${OUT_DIR:-} ]] || settings+=(--out "$(realpath -m "$OUT_DIR")")
ZC_COMMIT=${ZC_COMMIT:-$(git describe --always --dirty 2>/dev/null)}
export ZC_COMMIT

if [[ ${SIM:-0} == 1 ]]; then
    settings+=(--simulated)
elif ! python3 -c '
import ctypes
driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
works = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
raise SystemExit(not (works and count.value > 0))' 2>/dev/null; then
    echo "tests/bench: skipped: no GPU answers here (SIM=1 takes the simulated one)"
    exit 77
fi
if [[ ! -e $build/libzc.so ]]; then
    echo "tests/bench: no $build/libzc.so: run 'make all kernels'" >&2
    exit 2
fi
module=bench
if [[ ${1:-} == apps ]]; then
    module=bench.apps
    shift
elif [[ ${1:-} == gallery ]]; then
    module=bench.gallery
    set -- "$(realpath -m "${2:?FOLDER}")" "${@:3}"
elif [[ ${1:-} == tune ]]; then
    module=bench.tuned
    shift
    # Work that zc tune does once for a machine is not in its time.
    [[ ${SIM:-0} == 1 ]] || scripts/zc doctor --measure >&2
fi
cd tests && exec python3 -B -m "$module" "$@" "${settings[@]}"
