#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The recipes of docs/launch.md, as they are written, by the launchers themselves where these are
# installed: each rank has a log that knows it.

load programs
load ../packages

setup() {
    need_gpu_programs
    export ZC_LOG_LEVEL
}

teardown() {
    local pid
    for pid in "${daemons[@]}"; do
        kill "$pid" 2>/dev/null
        wait "$pid" || true
    done
}

# Runs the recipe of a launcher, and checks the logs of four ranks: recipe LAUNCHER COMMAND SOURCE
recipe() {
    command -v "$2" >/dev/null || skip "no $2"
    run -0 timeout 100 python3 tests/tools/examples.py docs/launch.md "$BATS_TEST_TMPDIR/run" "$1"
    run -0 python3 - "$BATS_TEST_TMPDIR"/run/zc.*.jsonl <<'EOF'
import json, sys
for path in sys.argv[1:]:
    lines = [json.loads(line) for line in open(path)]
    meta = lines[0]
    whole = lines[-1]["type"] == "summary" and f"r{meta['rank']}." in path
    print(meta["rank_source"], meta["rank"], meta["local_rank"], meta["world"],
          meta["local_world"], whole)
EOF
    echo "$output"
    for rank in 0 1 2 3; do
        grep -qx "$3 $rank $rank 4 4 True" <<<"$output"
    done
    [[ ${#lines[@]} == 4 ]]
}

@test "mpirun of Open MPI" {
    # A host has as many places for ranks as processors, and root is warned off.
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1
    export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    recipe openmpi mpirun.openmpi openmpi
}

@test "mpirun of MPICH" {
    recipe mpich mpirun.mpich mpich
}

@test "torchrun" {
    recipe torchrun torchrun torchrun
}

# Starts a Slurm of one host, without a service manager.
start_slurm() {
    local at=$BATS_TEST_TMPDIR/slurm host user port
    host=$(hostname -s) user=$(id -un)
    mkdir -p "$at/state" "$at/spool" "$at/run"
    # Munge wants nobody else to be able to write where its socket is.
    chmod 755 "$at" "$at/run"
    (umask 077 && head -c 128 /dev/urandom >"$at/key")
    port=$(python3 -c 'import socket
sockets = [socket.socket() for _ in range(2)]
for s in sockets: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))')
    cat >"$at/slurm.conf" <<EOF
ClusterName=zc
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$at/run/munge.socket
CredType=cred/munge
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool
SlurmctldPidFile=$at/run/slurmctld.pid
SlurmdPidFile=$at/run/slurmd.pid
SlurmctldPort=${port% *}
SlurmdPort=${port#* }
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=8
PartitionName=one Nodes=ALL Default=YES
EOF
    export SLURM_CONF=$at/slurm.conf
    munged --foreground --force --key-file="$at/key" --socket="$at/run/munge.socket" \
        --pid-file="$at/run/munged.pid" --log-file="$at/munged.log" --seed-file="$at/seed" \
        >"$at/munged.out" 2>&1 3>&- &
    daemons+=($!)
    wait_for test -S "$at/run/munge.socket"
    slurmctld -D >"$at/slurmctld.out" 2>&1 3>&- &
    daemons+=($!)
    slurmd -D >"$at/slurmd.out" 2>&1 3>&- &
    daemons+=($!)
    wait_for is_idle
}

is_idle() { [[ $(sinfo -h -o %T 2>/dev/null) == idle ]]; }

# Waits until a command succeeds.
wait_for() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        if "$@"; then return; fi
        sleep 0.1
    done
    tail -n 3 "$BATS_TEST_TMPDIR"/slurm/*.out
    return 1
}

@test "srun of a Slurm with one host" {
    PATH=$PATH:/usr/sbin
    for command in munged slurmctld slurmd; do
        command -v $command >/dev/null || skip "no $command"
    done
    start_slurm
    recipe slurm srun slurm
}

@test "Ray, by the variables of its runtime environment" {
    export RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=disabled
    need_packages ray
    run -0 python3 tests/tools/examples.py docs/launch.md "$BATS_TEST_TMPDIR/run" none
    cd "$BATS_TEST_TMPDIR/run"
    echo 'ray.get([work.remote(folder) for folder in ("one", "two")])' >>ray_app.py
    mkdir one two
    cp train.py one
    cp train.py two
    # The names of its sockets would be too long in the test's own folder.
    RAY_TMPDIR=$(mktemp -d)
    export RAY_TMPDIR
    PATH=$PWD/bin:$PATH timeout 100 python3 ray_app.py >out 2>&1 3>&- || { cat out; false; }
    rm -rf "$RAY_TMPDIR"
    for folder in one two; do
        run -0 sed -n '1p;$p' $folder/zc.*.jsonl
        echo "$output"
        [[ ${#lines[@]} == 2 && ${lines[0]} == *'"job":"'*'"argv":["python3","train.py"]'* ]]
        [[ ${lines[1]} == *'"place":"device","blocks":1,'* ]]
    done
}

# Runs a command in a container with this machine's files, by podman, which here may raise no limit
# and finds control groups of both versions.
podman_here() {
    cat >"$BATS_TEST_TMPDIR/containers.conf" <<'EOF'
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "none"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
EOF
    cat >"$BATS_TEST_TMPDIR/podman.here" <<EOF
#!/bin/bash
export CONTAINERS_CONF=$BATS_TEST_TMPDIR/containers.conf
arguments=()
for argument in "\${@:4}"; do
    [[ \$argument != IMAGE ]] || argument="--rootfs /:O"
    arguments+=(\$argument)
done
at=$BATS_TEST_TMPDIR/podman
exec $(command -v podman) --root "\$at" --runroot "\$at.run" run --rm -w "\$PWD" \\
    -e LD_LIBRARY_PATH -e SIM_KERNELS "\${arguments[@]}"
EOF
    chmod +x "$BATS_TEST_TMPDIR/podman.here"
}

@test "a container of podman" {
    command -v podman >/dev/null || skip "no podman"
    podman_here
    PATH=$BATS_TEST_TMPDIR:$PATH
    # As within a container that may start none.
    podman.here run --device nvidia.com/gpu=all IMAGE true || skip "podman starts nothing here"
    run -0 timeout 100 python3 tests/tools/examples.py docs/launch.md "$BATS_TEST_TMPDIR/run" \
        podman
    cat "$BATS_TEST_TMPDIR"/run/logs/zc.*.1.jsonl
    run -0 sed -n '1p;$p' "$BATS_TEST_TMPDIR"/run/logs/zc.*.1.jsonl
    [[ ${lines[0]} == *'"pid":1,'*'"exe":"gather-shared"'* ]]
    [[ ${lines[1]} == '{"type":"summary",'*'"asked_calls":3,'* ]]
}

@test "the Kubernetes manifest has the form that the API wants" {
    need_packages kubernetes_validate
    run -0 python3 tests/tools/examples.py docs/launch.md "$BATS_TEST_TMPDIR/run" none
    run -0 python3 - "$BATS_TEST_TMPDIR/run/zc-job.yaml" <<'EOF'
import sys, kubernetes_validate, yaml
documents = list(yaml.safe_load_all(open(sys.argv[1])))
for document in documents:
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
assert len(documents) == 2
EOF
}
