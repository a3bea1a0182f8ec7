/* SPDX-License-Identifier: MIT */
/* Tells heap, mappings, stacks and variables apart, without asking the kernel. */
#include "host/source.h"

#include <pthread.h>
#include <unistd.h>

#include "base/lock.h"
#include "host/hostheap.h"
#include "host/mapping.h"
#include "ledger/object.h"

/* Where the main thread's stack begins; of glibc's loader (GLIBC_2.2.5). */
extern void *__libc_stack_end;

/* A thread that runs on other memory, as coroutines do, is this far away from its own stack. */
#define STACK_MOST ((uintptr_t)64 << 20)

/* True for the calling thread's stack.  glibc puts a thread's descriptor above its stack. */
static bool on_stack(uintptr_t address)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    bool main_thread = zc_thread_id() == (uint32_t)getpid();
    uintptr_t top = main_thread ? (uintptr_t)__libc_stack_end : (uintptr_t)pthread_self();
    return top - here < STACK_MOST && address - here < top - here;
}

static enum zc_source source_of(uint64_t address, uint64_t bytes, bool *again)
{
    struct zc_object object;
    *again = false;
    if (!address)
        return ZC_SOURCE_NONE;
    if (zc_hostheap_owns(address))
        return ZC_SOURCE_HEAP;
    if (on_stack(address))
        return ZC_SOURCE_STACK;
    enum zc_source mapped = zc_mapping_use(address, bytes, again);
    if (mapped != ZC_SOURCE_NONE)
        return mapped;
    return zc_object_find(address, &object) ? ZC_SOURCE_STATIC : ZC_SOURCE_HEAP;
}

void zc_source_tell(struct zc_transfer *t, uint64_t dst, uint64_t src)
{
    if (zc_flow_dst(t->asked) == ZC_KIND_PAGEABLE)
        t->dst_source = (uint8_t)source_of(dst, t->bytes, &t->dst_again);
    if (zc_flow_src(t->asked) == ZC_KIND_PAGEABLE)
        t->src_source = (uint8_t)source_of(src, t->bytes, &t->src_again);
}
