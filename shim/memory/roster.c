/* SPDX-License-Identifier: MIT */
/* The roster of a user's processes on a host. */
#include "memory/roster.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/own.h"
#include "base/text.h"
#include "base/wait.h"

#define SPINS 64
#define NAP_US 50
#define NAPS_FOR_A_LOOK 100 /* Naps until it is asked whether the holder is gone. */
#define NAPS_MAX 10000      /* At least half a second. */

/* Whoever has byte 1 + N of the file locked has slot N, and byte 0 is locked by who opens the file.
 */
#define BYTE_OPENING 0
#define BYTE_OF_SLOT(n) ((off_t)(n) + 1)

static ZC_OWN struct zc_roster *roster;
static ZC_OWN struct zc_roster_slot *own;
static dev_t device; /* The file. */
static ino_t inode;
static char path[PATH_MAX];

/* True if some process has the byte; also if that can't be asked. */
static bool byte_is_locked(int fd, off_t byte)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return syscall(SYS_fcntl, fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* Fields of /proc/PID/stat, proc_pid_stat(5). */
struct process {
    char state;
    uint64_t started, bytes; /* Fields 22 and 23. */
};

static bool look_at(const char *file, struct process *out)
{
    char text[1024];
    const char *state, *started;
    if (!zc_file_text(file, text, sizeof(text)) || !(state = zc_stat_field(text, 3)) ||
        !(started = zc_stat_field(text, 22)))
        return false;
    out->state = *state;
    return zc_number_behind(started, "", &out->started) &&
           zc_number_behind(zc_stat_field(text, 23), "", &out->bytes);
}

static uint64_t pid_space(void)
{
    struct stat s;
    return stat("/proc/self/ns/pid", &s) == 0 ? s.st_ino : 0;
}

/* A process that ends loses its addresses first, and with them its lock, and then its files, with
 * which the driver gives its memory back. */
static bool still_ending(const struct zc_roster_slot *slot)
{
    char file[32];
    struct zc_text t = zc_text_on(file, sizeof(file));
    struct process p;
    if (!slot->pid_space || slot->pid_space != pid_space())
        return false;
    zc_text_fmt(&t, "/proc/%u/stat", (unsigned)slot->pid);
    return look_at(zc_text_cstr(&t), &p) && p.started == slot->started && p.bytes == 0 &&
           p.state != 'Z' && p.state != 'X';
}

/* Opens the file whose name is in `path`. */
static int open_named(int flags)
{
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && (flags & O_EXCL))
        fchmod(fd, 0600); /* Whatever the program's umask is. */
    return fd;
}

/* Opens the file, made if necessary, and locks it for opening. */
static int open_locked(const char **why)
{
    for (unsigned naps = 0; naps < NAPS_MAX; naps++) {
        struct stat s;
        int fd = open_named(0);
        if (fd < 0 && errno == ENOENT)
            fd = open_named(O_CREAT | O_EXCL);
        if (fd < 0 && errno == EEXIST)
            continue;
        *why = "its file can't be opened";
        if (fd < 0)
            return -1;
        *why = "its file is not this user's own";
        if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid() ||
            (s.st_mode & 077)) {
            zc_file_close(fd);
            return -1;
        }
        bool locked = zc_file_lock(fd, BYTE_OPENING, F_WRLCK);
        if (locked && fstat(fd, &s) == 0 && s.st_nlink > 0)
            return fd;
        *why = "its file can't be locked";
        int error = errno;
        zc_file_close(fd);
        if (!locked && error != EAGAIN && error != EACCES)
            return -1;
        zc_nap(NAP_US);
    }
    return -1;
}

/* Gives the whole file memory, so that a full file system is an error here and no SIGBUS later. */
static bool fill(int fd, const char **why)
{
    const struct zc_roster_head head = {
        .magic = ZC_ROSTER_MAGIC, .schema = ZC_ROSTER_SCHEMA, .slots = ZC_ROSTER_SLOTS};
    struct rlimit files;
    *why = "RLIMIT_FSIZE is too low for its file";
    if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < sizeof(struct zc_roster))
        return false;
    *why = "there is no memory for its file";
    if (syscall(SYS_fallocate, fd, 0, (off_t)0, (off_t)sizeof(struct zc_roster)) != 0)
        return false;
    return syscall(SYS_pwrite64, fd, &head, sizeof(head), (off_t)0) == sizeof(head);
}

/* Makes the file a roster if it is new, or its maker was killed; else checks that it is one. */
static bool is_roster(int fd, const char **why)
{
    struct zc_roster_head head = {.schema = 0};
    struct stat s;
    *why = "its file can't be read";
    if (fstat(fd, &s) != 0 || syscall(SYS_pread64, fd, &head, sizeof(head), (off_t)0) < 0)
        return false;
    if (!head.magic[0] && !head.schema)
        return fill(fd, why);
    *why = "its file is not one of this version";
    return s.st_size == sizeof(struct zc_roster) && memcmp(head.magic, ZC_ROSTER_MAGIC, 10) == 0 &&
           head.schema == ZC_ROSTER_SCHEMA && head.slots == ZC_ROSTER_SLOTS &&
           head.high <= ZC_ROSTER_SLOTS;
}

static struct zc_roster *map(int fd, const char **why)
{
    *why = "the kernel maps no file";
    void *at =
        zc_memory_map(NULL, sizeof(struct zc_roster), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    zc_memory_advise(at, sizeof(struct zc_roster), MADV_DONTFORK);
    return at;
}

static uint64_t mark_of(const struct zc_roster_slot *slot)
{
    return slot->serial << 16 | (uint64_t)(slot - roster->slot + 1);
}

/* Writes the identity of this process into a slot that it has locked. */
static bool move_in(struct zc_roster_slot *slot)
{
    struct process self = {0};
    look_at("/proc/self/stat", &self);
    /* Who waits for a lock that the slot's last process held must not take this one for that. */
    slot->serial = __atomic_add_fetch(&roster->head.serial, 1, __ATOMIC_RELAXED);
    own = slot;
    if (!zc_roster_lock())
        return false;
    uint64_t serial = slot->serial;
    memset(slot, 0, sizeof(*slot));
    slot->serial = serial;
    slot->pid = (uint32_t)getpid();
    slot->started = self.started;
    slot->pid_space = self.started ? pid_space() : 0;
    slot->used = 1;
    unsigned next = (unsigned)(slot - roster->slot) + 1;
    if (roster->head.high < next)
        roster->head.high = next;
    zc_roster_unlock();
    return true;
}

static bool take_slot(int fd, const char **why)
{
    *why = "its file has a slot for 256 processes";
    for (unsigned i = 0; i < ZC_ROSTER_SLOTS; i++) {
        struct zc_roster_slot *slot = &roster->slot[i];
        if (!zc_file_lock(fd, BYTE_OF_SLOT(i), F_WRLCK))
            continue;
        if (!(slot->used && still_ending(slot))) {
            *why = "another process stopped while it used its file";
            return move_in(slot);
        }
        zc_file_lock(fd, BYTE_OF_SLOT(i), F_UNLCK);
    }
    return false;
}

static bool name_file(const char *wanted, const char **why)
{
    struct zc_text t = zc_text_on(path, sizeof(path));
    if (*wanted)
        zc_text_str(&t, wanted);
    else
        zc_text_fmt(&t, "/dev/shm/libzc.%u.budgets", (unsigned)geteuid());
    zc_text_cstr(&t);
    *why = "ZC_BUDGETS is not the path of a file, from the root on";
    return path[0] == '/' && !t.truncated;
}

/* Takes a slot of the file; if that fails, all is as before. */
static bool open_roster(int fd, const char **why)
{
    struct stat s;
    struct zc_roster *made, *before = roster;
    struct zc_roster_slot *had = own;
    dev_t old_device = device;
    ino_t old_inode = inode;
    if (fstat(fd, &s) != 0 || !is_roster(fd, why) || !(made = map(fd, why)))
        return false;
    roster = made;
    own = NULL;
    device = s.st_dev;
    inode = s.st_ino;
    if (take_slot(fd, why))
        return true;
    zc_memory_unmap(made, sizeof(*made));
    roster = before;
    own = had;
    device = old_device;
    inode = old_inode;
    return false;
}

struct zc_roster_slot *zc_roster_join(const char *wanted, const char **why)
{
    int fd = name_file(wanted, why) ? open_locked(why) : -1;
    if (fd < 0)
        return NULL;
    bool opened = open_roster(fd, why);
    zc_file_lock(fd, BYTE_OPENING, F_UNLCK);
    zc_file_close(fd);
    return opened ? own : NULL;
}

const struct zc_roster_slot *zc_roster_slots(unsigned *n)
{
    unsigned high = roster ? __atomic_load_n(&roster->head.high, __ATOMIC_RELAXED) : 0;
    *n = high < ZC_ROSTER_SLOTS ? high : ZC_ROSTER_SLOTS;
    return roster ? roster->slot : NULL;
}

/* Opens the file that is mapped; -1 if the name leads elsewhere. */
static int open_again(void)
{
    struct stat s;
    int fd = open_named(0);
    if (fd >= 0 && (fstat(fd, &s) != 0 || s.st_dev != device || s.st_ino != inode)) {
        zc_file_close(fd);
        fd = -1;
    }
    return fd;
}

static bool is_gone(int fd, const struct zc_roster_slot *slot)
{
    return slot != own && !byte_is_locked(fd, BYTE_OF_SLOT(slot - roster->slot)) &&
           !still_ending(slot);
}

bool zc_roster_reclaim(void)
{
    unsigned n, freed = 0;
    int fd = open_again();
    zc_roster_slots(&n);
    for (unsigned i = 0; fd >= 0 && i < n; i++) {
        struct zc_roster_slot *slot = &roster->slot[i];
        if (slot->used && is_gone(fd, slot)) {
            __atomic_store_n(&slot->used, 0, __ATOMIC_RELEASE);
            freed++;
        }
    }
    if (fd >= 0)
        zc_file_close(fd);
    return freed > 0;
}

/* Takes the lock from a holder that is gone. */
static bool take_over(uint64_t seen)
{
    unsigned n = (unsigned)(seen & 0xffff) - 1;
    int fd = n < ZC_ROSTER_SLOTS ? open_again() : -1;
    if (fd < 0)
        return false;
    /* The slot may have been that of a process that is gone before it became this one's. */
    bool gone = &roster->slot[n] == own || is_gone(fd, &roster->slot[n]);
    zc_file_close(fd);
    return gone && __atomic_compare_exchange_n(&roster->head.holder, &seen, mark_of(own), false,
                                               __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

bool zc_roster_lock(void)
{
    for (unsigned tries = 0; tries < SPINS + NAPS_MAX; tries++) {
        uint64_t seen = 0;
        if (__atomic_compare_exchange_n(&roster->head.holder, &seen, mark_of(own), false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return true;
        if (tries < SPINS)
            continue;
        if (tries % NAPS_FOR_A_LOOK == 0 && take_over(seen))
            return true;
        zc_nap(NAP_US);
    }
    return false;
}

void zc_roster_unlock(void)
{
    __atomic_store_n(&roster->head.holder, 0, __ATOMIC_RELEASE);
}

bool zc_roster_replaced(void)
{
    struct stat s;
    return roster && (lstat(path, &s) != 0 || s.st_dev != device || s.st_ino != inode);
}
