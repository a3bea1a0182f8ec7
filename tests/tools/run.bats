#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc run: what the program gets, what comes out, and what is left behind.

load programs

setup() {
    need_gpu_programs
    cd "$BATS_TEST_TMPDIR"
}

@test "the program's output is its own, and the report is on stderr" {
    run -0 --separate-stderr "$ZC" run -- "$GATHER"
    [[ ${#lines[@]} == 1 && $(json_field verified <<<"$output") == true ]]
    [[ $stderr == *"1 process of gather-shared on "*"64.6 MiB asked in 3 copies"* ]]
    [[ $stderr == *"Sites, by bytes asked"* ]]
    [[ $stderr != *libzc:* ]]
}

@test "without -o no file is left, with it the logs are" {
    mkdir tmp
    TMPDIR=$PWD/tmp run -0 "$ZC" run -- "$GATHER"
    [[ $(ls -A) == tmp && -z $(ls -A tmp) ]]
    run -0 "$ZC" run -q -o kept "$GATHER"
    [[ ${#lines[@]} == 1 ]]
    [[ $(ls kept) == zc.*.r0.gather-shared.*.jsonl ]]
}

@test "logs of an earlier run in the same folder are not reported again" {
    run -0 "$ZC" run -q -o kept "$GATHER"
    run -0 "$ZC" run -o kept "$GATHER"
    [[ $output == *"1 process of gather-shared"* && $(ls kept | wc -l) == 2 ]]
}

@test "folders with blanks, percent signs and bytes that are no UTF-8 hold the logs" {
    local folder=$'a %p b\xff'
    run -0 "$ZC" run -o "$folder" "$GATHER"
    [[ $output == *"1 process of gather-shared"* ]]
    [[ $(ls "$folder") == zc.*.jsonl ]]
}

@test "the program's exit status is passed on" {
    run -7 "$ZC" run -- sh -c 'exit 7'
    [[ $output == "zc: no process used CUDA under libzc, so there is nothing to report: "* ]]
}

@test "a program that dies by SIGKILL is still reported, with status 137" {
    run -137 "$ZC" run -- "$KILLED" 2
    [[ $output == *"1 process of killed on "* && $output == *"asked in 400 copies"* ]]
    [[ $output == *"totals from the counters file"* ]]
}

@test "signals that are sent to zc reach the program" {
    local signal
    for signal in TERM HUP USR1; do
        rm -f ready
        "$ZC" run -q -- bash -c 'trap "echo got it; exit 5" '"$signal"'; : >ready
            while :; do sleep 0.05; done' >out &
        until [[ -e ready ]]; do sleep 0.05; done
        kill -s "$signal" $!
        wait $! || status=$?
        [[ $status == 5 && $(<out) == "got it" ]]
    done
}

@test "a program that such a signal ends has the status 128 + its number" {
    "$ZC" run -q -- sh -c ': >ready; exec sleep 60' &
    until [[ -e ready ]]; do sleep 0.05; done
    kill -TERM $!
    wait $! || status=$?
    [[ $status == 143 ]]
}

@test "the program finds SIGPIPE as zc found it" {
    run -0 "$ZC" run -q -- bash -c '(trap - PIPE; yes; echo "$?" >status) | true; cat status'
    [[ $output == 141 ]]
}

@test "what LD_PRELOAD names already stays in front" {
    local other=$OLDPWD/$ZC_BUILD/tests/preload/programs/librtldnext.so
    [[ -e $other ]] || skip "$other was not built"
    LD_PRELOAD=$other run -0 "$ZC" run -q -- sh -c 'echo "$LD_PRELOAD"'
    [[ $output == "$other:$LIBZC" ]]
}

@test "ZC_LIB names the library, and a wrong one is said" {
    mkdir "a b"
    cp "$LIBZC" "a b/libzc.so"
    ZC_LIB="a b/libzc.so" run -0 "$ZC" run -- "$GATHER"
    [[ $output == *"1 process of gather-shared"* ]]
    ZC_LIB=nothing run -125 "$ZC" run -- "$GATHER"
    [[ $output == "zc: ZC_LIB names 'nothing', which is no file" ]]
}

@test "what can't be started has the statuses of env(1)" {
    run -127 "$ZC" run -- ./nothing
    [[ $output == "zc: ./nothing: No such file or directory" ]]
    : >file
    run -126 "$ZC" run -- ./file
    chmod +x file
    run -126 "$ZC" run -- ./file
    [[ $output == "zc: ./file: Exec format error (a script needs a first line such as #!/bin/sh)" ]]
    run -125 "$ZC" run
    [[ $output == "zc: which program?"* ]]
    run -125 "$ZC" run -p missing.conf -- "$GATHER"
    [[ $output == "zc: missing.conf: there is no such policy" ]]
    run -125 "$ZC" run -p . -- touch ran
    [[ $output == "zc: "*": not a regular file" && ! -e ran ]]
    run -125 "$ZC" run --level full -- "$GATHER"
    [[ $output == "zc: argument -l/--level: invalid choice: 'full' "* ]]
    run -125 "$ZC" run --repeat 2 -- "$GATHER"
    : >taken
    run -125 "$ZC" run -o taken -- "$GATHER"
    [[ $output == "zc: taken: no folder for the logs: "* ]]
    # Nobody runs a program for hours to learn that its logs went nowhere.  Root can't write there
    # either; a limit stands for a full disk.
    run -125 "$ZC" run -o /proc -- touch ran
    [[ $output == "zc: /proc: no log can be written there: "* && ! -e ran ]]
    run -125 bash -c "ulimit -f 8; '$ZC' run -o kept -- touch ran"
    [[ $output == "zc: kept: no log can be written there: File too large" && ! -e ran ]]
    [[ -z $(ls -A kept) ]]
}

@test "what can't be started says what to type instead" {
    mkdir folder
    : >train.py
    : >plain
    printf '#!/gone/python3 -u\n' >script
    printf '\177ELF\1\1\1%57s' '' | sed 's/ /\x0/g' >narrow
    printf '\3' | dd of=narrow bs=1 seek=18 conv=notrunc status=none
    chmod +x script narrow
    local none='No such file or directory'
    while IFS='|' read -r status name said; do
        run "-$status" "$ZC" run "$name"
        [[ $output == "zc: $name: $said" ]]
    done <<END
127|train.py|$none (it is in this folder, but no command: zc run python3 train.py)
127|plain|$none (it is in this folder, but no command: zc run ./plain)
126|./train.py|Permission denied (it is not executable: zc run python3 ./train.py)
126|./plain|Permission denied (it is not executable: chmod +x ./plain)
126|./folder|Permission denied (it is a folder)
127|./script|$none ('/gone/python3 -u' in its first line is not there)
126|./narrow|Exec format error (it is for 32-bit x86, and this is $(uname -m))
END
}

@test "what nothing can be preloaded into is said of a program without a log" {
    echo 'int main(void) { return 0; }' >nothing.c
    gcc -o plain nothing.c
    gcc -static -o static nothing.c
    cp plain other
    chmod g+s other
    run -0 "$ZC" run ./static
    [[ $output == *'./static is statically linked, and the loader preloads nothing into such'* ]]
    run -0 "$ZC" run ./other
    [[ $output == *'./other is set-user-ID or set-group-ID, and '* ]]
    run -0 "$ZC" run ./plain
    [[ $output == *'is it a build without CUDA, or was the preload dropped?'* ]]
    [[ -n $(compgen -G '/dev/nvidia*') ]] && return
    SIM_DEVICES=0 run -0 "$ZC" run ./plain
    [[ $output == *'no GPU can be used: '*'(docker run --gpus all)' ]]
}

@test "a policy decides, and --set changes a copy of it" {
    cp "$OLDPWD/policy/presets/read-mostly-table.conf" p.conf
    run -0 "$ZC" run -p p.conf -o kept -- "$GATHER"
    [[ $output == *"64 MiB copied by the CPU"* ]]
    cp p.conf before.conf
    run -0 "$ZC" run -p p.conf --set tables.place=managed -s tables.size=1M.. -o kept -- "$GATHER"
    [[ $output == *" 0 B copied by the CPU"* && $output == *managed* ]]
    cmp p.conf before.conf
    grep -q '^place = managed$' kept/p.conf
    grep -q '^size = 1M..$' kept/p.conf
}

@test "the copy of --set takes the name of no other file" {
    mkdir other kept kept/p.conf.set
    printf '[rule a]\nplace = device\n' >other/p.conf
    printf '[rule mine]\nplace = vmm\n' | tee kept/p.conf >mine.conf
    for place in mapped managed managed; do
        run -0 "$ZC" run -q -p other/p.conf -s "a.place=$place" -o kept -- "$GATHER"
    done
    cmp kept/p.conf mine.conf
    grep -q '^place = mapped$' kept/p.conf.set2
    grep -q '^place = managed$' kept/p.conf.set3
    [[ ! -e kept/p.conf.set4 ]]
    [[ $(grep -o 'kept/p.conf.set[23]"' kept/*.jsonl | wc -l) -eq 3 ]]
}

@test "a section [defaults] that is missing is added by --set, behind the rules" {
    printf '[rule a]\nplace = device' >p.conf
    run -0 "$ZC" run -q -p p.conf -s defaults.log_level=events -o kept -- "$GATHER"
    [[ $(tail -n 3 kept/p.conf) == $'\n[defaults]\nlog_level = events' ]]
    grep -q '"type":"transfer"' kept/*.jsonl
}

@test "settings that fit no policy are refused before the program runs" {
    printf '[rule tables]\nplace = device\n' >p.conf
    run -125 "$ZC" run -p p.conf --set table.place=mapped -- touch ran
    [[ $output == *"has no rule 'table' (nearest: tables)" ]]
    run -125 "$ZC" run -p p.conf --set tables.plcae=mapped -- touch ran
    [[ $output == *"unknown key 'plcae' (nearest: place)" ]]
    run -125 "$ZC" run -p p.conf --set tables.place=maped -- touch ran
    [[ $output == *"(nearest: mapped)"* ]]
    run -125 "$ZC" run -p p.conf --set tables -- touch ran
    [[ $output == "zc: 'tables' is not of the form RULE.KEY=VALUE" ]]
    run -125 "$ZC" run --set tables.place=mapped -- touch ran
    [[ $output == *"there is no policy for --set to change"* ]]
    [[ ! -e ran ]]
}

@test "the level is the one asked for, else the environment's, the policy's, else allocs" {
    printf '[defaults]\nlog_level = events\n' >p.conf
    level() {
        rm -rf kept
        run -0 "$@" "$ZC" run -q -o kept "${options[@]}" -- "$GATHER"
        for type in transfer alloc meta; do
            if grep -q "\"type\":\"$type\"" kept/*.jsonl; then
                echo "$type"
                return
            fi
        done
    }
    options=() && [[ $(level env) == alloc ]]
    options=(-p p.conf) && [[ $(level env) == transfer ]]
    options=(-p p.conf) && [[ $(level env ZC_LOG_LEVEL=summary) == meta ]]
    options=(-p p.conf -l allocs) && [[ $(level env ZC_LOG_LEVEL=summary) == alloc ]]
    mv p.conf policy.conf
    options=() && [[ $(level env) == transfer ]]
}

@test "all processes of a job are reported together" {
    run -0 "$ZC" run -o kept -- sh -c '
        OMPI_COMM_WORLD_RANK=0 "$1" >/dev/null & OMPI_COMM_WORLD_RANK=1 "$1" >/dev/null; wait' \
        sh "$GATHER"
    [[ $output == *"2 processes"* && $output == *"asked in 6 copies"* ]]
    [[ $(ls kept) == *.r0.*$'\n'*.r1.* ]]
}

@test "an option of the program is the program's" {
    run -0 "$ZC" run -q sh -c 'echo "$@"' sh -p -o --compare
    [[ $output == "-p -o --compare" ]]
}

@test "zc init writes a policy of what the run showed, and leaves what is there alone" {
    PRESET=${ZC%/*/*}/policy/presets/everyday.conf
    run -0 --separate-stderr "$ZC" init "$GATHER"
    [[ $output == *'"checksum"'* && $stderr == "Written to policy.conf." ]]
    grep -q "^# Written by zc init on 20.* from one watched run of:" policy.conf
    grep -q '^#place = shared, device$' policy.conf
    run -0 "$ZC" check policy.conf
    [[ $output == *" 3 usable rules, 0 errors, 0 warnings" ]]
    # The preset is in force, as it does no harm, with the command line that needs no file.
    grep -qxF "# Without this file: zc run -p @everyday $GATHER" policy.conf
    diff <(grep -A99 '^\[defaults' policy.conf) <(grep -A99 '^\[defaults' "$PRESET")
    # With all rules in force the file is a policy, too.
    sed -E 's/^#([[a-z])/\1/' policy.conf >whole.conf
    run -0 "$ZC" check whole.conf
    [[ $output == *" 5 usable rules, 0 errors, "* ]]
    run -2 "$ZC" init touch ran
    [[ $output == "zc: policy.conf is there already: "* && ! -e ran ]]
    mv policy.conf elsewhere.conf
    ln -s elsewhere.conf policy.conf
    echo >elsewhere.conf
    run -0 "$ZC" init --force "$GATHER"
    [[ ! -L policy.conf && $(wc -l <policy.conf) -gt 10 && $(wc -l <elsewhere.conf) == 1 ]]
    mkfifo pipe
    for wrong in pipe . ''; do
        run -2 "$ZC" init --force -o "$wrong" touch ran
        [[ -p pipe && ! -e ran ]]
    done
    rm policy.conf
    run -3 "$ZC" init sh -c 'exit 3'
    run -1 "$ZC" init true
    # A policy that can't be written is not lost.
    mkdir gone
    run -1 --separate-stderr "$ZC" init -o gone/p.conf sh -c "'$GATHER' 8192 && rmdir gone"
    [[ $stderr == "zc: gone/p.conf: No such file or directory; the policy is above" ]]
    [[ $output == *'[rule host-buffers]'* ]]
    run -0 --separate-stderr "$ZC" init "$GATHER" 64
    [[ $stderr == "Nothing stands out that a rule would change, "* && ! -e policy.conf ]]
}

@test "a run under a policy says what it gained against the last one without" {
    export XDG_STATE_HOME=$PWD/state
    run -0 --separate-stderr "$ZC" run -p @everyday -- "$GATHER"
    [[ $stderr != *"instead of"* ]]
    run -0 --separate-stderr "$ZC" run -- "$GATHER"
    [[ $stderr != *"instead of"* && $(stat -c %a state/libzc/runs.json) == 600 ]]
    run -0 --separate-stderr "$ZC" run -p @everyday -- "$GATHER"
    [[ ${stderr_lines[-1]} =~ ^[0-9.]+\ m?s\ instead\ of\ [0-9.]+\ m?s\ in\ the\ last\ run ]]
    # Another command, folder or policy that took nothing has nothing to be compared with.
    run -0 --separate-stderr "$ZC" run -p @everyday -- "$GATHER" 128
    [[ $stderr != *"instead of"* ]]
    mkdir other
    cd other
    run -0 --separate-stderr "$ZC" run -p @everyday -- "$GATHER"
    [[ $stderr != *"instead of"* ]]
    cd ..
    printf '[rule none]\nsize = 1G..\nplace = mapped\n' >none.conf
    run -0 --separate-stderr "$ZC" run -p none.conf -- "$GATHER"
    [[ $stderr == *"none.conf took none of 3 requests; nearest: cuMemAlloc of 64 MiB (site "* ]]
    [[ $stderr != *"instead of"* ]]
    # A file that is no such file is left alone until it can be written anew.
    for content in '{' '[1]' '{"a": 1, "b": [1], "c": ["x", 2]}' 'null'; do
        echo "$content" >state/libzc/runs.json
        run -0 --separate-stderr "$ZC" run -p @everyday -- "$GATHER"
        [[ $stderr != *"instead of"* && $stderr != *Traceback* ]]
    done
    rm state/libzc/runs.json
    ln -s /dev/zero state/libzc/runs.json
    run -0 --separate-stderr timeout 60 "$ZC" run -p @everyday -- "$GATHER"
    [[ $stderr != *"instead of"* ]]
}

@test "a program that failed is said to have failed, and no policy is proposed for it" {
    run -3 --separate-stderr "$ZC" run -- sh -c '"$0" 128 >/dev/null; exit 3' "$GATHER"
    [[ ${stderr_lines[-1]} == "The program ended with status 3; see its own messages above." ]]
}

@test "a program that failed before it copied has no findings" {
    cat >fails.py <<'PYTHON'
import ctypes
cuda, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
raise SystemExit(cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(0)) + 2)
PYTHON
    run -3 --separate-stderr "$ZC" run -- python3 fails.py
    [[ $stderr != *Findings* && $stderr != *"stands out"* && $stderr != *"Try first"* ]]
    [[ ${stderr_lines[-1]} == "The program ended with status 3; see its own messages above." ]]
}

@test "a rule for a Python program's site says why its id is another one" {
    PYTHONPATH=${ZC%/scripts/zc}/tests \
        python3 -B -c 'from bench.starts import TRAIN; print(TRAIN)' >train.py
    run -0 --separate-stderr "$ZC" run -- python3 train.py
    [[ $stderr =~ "site "([0-9a-f]{8})" (<module>, train.py:12): 16 MiB copied 24 times" ]]
    site=${BASH_REMATCH[1]}
    [[ $stderr == *"[rule module-$site]"* ]]
    run -0 grep -E "^ +site = [0-9a-f]{8}  # the call path without Python's functions$" \
        <<<"$stderr"
    [[ $output != *"$site"* ]]
    run -0 --separate-stderr "$ZC" run -- "$GATHER"
    [[ $stderr == *" site = "* && $stderr != *"without Python"* ]]
}

@test "without a driver it is said that there is none" {
    LD_LIBRARY_PATH='' run -0 "$ZC" run -- true
    [[ $output != *"was the preload dropped"* ]] || skip "there is a driver here"
    [[ $output == *": there is no NVIDIA driver here (libcuda.so.1); \`zc demo\` needs none" ]]
}

@test "a preset is called by its name, and what it did without its rules is told" {
    run -0 --separate-stderr "$ZC" run -p @shared-in-out -- "$GATHER" 8192
    [[ ${stderr_lines[0]} == "@shared-in-out took none of 3 requests, only pageable_copy did 8 "* ]]
    [[ $stderr == *", policy @shared-in-out"$'\n'* ]]
    ZC_POLICY=${ZC%/scripts/zc}/policy/presets/shared-in-out.conf ZC_LOG=off LD_PRELOAD=$LIBZC \
        run -0 --separate-stderr "$GATHER" 8192
    [[ ${stderr_lines[0]} == *"conf took none of 3 requests, only pageable_copy did 8 MiB" ]]
}

@test "a preset without its @ is recognised" {
    run -125 "$ZC" run -p everyday -- true
    [[ $output == *"everyday: there is no such policy: did you mean '@everyday'?" ]]
    run -125 "$ZC" run --compare off,everyday -- true
    [[ $output == *"did you mean '@everyday'?" ]]
}

@test "call paths of a Python program are its own lines, without asking" {
    cat >scene.py <<'PYTHON'
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
def setup():
    device, context, block = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)
    cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 20))
    cuda.cuMemcpyHtoD_v2(block, bytes(1 << 20), ctypes.c_size_t(1 << 20))
setup()
PYTHON
    run -0 --separate-stderr "$ZC" run -- python3 scene.py
    [[ $stderr == *"1 process of scene.py (python3"* ]]
    if [[ $stderr != *"no Python here"* && $stderr != *"can't read the functions"* ]]; then
        [[ $stderr == *"setup, scene.py:8"* ]]
    fi
    ZC_PYTHON=0 run -0 --separate-stderr "$ZC" run -- python3 scene.py
    [[ $stderr != *"scene.py:8"* ]]
}

@test "of the ranks that each start zc run the first alone reports, and says how to have all" {
    export OMPI_COMM_WORLD_SIZE=4
    OMPI_COMM_WORLD_RANK=2 run -0 --separate-stderr "$ZC" run -- "$GATHER" 128
    [[ -z $stderr && $output == *'"verified":true'* ]]
    OMPI_COMM_WORLD_RANK=0 run -0 --separate-stderr "$ZC" run -- "$GATHER" 128
    [[ $stderr == *"asked in 3 copies"* && ${stderr_lines[-1]} == "This is rank 0 of 4, "* ]]
    # Whatever launcher the library knows, as it knows it: torchrun's RANK is another's without it.
    unset OMPI_COMM_WORLD_SIZE
    RANK=1 run -0 --separate-stderr "$ZC" run -- "$GATHER" 128
    [[ $stderr == *"asked in 3 copies"* ]]
    RANK=1 TORCHELASTIC_RUN_ID=a run -0 --separate-stderr "$ZC" run -- "$GATHER" 128
    [[ -z $stderr ]]
    run -1 "$OLDPWD/$ZC_BUILD/zc-policy" rank
    SLURM_PROCID=7 run -0 "$OLDPWD/$ZC_BUILD/zc-policy" rank
    [[ $output == 7 ]]
    run -2 "$OLDPWD/$ZC_BUILD/zc-policy" rank 1
    # One zc run before the launcher reports all of them.
    run -0 --separate-stderr "$ZC" run -- sh -c 'OMPI_COMM_WORLD_RANK=3 "$0" 128' "$GATHER"
    [[ $stderr == *"asked in 3 copies"* && $stderr != *"This is rank"* ]]
}

@test "of several runs in one folder the newest is reported, and with --all their sum" {
    for rows in 128 256; do run -0 "$ZC" run -q -o logs -- "$GATHER" "$rows"; done
    run -0 --separate-stderr "$ZC" report logs
    [[ $stderr == "zc: logs: 2 runs; this is the newest (--all sums them up)" ]]
    [[ $output == *"1 process of gather-shared"*" asked in 3 copies"* ]]
    run -0 --separate-stderr "$ZC" report --all logs
    [[ -z $stderr && $output == *"2 processes of gather-shared"*" asked in 6 copies"* ]]
    run -0 --separate-stderr "$ZC" report logs/*.jsonl
    [[ -z $stderr && $output == *"2 processes of gather-shared"* ]]
}

@test "a run that copies more than it is to has the status 1, and says what it copied" {
    run -0 --separate-stderr "$ZC" run -q --fail-if 'moved > 1M' --fail-if 'copies > 3' -- \
        "$GATHER" 128
    [[ -z $stderr ]]
    run -125 --separate-stderr "$ZC" run -q --fail-if 'blocked > 1h' -- "$GATHER" 128
    [[ $stderr == *"'h' is no unit of 'blocked'"* ]]
    run -1 --separate-stderr "$ZC" run -q --fail-if 'moved > 64K' --fail-if 'copies>=3' \
        --fail-if 'elided > 0' --fail-if 'blocked > 100 s' -- "$GATHER" 128
    [[ ${stderr_lines[0]} == "zc: --fail-if 'moved > 64K': 13"*" KiB" ]]
    [[ ${stderr_lines[1]} == "zc: --fail-if 'copies>=3': 3" && ${#stderr_lines[@]} == 2 ]]
    # The program's own status counts first, and a program without CUDA moves nothing.
    run -7 --separate-stderr "$ZC" run -q --fail-if 'moved >= 0' -- sh -c 'exit 7'
    run -0 --separate-stderr "$ZC" run -q --fail-if 'moved > 0' -- true
    run -1 --separate-stderr "$ZC" run -q --fail-if 'copies < 1' -- true
    for wrong in 'moved' 'speed > 1' 'moved > 1 s' 'moved > 1.2.3' '> 1'; do
        run -125 --separate-stderr "$ZC" run --fail-if "$wrong" -- touch ran
        [[ $stderr == *"--fail-if '$wrong'"* && ! -e ran ]]
    done
}

@test "a report of what was so far comes after a time, and the program goes on" {
    cat >goes_on.sh <<'SH'
"$1" 128 >first
until [ -s said ]; do sleep 0.1; done # A busy machine may have nothing to report by then.
wc -l <said
SH
    "$ZC" run --for 2 -- sh goes_on.sh "$GATHER" 2>said >printed
    (($(cat printed) >= 1))
    [[ $(tail -n +"$(($(cat printed) + 1))" said) == *"1 process of gather-shared on "* ]]
    run -125 "$ZC" run --for 1 --compare off -- true
    [[ $output == *"--for reports one run"* ]]
}

@test "a run that lacks device memory names the preset and the bytes, as the next does at first" {
    local requests=${KILLED%/*}/requests
    need_built "$requests"
    export SIM_MEMORY_MIB=12 XDG_STATE_HOME=$PWD/state
    local try="\`zc run -p @larger-than-gpu $requests 8 8\`"
    run -0 --separate-stderr "$ZC" run "$requests" 8 8
    [[ $output == $'0\n2' && $stderr == *"First try $try."* && $stderr != *"last run"* ]]
    [[ $stderr == *"the GPU had no memory for 1 request of up to 8 MiB, and lacked 4 MiB. "* ]]
    run -0 --separate-stderr "$ZC" run -p @everyday "$requests" 8 8
    [[ $stderr == "zc: the last run of this command lacked 4 MiB of device memory: $try"$'\n'* ]]
    run -0 --separate-stderr "$ZC" run -q "$requests" 8 8
    [[ -z $stderr ]]
    run -0 --separate-stderr "$ZC" run -p @larger-than-gpu "$requests" 8 8
    [[ $output == $'0\n0' && $stderr != *lacked* ]]
    # It fits.
    SIM_MEMORY_MIB=64 run -0 --separate-stderr "$ZC" run "$requests" 8 8
    [[ $stderr == *lacked* ]]
    run -0 --separate-stderr "$ZC" run "$requests" 4
    [[ $stderr != *lacked* && $stderr != *larger* ]]
    SIM_MEMORY_MIB=64 run -0 --separate-stderr "$ZC" run "$requests" 8 8
    [[ $stderr != *lacked* && $stderr != *larger* ]]
    # Of a program that ends for it the last line says so.
    run -3 --separate-stderr "$ZC" run sh -c "$requests 8 8; exit 3"
    [[ $(tail -n 1 <<<"$stderr") == *"with status 3; see its own messages above. The GPU had no"* ]]
    [[ $stderr == *"8 MiB, and lacked 4 MiB: \`zc run -p @larger-than-gpu sh -c "* ]]
}

@test "the report sums up what moved, and what of it came beside kernels" {
    local moved=${KILLED%/*}/moved_fetch
    need_built "$moved"
    printf '[rule all]\nplace = vmm\nspill = fetch\nchunk = 2M\nbudget = 16M\n' >fetch.conf
    run -0 --separate-stderr "$ZC" run -p fetch.conf "$moved" hidden
    local mib='[0-9]+ MiB' of
    of="$mib of blocks that move came to the device, $mib of it beside kernels, and $mib left it; "
    [[ $stderr =~ $of"launches waited " ]]
}
