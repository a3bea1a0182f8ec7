# SPDX-License-Identifier: MIT
# Helpers of the tests that run the bench harness on the simulated GPU.

load common.bash

setup() {
    need_built "$LIBZC" "$ZC_BUILD/kernels/vecadd-shared" "$SIM/kernels/vecadd.so"
    command -v python3 >/dev/null || skip "no python3"
}

bench() {
    run --separate-stderr timeout 300 env SIM=1 ZC_BUILD="${BUILD:-$ZC_BUILD}" \
        OUT_DIR="$BATS_TEST_TMPDIR/out" tests/bench/run.sh "$@"
}
