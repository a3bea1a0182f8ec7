#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# ZC_PYTHON: the Python functions, files and lines of call paths, by Debian's interpreter.

load common

PYTHON=/usr/bin/python3
SCENE=$PWD/tests/preload/programs/python_frames.py

setup_file() {
    [[ -e $LIBZC && -e $SIM/libcuda.so.1 ]] || return 0
    "$PYTHON" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || return 0
    sim_env vecadd
    (
        cd "$BATS_FILE_TMPDIR" || exit 1
        run_scene on ZC_PYTHON=1
        run_scene off
    )
}

setup() {
    need_built "$LIBZC" "$SIM/libcuda.so.1"
    [[ -d $BATS_FILE_TMPDIR/on ]] || skip "no Python from 3.11 to 3.14 in /usr/bin"
    sim_env vecadd
    cd "$BATS_FILE_TMPDIR" || return 1
}

# Runs the scene with its logs in a folder: run_scene FOLDER [VARIABLE=VALUE...]
run_scene() {
    mkdir "$1"
    env -u ZC_POLICY ZC_LOG="$1/%p.jsonl" ZC_LOG_LEVEL=events ZC_SUMMARY=0 LD_PRELOAD="$LIBZC" \
        "${@:2}" "$PYTHON" "$SCENE"
}

# Prints the size of each copy and the functions that made it, outermost first, without the
# innermost one that all share: paths FOLDER
paths() {
    "$PYTHON" - "$1"/*.jsonl <<'END'
import json, sys
for name in sys.argv[1:]:
    sites = {}
    for record in map(json.loads, open(name, encoding="utf-8")):
        if record["type"] == "site":
            sites[record["site"]] = record.get("python", [])
        elif record["type"] == "transfer":
            path = sites[record["call_site"]]
            if path[:1] and path[0]["file"].endswith("/python_frames.py"):
                assert path[0]["function"] == "copy" and len(path) <= 16, path
            print(record["bytes"], *(f"{at['function']}:{at['line']}" for at in path[:0:-1]
                                     if not at["file"].endswith("/threading.py")))
END
}

# The scene's lines that hold a text: at TEXT [which]
at() {
    grep -nF -- "$1" "$SCENE" | cut -d : -f 1 | sed -n "${2:-1}p"
}

# A value of each record of a type: values TYPE KEY FILE...
values() {
    "$PYTHON" -c 'import json, sys
for name in sys.argv[3:]:
    for record in map(json.loads, open(name)):
        if record["type"] == sys.argv[1] and sys.argv[2] in record:
            print(record[sys.argv[2]])' "$@"
}

@test "a copy has the functions and lines that made it, whoever holds the GIL" {
    main="<module>:$(at 'main()' 2) main"
    deep=$(printf ' deep:%s' $(for _ in {1..15}; do at 'deep(depth - 1)'; done))
    diff <(paths on | sort -n) <(sort -n <<END
100 $main:$(at 'one_line(100') one_line:$(at 'copy(RELEASES, first)')
100 $main:$(at 'one_line(100') one_line:$(at 'copy(RELEASES, first)')
100 $main:$(at 'one_line(100') one_line:$(at 'copy(RELEASES, first)')
101 $main:$(at 'one_line(100') one_line:$(at 'copy(RELEASES, second)')
200 $main:$(at 'KEPT.load') Loader.load:$(at 'copy(HOLDS, size)')
300 $main:$(at 'list(batches())') batches:$(at 'copy(RELEASES, size)')
301 $main:$(at 'list(batches())') batches:$(at 'copy(RELEASES, size)')
400$deep
500 in_thread:$(at 'copy(RELEASES, size)' 2)
501 in_thread:$(at 'copy(RELEASES, size)' 2)
600 $main:$(at 'größe()' 2) größe:$(at 'copy(RELEASES, 600)')
601 $main:$(at 'exec(compile') <module>:1
602 $main:$(at 'lambda: copy') main.<locals>.<lambda>:$(at 'lambda: copy')
700 <module>:$(at 'copy(RELEASES, 700)')
800
801
END
    )
}

@test "files are whole paths, and the log names the interpreter's version" {
    run -0 grep -ho '"file":"[^"]*"' on/*.jsonl
    [[ $output == *"\"file\":\"$SCENE\""* && $output == *'"file":"<made>"'* ]]
    [ "$(values meta python on/*.jsonl | sort -u)" = "$("$PYTHON" -V | cut -d ' ' -f 2)" ]
    # Readers put the functions in place of the interpreter's frames.
    [ "$(values site python on/*.jsonl | wc -l)" = \
        "$(values site before_python on/*.jsonl | wc -l)" ]
}

@test "where nobody asks, sites are those without functions, which rules match in any case" {
    run -1 grep -hE '"(python|native)":' off/*.jsonl
    # An allocation's path, and the rule for it.
    site=$(values alloc site off/*.jsonl | sort -u)
    [ "$(values site native on/*.jsonl | grep -c "$site")" -ge 1 ]
    [ "$(values alloc site on/*.jsonl | grep -c "$site")" = 0 ]
    printf '[rule it]\nsite = %s\nplace = mapped\n' "$site" >policy.conf
    run_scene ruled ZC_PYTHON=1 ZC_POLICY=policy.conf
    [ "$(values alloc place ruled/*.jsonl | sort -u)" = mapped ]
}

@test "host blocks from before the first CUDA call have functions as well" {
    printf '[rule host]\napi = malloc, calloc\nplace = pinned\n' >host.conf
    run_scene host ZC_PYTHON=1 ZC_POLICY=host.conf
    run -0 "$PYTHON" - host/*.jsonl <<'END'
import json, sys
sites, lines = {}, []
for record in map(json.loads, open(sys.argv[1])):
    if record["type"] == "site":
        sites[record["site"]] = record.get("python", [])
    elif record["type"] == "alloc" and record["place"] == "pinned":
        lines += [at["line"] for at in sites[record["site"]] if at["file"].endswith("_frames.py")]
print(*lines)
END
    [[ " $output " == *" $(at 'HOST = ') "* ]]
}

@test "the report has callers, call paths and lines of Python, and a rule that libzc matches" {
    run -0 "$OLDPWD/scripts/zc" report --by copy on
    [[ $output =~ "copy, python_frames.py:"[0-9]+\ +HtoD\ +2\ +1001\ B ]]
    hint="functions and lines of Python are in logs of runs with ZC_PYTHON=1"
    [[ $output != *"$hint"* ]]
    run -0 "$OLDPWD/scripts/zc" report off
    [[ $output == *"$hint"* ]]
    run -0 "$OLDPWD/scripts/zc" report --json --top 30 on
    "$PYTHON" - "$SCENE" "$(at 'BLOCK, HOST' 1)" "$(at 'copy(HOLDS, size)')" 3<<<"$output" <<'END'
import json, sys
data = json.load(open(3))
paths = [row["frames"] for row in data["callers"]]
names = [[(frame["function"], frame["line"]) for frame in path if ":" in frame["frame"]]
         for path in paths]
assert ("Loader.load", f"python_frames.py:{sys.argv[3]}") in sum(names, []), names
assert all(name[0] == ("copy", f"python_frames.py:{sys.argv[2]}") for name in names if name), names
# The interpreter's own frames give way to them.
assert not any("python3" in frame["frame"] and "+0x" in frame["frame"] for path in paths
               for frame in path if any(":" in one["frame"] for one in path)), paths
assert f"{sys.argv[1]}:{sys.argv[2]} in copy" in str(paths)
rule, = {finding["rule"] for finding in data["findings"] if finding["kind"] == "repeated"}
open("proposed.conf", "w").write(rule)
END
    run_scene proposed ZC_POLICY=proposed.conf
    [ "$(values alloc place proposed/*.jsonl | sort -u)" = mapped ]
}

@test "a daemon's copies while the interpreter ends harm nothing" {
    export ZC_LOG=daemon.jsonl ZC_LOG_LEVEL=events ZC_SUMMARY=0 ZC_PYTHON=1
    for _ in 1 2 3; do
        rm -f daemon.*
        run -0 env LD_PRELOAD="$LIBZC" timeout 60 "$PYTHON" "$SCENE" daemon
        [ -z "$output" ]
    done
    grep -q '"bytes":802,' daemon.jsonl
    grep -q '"function":"forever"' daemon.jsonl
}

@test "a Python that exports no functions is told of it, and another program is not" {
    echo 'int cuInit(unsigned); int main(void) { return cuInit(0); }' >plain.c
    "${CC:-gcc}" -o python3.99 plain.c "$SIM/libcuda.so.1"
    ZC_PYTHON=1 ZC_LOG=plain.jsonl LD_PRELOAD=$LIBZC run -0 ./python3.99
    [ "$output" = "libzc: no Python here exports its functions: call paths have none" ]
    [ "$(values meta python plain.jsonl)" = None ]
    mv python3.99 plain
    ZC_PYTHON=1 ZC_LOG=off LD_PRELOAD=$LIBZC run -0 ./plain
    [ -z "$output" ]
    ZC_PYTHON=0 ZC_LOG=off LD_PRELOAD=$LIBZC run -0 ./plain
    [ -z "$output" ]
}

@test "the summary names the script that Python runs, and the interpreter alone where it has none" {
    local exe
    exe=$(basename "$(realpath "$PYTHON")")
    ZC_SUMMARY=1 LD_PRELOAD=$LIBZC run -0 "$PYTHON" "$SCENE"
    [[ $output == *"libzc: python_frames.py ($exe) (pid "* ]]
    ZC_SUMMARY=1 LD_PRELOAD=$LIBZC run -0 "$PYTHON" -c "$(<"$SCENE")"
    [[ $output == *"libzc: $exe (pid "* ]]
}
