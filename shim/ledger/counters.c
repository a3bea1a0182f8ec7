/* SPDX-License-Identifier: MIT */
/* The counters: a shared file mapping, or private memory. */
#include "ledger/counters.h"

#include "base/clock.h"
#include "base/errno.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/message.h"
#include "base/module.h"
#include "base/path.h"
#include "base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The magic as one word, so that it appears at once. */
typedef uint64_t __attribute__((may_alias)) word;
_Static_assert(sizeof(ZC_COUNTERS_MAGIC) - 1 == sizeof(word), "the magic is one word");

/* Used before zc_counters_open(), and if the kernel has no memory.  Uses no page until it is
 * written. */
static struct zc_counters last_resort;

struct zc_counters *zc_counters_now = &last_resort;

static ZC_LOCK(counters_lock, ZC_RANK_SITE);
static struct {
    char path[PATH_MAX]; /* Of the file behind zc_counters_now; empty if there is none. */
    dev_t device;
    ino_t inode;
    pid_t starting; /* The process in which zc_counters_begin_start() counts, or 0.  A child of
                     * fork(2) may find its parent's, in which another thread was in cuInit.
                     * Atomic. */
} file;

bool zc_counters_lock(void)
{
    return zc_lock_take(&counters_lock);
}

void zc_counters_unlock(void)
{
    zc_lock_drop(&counters_lock);
}

/* posix_fallocate(3) writes where the file system has no fallocate(2), and not with O_APPEND. */
static int allocate_file(int fd, uint64_t bytes)
{
    int result;
    if (!zc_log_size_allowed(bytes))
        return EFBIG;
    fcntl(fd, F_SETFL, 0);
    do
        result = posix_fallocate(fd, 0, (off_t)bytes);
    while (result == EINTR);
    return result;
}

static struct zc_counters *counters_map(int fd)
{
    int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory =
        zc_memory_map(NULL, sizeof(struct zc_counters), PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED)
        return NULL;
    /* Few pages are used, but the kernel would clear those around each one. */
    if (fd >= 0)
        zc_memory_advise(memory, sizeof(struct zc_counters), MADV_RANDOM);
    return memory;
}

/* Nobody but the process itself may write to its file: truncating it, as cleaners of logs do, would
 * end the process by SIGBUS. */
#define MODE 0400

/* True for the counters of a process of this user's that was killed: a live one has them locked by
 * its mapping.  Its log is gone, or this one would have another name. */
static bool was_left(const char *path)
{
    char magic[sizeof(word)];
    struct stat s;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool left = fd >= 0 && pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
                memcmp(magic, ZC_COUNTERS_MAGIC, sizeof(magic)) == 0 && fstat(fd, &s) == 0 &&
                s.st_uid == geteuid() && zc_file_lock(fd, F_RDLCK);
    zc_file_close(fd);
    return left;
}

/* Maps a file that no other process has.  On failure none stays behind. */
static struct zc_counters *counters_map_file(const char *path)
{
    struct zc_counters *made = NULL;
    struct stat made_file;
    int fd = zc_log_create(path);
    if (fd == -EEXIST && was_left(path) && unlink(path) == 0)
        fd = zc_log_create(path);
    zc_file_lock(fd, F_WRLCK);
    int error = fd < 0 ? -fd : allocate_file(fd, sizeof(struct zc_counters));
    if (error == 0) {
        made = counters_map(fd);
        error = made != NULL ? 0 : errno;
    }
    if (error != 0) {
        zc_message(ZC_WARN, "counters", "the counters file '%s' could not be made: %e", path,
                   error);
        if (fd >= 0)
            unlink(path);
    } else {
        fchmod(fd, MODE);
        fstat(fd, &made_file);
        file.device = made_file.st_dev;
        file.inode = made_file.st_ino;
        strcpy(file.path, path);
    }
    zc_file_close(fd);
    return made;
}

/* Stores the magic last: a reader that finds it finds all other fields. */
static void fill_header(struct zc_counters_header *h)
{
    struct zc_text exe = zc_text_on(h->exe, sizeof(h->exe));
    word magic;
    h->schema = ZC_COUNTERS_SCHEMA;
    h->pid = (uint32_t)getpid();
    h->bytes = sizeof(struct zc_counters);
    h->slots = ZC_COUNTERS_SLOTS;
    h->sites = ZC_COUNTERS_SITES;
    h->cells = ZC_COUNTERS_CELLS;
    h->places = ZC_COUNTERS_PLACES;
    h->kinds = ZC_KIND_COUNT;
    h->dirs = ZC_DIR_COUNT;
    h->outcomes = ZC_OUTCOME_COUNT;
    h->frames = ZC_SITE_FRAMES;
    h->tick_mult = zc_clock_mult();
    h->start_wall_ns = zc_wall_ns();
    h->closed = 0;
    zc_text_str(&exe, zc_log_program());
    zc_text_cstr(&exe);
    memcpy(&magic, ZC_COUNTERS_MAGIC, sizeof(magic));
    __atomic_store_n((word *)h->magic, magic, __ATOMIC_RELEASE);
}

static void copy_known(struct zc_counters *made, const struct zc_counters *before)
{
    made->start_ticks = before->start_ticks;
    uint32_t sites = __atomic_load_n(&before->next_site, __ATOMIC_ACQUIRE);
    if (made == before || sites == 0 || sites > ZC_COUNTERS_SITES)
        return;
    memcpy(made->site, before->site, sites * sizeof(before->site[0]));
    made->next_site = sites;
}

/* Replaces the current counters.  Known sites keep their indices: libc's requests have sites before
 * the first CUDA call, and during it.  The time of cuInit, which starts libzc, is kept, too. */
static void counters_replace(struct zc_counters *made)
{
    bool held = zc_counters_lock();
    copy_known(made, zc_counters());
    __atomic_store_n(&zc_counters_now, made, __ATOMIC_RELEASE);
    if (held)
        zc_counters_unlock();
}

bool zc_counters_open(const char *path)
{
    ZC_KEEPS_ERRNO;
    struct zc_counters *made = NULL;
    file.path[0] = 0;
    if (path != NULL && strlen(path) < sizeof(file.path))
        made = counters_map_file(path);
    if (made == NULL)
        made = counters_map(-1);
    if (made == NULL)
        made = &last_resort;
    fill_header(&made->header);
    counters_replace(made);
    return made != &last_resort;
}

void zc_counters_close(void)
{
    struct zc_counters *c = zc_counters();
    ZC_KEEPS_ERRNO;
    struct stat now;
    c->header.tick_mult = zc_clock_mult();
    __atomic_store_n(&c->header.closed, 1, __ATOMIC_RELEASE);
    /* The program may have changed its folder, so the name may mean another file now. */
    if (file.path[0] != 0 && lstat(file.path, &now) == 0 && now.st_dev == file.device &&
        now.st_ino == file.inode)
        unlink(file.path);
    file.path[0] = 0;
}

void zc_counters_keep(void)
{
    file.path[0] = 0;
}

/* Nothing of the parent's is known in its child. */
void zc_counters_reset(void)
{
    last_resort.next_site = 0;
    last_resort.start_ticks = 0;
    __atomic_store_n(&zc_counters_now, &last_resort, __ATOMIC_RELEASE);
    zc_counters_open(NULL);
}

uint64_t zc_counters_begin_start(void)
{
    pid_t own = getpid(), other = __atomic_load_n(&file.starting, __ATOMIC_RELAXED);
    return other != own && __atomic_compare_exchange_n(&file.starting, &other, own, false,
                                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)
               ? zc_ticks()
               : 0;
}

void zc_counters_end_start(uint64_t begun)
{
    if (!begun)
        return;
    __atomic_add_fetch(&zc_counters()->start_ticks, zc_ticks() - begun, __ATOMIC_RELAXED);
    __atomic_store_n(&file.starting, 0, __ATOMIC_RELEASE);
}

const struct zc_module zc_module_counters = {.child = zc_counters_reset,
                                             .finish = zc_counters_close};
