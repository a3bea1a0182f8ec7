#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc doctor: what it says of this machine, of the simulated GPU, and of drivers that are broken.

load programs

setup() {
    need_gpu_programs
}

# Builds a libcuda.so.1 from C on standard input and makes it the driver of this test.
fake_driver() {
    mkdir -p "$BATS_TEST_TMPDIR/driver"
    "${CC:-gcc}" -w -shared -fPIC -Wl,-soname,libcuda.so.1 -x c - \
        -o "$BATS_TEST_TMPDIR/driver/libcuda.so.1"
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/driver
}

@test "the simulated GPU is called simulated, and every place has a verdict" {
    run -0 zc doctor
    [[ $output == *"Driver "*"CUDA 13.0 ($SIM/libcuda.so.1)"* ]]
    [[ $output == *"GPU 0 "*"simulated: bytes are exact, times mean nothing"* ]]
    for place in device mapped managed vmm pinned pageable; do
        grep -qE "^$place +yes" <<<"$output"
    done
    grep -qE '^shared +(yes|no)' <<<"$output"
    for fact in Kernel CPUs Memory 'Huge pages' 'Locked memory' Mappings; do
        grep -qE "^$fact  " <<<"$output"
    done
}

@test "a device without concurrent managed access can't have managed blocks, and is told why" {
    fake_driver <<'C'
#include <stdio.h>
#include <string.h>
int cuInit(unsigned f) { return 0; }
int cuDriverGetVersion(int *v) { *v = 12040; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strcpy(s, "Old"); return 0; }
int cuDeviceGetPCIBusId(char *s, int n, int d) { strcpy(s, "0000:01:00.0"); return 0; }
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = 1 << 30; return 0; }
int cuMemGetInfo_v2(size_t *f, size_t *t) { *f = *t = 1 << 30; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a != 89 && a != 102; return a == 145; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = 0; return 0; }
int cuCtxSetCurrent(void *c) { return 0; }
int cuMemHostRegister_v2(void *p, size_t n, unsigned f) { return f & 8 ? 801 : 0; }
int cuMemHostUnregister(void *p) { return 0; }
int cuGetErrorString(int e, const char **s) { *s = "not supported"; return 0; }
C
    run -0 zc doctor
    [[ $output == *"CUDA 12.4 ("* ]]
    grep -qE '^managed +no +no concurrent managed access: ' <<<"$output"
    grep -qE '^vmm +no +the driver has no virtual memory management' <<<"$output"
    grep -qE '^mapped +yes' <<<"$output"
    [[ $output != *"not usable"* ]]
    [[ $output == *"can be registered, not read-only"* ]]
    [[ $(json "d['gpu0.registers_read_only']" doctor) == *"801 (not supported)" ]]
}

@test "where the device reaches pageable memory nothing is shared before that was measured" {
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR SIM_KERNELS=$SIM/kernels/views.so
    need_built "$SIM/kernels/views.so"
    for machine in HMM ATS; do
        export SIM_$machine=1
        run -0 zc doctor
        [[ $output == *"pageable reached by kernels ($machine)"* ]]
        [[ $output =~ $'\n'shared\ +no\ +the\ device\ reaches\ .*"($machine), and nobody has" ]]
        [[ $output == *"'zc doctor --measure' does"* ]]
        run -0 zc doctor --measure
        grep -qE '^shared +yes .*measured to be exact' <<<"$output"
        grep -qE '^own +device memory .* exact$' <<<"$output"
        [[ $(json "d['gpu0.pairs'][0]" doctor) == exact ]]
        rm "$XDG_CACHE_HOME/libzc/views.tsv"
        unset SIM_$machine
    done
    SIM_HMM=1 SIM_WRONG=upgrade run -0 zc doctor --measure
    grep -qE '^view-refuses .*NOT EXACT: ' <<<"$output"
    [[ $output == *"not to be exact with this driver and kernel (view-refuses, hmm-off)"* ]]
    SIM_HMM=1 SIM_WRONG=served run -0 zc doctor --measure
    [[ $output == *"(own); blocks stay on the device; without HMM they are: "*uvm_disable_hmm=1* ]]
    [[ $(SIM_HMM=1 SIM_WRONG=served json "d['gpu0.views'][0]['exact']" doctor --measure) == True ]]
}

@test "machines that were measured are kept beside each other, the newest 32" {
    XDG_CACHE_HOME=$BATS_TEST_TMPDIR PYTHONPATH=scripts python3 -c '
from zclib.doctor import views
step = lambda exact: views.Step("view", "what", exact, "")
seen = lambda name, exact: views.Views(name, [step(exact)])
for i in range(40):
    name = views.keep([seen(f"GPU {i}", True)])
assert views.kept("GPU 7") == ("", {}) and views.kept("GPU 8") == ("exact", {"view": "exact"})
views.keep([seen("GPU 9", False), seen("GPU 9", True)])  # Two of one name: the worse one counts.
assert views.kept("GPU 9")[0] == "wrong" and views.kept("GPU 10")[0] == "exact"
views.keep([views.Views("GPU 9", [step(None)])])
assert views.kept("GPU 9")[0] == "wrong", "nothing was tried"
for text in "", "libzc views", "libzc views\nexact 1\tGPU 1\tview=exact", "\0" * 99:
    open(name, "w").write(text)
    assert views.kept("GPU 1") == ("", {}), text
open(name, "wb").write(b"libzc views\n\xff\n")
assert views.kept("GPU 1") == ("", {})'
}

@test "drivers and kernels that fail with HMM are known" {
    PYTHONPATH=scripts python3 -c '
from zclib.doctor import views
assert "1082" in views.trouble("595.58.03", "6.17.0-20-generic")
assert "901" in views.trouble("575.57.08", "5.14.0-570.23.1.el9_6.x86_64")
assert not views.trouble("575.57.08", "6.8.0") and not views.trouble("580.159.04", "6.18.44")
assert not views.trouble("", "6.8.0")
from zclib.commands import doctor
rows = lambda facts, kernel: list(doctor._trouble_rows(facts, kernel))
on = {"driver.devices": 1, "gpu0.pageable_memory_access": 1, "nvml.version": "595.71.05"}
assert "uvm_disable_hmm=1" in rows(on, "6.14.0")[0][1]
assert not rows({**on, "gpu0.pageable_memory_access": 0}, "6.14.0")
assert not rows({**on, "gpu0.host_page_tables": 1}, "6.14.0"), "ATS is not HMM"
assert rows({"driver.error": "cuInit returned 3", "nvml.version": "570.158.01"}, "5.14.0.el9_6")'
}

@test "without a driver host memory is what remains, with status 1" {
    LD_LIBRARY_PATH="" run -1 zc doctor
    [[ $output == *"Driver "*"not usable: "*libcuda.so.1* ]] || skip "there is a driver here"
    grep -qE '^device +no +no GPU can be used: ' <<<"$output"
    grep -qE '^mapped +no +as device$' <<<"$output"
    grep -qE '^pageable +yes' <<<"$output"
}

@test "a driver that refuses to start is told with its error" {
    fake_driver <<'C'
int cuInit(unsigned f) { return 999; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuGetErrorString(int e, const char **s) { *s = "unknown error"; return 0; }
C
    run -1 zc doctor
    [[ $output == *"not usable: cuInit returned 999 (unknown error)"* ]]
}

@test "a driver that crashes does not end zc" {
    fake_driver <<'C'
#include <stdlib.h>
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuInit(unsigned f) { abort(); }
C
    run -1 zc doctor
    [[ $output == *"CUDA 13.0"* ]]
    [[ $output == *"not usable: the process that asked the driver ended with status -6"* ]]
}

@test "a driver that hangs is told within seconds, and doctor does not wait for it" {
    fake_driver <<'C'
#include <unistd.h>
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuInit(unsigned f) { for (;;) pause(); }
C
    run -1 --separate-stderr zc doctor --timeout 12
    # On a busy machine nothing may have been asked after 3 s.
    [[ $stderr == "zc: "*" has not returned for 3 s; doctor gives up after 12 s" ]]
    [[ $output == *"CUDA 13.0"* ]]
    [[ $output == *"not usable: cuInit did not return within 12 s: the driver hangs"* ]]
    # Nothing of it is left: the child had the driver mapped.
    [[ -z $(grep -ls "$BATS_TEST_TMPDIR/driver" /proc/[0-9]*/maps) ]]
}

@test "a driver that hangs while it makes a context is told so at every place" {
    fake_driver <<'C'
#include <string.h>
#include <unistd.h>
int cuInit(unsigned f) { return 0; }
int cuDriverGetVersion(int *v) { *v = 12040; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strcpy(s, "Stuck"); return 0; }
int cuDeviceGetPCIBusId(char *s, int n, int d) { strcpy(s, "0000:01:00.0"); return 0; }
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = 1 << 30; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = 1; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { for (;;) pause(); }
C
    run -1 --separate-stderr zc doctor --timeout 12 --measure
    [[ $output == *"GPU 0 "*"Stuck"* && $output != *"Measured"* ]]
    grep -qE '^device +no +cuDevicePrimaryCtxRetain did not return within 12 s' <<<"$output"
}

@test "--timeout takes seconds" {
    run -2 zc doctor --timeout soon
    [[ $output == *"invalid seconds value: 'soon'"* ]]
    run -2 zc doctor --timeout 0
}

@test "--measure gives rates, or says why there are none" {
    run -0 script -qec "TERM=xterm scripts/zc doctor --measure" /dev/null
    [[ $output == *"measuring the link and the memories"* ]]  # For seconds, so a terminal is told.
    [[ $output == *"Copy to the device, pinned "*"GB/s"* ]]
    [[ $output == *"Kernel reads host memory "*"not measured: "* ]]
    [[ $output == *"huge pages, one thread "*"ms/GiB"* ]]
}

@test "--measure says what two GPUs get at once, and where one port carries both" {
    SIM_DEVICES=2 run -0 zc doctor --measure
    [[ $output == *"Pinned, to GPU 0 and GPU 1 at once "*"B/s"* ]]
    run -0 python3 - <<'END'
import sys
sys.path.insert(0, "scripts")
from zclib.commands.doctor import _measures
print(*_measures({"rate.to_device_pinned": [1000, 20], "beside.1": [2000, 21],
                  "beside.2": [2000, 39], "beside.3": "no memory"}, None), sep="\n")
END
    [[ ${lines[2]} =~ ^'Pinned, to GPU 0 and GPU 1 at once '+'95.2 GB/s'\ *$ ]]
    [[ ${lines[3]} =~ 'GPU 2 at once '+"51.3 GB/s: one port carries both, 'links = own' fits" ]]
    [[ ${lines[4]} =~ 'GPU 3 at once '+'not measured: no memory' ]]
}

@test "--json has the facts and the verdicts" {
    [[ $(json "d['places']['mapped']['possible'], d['driver.devices']" doctor) == "(True, 1)" ]]
}

@test "colour is for terminals that want it" {
    run -0 script -qec "TERM=xterm scripts/zc doctor" /dev/null
    [[ $output == *$'\e['* ]]
    run -0 script -qec "NO_COLOR=1 TERM=xterm scripts/zc doctor" /dev/null
    [[ $output != *$'\e['* ]]
    run -0 script -qec "TERM=dumb scripts/zc doctor" /dev/null
    [[ $output != *$'\e['* ]]
    run -0 env TERM=xterm scripts/zc doctor
    [[ $output != *$'\e['* ]]
}

@test "a narrow terminal gets narrow lines" {
    run -0 script -qec "stty cols 64; TERM=dumb scripts/zc doctor" /dev/null
    # A path is not broken.
    [ "$(tr -d '\r' <<<"$output" | grep -v / | grep -cE '^.{65,}')" -eq 0 ]
}
