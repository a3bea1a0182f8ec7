#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `make check-suites`: what it says of a suite that was made for this, on the simulated GPU.

load ../preload/common
load ../packages

setup_file() {
    bats_require_minimum_version 1.5.0
    export PYTHONPATH=$PACKAGES PYTHONDONTWRITEBYTECODE=1
    python3 -c 'import pytest' 2>/dev/null || return 0
    need_built "$LIBZC" "$SIM/libcuda.so.1"
    sim_env gather
    export SUITES=$BATS_FILE_TMPDIR/suites STATE=$BATS_FILE_TMPDIR/state
    export OUT_DIR=$BATS_FILE_TMPDIR/out KEPT=$BATS_FILE_TMPDIR/kept
    mkdir -p "$SUITES/fake/deep" "$STATE" "$KEPT"
    printf 'before\n<!-- suites: begin -->\nold\n<!-- suites: end -->\nafter\n' >"$KEPT/RESULTS.md"
    write_suite
    # A suite's own settings of pytest do not count.
    printf '[pytest]\naddopts = --no-such-option\n' >"$SUITES/fake/pytest.ini"
    check --keep >"$BATS_FILE_TMPDIR/said" 2>&1 && echo "exit status 0" >>"$BATS_FILE_TMPDIR/said"
    return 0
}

setup() {
    need_packages pytest
    said=$(<"$BATS_FILE_TMPDIR/said")
}

# Checks the suite: check OPTION...
check() {
    (cd tests && ZC_BUILD=${ZC_BUILD:-build} python3 -B -m gpu.suites "$SUITES" --policy vmm \
        --jobs 2 --test-limit 20 --into "$KEPT/suites.jsonl" "$@")
}

write_suite() {
    cat >"$SUITES/fake/deep/test_all.py" <<'PYTHON'
import ctypes, os, signal, sys, unittest
import pytest

UNDER = "libzc" in os.environ.get("LD_PRELOAD", "")


def times(name):
    """How often this test has run, with this time, bare or under libzc."""
    path = os.path.join(os.environ["STATE"], f"{name}.{UNDER}")
    with open(path, "a") as file:
        file.write("x")
    return os.path.getsize(path)


def test_first_crashes_there():
    if UNDER:
        os.kill(os.getpid(), signal.SIGSEGV)


def test_same():
    times("same")
    cuda = ctypes.CDLL("libcuda.so.1")
    context, block = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(2 << 20)) == 0


@pytest.mark.parametrize("number", [1, 2])
def test_fails_there(number):
    assert not UNDER or number == 1


def test_fails_there_once():
    assert times("once") != 1 or not UNDER


def test_fails_bare_once():
    assert times("bare_once") != 2 and not UNDER


def test_fails():
    assert False


def test_skipped_there():
    if UNDER:
        pytest.skip()


class Test(unittest.TestCase):
    def test_parts(self):
        for part in 1, 2, 3:
            with self.subTest(part=part):
                self.assertFalse(UNDER and part == 2)

    def tearDown(self):
        pass
PYTHON
    cat >"$SUITES/fake/test_hangs.py" <<'PYTHON'
import os, signal
def test_hangs_there():
    if "libzc" in os.environ.get("LD_PRELOAD", ""):
        signal.pause()
def test_behind():
    pass
PYTHON
    cat >"$SUITES/fake/test_lost_context.py" <<'PYTHON'
import ctypes, os

cuda = ctypes.CDLL("libcuda.so.1")
UNDER = "libzc" in os.environ.get("LD_PRELOAD", "")
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
grid = FUNCTION(lambda args, launch: 700)  # CUDA_ERROR_ILLEGAL_ADDRESS


def test_loses_its_context_there():
    context, module, kernel = (ctypes.c_void_p() for _ in range(3))
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuCtxSynchronize() == 0
    if UNDER:
        cuda.sim_kernel_register(b"bad", grid, ctypes.c_size_t(0), None)
        assert cuda.cuModuleLoadData(ctypes.byref(module), b"") == 0
        assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"bad") == 0
        assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
        assert cuda.cuCtxSynchronize() == 0


def test_behind_a_lost_context():
    assert cuda.cuCtxSynchronize() in (0, 3)  # CUDA_ERROR_NOT_INITIALIZED, in another process.
PYTHON
    cat >"$SUITES/fake/test_not_collected.py" <<'PYTHON'
import os
if "libzc" in os.environ.get("LD_PRELOAD", ""):
    raise AssertionError("because of this")
def test_it():
    pass
PYTHON
    cat >"$SUITES/fake/test_exit.py" <<'PYTHON'
import atexit, os, signal
def test_it():
    if "libzc" in os.environ.get("LD_PRELOAD", ""):
        atexit.register(os.kill, os.getpid(), signal.SIGABRT)
PYTHON
}

@test "a test that fails under libzc alone, twice, is named with its reason" {
    [[ $said == *$'\n    FAILED deep/test_all.py::test_fails_there[2]: assert (not True or 2 '* ]]
    [[ $said == *$'\n    FAILED deep/test_all.py::Test::test_parts: '* ]]
    [[ $said != *"exit status 0"* ]]
}

@test "tests that fail bare, or there once, and those that pass, are not" {
    [[ $(grep -c FAILED <<<"$said") == 8 ]]
    [[ $said == *"fake under vmm: 5 files; 14 tests pass bare, and of them 5 there, 7 FAILED, 2 "\
"failed now and then, 1 skipped, 1 missing; 1 do not pass bare; memory was placed in 1 of 2 "* ]]
}

@test "a crash and a hang are failures of the test that ran, and those behind it run" {
    [[ $said == *"FAILED deep/test_all.py::test_first_crashes_there: the process ended by SIG"* ]]
    [[ $said == *"FAILED test_hangs.py::test_hangs_there: the process did nothing for 20 s"* ]]
    [[ $(cat "$STATE/same.True") == xx && $said != *"FAILED test_hangs.py::test_behind"* ]]
}

@test "a test that leaves a context that is lost has failed alone: a new process goes on" {
    [[ $said == *"FAILED test_lost_context.py::test_loses_its_context_there: "* ]]
    [[ $said != *"FAILED test_lost_context.py::test_behind"* ]]
    [[ $said != *"FAILED (the end of test_lost_context.py)"* ]]
}

@test "what happens before the first test, or behind the last, is a failure of the file" {
    [[ $said == *"FAILED (the end of test_not_collected.py): pytest ended with status 2: "\
"AssertionError: because of this"* ]]
    [[ $said == *"FAILED (the end of test_exit.py): ended by SIGABRT"* ]]
}

@test "what has run does not run again, and what was broken off goes on behind its last test" {
    run -1 check
    [[ $(cat "$STATE/same.True") == xx ]]
    [[ $(grep -c '^fake .* tests, ' <<<"$output") == 0 ]]
    local events=$OUT_DIR/fake/deep_test_all.vmm.1.jsonl
    sed -i '/test_fails_there\[2\]/,$d' "$events"
    printf '{"test": "deep/test_a' >>"$events"
    run -3 check --only all --limit 0
    [[ $output == *"no time was left for 1 files under a policy: the same command goes on"* ]]
    run -1 check
    [[ $(cat "$STATE/same.True") == xx && $output == *", 7 FAILED, "* ]]
}

@test "another library or policy runs anew, bare runs stay" {
    sed -i '1s/\[".*"\]/["another"]/' "$OUT_DIR/fake/test_exit.vmm.1.jsonl"
    run -1 check --only exit
    [[ $(grep -c '^fake .* tests, ' <<<"$output") == 1 && $output == *"test_exit.py vmm 1: "* ]]
}

@test "the page has a row for each suite and policy, and the failures' names" {
    run -0 cat "$KEPT/RESULTS.md"
    [[ ${lines[0]} == before && ${lines[-1]} == after && $output != *old* ]]
    [[ $output == *"| fake | vmm | 14 | 5 | 1 | 1 | 2 | 1 | 7 | 1 of 2 |"* ]]
    [[ $output == *$'\n- fake under vmm: `deep/test_all.py::test_fails_there[2]`\n'* ]]
}

@test "without a folder, or without tests that were asked for, it says so" {
    SUITES= run -1 check
    [[ $output == "check-suites: make check-suites SUITES=FOLDER, with a folder for each suite" ]]
    run -1 check --only exit --keep
    [[ $output == "check-suites: --keep is for whole suites, without --only and --select" ]]
    run -1 check --only nothing
    [[ $output == "check-suites: no tests in $SUITES that were asked for" ]]
    SUITES_PYTHON=/bin/true run -1 check --suite none
    SUITES_PYTHON=/bin/false run -1 check
    [[ $output == "check-suites: /bin/false has no pytest; SUITES_PYTHON names another one" ]]
}

@test "folders are laid out from clones and packages, and numba-cuda's conftest mends NumPy" {
    local at=$BATS_TEST_TMPDIR
    mkdir -p "$at/clones"/{cupy/tests/cupy_tests,numba-cuda/testing,tinygrad/test/unit,other} \
        "$at/numba_cuda/numba/cuda/tests/cudadrv"
    touch "$at/clones/cupy/tests/cupy_tests/test_a.py" "$at/clones/tinygrad/test/unit/test_b.py" \
        "$at/clones/numba-cuda/testing/conftest.py" "$at/numba_cuda/__init__.py"
    echo 'import numpy; assert numpy.row_stack == numpy.vstack
def test_c(): pass' >"$at/numba_cuda/numba/cuda/tests/cudadrv/test_c.py"
    run -0 env PYTHONPATH="$at" sh -c "cd tests && python3 -B -m gpu.suite_folders \
        '$at/clones' '$at/suites'"
    [[ $(cd "$at/suites" && find . -type f | sort | tr '\n' ' ') == "./cupy/cupy_tests/test_a.py \
./numba-cuda/conftest.py ./numba-cuda/tests/conftest.py ./numba-cuda/tests/cudadrv/test_c.py \
./tinygrad/test/unit/test_b.py " ]]
    echo 'vstack = None' >"$at/numpy.py"  # As NumPy 2.5: without row_stack.
    SUITES=$at/suites PYTHONPATH=$PYTHONPATH:$at OUT_DIR=$at/out run -0 check --suite numba-cuda
    [[ $output == *"numba-cuda under vmm: 1 files; 1 tests pass bare, and of them 1 there, "* ]]
}
