#!/bin/bash
# SPDX-License-Identifier: MIT
# Checks libzc on a real GPU: unmodified programs give the same results in every place of memory,
# each policy has the effect that it should have, and the log's counts equal CUPTI's.  Exit status
# 77 where no driver answers, 1 if a row failed.
#
#   tests/gpu/run.sh [quick] [referee] [together] [facts] [kernels] [apps] [samples] [tools]
#                    [only=NAME] [place=NAME]
#
# quick     fewer builds, programs and places, in less than two minutes
# referee   compare with CUPTI also where it is not done by default (samples)
# together  compare with CUPTI in the run that is judged, not in one more: half the time
# facts, kernels, apps, samples, tools   only these; all of them by default
# only=NAME only programs whose name contains NAME
# place=NAME  beside bare only this place, one of those in programs.py; more than one may be given
#
# ZC_BUILD    the build folder (build)
# ZC_SAMPLES  folder of CUDA samples: samples.tsv (name, arguments, verdict as a regular
#             expression; tabs between) and for each of them NAME/NAME, run inside NAME/
# ZC_COMMIT   what the results call this version of libzc
# ZC_JOBS     runs at a time (6)
# OUT_DIR     folder for results.part.jsonl, which is written anew as each program ends, facts, and
#             the output of rows that failed
# CUDA_HOME   the toolkit whose shared runtime the programs load
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
unset LD_PRELOAD ZC_POLICY ZC_LOG ZC_LOG_LEVEL ZC_STRICT ZC_PYTHON ZC_SUMMARY

build=$(realpath "${ZC_BUILD:-build}")
export ZC_BUILD=$build
export OUT_DIR=${OUT_DIR:-$build/tests/gpu/out}
mkdir -p "$OUT_DIR" || exit 2
OUT_DIR=$(realpath "$OUT_DIR")
[[ -z ${ZC_SAMPLES:-} ]] || ZC_SAMPLES=$(realpath "$ZC_SAMPLES")

if ! python3 -c '
import ctypes
driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
works = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
raise SystemExit(not (works and count.value > 0))' 2>/dev/null; then
    echo "tests/gpu: skipped: no GPU answers here"
    exit 77
fi
for file in libzc.so zc-views tests/gpu/driver_facts tests/gpu/libmalloc_watch.so; do
    if [[ ! -e $build/$file ]]; then
        echo "tests/gpu: no $build/$file: run 'make all tests'" >&2
        exit 2
    fi
done

# Shared runtimes and CUPTI of the toolkit; Python packages bring their own.
ZC_CUDA_LIBRARIES=
for folder in "${CUDA_HOME:-/usr/local/cuda}" /usr/local/cuda-13.0; do
    for library in "$folder/lib64" "$folder/targets/x86_64-linux/lib"; do
        if [[ -e $library/libcudart.so.13 ]]; then
            ZC_CUDA_LIBRARIES=$library
            break 2
        fi
    done
done
export ZC_CUDA_LIBRARIES

# Some need nvcc and may be missing.
state_facts() {
    local source program facts
    for source in tests/gpu/*_facts.c tests/gpu/*_facts.cu; do
        program=$build/${source%.c*}
        [[ $source == *.c ]] || program+=-static
        [[ -x $program ]] || continue
        facts=$(basename "${program%-static}")
        "$program" >"$OUT_DIR/$facts.txt"
        case $? in
        0) ;;
        77) echo "tests/gpu: $facts skipped: it needs more GPUs than are here" >&2 ;;
        *) echo "tests/gpu: $facts failed, exit status $?" >&2 ;;
        esac
    done
    # Trials of `zc doctor --measure` for the place `shared`; bare, as they run there.
    "$build/zc-views" >"$OUT_DIR/zc_views.jsonl" || echo "tests/gpu: zc-views: exit status $?" >&2
    grep '"exact":false' "$OUT_DIR/zc_views.jsonl" >&2
}

words=()
sections=0 facts=0
for word in "$@"; do
    case $word in
    facts) facts=1 ;;
    kernels | apps | samples | tools) sections=1 words+=("$word") ;;
    *) words+=("$word") ;;
    esac
done
((sections && !facts)) || state_facts
((sections || !facts)) || exit 0
cd tests && exec python3 -B -m gpu.check "${words[@]}"
