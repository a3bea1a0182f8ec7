#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Every program of kernels/ on the simulated GPU: bare, and under libzc with device memory in every
# place.  The places must not change one byte of the results, so the checksums are compared.

load common.bash

# The programs' own checksums: their results depend on the default sizes alone.
declare -gA checksum=(
    [vecadd]=50d7270ab8565172
    [gather]=c59086002fb6d843
    [driver_saxpy]=3bdeee150582b049
    [pipeline]=16dfc995e7568b3b
    [pooled]=d6be4cf87f284d09
    [pitched]=90c5dbe7f36264cf
    [graph]=fad543a07bc96c12
    [bfs]=a597e6a0cf666e21
    [recopy]=be2864089e50733d
    [rewrite]=decf956d24135a5f
    [rowsum]=c033467ab0930ce4
    [scale]=0e6aad5d0afc5502
    [transfer]=a0107df96e964e0c
    [overlap]=3d4f3309f28bcbec
    [sweep]=b91ab4d2aab8370b
    [storm]=562d98eac47c5fdc
    [cosine]=58659d486e4369f2
    [grow]=e3a7b6fb12b1f3d1
    [pagerank]=7191383d24802442
    [matmul]=d371586109bb91f1
    [stencil]=7763f8cf41a9ccf1
    [saxpy]=3bdeee150582b049
    [coherence]=14351435ba23a078
    [both]=693ff4b78ecd7f7f
)
# The version that an expert writes by hand gives the same bytes.
by_hand=(gather_zerocopy rowsum_zerocopy vecadd_zerocopy bfs_zerocopy bfs_managed scale_pinned
    scale_zerocopy transfer_managed transfer_pinned overlap_pinned cosine_managed grow_managed
    grow_vmm pagerank_managed pagerank_zerocopy both_zerocopy sweep_pinned sweep_managed)
for program in "${by_hand[@]}"; do
    checksum[$program]=${checksum[${program%_*}]}
done
# Libraries of kernels that have another name than the program.
declare -gA kernels_of=([recopy]=sampled [rewrite]=sampled [overlap]=pipeline [saxpy]=driver_saxpy
    [storm]=vecadd)

# The builds that the simulation can run: the static runtime needs private tables of the driver.
builds() {
    case $1 in
    driver_saxpy) echo "$ZC_BUILD/kernels/$1" ;;
    *)
        echo "$ZC_BUILD/kernels/$1-shared"
        compgen -G "$ZC_BUILD/kernels/$1-ptds" || true
        ;;
    esac
}

kernels() {
    local job=$1
    [[ " ${by_hand[*]} " == *" $1 "* ]] && job=${1%_*}
    echo "${kernels_of[$job]:-$job}"
}

# Fails unless the last `run` printed one line with the checksum of a program that verified itself.
expect_result() {
    [[ $status -eq 0 ]]
    [[ ${#lines[@]} -eq 1 ]]
    [[ $(json_field program <<<"$output") == "$1" ]]
    [[ $(json_field verified <<<"$output") == true ]]
    [[ $(json_field checksum <<<"$output") == "${checksum[$1]}" ]]
}

bare() {
    local program
    need_built $(builds "$1") "$SIM/kernels/$(kernels "$1").so"
    sim_env "$(kernels "$1")"
    for program in $(builds "$1"); do
        run --separate-stderr "$program"
        expect_result "$1"
    done
}

under_every_place() {
    local program place log=$BATS_TEST_TMPDIR/log.jsonl
    need_built "$LIBZC" $(builds "$1") "$SIM/kernels/$(kernels "$1").so"
    sim_env "$(kernels "$1")"
    for program in $(builds "$1"); do
        for place in device mapped managed vmm; do
            echo "$program in $place memory"
            ZC_LOG=$log ZC_LOG_LEVEL=allocs run --separate-stderr \
                under_policy "place = $place" "$program"
            expect_result "$1"
            [[ $stderr != *policy.conf:* ]]
            # A pool's blocks cannot be mapped, vmm has none of up to 1 MiB, and programs written by
            # hand choose their memory themselves.
            [[ $1 == pooled || $1 == coherence || $1 == *_* ]] ||
                grep '"type":"alloc"' "$log" | grep -q "\"place\":\"$place\"\|vmm: at most 1 MiB"
            rm "$log"
        done
    done
}

@test "vecadd computes the right sums on the simulated GPU" { bare vecadd; }
@test "gather fetches the right rows on the simulated GPU" { bare gather; }
@test "driver_saxpy computes the right sums on the simulated GPU" { bare driver_saxpy; }
@test "pipeline orders copies and kernels of its streams on the simulated GPU" { bare pipeline; }
@test "pooled reuses stream-ordered memory safely on the simulated GPU" { bare pooled; }
@test "pitched keeps rows, slices, arrays and symbols apart on the simulated GPU" { bare pitched; }
@test "graph replays its captured step on the simulated GPU" { bare graph; }

@test "rowsum adds up the right rows on the simulated GPU" { bare rowsum; }
@test "bfs finds the levels of all vertices on the simulated GPU" { bare bfs; }
@test "recopy has its buffer on the GPU after each copy on the simulated GPU" { bare recopy; }
@test "rewrite has each round's words on the GPU on the simulated GPU" { bare rewrite; }
@test "scale, transfer and storm bring back what they sent on the simulated GPU" {
    bare scale
    bare transfer
    bare storm
}
@test "overlap mixes every chunk on the simulated GPU" { bare overlap; }
@test "sweep changes every block on the simulated GPU, by hand, too" {
    bare sweep
    bare sweep_pinned
    bare sweep_managed
}
@test "cosine finds the best targets on the simulated GPU" { bare cosine; }
@test "grow keeps what was appended on the simulated GPU" { bare grow; }
@test "pagerank, matmul and stencil give the CPU's numbers on the simulated GPU" {
    bare pagerank
    bare matmul
    bare stencil
}
@test "saxpy gives the bytes of driver_saxpy on the simulated GPU" { bare saxpy; }
@test "coherence holds between CPU and kernels on the simulated GPU" { bare coherence; }
@test "two simulated GPUs read one table" {
    SIM_DEVICES=2 bare both
    SIM_DEVICES=2 bare both_zerocopy
}
@test "both and both_zerocopy are skipped where there is one GPU" {
    local program
    need_built "$ZC_BUILD/kernels/both-shared"
    sim_env both
    for program in both both_zerocopy; do
        run -77 "$ZC_BUILD/kernels/$program-shared"
        [[ $output == *"needs two GPUs"* ]]
    done
}
@test "programs written by hand give the bytes of the plain ones" {
    local program
    for program in "${by_hand[@]}"; do
        SIM_DEVICES=2 bare "$program"
    done
}
@test "advice and prefetching change no byte of cosine_managed" {
    local how
    need_built "$ZC_BUILD/kernels/cosine_managed-shared" "$SIM/kernels/cosine.so"
    sim_env cosine
    for how in nothing prefetch read_mostly preferred accessed_by; do
        run --separate-stderr "$ZC_BUILD/kernels/cosine_managed-shared" 500 40 48 1 "$how"
        expect_result cosine_managed
    done
    run -2 "$ZC_BUILD/kernels/cosine_managed-shared" 500 40 48 1 advice
    [[ $output == *"not 'advice'"* ]]
}

@test "vecadd gives the same bytes in every place" { under_every_place vecadd; }
@test "gather gives the same bytes in every place" { under_every_place gather; }
@test "driver_saxpy gives the same bytes in every place" { under_every_place driver_saxpy; }
@test "pipeline gives the same bytes in every place" { under_every_place pipeline; }
@test "pooled gives the same bytes in every place" { under_every_place pooled; }
@test "pitched gives the same bytes in every place" { under_every_place pitched; }
@test "graph gives the same bytes in every place" { under_every_place graph; }

@test "rowsum gives the same bytes in every place" { under_every_place rowsum; }
@test "bfs gives the same bytes in every place" { under_every_place bfs; }
@test "recopy gives the same bytes in every place" { under_every_place recopy; }
@test "rewrite gives the same bytes in every place" { under_every_place rewrite; }
@test "scale, transfer and storm give the same bytes in every place" {
    under_every_place scale
    under_every_place transfer
    under_every_place storm
}
@test "overlap and cosine give the same bytes in every place" {
    under_every_place overlap
    under_every_place cosine
    under_every_place sweep
}
@test "grow gives the same bytes in every place" { under_every_place grow; }
@test "pagerank, matmul, stencil and saxpy give the same bytes in every place" {
    under_every_place pagerank
    under_every_place matmul
    under_every_place stencil
    under_every_place saxpy
}
@test "coherence holds under every policy" { under_every_place coherence; }
@test "two GPUs read the same table in every place" { SIM_DEVICES=2 under_every_place both; }
@test "programs written by hand give the same bytes in every place" {
    local program
    for program in "${by_hand[@]}"; do
        SIM_DEVICES=2 under_every_place "$program"
    done
}

# Runs the builds of a program in shared memory, with and without the promise that kernels only read
# it, with which so many bytes are elided: shared PROGRAM BYTES
shared() {
    local build access
    need_built "$LIBZC" $(builds "$1") "$SIM/kernels/$(kernels "$1").so"
    sim_env "$(kernels "$1")"
    export ZC_SUMMARY=0 ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl
    for build in $(builds "$1"); do
        for access in '' 'access = read'; do
            rm -f "$ZC_LOG"*
            run --separate-stderr under_policy "[rule host]
api = malloc, calloc, realloc, posix_memalign
place = shared
[rule device]
api = cudaMalloc, cudaMallocPitch
place = shared
$access" "$build"
            expect_result "$1"
            [[ ${access:-$stderr} == *'access = read'* && ${#stderr_lines[@]} -le 1 ]]
            [[ $(tail -n 1 "$ZC_LOG") =~ \"elided_bytes\":([0-9]+) ]]
            echo "${build##*/} $access: ${BASH_REMATCH[1]} elided"
            ((BASH_REMATCH[1] == (${#access} ? $2 : 0)))
        done
    done
}

@test "what kernels only read is not copied where host and device blocks are one" {
    local program
    shared vecadd $((8 << 20))
    shared gather $((64 << 20))
    shared rowsum $((64 << 20))
    shared scale $((4 << 20)) # The first of its copies; kernels read all of it.
    shared recopy $((800 << 20))
    shared rewrite $((8 << 20)) # The first of its copies.
    # No block that is copied whole is larger than 1 MiB.
    for program in pipeline pooled pitched graph bfs transfer overlap pagerank matmul stencil; do
        shared "$program" 0
    done
}

# read_only PROGRAM...: under rules that promise that kernels only read the blocks.
read_only() {
    under_policy "[rule host]
api = malloc
place = shared
[rule device]
api = cudaMalloc
place = shared
access = read" "$@"
}

@test "a kernel that writes what it should only read ends the program, and the rule is named" {
    need_built "$LIBZC" "$ZC_BUILD/kernels/sweep-shared" "$SIM/kernels/sweep.so"
    sim_env sweep
    run -3 --separate-stderr read_only "$ZC_BUILD/kernels/sweep-shared" 4 64 4 1
    [[ -z $output && $stderr == *"a write to device block "*"because rule device ("* ]]
}

@test "a kernel with threads enough to read all of a block may write it all the same" {
    need_built "$LIBZC" "$ZC_BUILD/kernels/driver_saxpy" "$SIM/kernels/driver_saxpy.so"
    sim_env driver_saxpy
    run -0 --separate-stderr read_only "$ZC_BUILD/kernels/driver_saxpy"
    [[ $output == *"${checksum[driver_saxpy]}"* && $stderr != *"a write to device block"* ]]
}

@test "a stream that runs late shows no wrong order in pipeline" {
    need_built $(builds pipeline) "$SIM/kernels/pipeline.so"
    sim_env pipeline
    for program in $(builds pipeline); do
        SIM_DELAY_US=300 run --separate-stderr "$program"
        expect_result pipeline
    done
}

@test "other sizes give other results, still verified" {
    need_built $(builds gather) "$SIM/kernels/gather.so"
    sim_env gather
    run --separate-stderr "$ZC_BUILD/kernels/gather-shared" 1000 64 10
    [[ $status -eq 0 ]]
    [[ $(json_field gathered_rows <<<"$output") == 100 ]]
    [[ $(json_field verified <<<"$output") == true ]]
    [[ $(json_field checksum <<<"$output") != "${checksum[gather]}" ]]
}

@test "bad sizes are refused with exit status 2 and a message that names them" {
    need_built "$ZC_BUILD/kernels/vecadd-shared"
    sim_env vecadd
    for size in 0 -1 1x '' ' 5' 99999999999999999999999; do
        run --separate-stderr "$ZC_BUILD/kernels/vecadd-shared" "$size"
        [[ $status -eq 2 ]]
        [[ -z $output ]]
        [[ $stderr == *elements* ]]
    done
    run --separate-stderr "$ZC_BUILD/kernels/vecadd-shared" 5 5
    [[ $status -eq 2 ]]
    [[ $stderr == *usage* ]]
}

# Each line: a program, and arguments that it must refuse.
refused_arguments() {
    cat <<'LINES'
gather 0
gather 10 6
gather 10 2
gather 10 64 0
gather 10 64 100.5
gather 10 64 1.
gather 10 64 .5
gather 10 64 1e1
gather 10 64 1 -3
gather_zerocopy 10 6
bfs 0
bfs 31
bfs 20 0
bfs 30 1024
pagerank 10 16 1 0
scale 0
scale 10 0
transfer 3
transfer 6
recopy 0
recopy 4 0
rewrite 7
storm 0
storm 10 0
overlap 17 4
cosine 0
cosine 10 0
cosine_managed 10 10 10 1 often
grow 0
grow 4 6
grow_vmm 1 4 x
matmul 0
matmul 65537
stencil 0
stencil 8 8 0
saxpy 0
coherence 0
both 6
LINES
}

@test "every program refuses zero, odd sizes and words with status 2, before it allocates" {
    local program arguments
    sim_env vecadd
    need_built "$ZC_BUILD/kernels/gather-shared" "$ZC_BUILD/kernels/both-shared"
    while read -r program arguments; do
        echo "$program $arguments"
        # shellcheck disable=SC2086
        SIM_TRACE=$BATS_TEST_TMPDIR/trace run --separate-stderr \
            "$ZC_BUILD/kernels/$program-shared" $arguments
        [[ $status -eq 2 && -z $output && -n $stderr ]]
        [[ ! -e $BATS_TEST_TMPDIR/trace ]] || run -1 grep cuMemAlloc "$BATS_TEST_TMPDIR/trace"
    done < <(refused_arguments)
}

@test "sizes larger than memory end a program with status 3 and the call that failed" {
    local line
    need_built "$ZC_BUILD/kernels/gather-shared"
    sim_env gather
    for line in "gather 16777216 65536" "gather_zerocopy 16777216 65536" "scale 1073741824" \
                "bfs 27 31" "transfer 1099511627776" "cosine 1000000 10 768"; do
        echo "$line"
        # shellcheck disable=SC2086
        SIM_MEMORY_MIB=64 run --separate-stderr timeout 60 \
            "$ZC_BUILD/kernels/${line%% *}-shared" ${line#* }
        [[ $status -eq 3 && -z $output ]]
        [[ $stderr == *[aA]lloc*"out of memory"* ]]
    done
}

@test "a failing CUDA call ends a program with exit status 3 and the call's name" {
    need_built "$ZC_BUILD/kernels/vecadd-shared" "$SIM/kernels/vecadd.so"
    sim_env vecadd
    SIM_FAIL=cuMemAlloc_v2:2:3 run --separate-stderr "$ZC_BUILD/kernels/vecadd-shared"
    [[ $status -eq 3 ]]
    [[ $stderr == *"cudaMalloc(&device_c, bytes)"*cudaErrorMemoryAllocation* ]]
}

@test "the shared runtime gives its library and its context back at exit" {
    need_built "$ZC_BUILD/kernels/vecadd-shared" "$SIM/kernels/vecadd.so"
    sim_env vecadd
    SIM_TRACE=$BATS_TEST_TMPDIR/trace run "$ZC_BUILD/kernels/vecadd-shared"
    expect_result vecadd
    run tail -n 2 "$BATS_TEST_TMPDIR/trace"
    [[ ${lines[0]} == cuLibraryUnload* ]]
    [[ ${lines[1]} == cuDevicePrimaryCtxRelease* ]]
}

@test "a wrong result from the GPU ends a program with exit status 1" {
    local line program arguments
    need_built "$ZC_BUILD/kernels/vecadd-shared" "$SIM/kernels/wrong.so"
    sim_env wrong
    for line in vecadd bfs bfs_zerocopy cosine "cosine 500 40 47" pagerank stencil; do
        echo "$line"
        read -r program arguments <<<"$line"
        # shellcheck disable=SC2086
        run --separate-stderr "$ZC_BUILD/kernels/$program-shared" $arguments
        [[ $status -eq 1 ]]
        [[ $(json_field verified <<<"$output") == false ]]
    done
}

@test "a program that needs one and a half times its budget has the same result, and says where" {
    local program=$ZC_BUILD/kernels/matmul-shared place
    need_built "$LIBZC" "$SIM/libcudart.so.13" "$SIM/kernels/matmul.so" "$program"
    sim_env matmul
    export ZC_SUMMARY=0 ZC_LOG_LEVEL=allocs ZC_LOG=$BATS_TEST_TMPDIR/budget.jsonl
    run -0 --separate-stderr timeout 60 "$program" 576
    local bare
    bare=$(json_field checksum <<<"$output")
    for place in device vmm managed; do
        rm -f "$ZC_LOG"
        run -0 --separate-stderr under_policy "size = 1296K"$'\n'"place = $place, mapped
budget = 3M" timeout 60 "$program" 576
        [[ $(json_field checksum <<<"$output") == "$bare" ]]
        [[ $(grep -c '"type":"alloc".*"place":"'$place'"' "$ZC_LOG") == 2 ]]
        grep -q '"type":"alloc".*"place":"mapped".*"why":"'$place': over its budget"' "$ZC_LOG"
    done
}
