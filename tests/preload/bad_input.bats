#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Odd circumstances: the program goes on with the same results, and at most one message says what
# happened.

load common.bash

setup() {
    programs=$PWD/$ZC_BUILD/tests/preload/programs
    need_built "$LIBZC" "$programs/early" "$programs/requests"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 ZC_LOG=off
}

@test "an unknown ZC_LOG_LEVEL is said once and the default holds" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=verbose
    run -0 --separate-stderr env LD_PRELOAD="$LIBZC" "$programs/requests" 1
    [[ $stderr == 'libzc: ZC_LOG_LEVEL=verbose is not summary, allocs or events' ]]
    run ! grep '"type":"alloc"' "$ZC_LOG"
    grep -q '"type":"summary"' "$ZC_LOG"
}

@test "a switch that is set to no word for on or off is said, and its default holds" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl
    write_policy $'place = mapped\nplcae = x'
    run -0 --separate-stderr env LD_PRELOAD="$LIBZC" ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" \
        ZC_SUMMARY=2 ZC_STRICT=True ZC_PYTHON=verbose "$programs/requests" 1
    grep -qxF 'libzc: ZC_SUMMARY=2 is neither 1 nor 0' <<<"$stderr"
    grep -qxF 'libzc: ZC_STRICT=True is neither 1 nor 0' <<<"$stderr"
    grep -qxF 'libzc: ZC_PYTHON=verbose is neither 1 nor 0' <<<"$stderr"
    grep -q 'going on without what is at fault' <<<"$stderr"
    grep -q ' asked in ' <<<"$stderr"
    [ "$(grep -c '"code":"options"' "$ZC_LOG")" -eq 3 ]
}

@test "a percent sign of the log's path that means nothing is said, also at its end" {
    for name in 'a%q.jsonl' 'b%'; do
        run -0 --separate-stderr env LD_PRELOAD="$LIBZC" ZC_LOG="$BATS_TEST_TMPDIR/$name" \
            "$programs/requests" 1
        [[ $stderr == "libzc: the log's path has '%"*"', which means nothing (%e program, "* ]]
        [[ -s $BATS_TEST_TMPDIR/$name ]]
    done
}

@test "a switch may be empty, or have a word for on or off" {
    for off in 0 no off false; do
        run -0 --separate-stderr env LD_PRELOAD="$LIBZC" ZC_SUMMARY=$off ZC_STRICT= \
            "$programs/requests" 1
        [[ -z $stderr ]]
    done
    run -0 --separate-stderr env LD_PRELOAD="$LIBZC" ZC_SUMMARY=on ZC_STRICT=yes \
        "$programs/requests" 1
    [[ $stderr == *' asked in '* && $stderr != *neither* ]]
}

@test "each standard descriptor may be closed" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl
    unset ZC_SUMMARY
    write_policy $'place = mapped\nplcae = x'
    for closed in '<&-' '>&-' '2>&-' '<&- >&- 2>&-'; do
        rm -f "$ZC_LOG"
        echo "$closed"
        ZC_POLICY=$BATS_TEST_TMPDIR/policy.conf LD_PRELOAD=$LIBZC \
            bash -c "exec '$programs/requests' 1 $closed" >"$BATS_TEST_TMPDIR/out" || return 1
        grep -q '"type":"summary"' "$ZC_LOG"
        # Not one byte of libzc's is on what became descriptor 0, 1 or 2.
        run ! grep -v '^0$' "$BATS_TEST_TMPDIR/out"
    done
}

@test "a policy that only others may read is reported, and the program goes on" {
    ((EUID == 0)) || skip 'needs root to become another user'
    dir=$(mktemp -d)
    write_policy 'place = mapped'
    install -m 600 "$BATS_TEST_TMPDIR/policy.conf" "$dir/policy.conf"
    chmod 755 "$dir"
    cp "$programs/requests" "$LIBZC" "$SIM/libcuda.so.1" "$dir"
    run -0 --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups \
        env LD_LIBRARY_PATH="$dir" LD_PRELOAD="$dir/libzc.so" ZC_POLICY="$dir/policy.conf" \
        "$dir/requests" 1
    rm -r "$dir"
    [[ $output == 0 && $stderr == *"$dir/policy.conf: "*'going on without a policy'* ]]
}

@test "calls before main and after exit give what they give without libzc" {
    run -0 --separate-stderr "$programs/early"
    bare=$output
    [[ $bare == *'before main'*'constructor'*'main'*'atexit'*'destructor'* ]]
    for place in device mapped managed vmm; do
        run -0 --separate-stderr under_policy "place = $place" "$programs/early"
        diff <(echo "$bare") <(echo "$output")
        [[ -z $stderr ]]
    done
}

# A copy of the simulated driver that lacks one entry point.
driver_without() {
    mkdir -p "$BATS_TEST_TMPDIR/driver"
    python3 -c 'import sys
old = open(sys.argv[1], "rb").read()
name = sys.argv[3].encode()
new = old.replace(b"\0" + name + b"\0", b"\0no" + name[2:] + b"\0")
assert new != old
open(sys.argv[2], "wb").write(new)' "$SIM/libcuda.so.1" "$BATS_TEST_TMPDIR/driver/libcuda.so.1" "$1"
}

@test "a driver without an entry point costs the places that need it, nothing else" {
    LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/driver
    for name in cuMemAllocManaged cuMemHostRegister_v2 cuMemHostAlloc cuMemAddressReserve \
        cuMemCreate cuMemMap cuMemSetAccess cuMemGetAllocationGranularity cuDeviceCanAccessPeer \
        cuDeviceGetCount cuDeviceGetMemPool cuDeviceGetAttribute cuDeviceGetName \
        cuDriverGetVersion cuCtxGetCurrent cuCtxGetDevice cuEventCreate cuEventRecord \
        cuEventQuery cuEventSynchronize cuStreamQuery cuLaunchHostFunc cuMemGetInfo_v2 \
        cuPointerGetAttribute cuMemcpyBatchAsync_v2 cuStreamIsCapturing; do
        driver_without "$name"
        for place in mapped managed vmm; do
            echo "$place without $name"
            for order in '' -a; do
                run -0 --separate-stderr under_policy "place = $place" \
                    "$programs/requests" $order 3 0.1
                [[ $output == $'0\n0' ]]
            done
        done
    done
}

@test "a program finds no entry point that the driver lacks" {
    need_built "$programs/routes"
    LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/driver:$SIM
    driver_without cuMemAdvise_v2
    for under in '' "$LIBZC"; do
        run -0 env LD_PRELOAD="$under" "$programs/routes" to cuMemAdvise cuMemAdvise_v2
        [[ $output == 'handle: -'$'\n''default: -'$'\n'* && $output != *libzc.so* ]]
    done
}

@test "a set-uid program runs as without libzc" {
    ((EUID == 0)) || skip 'needs root to make a set-uid program'
    dir=$(mktemp -d)
    chmod 755 "$dir"
    cp "$LIBZC" "$SIM/libcuda.so.1" "$dir"
    # A preload with a path is ignored for such a program, so that it is linked with libzc instead.
    "${CC:-gcc}" -Itests -isystem "$(sed -E 's/.*-isystem ([^ ]+).*/\1/' "$ZC_BUILD/command")" \
        -o "$dir/secure" tests/preload/programs/secure.c -Wl,--no-as-needed "$dir/libzc.so" \
        "$dir/libcuda.so.1" -Wl,-rpath,"$dir"
    write_policy 'place = mapped'
    install -m 644 "$BATS_TEST_TMPDIR/policy.conf" "$dir/policy.conf"
    mkdir -m 777 "$dir/logs"
    local -a as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups env
        ZC_POLICY="$dir/policy.conf" ZC_LOG="$dir/logs/log.jsonl" "$dir/secure")
    run -0 --separate-stderr "${as_other[@]}"
    ordinary=$output
    logs=$(ls "$dir/logs")
    rm -f "$dir"/logs/*
    chmod u+s "$dir/secure"
    run -0 --separate-stderr "${as_other[@]}"
    secure=$output said=$stderr secure_logs=$(ls "$dir/logs")
    rm -r "$dir"
    [[ $ordinary == 'secure 0 device 0 host 1' && -n $logs ]]
    [[ $secure == secure\ 1* ]] || skip 'this folder does not honour set-uid'
    [[ $secure == 'secure 1 device 1 host 0' && -z $said && -z $secure_logs ]]
}

@test "a plugin that passes libzc by is warned of once, where CUDA is used" {
    for order in 'd d m m c' 'c d d m m'; do
        run -0 --separate-stderr env LD_PRELOAD="$LIBZC" "$programs/loads" $order
        [[ $(grep -c 'RTLD_DEEPBIND' <<<"$stderr") == 1 ]]
        [[ $(grep -c 'namespace of its own' <<<"$stderr") == 1 ]]
    done
    run -0 --separate-stderr env LD_PRELOAD="$LIBZC" "$programs/loads" d m
    [[ -z $stderr && -z $output ]]
}
