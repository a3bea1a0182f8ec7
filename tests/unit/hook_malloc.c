/* SPDX-License-Identifier: MIT */
/* The malloc family: which allocator gets each call, while libzc looks for the one behind it and
 * afterwards, and whose block goes where. */
#include "hook_test.h"

#include <argz.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "base/memory.h"
#include "hook/process.h"
#include "place/hostmem.h"

enum { LARGE = 4096, OURS = 4 }; /* Bytes of the least large request; blocks of the heap. */

static struct {
    bool before, no_heap, no_memory, in_place; /* An allocator stands before libzc; the rest. */
    bool used[OURS];
    size_t bytes[OURS];
    struct zc_hostmem_request request;
    void (*resolver)(void); /* Asks for memory during the look-up. */
    unsigned looks, looked; /* Names looked up; a bit for each other thing that is found. */
} has;
static char heap[OURS][4 * LARGE] __attribute__((aligned(64)));
static char their_bytes[4 * LARGE] __attribute__((aligned(64)));
static char *volatile theirs = their_bytes; /* Their allocator's only block. */

static int heap_at(const void *p)
{
    size_t at = (size_t)((const char *)p - heap[0]);
    return at < sizeof(heap) ? (int)(at / sizeof(heap[0])) : -1;
}

static bool fake_owns(const void *p)
{
    return heap_at(p) >= 0;
}

static bool fake_small(size_t bytes)
{
    return bytes < LARGE;
}

static void *fake_get(const struct zc_hostmem_request *request)
{
    has.request = *request;
    tell("heap: api %d, %zu by %zu%s", request->api, request->size, request->alignment,
         request->zero ? ", zero" : "");
    for (int i = 0; i < OURS && !has.no_heap; i++)
        if (!has.used[i]) {
            has.used[i] = true;
            has.bytes[i] = request->size;
            return heap[i];
        }
    return NULL;
}

static void fake_put(void *p)
{
    assert_true(fake_owns(p) && has.used[heap_at(p)]);
    has.used[heap_at(p)] = false;
    tell("heap frees %d", heap_at(p));
}

static size_t fake_size(const void *p)
{
    return has.bytes[heap_at(p)];
}

static void *fake_resize(void *p, const struct zc_hostmem_request *request)
{
    tell("heap resizes to %zu", request->size);
    return has.in_place ? p : NULL;
}

static void fake_leave(const char *why)
{
    (void)why;
    tell("leaves");
}

static void fake_watch(void)
{
    has.looked |= 1;
}
static void fake_libc(void)
{
    has.looked |= 2;
}
static void fake_memory(void)
{
    has.looked |= 4;
}

/* The allocator behind libzc's. */
static void *their_block(void)
{
    return has.no_memory ? NULL : theirs;
}
static void their_free(void *p)
{
    tell("free %s", p == theirs ? "theirs" : p ? "another" : "none");
}
static void *their_malloc(size_t n)
{
    tell("malloc %zu", n);
    return their_block();
}
static void *their_calloc(size_t count, size_t n)
{
    tell("calloc %zux%zu", count, n);
    return their_block();
}
static void *their_realloc(void *p, size_t n)
{
    tell("realloc %s %zu", p ? "theirs" : "none", n);
    return their_block();
}
static void *their_reallocarray(void *p, size_t count, size_t n)
{
    tell("reallocarray %s %zux%zu", p ? "theirs" : "none", count, n);
    return their_block();
}
static void *their_aligned(size_t alignment, size_t n)
{
    tell("aligned %zu by %zu", n, alignment);
    return their_block();
}
static int their_posix(void **out, size_t alignment, size_t n)
{
    tell("posix %zu by %zu", n, alignment);
    *out = their_block();
    return *out ? 0 : EINVAL;
}
static void *their_valloc(size_t n)
{
    tell("valloc %zu", n);
    return their_block();
}
static size_t their_size(void *p)
{
    return p ? 100 : 0;
}

static void fake_behind(const void *its)
{
    assert_ptr_equal(its, (void *)their_malloc);
    tell("found");
}

static error_t fake_argz(char *const words[], char **made, size_t *bytes);
static void *fake_sym(void *handle, const char *name);

#define zc_hostmem_owns fake_owns
#define zc_hostmem_small fake_small
#define zc_hostmem_get fake_get
#define zc_hostmem_put fake_put
#define zc_hostmem_size fake_size
#define zc_hostmem_resize fake_resize
#define zc_hostmem_leave fake_leave
#define zc_hostmem_behind fake_behind
#define zc_process_watch_forks fake_watch
#define zc_libc_find fake_libc
#define zc_memory_find fake_memory
#define zc_real_dlsym fake_sym
#define argz_create fake_argz
/* libc's own functions stay, for this program. */
#define free my_free
#define malloc my_malloc
#define calloc my_calloc
#define realloc my_realloc
#define reallocarray my_reallocarray
#define aligned_alloc my_aligned_alloc
#define posix_memalign my_posix_memalign
#define memalign my_memalign
#define valloc my_valloc
#define pvalloc my_pvalloc
#define malloc_usable_size my_usable_size
#define cfree my_cfree
#define __libc_free my_libc_free
#define __libc_realloc my_libc_realloc
#define zc_malloc_load my_load
#define ZC_API_my_malloc ZC_API_malloc
#define ZC_API_my_calloc ZC_API_calloc
#define ZC_API_my_realloc ZC_API_realloc
#define ZC_API_my_reallocarray ZC_API_reallocarray
#define ZC_API_my_aligned_alloc ZC_API_aligned_alloc
#define ZC_API_my_posix_memalign ZC_API_posix_memalign
#define ZC_API_my_memalign ZC_API_memalign
#define ZC_API_my_valloc ZC_API_valloc
#define ZC_API_my_pvalloc ZC_API_pvalloc
void *my_malloc(size_t n);
void *my_calloc(size_t count, size_t n);
void *my_realloc(void *p, size_t n);
void *my_reallocarray(void *p, size_t count, size_t n);
void *my_aligned_alloc(size_t alignment, size_t n);
int my_posix_memalign(void **out, size_t alignment, size_t n);
void *my_memalign(size_t alignment, size_t n);
void *my_valloc(size_t n);
void *my_pvalloc(size_t n);
size_t my_usable_size(void *p);
void my_free(void *p);
void my_load(void);
#include "../../shim/hook/malloc.c"

static void *fake_sym(void *handle, const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } all[] = {{"free", (void *)their_free},
               {"__libc_free", (void *)their_free},
               {"malloc", (void *)their_malloc},
               {"calloc", (void *)their_calloc},
               {"realloc", (void *)their_realloc},
               {"__libc_realloc", (void *)their_realloc},
               {"reallocarray", (void *)their_reallocarray},
               {"aligned_alloc", (void *)their_aligned},
               {"posix_memalign", (void *)their_posix},
               {"memalign", (void *)their_aligned},
               {"valloc", (void *)their_valloc},
               {"pvalloc", (void *)their_valloc},
               {"malloc_usable_size", (void *)their_size}};
    assert_int_equal(has.looked, 7); /* Forks, libc's functions and those on pages come first. */
    if (has.looks++ == 0 && has.resolver)
        has.resolver();
    if (handle == RTLD_DEFAULT && !has.before)
        return (void *)my_free;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].function;
    fail();
    return NULL;
}

/* As libc: it asks whoever serves the program. */
static bool found_meanwhile;
static error_t fake_argz(char *const words[], char **made, size_t *bytes)
{
    (void)words, (void)bytes;
    *made = has.before ? theirs : my_malloc(1);
    if (found_meanwhile)
        next.malloc = their_malloc;
    return 0;
}

static __typeof__(next) fresh;
static void forget(void)
{
    next = fresh;
    boot_used = 0;
    memset(boot, 0, sizeof(boot));
    memset(&has, 0, sizeof(has));
    hook_told[0] = '\0';
    found_meanwhile = false;
}

static int anew(void **state)
{
    (void)state;
    static bool taken;
    if (!taken)
        fresh = next;
    taken = true;
    forget();
    return 0;
}

/* The same behind the first call. */
static int found(void **state)
{
    anew(state);
    my_load();
    assert_told("found");
    return 0;
}

/* One call of each function, by its number; false behind the last. */
static bool call(int which)
{
    void *p;
    switch (which) {
    case 0:
        return my_malloc(1) == theirs;
    case 1:
        return my_calloc(2, 3) == theirs;
    case 2:
        return my_realloc(theirs, 4) == theirs;
    case 3:
        return my_reallocarray(theirs, 2, 5) == theirs;
    case 4:
        return my_aligned_alloc(64, 6) == theirs;
    case 5:
        return my_posix_memalign(&p, 32, 7) == 0 && p == theirs;
    case 6:
        return my_memalign(16, 8) == theirs;
    case 7:
        return my_valloc(9) == theirs;
    case 8:
        return my_pvalloc(10) == theirs;
    case 9:
        return my_usable_size(theirs) == 100;
    case 10:
        return my_libc_realloc(theirs, 11) == theirs;
    case 11:
        my_free(theirs);
        return true;
    case 12:
        my_libc_free(theirs);
        return true;
    default:
        return false;
    }
}

static void whichever_call_is_first_finds_the_allocator_behind_and_goes_there(void **state)
{
    (void)state;
    static const char *const told[] = {"malloc 1",          "calloc 2x3",
                                       "realloc theirs 4",  "reallocarray theirs 2x5",
                                       "aligned 6 by 64",   "posix 7 by 32",
                                       "aligned 8 by 16",   "valloc 9",
                                       "valloc 10",         "",
                                       "realloc theirs 11", "free theirs",
                                       "free theirs"};
    for (int i = 0; i < 13; i++) {
        char both[100];
        forget();
        assert_true(call(i));
        snprintf(both, sizeof(both), "found%s%s", *told[i] ? "; " : "", told[i]);
        assert_told(both);
        unsigned looks = has.looks;
        assert_true(call(i)); /* And so does each later one, without looking. */
        assert_told(told[i]);
        my_load();
        assert_int_equal(has.looks, looks);
    }
    assert_false(call(13));
    assert_int_equal(next.careful, 0);
}

static char *kept, *grown;

static void is_refused(const void *p)
{
    assert_null(p);
    assert_int_equal(errno, ENOMEM);
    errno = 0;
}

static void ask_for_everything(void)
{
    void *p = &p;
    kept = my_malloc(100);
    assert_true(kept && (uintptr_t)kept % 16 == 0 && my_usable_size(kept) == 100);
    char *zero = my_calloc(3, 7);
    assert_true((uintptr_t)zero % 16 == 0 && my_usable_size(zero) == 21 && zero >= kept + 100);
    for (int i = 0; i < 21; i++)
        assert_int_equal(zero[i], 0);
    memset(kept, 'k', 100);
    memset(zero, 'z', 21);
    grown = my_realloc(zero, 40);
    assert_true(grown && my_usable_size(grown) == 40 &&
                memcmp(grown, "zzzzzzzzzzzzzzzzzzzzz", 22) == 0);
    char *shrunk = my_libc_realloc(grown, 5);
    assert_true(shrunk && my_usable_size(shrunk) == 5 && memcmp(shrunk, "zzzzz", 6) == 0);
    grown = my_realloc(NULL, 10);
    my_free(shrunk);
    my_libc_free(my_malloc(LARGE));     /* No rule is asked meanwhile. */
    is_refused(my_realloc(theirs, 10)); /* Of blocks that are not from here nothing is known. */
    is_refused(my_calloc(SIZE_MAX, 2));
    is_refused(my_reallocarray(NULL, 2, 2));
    is_refused(my_aligned_alloc(64, 64));
    is_refused(my_memalign(64, 64));
    is_refused(my_valloc(1));
    is_refused(my_pvalloc(1));
    assert_int_equal(my_posix_memalign(&p, 64, 64), ENOMEM);
    assert_int_equal(my_usable_size(theirs), 0);
    my_free(theirs);
    assert_int_equal(next.careful, 2);
}

static void what_is_asked_for_during_the_look_up_is_memory_like_any_other(void **state)
{
    (void)state;
    has.resolver = ask_for_everything;
    my_load();
    assert_told("found");
    my_free(theirs + 1);
    assert_int_equal(my_usable_size(kept), 100);
    assert_int_equal(kept[99], 'k');
    theirs[60] = 'x';
    assert_ptr_equal(my_realloc(kept, 60), theirs);
    assert_true(theirs[0] == 'k' && theirs[59] == 'k' && theirs[60] == 'x');
    assert_int_equal(next.careful, 1);
    has.no_memory = true;
    assert_null(my_libc_realloc(grown, 60)); /* It stays where it was. */
    assert_int_equal(next.careful, 1);
    my_free(boot + sizeof(boot)); /* Behind what was given out so. */
    assert_told("free another; malloc 60; malloc 60; free another");
    assert_null(my_realloc(grown, 0));
    assert_int_equal(next.careful, 0);
    my_free(theirs);
    assert_told("free theirs");
}

static void ask_for_too_much(void)
{
    is_refused(my_malloc(sizeof(boot)));
    is_refused(my_malloc(SIZE_MAX));
    assert_non_null(my_malloc(1));
    is_refused(my_malloc(sizeof(boot) - 15));
}

static void ask_for_one_too_many(void)
{
    kept = my_malloc(sizeof(boot) - 16);
    assert_non_null(kept);
    is_refused(my_malloc(0));
    my_libc_free(kept);
}

static void there_is_so_much_memory_during_the_look_up_and_no_more(void **state)
{
    has.resolver = ask_for_too_much;
    my_load();
    anew(state);
    has.resolver = ask_for_one_too_many;
    my_load();
    assert_int_equal(next.careful, 0);
}

static void an_allocator_before_libzc_is_given_no_block(void **state)
{
    has.before = true;
    my_load();
    assert_told("free theirs; leaves");
    anew(state);
    has.before = found_meanwhile = true; /* Another thread has, which made the same question. */
    my_load();
    assert_told("free theirs; found");
}

#define asked_as(function, least)                                                                  \
    (has.request.api == ZC_API_##function && has.request.alignment == (least))

static void large_requests_are_the_heap_s_and_small_ones_go_on(void **state)
{
    (void)state;
    size_t page = zc_page_end(1);
    assert_ptr_equal(my_malloc(LARGE), heap[0]);
    assert_true(asked_as(malloc, 1) && has.request.size == LARGE && !has.request.zero);
    assert_true(has.request.frame && has.request.pc);
    assert_ptr_equal(my_malloc(LARGE - 1), theirs);
    assert_ptr_equal(my_calloc(2, LARGE), heap[1]);
    assert_true(asked_as(calloc, 1) && has.request.size == 2 * LARGE && has.request.zero);
    assert_ptr_equal(my_calloc(1, 5), theirs);
    assert_ptr_equal(my_aligned_alloc(64, LARGE), heap[2]);
    assert_true(asked_as(aligned_alloc, 64));
    assert_ptr_equal(my_memalign(1, LARGE), heap[3]);
    my_free(heap[3]);
    assert_ptr_equal(my_memalign(128, LARGE), heap[3]);
    assert_true(asked_as(memalign, 128));
    my_free(heap[3]);
    assert_ptr_equal(my_valloc(LARGE), heap[3]);
    assert_true(asked_as(valloc, page));
    my_free(heap[3]);
    assert_ptr_equal(my_pvalloc(LARGE + 1), heap[3]);
    assert_true(asked_as(pvalloc, page) && has.request.size == zc_page_end(LARGE + 1));
    hook_told[0] = '\0';
    assert_ptr_equal(my_malloc(LARGE), theirs); /* There is no room for more. */
    assert_ptr_equal(my_calloc(1, LARGE), theirs);
    assert_non_null(strstr(hook_told, "; malloc 4096; heap"));
    assert_non_null(strstr(hook_told, ", zero; calloc 1x4096"));
}

static void what_libc_refuses_is_libc_s_to_refuse(void **state)
{
    (void)state;
    my_calloc(SIZE_MAX, 2);
    my_aligned_alloc(48, LARGE);
    my_aligned_alloc(0, LARGE);
    my_memalign(96, LARGE);
    my_pvalloc(SIZE_MAX);
    assert_told("calloc 18446744073709551615x2; aligned 4096 by 48; aligned 4096 by 0; "
                "aligned 4096 by 96; valloc 18446744073709551615");
}

static void the_first_large_request_looks_for_the_allocator_before_the_heap(void **state)
{
    anew(state);
    assert_ptr_equal(my_malloc(LARGE), heap[0]);
    assert_ptr_equal(strstr(hook_told, "found; heap"), hook_told);
}

static void posix_memalign_tells_by_its_result(void **state)
{
    (void)state;
    void *p = NULL;
    assert_int_equal(my_posix_memalign(&p, 64, LARGE), 0);
    assert_ptr_equal(p, heap[0]);
    assert_true(asked_as(posix_memalign, 64));
    hook_told[0] = '\0';
    my_posix_memalign(&p, 4, LARGE); /* Less than a pointer, no power of two, none. */
    my_posix_memalign(&p, 24, LARGE);
    my_posix_memalign(&p, 0, LARGE);
    my_posix_memalign(&p, 64, 5);
    assert_told("posix 4096 by 4; posix 4096 by 24; posix 4096 by 0; posix 5 by 64");
    has.no_heap = has.no_memory = true;
    assert_int_equal(my_posix_memalign(&p, 64, LARGE), EINVAL);
}

static void each_block_is_freed_by_the_allocator_that_made_it(void **state)
{
    (void)state;
    void *p = my_malloc(LARGE), *q = my_malloc(LARGE), *r = my_malloc(LARGE);
    assert_int_equal(my_usable_size(p), LARGE);
    hook_told[0] = '\0';
    my_free(p);
    my_libc_free(q);
    my_cfree(r);
    my_free(theirs);
    my_libc_free(theirs);
    my_free(NULL);
    assert_told("heap frees 0; heap frees 1; heap frees 2; free theirs; free theirs; free none");
}

static void a_block_of_libc_s_that_grows_moves_into_the_heap(void **state)
{
    (void)state;
    memset(theirs, 't', sizeof(their_bytes));
    heap[0][100] = 'x';
    assert_ptr_equal(my_realloc(theirs, LARGE), heap[0]);
    assert_true(asked_as(realloc, 1));
    assert_true(heap[0][99] == 't' && heap[0][100] == 'x');
    assert_non_null(strstr(hook_told, "free theirs"));
    assert_ptr_equal(my_reallocarray(NULL, 2, LARGE), heap[1]);
    assert_true(asked_as(reallocarray, 1) && has.request.size == 2 * LARGE);
    has.no_heap = true;
    hook_told[0] = '\0';
    assert_ptr_equal(my_realloc(theirs, LARGE), theirs);
    assert_null(strstr(hook_told, "free"));
    assert_non_null(strstr(hook_told, "; realloc theirs 4096"));
    assert_ptr_equal(my_reallocarray(theirs, 1, LARGE), theirs);
    hook_told[0] = '\0';
    my_realloc(NULL, 5);
    my_reallocarray(NULL, 1, 5);
    assert_told("realloc none 5; reallocarray none 1x5");
}

static size_t much(void *p)
{
    (void)p;
    return 3 * LARGE;
}

static void no_more_is_copied_than_a_block_has_room_for(void **state)
{
    (void)state;
    next.my_usable_size = much;
    memset(theirs, 't', sizeof(their_bytes));
    memset(heap, 'h', sizeof(heap));
    assert_ptr_equal(my_realloc(theirs, LARGE), heap[0]);
    assert_true(heap[0][LARGE - 1] == 't' && heap[0][LARGE] == 'h');
    memset(theirs, 't', sizeof(their_bytes));
    assert_ptr_equal(my_realloc(heap[0], 10), theirs); /* The heap does not resize it. */
    assert_true(theirs[10] == 't');
    assert_false(has.used[0]);
    my_malloc(LARGE);
    memset(heap[0], 'h', LARGE + 1);
    assert_ptr_equal(my_realloc(heap[0], 2 * LARGE), theirs);
    assert_true(theirs[0] == 'h' && theirs[LARGE - 1] == 'h' && theirs[LARGE] == 't');
}

static void a_block_of_the_heap_is_resized_there_or_moves_out(void **state)
{
    (void)state;
    void *p = my_malloc(LARGE);
    has.in_place = true;
    hook_told[0] = '\0';
    assert_ptr_equal(my_realloc(p, 10), p);
    assert_ptr_equal(my_reallocarray(p, 2, 10), p);
    assert_ptr_equal(my_libc_realloc(p, 30), p);
    assert_told("heap resizes to 10; heap resizes to 20; heap resizes to 30");
    has.in_place = false;
    has.no_memory = true;
    assert_null(my_realloc(p, 10));
    assert_true(has.used[0]); /* The block is as it was. */
    errno = 0;
    is_refused(my_reallocarray(p, SIZE_MAX, 2));
    assert_told("heap resizes to 10; malloc 10");
    assert_null(my_realloc(p, 0));
    assert_told("heap frees 0");
}

#define TEST(name) cmocka_unit_test_setup(name, found)
#define TEST_FRESH(name) cmocka_unit_test_setup(name, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_FRESH(whichever_call_is_first_finds_the_allocator_behind_and_goes_there),
        TEST_FRESH(what_is_asked_for_during_the_look_up_is_memory_like_any_other),
        TEST_FRESH(there_is_so_much_memory_during_the_look_up_and_no_more),
        TEST_FRESH(an_allocator_before_libzc_is_given_no_block),
        TEST(large_requests_are_the_heap_s_and_small_ones_go_on),
        TEST(what_libc_refuses_is_libc_s_to_refuse),
        TEST(the_first_large_request_looks_for_the_allocator_before_the_heap),
        TEST(posix_memalign_tells_by_its_result),
        TEST(each_block_is_freed_by_the_allocator_that_made_it),
        TEST(a_block_of_libc_s_that_grows_moves_into_the_heap),
        TEST(no_more_is_copied_than_a_block_has_room_for),
        TEST(a_block_of_the_heap_is_resized_there_or_moves_out),
    };
    return RUN_TESTS(tests);
}
