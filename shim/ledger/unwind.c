/* SPDX-License-Identifier: MIT */
/* Walks the calling thread's stack by call-frame information. */
#include "ledger/unwind.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/errno.h"
#include "ledger/cfi.h"

#define PAGE 4096ull                  /* The smallest page of both architectures. */
#define FRAME_MAX ((uint64_t)1 << 26) /* Larger frames end the walk. */
#define FRAMES_MAX 64                 /* Most frames of a walk, with those inside libzc. */

/* rt_sigprocmask(2) reads the new mask before it checks `how`, so an invalid `how` makes it a test:
 * EFAULT for an unreadable address, EINVAL otherwise.  No system call filter can forbid it, because
 * glibc needs it. */
bool zc_readable(uint64_t address)
{
    ZC_KEEPS_ERRNO;
    return address && (syscall(SYS_rt_sigprocmask, -1, address, NULL, 8) != -1 || errno == EINVAL);
}

/* Reads a word of the stack; false if it is not readable. */
ZC_READS_FRAMES static bool read_word(struct zc_walk *walk, uint64_t address, uint64_t *value_out)
{
    if (address % sizeof(uint64_t) || address < PAGE)
        return false;
    if (address / PAGE != walk->page && !zc_readable(address))
        return false;
    walk->page = address / PAGE;
    *value_out = *(const volatile uint64_t *)(uintptr_t)address;
    return true;
}

static void store_word(struct zc_walk *walk, uint64_t address, uint64_t value)
{
    if (address < walk->from)
        return;
    if (walk->words < ZC_WALK_WORDS) {
        walk->at[walk->words] = address;
        walk->value[walk->words] = value;
    }
    walk->words++;
}

/* The frame pointer register of the current frame.  The word that it was saved in is stored only
 * here: most functions use the register for other things, and its values do not make a path. */
static uint64_t frame_pointer(struct zc_walk *walk)
{
    if (walk->fp_at)
        store_word(walk, walk->fp_at, walk->fp);
    walk->fp_at = 0;
    return walk->fp;
}

static bool address_of(struct zc_walk *walk, const struct zc_cfi_place *place, uint64_t cfa,
                       uint64_t *out)
{
    if (place->from == ZC_CFI_SAME || place->from == ZC_CFI_LOST)
        return false;
    uint64_t base = place->from == ZC_CFI_CFA  ? cfa
                    : place->from == ZC_CFI_SP ? walk->sp
                                               : frame_pointer(walk);
    uint64_t at = *out = base + (uint64_t)place->offset;
    if (!place->deref)
        return true;
    if (!read_word(walk, at, out))
        return false;
    store_word(walk, at, *out);
    *out += (uint64_t)place->more;
    return true;
}

/* Removes AArch64's pointer authentication code; CPUs without it ignore the instruction. */
static uint64_t strip_signature(uint64_t pc, bool is_signed)
{
#if defined(__aarch64__)
    if (is_signed) {
        register uint64_t x30 __asm__("x30") = pc;

        __asm__("hint 7" : "+r"(x30)); /* xpaclri */
        return x30;
    }
#endif
    (void)is_signed;
    return pc;
}

/* Sets the frame pointer register to the caller's.  If it is lost that matters only if an outer
 * frame needs it; 0 leads nowhere. */
static bool leave_fp(struct zc_walk *walk, const struct zc_cfi_place *place, uint64_t cfa)
{
    uint64_t at = 0;
    if (place->from == ZC_CFI_SAME)
        return true;
    if (place->from != ZC_CFI_LOST && !address_of(walk, place, cfa, &at))
        return false;
    walk->fp_at = at;
    walk->fp = 0;
    return !at || read_word(walk, at, &walk->fp);
}

/* Leaves the current frame.  False at the outermost one, and if something is strange. */
static bool frame_leave(struct zc_walk *walk, const struct zc_object *object)
{
    struct zc_cfi_program program;
    struct zc_cfi_row row;
    uint64_t cfa = 0, at = 0, pc = 0;
    /* A call may be a function's last instruction, so the address before is used. */
    if (!zc_cfi_find(object, walk->pc - 1, &program) || !zc_cfi_run(&program, walk->pc - 1, &row))
        return false;
    walk->whole = row.ra.from == ZC_CFI_LOST;
    if (!address_of(walk, &row.cfa, 0, &cfa) || cfa <= walk->sp || cfa - walk->sp > FRAME_MAX ||
        cfa % sizeof(uint64_t) || !address_of(walk, &row.ra, cfa, &at) || !read_word(walk, at, &pc))
        return false;
    store_word(walk, at, pc);
    if (!leave_fp(walk, &row.fp, cfa))
        return false;
    walk->pc = strip_signature(pc, row.ra_signed);
    walk->sp = cfa;
    walk->whole = walk->pc <= PAGE;
    return !walk->whole;
}

/* Not inlined: the registers read are those of this function, whose own information describes
 * them. */
__attribute__((noinline)) void
zc_unwind(struct zc_walk *walk, uint64_t from,
          bool (*visit)(uint64_t pc, const struct zc_object *object, void *arg), void *arg)
{
    struct zc_object object;
    walk->from = from;
    walk->fp_at = 0;
    walk->page = 0;
    walk->words = 0;
    walk->whole = false;
#if defined(__x86_64__)
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
                     : "=&r"(walk->pc), "=&r"(walk->sp), "=&r"(walk->fp));
#else
    __asm__ volatile("adr %0, .\n\tadd %0, %0, 4\n\tmov %1, sp\n\tmov %2, x29"
                     : "=&r"(walk->pc), "=&r"(walk->sp), "=&r"(walk->fp));
#endif
    for (int i = 0; i < FRAMES_MAX; i++) {
        bool known = zc_object_find(walk->pc - 1, &object);
        if (walk->sp > from && !visit(walk->pc, known ? &object : NULL, arg))
            return;
        if (!known || !frame_leave(walk, &object))
            return;
    }
}
