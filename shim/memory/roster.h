/* SPDX-License-Identifier: MIT */
/*
 * The roster: a file that the processes of a user on a host have mapped, with a slot for each that
 * says what it holds.  A slot belongs to its process until that is gone, however it ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memory/cgroup.h"

#define ZC_ROSTER_MAGIC "zc-roster"
#define ZC_ROSTER_SCHEMA 1u
#define ZC_ROSTER_SLOTS 256u
#define ZC_ROSTER_GPUS 16u /* GPUs of one process. */

struct zc_roster_gpu {
    uint64_t id[2]; /* UUID: ordinals differ between processes. */
    uint64_t managed, device;
};

/* Written by its own process alone, except when that is gone.  Counters are atomic. */
struct zc_roster_slot {
    uint32_t used; /* 0: free. */
    uint32_t pid;
    uint64_t pid_space; /* Inode number of its PID namespace; 0: unknown. */
    uint64_t started;   /* Field 22 of /proc/PID/stat. */
    uint64_t serial;    /* Which of the processes that ever had a slot this is. */
    uint64_t pinned;
    uint64_t group[ZC_CGROUPS]; /* Ids of its control groups; 0: none. */
    uint32_t gpus, unused;
    struct zc_roster_gpu gpu[ZC_ROSTER_GPUS];
} __attribute__((aligned(64)));

struct zc_roster_head {
    char magic[12]; /* ZC_ROSTER_MAGIC, terminated. */
    uint32_t schema, slots;
    uint32_t high;   /* Slots from here on were never used. */
    uint64_t serial; /* The one given last. */
    uint64_t holder; /* Of the lock: its serial and slot; 0: nobody. */
};

struct zc_roster {
    struct zc_roster_head head;
    struct zc_roster_slot slot[ZC_ROSTER_SLOTS];
};

/*
 * Opens the file, `path` or that of the user in /dev/shm, and takes a slot, which is empty but for
 * the process's identity.  NULL, with a string constant in *why, if that is not possible.  No
 * descriptor stays open, and a child of fork(2) does not have the mapping.  One thread at a time,
 * as for all calls below.
 */
struct zc_roster_slot *zc_roster_join(const char *path, const char **why);

/* The slots: those below the returned number may be used. */
const struct zc_roster_slot *zc_roster_slots(unsigned *n);

/* Locks the roster against other processes.  A holder that is gone loses it; if it stops with the
 * lock, the call returns false after a second or so. */
bool zc_roster_lock(void);
void zc_roster_unlock(void);

/* Frees the slots of processes that are gone; true if there were any.  Under the lock. */
bool zc_roster_reclaim(void);

/* True if the file's name leads to another file by now, or to none. */
bool zc_roster_replaced(void);
