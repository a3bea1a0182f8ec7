/* SPDX-License-Identifier: MIT */
/* Which trampoline stands for which of the driver's functions. */
#include "driver/unknown.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "base/lock.h"

#define SLOTS ZC_UNKNOWN_SLOTS

/* The trampolines. */
extern const char zc_unknown_entries[SLOTS][16];

/* Names may be the program's, and not live as long. */
struct slot {
    void *real;
    char name[56];
};

static ZC_LOCK(unknown_lock, ZC_RANK_UNKNOWN);
static struct {
    unsigned count;          /* Atomic. */
    struct slot slot[SLOTS]; /* Constant once they are counted. */
} unknown;

/* Under the lock; SLOTS where none is left. */
static unsigned slot_of(const char *name, void *real)
{
    unsigned i = 0;
    while (i < unknown.count && unknown.slot[i].real != real)
        i++;
    if (i == unknown.count && i < SLOTS) {
        unknown.slot[i].real = real;
        strncpy(unknown.slot[i].name, name, sizeof(unknown.slot[i].name) - 1);
        __atomic_store_n(&unknown.count, i + 1, __ATOMIC_RELEASE);
    }
    return i;
}

/* False for data, and for other libraries whose names begin in the same way.  A function that the
 * driver exports has that name, which tells the twins apart. */
static bool is_drivers_function(void *address, const char **name)
{
    Dl_info at, driver;
    const ElfW(Sym) *symbol = NULL;
    if (!dladdr1(address, &at, (void **)&symbol, RTLD_DL_SYMENT) ||
        !dladdr((void *)zc_real.cuInit, &driver) || at.dli_fbase != driver.dli_fbase)
        return false;
    if (at.dli_saddr != address)
        return true;
    *name = at.dli_sname;
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC ||
           ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC;
}

/* Another thread may be finding the driver, and know less than all of its functions yet. */
void *zc_real_answer(const char *name, void *real)
{
    bool found = zc_real_find();
    void *known = zc_wrapper_of(real);
    if (known || !found || !is_drivers_function(real, &name) || !zc_lock_take(&unknown_lock))
        return known ? known : real;
    unsigned slot = slot_of(name, real);
    zc_lock_drop(&unknown_lock);
    return slot < SLOTS ? (void *)zc_unknown_entries[slot] : NULL;
}

const char *zc_fn_name(enum zc_fn fn)
{
    unsigned slot = fn - ZC_FN_COUNT;
    if (fn < ZC_FN_COUNT)
        return zc_real_name(fn);
    return slot < __atomic_load_n(&unknown.count, __ATOMIC_ACQUIRE) ? unknown.slot[slot].name : "?";
}

void *zc_unknown_real(unsigned slot)
{
    return unknown.slot[slot].real;
}
