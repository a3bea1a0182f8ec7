/* SPDX-License-Identifier: MIT */
/*
 * Limits that the processes of a user on a host share.  Each process compares what all of them hold
 * with the limit of its own policy.
 */
#pragma once

#include <stdint.h>

#include "memory/cgroup.h"
#include "policy/policy.h"

enum zc_node_limit {
    ZC_NODE_PINNED,  /* Of the host, and of each control group that limits the process. */
    ZC_NODE_MANAGED, /* These two are of each GPU. */
    ZC_NODE_DEVICE,
};

enum zc_node_answer {
    ZC_NODE_COUNTED, /* It fits beside the others. */
    ZC_NODE_OWN,     /* This process shares nothing: its own count decides. */
    ZC_NODE_REFUSED,
};

/* What max_pinned means. */
struct zc_node_terms {
    struct zc_limit pinned;
    struct zc_available at_start;                    /* When the process began to place. */
    uint64_t (*available)(struct zc_available *out); /* zc_available(). */
};

/* From here on limits are shared: not before libzc has started, because a process that does not use
 * CUDA makes no file. */
void zc_node_start(const struct zc_node_terms *terms);

/*
 * Counts `bytes` of this process if those of all processes are then within `most`; for PINNED the
 * terms say that, and neither `device` nor `most` is used.  Once COUNTED was answered, OWN is not
 * any more.  In a signal handler that interrupted this, the answer is REFUSED.
 */
enum zc_node_answer zc_node_take(enum zc_node_limit limit, int device, uint64_t bytes,
                                 uint64_t most, const char **why);

/* Bytes that the processes that share a limit leave; UINT64_MAX where nothing is shared.  The
 * arguments are those of zc_node_take(). */
uint64_t zc_node_left(enum zc_node_limit limit, int device, uint64_t most);

/* Counts or uncounts bytes, whatever the limit is.  Without locks; does nothing where nothing is
 * shared. */
void zc_node_note(enum zc_node_limit limit, int device, int64_t bytes);

/* Processes that hold pinned memory, this one included, as last seen. */
unsigned zc_node_processes(void);
