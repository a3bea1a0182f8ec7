#!/bin/bash
# The main job in one minute: an unmodified program bare, watched, and under two policies, ending in
# a table of what it asked to move, what moved, and what no longer had to.  Uses the real GPU where
# a driver answers, else the simulated one, and says which.
#
# ZC_BUILD   the build folder (build)
# CUDA_HOME  the toolkit whose shared runtime the program loads on a real GPU
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$PWD/${ZC_BUILD:-build}
[[ ${ZC_BUILD:-} == /* ]] && build=$ZC_BUILD
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
# ld.so takes these for separators in its variables.
if [[ $build == *[[:space:]:\;]* ]]; then
    ln -s "$build" "$runs/build"
    build=$runs/build
fi
program=$build/kernels/gather-shared
unset LD_PRELOAD ZC_POLICY ZC_LOG ZC_LOG_LEVEL ZC_STRICT ZC_DEBUG

if [[ ! -x $program ]]; then
    echo "demo: no $program: it takes nvcc to build; run 'make deps'" >&2
    exit 2
fi

# A device file alone is not a driver that works, so ask the driver itself.
real_gpu() {
    [[ -e /dev/nvidia0 || -e /dev/nvidiactl ]] &&
        python3 -c 'import ctypes; raise SystemExit(ctypes.CDLL("libcuda.so.1").cuInit(0) != 0)' \
            2>/dev/null
}

if real_gpu; then
    echo "On this machine's GPU."
    libraries=${CUDA_HOME:-/usr/local/cuda}/lib64
else
    echo "On a simulated GPU, for want of a real one: its bytes are exact, its times mean nothing."
    libraries=$build/sim
    export SIM_KERNELS=$build/sim/kernels/gather.so
fi
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# Runs the program; its line of results goes to $runs/NAME.out.  $1 name, $2... settings
run() {
    local name=$1
    shift
    echo
    echo "\$" "${@//$PWD\//}" "${program#"$PWD"/}"
    env "$@" "$program" >"$runs/$name.out" || {
        echo "demo: the program failed, exit status $?" >&2
        exit 1
    }
    cat "$runs/$name.out"
}

# The same under a policy of policy/presets.  $1 name of the preset
run_under() {
    run "$1" LD_PRELOAD="$build/libzc.so" ZC_POLICY="$PWD/policy/presets/$1.conf" \
        ZC_LOG="$runs/$1.jsonl"
    [[ -e $runs/$1.jsonl ]] || {
        echo "demo: libzc left no log of the run $1" >&2
        exit 1
    }
}

run bare
run_under watch-only
run_under read-mostly-table
run_under managed-hot-part
echo
python3 scripts/transfers.py "$runs" bare watch-only read-mostly-table managed-hot-part
