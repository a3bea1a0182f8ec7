/* SPDX-License-Identifier: MIT */
/* A request on its way: who asks for what, which rule has it, and how it enters the ledger. */
#ifndef ZC_HOOK_REQUEST_H
#define ZC_HOOK_REQUEST_H

#include "driver/call.h"
#include "ledger/block.h"
#include "memory/place.h"
#include "policy/policy.h"

struct zc_ask {
    const struct zc_entry *entry;
    enum zc_api api;
    size_t size;                /* Bytes asked for. */
    enum zc_kind asked;         /* Kind that the program asked for. */
    uint32_t flags;             /* ZC_BLOCK_STREAM, ZC_BLOCK_FOREIGN, ZC_BLOCK_SYNC_MEMOPS. */
    enum zc_place_id home;      /* Place of the request as the program made it. */
    enum zc_stream_kind stream; /* For rules; NONE for calls without one. */
    CUmemoryPool pool;          /* Of stream-ordered requests, else NULL. */
    struct zc_handle *handle;   /* Of a mapping whose handle a rule decided on, else NULL. */
    uint32_t site;              /* Filled by zc_ask_begin(). */
    CUcontext context;          /* Current context, NULL if none; filled by zc_ask_begin(). */
    int device;                 /* Its device, -1 if none; filled by zc_ask_begin(). */
};

/* Fills site, context and device.  False when libzc is off: then the call is only forwarded. */
bool zc_ask_begin(struct zc_ask *ask);

/* The rule that has the request, or NULL. */
const struct zc_rule *zc_ask_rule(const struct zc_ask *ask);

/*
 * Enters a block into the ledger and the log.  `backing` is NULL for a block that is where the
 * program asked for it.  `why` says which places of the rule were passed over, NULL or "" for none.
 * Returns false when there is no memory for it; a block left where asked is then simply not
 * tracked.
 */
bool zc_ask_track(const struct zc_ask *ask, CUdeviceptr address, struct zc_backing *backing,
                  const struct zc_rule *rule, const char *why);

/* Enters memory that was not allocated here: imported, mapped, a module's global.  With 0 bytes the
 * driver is asked for the range. */
void zc_track_foreign(const struct zc_entry *entry, enum zc_api api, CUdeviceptr address,
                      size_t bytes, enum zc_kind kind);

/* Takes foreign memory out of the ledger. */
void zc_untrack_foreign(CUdeviceptr address);

/* The block that begins at an address, quarantined ones left out, or NULL. */
struct zc_block *zc_block_at(CUdeviceptr address);

/* The block that an address lies in, quarantined ones included, if libzc made its memory, or NULL.
 * A block of the host heap that libc was asked for is none. */
struct zc_block *zc_placed_at(CUdeviceptr address);

/* True for an address beside such a block, where the driver may know memory of libzc's making: to
 * the program it is nobody's. */
bool zc_beside(CUdeviceptr address);

/* As zc_placed_at(), of what the program asked for as device memory, and as pinned host memory. */
struct zc_block *zc_converted_at(CUdeviceptr address);
struct zc_block *zc_hosted_at(CUdeviceptr address);

/*
 * Takes a block that is the driver's to free out of the ledger around that call: out before the
 * call, so that its address can be handed out again in between, and back if the driver refused.
 */
struct zc_untracked {
    struct zc_block copy; /* The block as it was. */
    bool taken;           /* It was in the ledger. */
};
void zc_untrack(CUdeviceptr address, struct zc_untracked *out);
void zc_untrack_block(struct zc_block *block, struct zc_untracked *out); /* NULL takes nothing. */
void zc_retrack(const struct zc_untracked *block);

/* Forgets the current device that threads remember; for calls that destroy contexts. */
void zc_ask_forget_contexts(void);

#endif
