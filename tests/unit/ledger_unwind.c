/* SPDX-License-Identifier: MIT */
/* The walk up the stack: as far as libgcc's unwinder goes, and never into unmapped memory. */
#include "ledger_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unwind.h>

#include "ledger/cfi.h"
#include "ledger/unwind.h"

#define FRAMES 64
#define PROGRAMS 300000

struct trace {
    uint64_t pc[FRAMES]; /* Return addresses, innermost first. */
    unsigned n;          /* How many. */
};

static bool keep(uint64_t pc, const struct zc_object *object, void *arg)
{
    struct trace *trace = arg;

    (void)object;
    trace->pc[trace->n++] = pc;
    return trace->n < FRAMES;
}

static _Unwind_Reason_Code keep_libgcc(struct _Unwind_Context *context, void *arg)
{
    struct trace *trace = arg;

    trace->pc[trace->n++] = _Unwind_GetIP(context);
    return trace->n < FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static unsigned compared;

/* Both start at this function's caller; libgcc's first frame is this function itself. */
__attribute__((noinline)) static void compare_traces(void)
{
    struct trace ours = {.n = 0}, theirs = {.n = 0};
    struct zc_walk walk;

    zc_unwind(&walk, (uint64_t)(uintptr_t)__builtin_frame_address(0), keep, &ours);
    _Unwind_Backtrace(keep_libgcc, &theirs);
    while (theirs.n > 0 && theirs.pc[theirs.n - 1] == 0)
        theirs.n--;
    assert_int_equal(ours.n, theirs.n - 1);
    for (unsigned i = 0; i < ours.n; i++)
        assert_int_equal(ours.pc[i], theirs.pc[i + 1]);
    compared = ours.n;
}

static int in_qsort(const void *a, const void *b)
{
    (void)a;
    (void)b;
    compare_traces();
    return 0;
}

__attribute__((noinline)) static void on_realigned_stack(size_t bytes)
{
    volatile char aligned[64] __attribute__((aligned(512)));
    volatile char *sized = __builtin_alloca(bytes);
    int pair[2] = {2, 1};

    aligned[bytes % 64] = 1;
    sized[bytes - 1] = 1;
    qsort(pair, 2, sizeof(pair[0]), in_qsort);
    (void)aligned[0];
}

static void test_like_libgcc(void **state)
{
    (void)state;
    compare_traces();
    assert_true(compared > 3);
    on_realigned_stack(100);
    assert_true(compared > 6);
    on_realigned_stack(100000);
}

#if defined(__x86_64__)
/* Functions that call their argument and whose call-frame information lies. */
#define LIAR(name, directives)                                                                     \
    __asm__(                                                                                       \
        ".text\n.type " #name ",@function\n" #name ":\n.cfi_startproc\npush %rbp\n"                \
        ".cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\nmov $0x123456789abcd8, %rbp\n" directives  \
        "\ncall *%rdi\npop %rbp\nret\n.cfi_endproc\n.size " #name ", .-" #name "\n");              \
    void name(void (*call)(void))

LIAR(liar_offset, ".cfi_def_cfa_offset 0x3000000");
LIAR(liar_negative, ".cfi_def_cfa_offset -4096");
LIAR(liar_odd, ".cfi_def_cfa_offset 19");
LIAR(liar_register, ".cfi_def_cfa %rbp, 16");
LIAR(liar_unknown, ".cfi_def_cfa %rbx, 16");
LIAR(liar_return, ".cfi_offset 16, -1048576");
LIAR(liar_same, ".cfi_same_value 16");
LIAR(liar_in_register, ".cfi_register 16, 3");
/* Expressions that read address 0, are unknown, or lack operands; a row restored that was not
 * remembered.  An instruction that ld does not know would make it leave out .eh_frame_hdr. */
LIAR(liar_null, ".cfi_escape 0x0f, 2, 0x30, 0x06");
LIAR(liar_operation, ".cfi_escape 0x0f, 1, 0xff");
LIAR(liar_depth, ".cfi_escape 0x0f, 3, 0x22, 0x22, 0x22");
LIAR(liar_stack, ".cfi_escape 0x0b");
/* The return address would be in the last four bytes of the caller's frame, and the next four. */
LIAR(liar_edge, ".cfi_escape 0x10, 16, 2, 0x77, 12");

static unsigned visited;

__attribute__((noinline)) static void count_frames(void)
{
    struct trace trace = {.n = 0};
    struct zc_walk walk;

    errno = 77;
    zc_unwind(&walk, (uint64_t)(uintptr_t)__builtin_frame_address(0), keep, &trace);
    assert_int_equal(errno, 77);
    visited = trace.n;
}

static void test_liars(void **state)
{
    static void (*const liars[])(void (*call)(void)) = {
        liar_offset, liar_negative,    liar_odd,  liar_register,  liar_unknown, liar_return,
        liar_same,   liar_in_register, liar_null, liar_operation, liar_depth,   liar_stack,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(liars) / sizeof(liars[0]); i++) {
        liars[i](count_frames);
        assert_int_equal(visited, 1);
    }
}

static void test_edge(void **state)
{
    size_t bytes = 1 << 20;
    char *stack = mmap(NULL, bytes + 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(stack, MAP_FAILED);
    assert_int_equal(mprotect(stack, bytes, PROT_READ | PROT_WRITE), 0);
    __asm__ volatile("mov %%rsp, %%rbx\n\tmov %0, %%rsp\n\tcall liar_edge\n\tmov %%rbx, %%rsp"
                     :
                     : "r"(stack + bytes), "D"(count_frames)
                     : "rbx", "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory");
    assert_int_equal(visited, 1);
    munmap(stack, bytes + 65536);
}
#else
static void test_liars(void **state)
{
    (void)state;
    skip();
}

static void test_edge(void **state)
{
    test_liars(state);
}
#endif

#if defined(__x86_64__)
enum { FP = 6, SP = 7, RA = 16 };
#elif defined(__aarch64__)
enum { FP = 29, RA = 30, SP = 31 };
#endif

/* The row of a function from 1000 on, whose addresses count by 2, at `pc`. */
static struct zc_cfi_row row_at(uint64_t pc, const uint8_t *code, size_t n, bool good)
{
    const struct zc_cfi_program program = {.init = code,
                                           .init_end = code,
                                           .code = code,
                                           .code_end = code + n,
                                           .start = 1000,
                                           .end = 2000,
                                           .code_align = 2,
                                           .data_align = -8};
    struct zc_cfi_row row;
    assert_int_equal(zc_cfi_run(&program, pc, &row), good);
    return row;
}
#define ROW(pc, ...)                                                                               \
    row_at(pc, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), true)
#define BAD(...)                                                                                   \
    row_at(1999, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), false)

static void is_at(struct zc_cfi_place place, enum zc_cfi_from from, int64_t offset)
{
    assert_int_equal(place.from, from);
    assert_int_equal(place.offset, offset);
}

/* The numbers are DWARF's: 5, section 7.24. */
static void test_instructions(void **state)
{
    struct zc_cfi_row row;

    (void)state;
    is_at(ROW(1000, 0x0c, SP, 16).cfa, ZC_CFI_SP, 16);           /* def_cfa */
    is_at(ROW(1000, 0x12, FP, 0x7e).cfa, ZC_CFI_FP, 16);         /* def_cfa_sf */
    is_at(ROW(1000, 0x0c, SP, 16, 0x0e, 24).cfa, ZC_CFI_SP, 24); /* def_cfa_offset */
    is_at(ROW(1000, 0x0c, SP, 16, 0x13, 0x7d).cfa, ZC_CFI_SP, 24);
    is_at(ROW(1000, 0x0c, SP, 16, 0x0d, FP).cfa, ZC_CFI_FP, 16); /* def_cfa_register */
    is_at(ROW(1000, 0x0c, 3, 16).cfa, ZC_CFI_LOST, 16);
    is_at(ROW(1000, 0x80 | RA, 1).ra, ZC_CFI_CFA, -8); /* offset, extended, and signed */
    is_at(ROW(1000, 0x05, FP, 2).fp, ZC_CFI_CFA, -16);
    is_at(ROW(1000, 0x11, RA, 0x7f).ra, ZC_CFI_CFA, 8);
    is_at(ROW(1000, 0x80 | RA, 1, 0xc0 | RA).ra, ZC_CFI_SAME, 0); /* restore, also extended */
    is_at(ROW(1000, 0x80 | FP, 1, 0x06, FP).fp, ZC_CFI_SAME, 0);
    is_at(ROW(1000, 0x07, RA).ra, ZC_CFI_LOST, 0); /* undefined, as in _start */
    is_at(ROW(1000, 0x07, RA, 0x08, RA).ra, ZC_CFI_SAME, 0);
    is_at(ROW(1000, 0x09, RA, 3, 0x0c, SP, 8).ra, ZC_CFI_LOST, 0); /* register */
    is_at(ROW(1000, 0x14, FP, 3, 0x0c, SP, 8).cfa, ZC_CFI_SP, 8);  /* val_offset, also signed */
    is_at(ROW(1000, 0x15, FP, 3, 0x0c, SP, 8).cfa, ZC_CFI_SP, 8);
    is_at(ROW(1000, 0x16, FP, 2, 0x77, 0, 0x0c, SP, 8).cfa, ZC_CFI_SP, 8); /* val_expression */
    is_at(ROW(1000, 0x2e, 16, 0x0c, SP, 8).cfa, ZC_CFI_SP, 8);             /* GNU_args_size */
    assert_true(ROW(1000, 0x2d).ra_signed);
    assert_false(ROW(1000, 0x2d, 0x00, 0x2d).ra_signed);
    row = ROW(1000, 0x10, FP, 5, 0x70 + SP, 0x78, 0x06, 0x23, 4); /* [sp - 8] + 4 */
    is_at(row.fp, ZC_CFI_SP, -8);
    assert_true(row.fp.deref && row.fp.more == 4);
    row = ROW(1000, 0x0f, 2, 0x70 + FP, 8); /* def_cfa_expression */
    is_at(row.cfa, ZC_CFI_FP, 8);
    assert_false(row.cfa.deref);
    assert_int_equal(ROW(1000, 0x0f, 3, 0x70 + FP, 8, 0x08).cfa.from, ZC_CFI_LOST);
    /* A row counts from its address on: advance_loc, 1, 2 and 4 bytes. */
    for (uint64_t pc = 1009; pc <= 1010; pc++) {
        enum zc_cfi_from from = pc < 1010 ? ZC_CFI_SP : ZC_CFI_FP;
        is_at(ROW(pc, 0x0c, SP, 8, 0x45, 0x0c, FP, 8).cfa, from, 8);
        is_at(ROW(pc, 0x0c, SP, 8, 2, 5, 0x0c, FP, 8).cfa, from, 8);
        is_at(ROW(pc, 0x0c, SP, 8, 3, 5, 0, 0x0c, FP, 8).cfa, from, 8);
        is_at(ROW(pc, 0x0c, SP, 8, 4, 5, 0, 0, 0, 0x0c, FP, 8).cfa, from, 8);
    }
    /* remember_state and restore_state, up to eight deep. */
    is_at(ROW(1000, 0x0c, SP, 8, 0x0a, 0x0c, FP, 16, 0x0b).cfa, ZC_CFI_SP, 8);
    ROW(1000, 10, 10, 10, 10, 10, 10, 10, 10, 11);
    BAD(10, 10, 10, 10, 10, 10, 10, 10, 10);
    BAD(0x0b);
    BAD(0x0c, SP);   /* Ends within. */
    BAD(0x3f, 1, 0); /* Not known. */
}

static void test_random_programs(void **state)
{
    uint64_t random = 5;
    unsigned understood = 0;

    (void)state;
    for (int i = 0; i < PROGRAMS; i++) {
        size_t n = 1 + ledger_draw(&random) % 24;
        uint8_t *exact = malloc(n); /* Of the exact size, so that AddressSanitizer sees overruns. */
        struct zc_cfi_program program = {.code_align = 1, .data_align = -8, .end = UINT64_MAX};
        struct zc_cfi_row row;

        assert_non_null(exact);
        for (size_t j = 0; j < n; j++)
            exact[j] = (uint8_t)ledger_draw(&random);
        program.init = program.init_end = program.code = exact;
        program.code_end = exact + n;
        understood += zc_cfi_run(&program, 100, &row);
        free(exact);
    }
    assert_true(understood > 0);
}

static void test_unreadable(void **state)
{
    uint64_t word = 42;

    (void)state;
    assert_false(zc_readable(0));
    assert_false(zc_readable(8));
    assert_false(zc_readable(0x8000));
    assert_false(zc_readable(UINT64_MAX - 7));
    assert_true(zc_readable((uint64_t)(uintptr_t)&word));
}

static void assert_found_alike(const void *address)
{
    uint64_t at = (uint64_t)(uintptr_t)address;
    struct zc_object found = {.start = 1}, walked = {.start = 2};
    bool is_there = zc_object_find(at, &found);

    assert_int_equal(zc_object_walk(at, &walked), is_there);
    if (!is_there)
        return;
    assert_true(at >= walked.start && at < walked.end);
    assert_int_equal(walked.load, found.load);
    assert_string_equal(walked.name, found.name);
    assert_ptr_equal(walked.hdr, found.hdr);
}

/* With a glibc older than 2.35 there is only the second way. */
static void test_objects(void **state)
{
    int local;

    (void)state;
    zc_object_init();
    assert_found_alike((const void *)(uintptr_t)assert_found_alike);
    assert_found_alike((const void *)(uintptr_t)qsort);
    assert_found_alike((const void *)(uintptr_t)_Unwind_Backtrace);
    assert_found_alike(&local);
    assert_found_alike(NULL);
}

/* Behind all functions of an object the last one is not taken for theirs. */
static void test_functions(void **state)
{
    uint64_t inside = (uint64_t)(uintptr_t)test_objects;
    struct zc_cfi_program program;
    struct zc_object object;

    (void)state;
    assert_true(zc_object_find(inside, &object));
    assert_true(zc_cfi_find(&object, inside, &program));
    assert_in_range(inside, program.start, program.end - 1);
    assert_false(zc_cfi_find(&object, object.end - 1, &program));
}

static void test_driver(void **state)
{
    static const char *const names[] = {"/usr/lib/libcuda.so.1", "/usr/lib/libcudart.so.12",
                                        "/usr/lib/xlibcuda.so.1", "libcuda.so.1", NULL};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(zc_object_is_driver(&(struct zc_object){.name = names[i]}), i == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"the walk finds the frames that libgcc's unwinder finds", test_like_libgcc, NULL, NULL,
         NULL},
        {"the walk ends where call-frame information makes no sense", test_liars, NULL, NULL, NULL},
        {"a word across the end of a stack is not read", test_edge, NULL, NULL, NULL},
        {"each instruction does what DWARF says", test_instructions, NULL, NULL, NULL},
        {"random instructions do no harm", test_random_programs, NULL, NULL, NULL},
        {"both ways to find an object find the same", test_objects, NULL, NULL, NULL},
        {"an address behind all functions is in none", test_functions, NULL, NULL, NULL},
        {"the driver is known by its file's name", test_driver, NULL, NULL, NULL},
        {"memory that is not there can be told", test_unreadable, NULL, NULL, NULL},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
