#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The recipes of docs/launch.md, as they are written, by the launchers themselves where these are
# installed: each rank has a log that knows it.

load programs

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
    print(meta["rank_source"], meta["rank"], meta["local_rank"], meta["world"], whole)
EOF
    echo "$output"
    for rank in 0 1 2 3; do
        grep -qx "$3 $rank $rank 4 True" <<<"$output"
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

@test "the Kubernetes manifest has the form that the API wants" {
    python3 -c 'import kubernetes_validate' 2>/dev/null || skip "no kubernetes-validate"
    run -0 python3 tests/tools/examples.py docs/launch.md "$BATS_TEST_TMPDIR/run" none
    run -0 python3 - "$BATS_TEST_TMPDIR/run/zc-job.yaml" <<'EOF'
import sys, kubernetes_validate, yaml
documents = list(yaml.safe_load_all(open(sys.argv[1])))
for document in documents:
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
assert len(documents) == 2
EOF
}
