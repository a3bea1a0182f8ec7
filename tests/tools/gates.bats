#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Gates for CI: pytest --zc with limit_copies, and zc report --markdown.

load programs
load ../packages

setup() {
    need_gpu_programs
    TOP=$PWD
    export ZC_BUILD=$PWD/$ZC_BUILD PYTHONDONTWRITEBYTECODE=1
    cd "$BATS_TEST_TMPDIR"
}

# A suite whose tests copy, and pytest with the plugin as the wheel's entry point gives it.
suite() {
    export PYTHONPATH=$TOP/scripts TMPDIR=$BATS_TEST_TMPDIR
    need_packages pytest
    cat >conftest.py <<'PYTHON'
import ctypes, os, pytest
print("conftest in", os.getpid())
@pytest.fixture(scope="session")
def gpu():
    cuda = ctypes.CDLL("libcuda.so.1")
    context, block = ctypes.c_void_p(), ctypes.c_uint64()
    host = ctypes.create_string_buffer(8 << 20)
    assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(8 << 20)) == 0
    def copy(size, times=1):
        for _ in range(times):
            assert cuda.cuMemcpyHtoD_v2(block, host, ctypes.c_size_t(size)) == 0
    copy(8 << 20)
    return copy
PYTHON
    cat >test_copies.py <<'PYTHON'
import pytest
@pytest.mark.limit_copies("2 MiB")
def test_keeps(gpu):
    gpu(1 << 20, 2)
@pytest.mark.limit_copies("2 MiB")
def test_breaks(gpu):
    gpu(1 << 20, 3)
@pytest.mark.limit_copies(copies=2, blocked="10 s")
def test_too_often(gpu):
    gpu(1024, 3)
def test_free():
    pass
@pytest.mark.limit_copies("0 B")
def test_fails_itself(gpu):
    gpu(5 << 20)
    assert False, "its own"
PYTHON
}

PLUGIN=(-p libzc.zclib.pytest_plugin -p no:cacheprovider)

@test "pytest --zc fails the tests that copy more than they may, and names those that copied most" {
    suite
    run -1 python3 -m pytest "${PLUGIN[@]}" --zc -W error
    [[ $output == *"limit_copies allows moved 2 MiB: this test has 3 MiB"* ]]
    [[ $output == *"limit_copies allows copies 2: this test has 3"* ]]
    [[ $output == *"AssertionError: its own"* && $output != *"0 B: this test"* ]]
    [[ $output == *"3 failed, 2 passed"* ]]
    tail=${output##*zc: tests that copied most}
    [[ $tail == *"5 MiB moved in 1 copy, "*": test_copies.py::test_fails_itself"*\
"3 MiB moved in 3 copies, "*"::test_breaks"*"2 MiB moved in 2 copies, "*"::test_keeps"* ]]
    [[ $tail != *test_free* && -z $(ls -d zc-pytest-* ./*.jsonl 2>/dev/null) ]]
}

@test "without --zc limits mean nothing, and nobody is started again" {
    suite
    run -1 python3 -m pytest "${PLUGIN[@]}" -W error
    [[ $output == *"1 failed, 4 passed"* && $output != *"zc: "* ]]
    run -0 python3 -m pytest "${PLUGIN[@]}" --markers
    [[ $output == *"@pytest.mark.limit_copies(moved, **limits): with --zc, "* ]]
}

@test "pytest --zc takes a policy and keeps its logs where it is told, also under zc run" {
    suite
    printf '[rule all]\napi = cuMemAlloc\nplace = mapped\n' >mapped.conf
    run -0 python3 -m pytest "${PLUGIN[@]}" -k breaks --zc --zc-policy mapped.conf --zc-logs logs
    [[ $output == *"0 B moved in 3 copies, "* && $(ls logs/*.jsonl | wc -l) == 1 ]]
    run -0 "$ZC" report logs
    [[ $output == *"copy, conftest.py:13"* ]]
    run -1 "$ZC" run -q -o under python3 -m pytest "${PLUGIN[@]}" -k breaks --zc
    [[ $output == *"this test has 3 MiB"* && $(ls under/*.jsonl | wc -l) == 1 ]]
}

@test "what is wrong with a limit, a policy or the preload is an error of usage" {
    suite
    run -4 python3 -m pytest "${PLUGIN[@]}" --zc --zc-policy=@evryday
    [[ $output == *"ERROR: "*"there is no preset 'evryday': did you mean '@everyday'?"* ]]
    : >none.so
    ZC_LIB=$PWD/none.so run -4 python3 -m pytest "${PLUGIN[@]}" --zc
    [[ $output == *"ERROR: --zc: libzc could not be preloaded"* ]]
    [[ -z $(ls -d zc-pytest-* 2>/dev/null) ]]
    local wrong
    for wrong in '"2 elephants"' 'elephants=2' '' '"1 B", "2 B"'; do
        printf 'import pytest\n@pytest.mark.limit_copies(%s)\ndef test_it(): pass\n' "$wrong" \
            >test_copies.py
        run -1 python3 -m pytest "${PLUGIN[@]}" --zc
        [[ $output == *"UsageError: limit_copies"* ]]
    done
}

@test "zc report --markdown is a table for pull requests, whatever names hold" {
    cp "$GATHER" 'a|b_c<d>'
    run -0 "$ZC" run -q -o logs './a|b_c<d>'
    run -0 "$ZC" report --markdown logs
    [[ ${lines[0]} == '<!-- zc report -->' && ${lines[1]} == '### zc: a\|b\_c\<d\>' ]]
    [[ $output == *'**'*' are copies: '*'`'* ]]
    [[ $output == *'| Caller | Operation | Copies | Asked | Moved | Time |'* ]]
    [[ $output == *'| HtoD | Pageable | Device | '*'<details><summary>'*'</details>' ]]
    # Each row of a table has as many cells as its head.
    run -0 awk -F'[^\\\\][|]|^[|]' '/^\|/ { if (n && NF != n) exit 1; n = NF; next } { n = 0 }' \
        <<<"$output"
    run -2 "$ZC" report --markdown --json logs
}
