#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc pack: logs as Parquet, and the queries of docs/report.md on them.

load common
load ../packages

setup() {
    need_python
    export PYTHONPATH=build/deps/python
}

@test "all that logs tell is in the tables, whole, cut and killed ones alike" {
    need_packages pyarrow duckdb
    mkdir "$BATS_TEST_TMPDIR/logs"
    cp $LOGS/pipeline.jsonl $LOGS/gather-mapped.jsonl $LOGS/corrupt.jsonl $LOGS/cut.jsonl \
        $LOGS/future.jsonl $LOGS/empty.jsonl "$BATS_TEST_TMPDIR/logs"
    printf '%s\n' '{"type":"meta","schema":1,"pid":3.5,"host":"\ud800","rank":1e30,"job":["x"]}' \
        '{"type":"transfer","bytes":99999999999999999999,"dir":7,"src_block":"x"}' \
        '{"type":"site","site":"00000001","frames":[1,"a+0x1"]}' >"$BATS_TEST_TMPDIR/logs/odd.jsonl"
    run -0 --separate-stderr zc pack -o "$BATS_TEST_TMPDIR/packed" "$BATS_TEST_TMPDIR/logs"
    [[ $stderr == *"cut.jsonl: its last line is cut"* && $stderr == *"empty.jsonl: "* ]]
    # The docs' queries run as they stand, and the sums are those of the logs.
    python3 - "$BATS_TEST_TMPDIR/packed" <<'PYTHON'
import glob, json, os, re, sys
import duckdb
folder = sys.argv[1]
text = open("docs/report.md", encoding="utf-8").read()
[sql] = re.findall(r"```sql \S+\n(.*?)```", text, re.S)
[spark] = re.findall(r'spark\.sql\("""(.*?)"""\)', text, re.S)
[code] = re.findall(r"```python \S+\n(import polars.*?)```", text, re.S)
os.chdir(os.path.dirname(folder))
logs = glob.glob("logs/*.jsonl")
lines = {log: [line for line in open(log, "rb")] for log in logs}
def count(kind, log): return sum(b'{"type":"%s"' % kind in line and line.endswith(b"}\n")
                                 for line in lines[log])
packed = lambda table, log: duckdb.sql(f"SELECT count(*) FROM 'packed/{table}/*.parquet' "
                                       f"WHERE log LIKE '%{log}'").fetchall()[0][0]
for log in ("logs/pipeline.jsonl", "logs/gather-mapped.jsonl", "logs/cut.jsonl"):
    assert packed("transfers", log) == count(b"transfer", log) > 0, log
    assert packed("blocks", log) == count(b"alloc", log) > 0, log
    assert packed("processes", log) == 1
flows = duckdb.sql("SELECT sum(asked_bytes), sum(moved_bytes), sum(asked_calls) FROM "
                   "'packed/flows/*.parquet' WHERE log LIKE '%pipeline%' "
                   "AND dir NOT IN ('Memset', 'Prefetch')").fetchall()[0]
summary = json.loads(lines["logs/pipeline.jsonl"][-1])
assert flows == tuple(summary[k] for k in ("asked_bytes", "moved_bytes", "asked_calls"))
odd = duckdb.sql("SELECT rank, host, job, pid, dir, bytes FROM 'packed/transfers/*.parquet' "
                 "WHERE log LIKE '%odd%'").fetchall()
assert odd == [(None, "?", None, None, None, None)], odd
assert duckdb.sql("SELECT state FROM 'packed/processes/*.parquet' WHERE log LIKE '%odd%'"
                  ).fetchall() == [("cut",)]
for table in ("processes", "flows"):
    duckdb.sql(f"CREATE VIEW {table} AS SELECT * FROM 'packed/{table}/*.parquet'")
assert duckdb.sql(sql).fetchall() and duckdb.sql(spark).fetchall()
try:
    exec(code)
except ImportError:
    pass  # It is large, and reads what DuckDB reads.
assert json.load(open("packed/pack.json"))["logs"] == len(logs)
PYTHON
    # Files that are there are not overwritten, and a pack that can't be made leaves nothing behind.
    run -1 --separate-stderr zc pack -o "$BATS_TEST_TMPDIR/packed" $LOGS/gather.jsonl
    [[ $stderr == *"/packed: it is there already, and nothing is added to it" ]]
    run -1 --separate-stderr zc pack -o "$BATS_TEST_TMPDIR/none" $LOGS/empty.jsonl
    [[ $stderr == *"there is nothing to pack: no log could be read" ]]
    # A limit stands for a full disk.
    run -1 --separate-stderr bash -c \
        "ulimit -f 1; scripts/zc pack -o '$BATS_TEST_TMPDIR/none' $LOGS/gather.jsonl"
    [[ $stderr == "zc: $BATS_TEST_TMPDIR/none: "*"File too large" && ${#stderr_lines[@]} == 1 ]]
    [[ -z $(ls -d "$BATS_TEST_TMPDIR"/none* 2>/dev/null) ]]
}

@test "zc pack without pyarrow says what to install" {
    run -1 --separate-stderr env PYTHONPATH= python3 -S scripts/zc pack \
        -o "$BATS_TEST_TMPDIR/packed" $LOGS/gather.jsonl
    [[ $stderr == "zc: zc pack needs the Python package pyarrow, "*": pip install pyarrow "* ]]
    [[ ! -e $BATS_TEST_TMPDIR/packed ]]
}
