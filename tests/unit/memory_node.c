/* SPDX-License-Identifier: MIT */
/* Limits that processes share, by processes that take, give, end and are killed. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */
#include "child_test.h"
#include "real_test.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/module.h"
#include "base/own.h"
#include "base/options.h"
#include "driver/real.h"
#include "log/budgets.h"
#include "memory/node.h"
#include "memory/roster.h"

extern const struct zc_module zc_module_node;

static char folder[] = "/tmp/zc-node-XXXXXX", table[64];

/* A process that shares limits, and does what the test tells it. */
struct worker {
    pid_t pid;
    int ask, answer;
};

struct order {
    char what; /* take, give, left, own (why it shares nothing), hold the lock, stop with it, close
                * fds, Fork, exec, quit */
    enum zc_node_limit limit;
    int device;
    uint64_t bytes, most;
};

static void obey(const struct order *o, int answer, struct zc_node_terms *terms)
{
    const char *why = "";
    char text[64] = "";
    switch (o->what) {
    case 'm': /* Its max_pinned, from here on. */
        terms->pinned.value = o->most;
        zc_node_start(terms);
        break;
    case 't':
        text[0] = "COR"[zc_node_take(o->limit, o->device, o->bytes, o->most, &why)];
        if (fcntl(0, F_GETFD) >= 0)
            text[0] = '0'; /* A descriptor is left open. */
        break;
    case 'g':
        zc_node_note(o->limit, o->device, -(int64_t)o->bytes);
        break;
    case 'l':
        snprintf(text, sizeof(text), "%llu",
                 (unsigned long long)zc_node_left(o->limit, o->device, o->most));
        break;
    case 'o':
        zc_module_node.finish();
        strncpy(text, zc_log_budgets.alone ? zc_log_budgets.alone : "", sizeof(text) - 1);
        break;
    case 'h':
        zc_roster_lock();
        break;
    case 's':
        zc_roster_lock();
        raise(SIGKILL);
        break;
    case 'c':
        for (int fd = 3; fd < 1024; fd++)
            if (fd != answer && fd != 3)
                close(fd);
        break;
    case 'F': /* A child that outlives it and has what it had, until the test is through with it. */
        if (fork() == 0) {
            while (read(3, text, 1) > 0)
                ;
            _exit(0);
        }
        break;
    case 'e':
        execlp("sleep", "sleep", "60", (char *)NULL);
        break;
    default:
        _exit(0);
    }
    if (write(answer, text, sizeof(text)) != sizeof(text))
        _exit(3);
}

static struct worker start_with(struct zc_node_terms terms)
{
    struct worker w;
    int ask[2], answer[2];
    assert_int_equal(pipe(ask), 0);
    assert_int_equal(pipe(answer), 0);
    w.pid = fork();
    assert_true(w.pid >= 0);
    if (w.pid == 0) {
        struct order order;
        for (int sig = 1; sig < 32; sig++)
            signal(sig, SIG_DFL);
        /* Apart, so that neither lands where the other one is. */
        dup2(ask[0], 100);
        dup2(answer[1], 101);
        dup2(100, 3);
        dup2(101, 4);
        for (int fd = 5; fd < 256; fd++)
            close(fd);
        close(0);                      /* The next one that is opened. */
        fcntl(4, F_SETFD, FD_CLOEXEC); /* The next program says nothing. */
        zc_own_forget();
        zc_options_read();
        zc_node_start(&terms);
        while (read(3, &order, sizeof(order)) == sizeof(order))
            obey(&order, 4, &terms);
        _exit(0);
    }
    close(ask[0]);
    close(answer[1]);
    w.ask = ask[1];
    w.answer = answer[0];
    return w;
}

static struct worker start(uint64_t max_pinned)
{
    return start_with((struct zc_node_terms){{ZC_LIMIT_BYTES, max_pinned}, {0}, zc_available});
}

static const char *tell(struct worker *w, struct order order)
{
    static char text[64];
    assert_int_equal(write(w->ask, &order, sizeof(order)), sizeof(order));
    if (read(w->answer, text, sizeof(text)) != sizeof(text))
        return "gone";
    return text;
}

static char take(struct worker *w, uint64_t bytes)
{
    return tell(w, (struct order){.what = 't', .bytes = bytes})[0];
}

static char take_on(struct worker *w, enum zc_node_limit limit, int device, uint64_t bytes,
                    uint64_t most)
{
    return tell(w, (struct order){'t', limit, device, bytes, most})[0];
}

/* Bytes that are left; -1 where nothing is shared. */
static int left_on(struct worker *w, enum zc_node_limit limit, int device, uint64_t most)
{
    return (int)strtoull(tell(w, (struct order){'l', limit, device, 0, most}), NULL, 10);
}

static void give(struct worker *w, uint64_t bytes)
{
    tell(w, (struct order){.what = 'g', .bytes = bytes});
}

static void end(struct worker *w, int sig)
{
    if (sig)
        kill(w->pid, sig);
    close(w->ask);
    close(w->answer);
    waitpid(w->pid, NULL, 0);
}

static void assert_alone(const char *why)
{
    struct worker a = start(100);
    assert_int_equal(take(&a, 1000), 'O');
    const char *told = tell(&a, (struct order){.what = 'o'});
    if (strcmp(told, why) != 0)
        fail_msg("told '%s', not '%s'", told, why);
    end(&a, 0);
}

static char take_alone(uint64_t bytes)
{
    struct worker a = start(100);
    char answer = take(&a, bytes);
    end(&a, 0);
    return answer;
}

static void what_processes_hold_together_stays_within_the_limit(void **state)
{
    struct worker a = start(100), b = start(100), c = start(70);
    (void)state;
    assert_int_equal(take(&a, 60), 'C');
    assert_int_equal(left_on(&b, ZC_NODE_PINNED, -1, 0), 40);
    assert_int_equal(take(&b, 41), 'R');
    assert_int_equal(take(&b, 40), 'C');
    give(&a, 30);
    assert_int_equal(left_on(&a, ZC_NODE_PINNED, -1, 0), 30);
    assert_int_equal(left_on(&c, ZC_NODE_PINNED, -1, 0), 0);
    /* Each compares the sum with its own limit. */
    assert_int_equal(take(&c, 1), 'R');
    assert_int_equal(take(&b, 30), 'C');
    end(&b, 0);
    assert_int_equal(left_on(&c, ZC_NODE_PINNED, -1, 0), 40);
    assert_int_equal(take(&c, 40), 'C');
    end(&a, 0);
    end(&c, 0);
}

static void a_killed_process_gives_back_what_it_held(void **state)
{
    struct worker a = start(100), b = start(100);
    (void)state;
    assert_int_equal(take(&a, 100), 'C');
    assert_int_equal(take(&b, 1), 'R');
    end(&a, SIGKILL);
    assert_int_equal(take(&b, 100), 'C');
    end(&b, 0);
}

static void a_process_killed_with_the_lock_stops_nobody(void **state)
{
    struct worker a = start(100), b = start(100), c;
    (void)state;
    assert_int_equal(take(&b, 10), 'C');
    assert_int_equal(take(&a, 60), 'C');
    assert_string_equal(tell(&a, (struct order){.what = 's'}), "gone");
    end(&a, 0);
    /* Who takes its slot, and who waits for the lock. */
    c = start(100);
    assert_int_equal(take(&c, 90), 'C');
    assert_int_equal(take(&b, 1), 'R');
    assert_string_equal(tell(&c, (struct order){.what = 's'}), "gone");
    end(&c, 0);
    assert_int_equal(take(&b, 90), 'C');
    end(&b, 0);
}

static void a_process_that_stops_with_the_lock_has_the_others_take_nothing(void **state)
{
    struct worker a = start(100), b = start(100);
    (void)state;
    assert_int_equal(take(&a, 10), 'C');
    assert_int_equal(take(&b, 10), 'C');
    tell(&a, (struct order){.what = 'h'});
    assert_int_equal(take(&b, 10), 'R');
    end(&a, SIGKILL);
    assert_int_equal(take(&b, 90), 'C');
    end(&b, 0);
}

static void enter(void)
{
    struct zc_roster at;
    const char *why = "";
    const struct zc_roster_slot *slot = zc_roster_join(table, &why);
    int fd = open(table, O_RDONLY);
    if (!slot || pread(fd, &at, sizeof(at), 0) != sizeof(at) || at.head.holder != 0 ||
        at.head.high != 1 || at.slot[0].pid != (uint32_t)getpid() || at.slot[0].started == 0)
        _exit(1);
}

static void who_has_a_slot_is_known_and_has_no_lock(void **state)
{
    (void)state;
    unlink(table);
    assert_int_equal(in_child(enter), 0);
    /* Whoever opens the file is alone there. */
    const struct flock opening = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    int fd = open(table, O_RDWR | O_CLOEXEC);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &opening), 0);
    assert_alone("its file can't be locked");
    close(fd);
    assert_int_equal(take_alone(100), 'C');
}

static void a_slot_is_its_process_and_no_descriptor_child_or_next_program(void **state)
{
    struct worker a = start(100), b = start(100), c = start(100);
    (void)state;
    assert_int_equal(take(&a, 50), 'C');
    tell(&a, (struct order){.what = 'c'});
    assert_int_equal(take(&b, 51), 'R');
    assert_int_equal(take(&b, 50), 'C');
    tell(&a, (struct order){.what = 'F'});
    kill(a.pid, SIGKILL);
    waitpid(a.pid, NULL, 0);
    assert_int_equal(take(&c, 50), 'C');
    close(a.ask);
    close(a.answer);
    assert_string_equal(tell(&b, (struct order){.what = 'e'}), "gone");
    for (int tries = 0; take(&c, 50) != 'C'; tries++) {
        assert_true(tries < 1000);
        usleep(10000);
    }
    assert_int_equal(waitpid(b.pid, NULL, WNOHANG), 0);
    end(&b, SIGKILL);
    end(&c, 0);
}

static void each_gpu_has_its_own_limits(void **state)
{
    struct worker a = start(10), b = start(10);
    (void)state;
    assert_int_equal(take_on(&a, ZC_NODE_MANAGED, 0, 60, 100), 'C');
    assert_int_equal(take_on(&b, ZC_NODE_MANAGED, 0, 41, 100), 'R');
    assert_int_equal(left_on(&b, ZC_NODE_MANAGED, 0, 90), 30);
    assert_int_equal(left_on(&b, ZC_NODE_MANAGED, 1, 90), 90);
    assert_int_equal(left_on(&b, ZC_NODE_DEVICE, 0, 90), 90);
    assert_int_equal(left_on(&b, ZC_NODE_DEVICE, 64, 90), -1);
    assert_int_equal(take_on(&b, ZC_NODE_MANAGED, 1, 100, 100), 'C');
    assert_int_equal(take_on(&b, ZC_NODE_DEVICE, 0, 100, 100), 'C');
    assert_int_equal(take_on(&a, ZC_NODE_DEVICE, 0, 1, 100), 'R');
    assert_int_equal(take_on(&b, ZC_NODE_DEVICE, 40, 100, 100), 'C');
    for (int device = 2; device < 15; device++)
        assert_int_equal(take_on(&b, ZC_NODE_DEVICE, device, 1, 1), 'C');
    /* A slot has sixteen. */
    assert_int_equal(take_on(&b, ZC_NODE_DEVICE, 15, 1, 1), 'O');
    end(&a, 0);
    end(&b, 0);
}

static char in_process(enum zc_node_limit limit, int device, uint64_t bytes, uint64_t most)
{
    const char *why;
    return "COR"[zc_node_take(limit, device, bytes, most, &why)];
}

static bool has_row(const struct zc_log_budget *row, const struct zc_log_budget *wanted)
{
    return strcmp(row->limit, wanted->limit) == 0 && row->device == wanted->device &&
           row->processes == wanted->processes && row->limit_bytes == wanted->limit_bytes &&
           row->bytes == wanted->bytes && row->peak_bytes == wanted->peak_bytes &&
           row->host_bytes == wanted->host_bytes && row->refused == wanted->refused &&
           row->host_peak_bytes == wanted->host_peak_bytes;
}

/* Device 1 is another process's 0. */
static CUresult uuid_of(CUuuid *uuid, CUdevice device)
{
    memset(uuid, 0, sizeof(*uuid));
    return device == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Beside a process that holds 20 pinned bytes, and 5 managed ones. */
static void sum_up(void)
{
    const struct zc_node_terms terms = {{ZC_LIMIT_BYTES, 100}, {0}, zc_available};
    const struct zc_log_budgets *out = &zc_log_budgets;
    static const struct zc_log_budget wanted[] = {
        {"max_pinned", -1, 2, 100, 40, 60, 60, 80, 1},
        {"max_managed", 1, 2, 40, 30, 30, 35, 35, 0},
        {"max_device", 1, 1, 15, 10, 10, 10, 10, 1},
        {"max_device", 63, 1, 9, 0, 0, 0, 0, 1},
    };
    zc_real.cuDeviceGetUuid_v2 = uuid_of;
    zc_own_forget();
    zc_options_read();
    zc_node_start(&terms);
    if (in_process(ZC_NODE_PINNED, -1, 60, 0) != 'C' ||
        in_process(ZC_NODE_PINNED, -1, 50, 0) != 'R' ||
        in_process(ZC_NODE_MANAGED, 1, 30, 40) != 'C' ||
        in_process(ZC_NODE_DEVICE, 1, 10, 15) != 'C' ||
        in_process(ZC_NODE_DEVICE, 1, 10, 15) != 'R' ||
        in_process(ZC_NODE_DEVICE, 63, 10, 9) != 'R' || in_process(ZC_NODE_DEVICE, 64, 1, 9) != 'O')
        _exit(1);
    zc_node_note(ZC_NODE_PINNED, -1, -20);
    zc_module_node.finish();
    if (out->alone || out->rows != 4 || zc_node_processes() != 2)
        _exit(2);
    for (int i = 0; i < 4; i++)
        if (!has_row(&out->row[i], &wanted[i]))
            _exit(10 + i);
}

static void the_summary_tells_what_was_held_and_what_was_refused(void **state)
{
    struct worker a = start(100);
    (void)state;
    assert_int_equal(take(&a, 20), 'C');
    assert_int_equal(take_on(&a, ZC_NODE_MANAGED, 0, 5, 40), 'C');
    assert_int_equal(in_child(sum_up), 0);
    end(&a, 0);
}

static struct zc_available left; /* As a worker is told when it starts. */

static uint64_t tell_left(struct zc_available *out)
{
    *out = left;
    return 0;
}

static void a_percentage_is_of_what_was_left_and_of_what_others_hold_of_it(void **state)
{
    const struct zc_node_terms half = {{ZC_LIMIT_PERCENT, 50}, {0}, tell_left};
    left = (struct zc_available){200, 1, {{7, 80}}};
    struct worker a = start_with(half);
    (void)state;
    assert_int_equal(take(&a, 41), 'R');
    assert_int_equal(take(&a, 40), 'C');
    left = (struct zc_available){160, 1, {{7, 40}}};
    struct worker b = start_with(half); /* Of the same group. */
    assert_int_equal(left_on(&b, ZC_NODE_PINNED, -1, 0), 0);
    assert_int_equal(take(&b, 1), 'R');
    left.group[0] = (struct zc_cgroup){8, 100};
    struct worker c = start_with(half); /* Of another one, on the same host. */
    assert_int_equal(left_on(&c, ZC_NODE_PINNED, -1, 0), 50);
    assert_int_equal(take(&c, 51), 'R');
    assert_int_equal(take(&c, 50), 'C');
    left.groups = 0;
    struct worker d = start_with(half);
    assert_int_equal(take(&d, 36), 'R'); /* Half of 160 + 90. */
    assert_int_equal(take(&d, 35), 'C');
    /* What it took before it had a slot does not lower its limit. */
    left = (struct zc_available){20, 0, {{0}}};
    struct worker e =
        start_with((struct zc_node_terms){{ZC_LIMIT_PERCENT, 50}, {300, 0, {{0}}}, tell_left});
    assert_int_equal(take(&e, 26), 'R'); /* Half of 300, less 125. */
    assert_int_equal(take(&e, 25), 'C');
    end(&e, 0);
    end(&a, 0);
    end(&b, 0);
    end(&c, 0);
    end(&d, 0);
}

static void where_the_file_is_removed_the_next_one_gets_what_is_held(void **state)
{
    struct worker a = start(100), b = start(100);
    (void)state;
    assert_int_equal(take(&a, 60), 'C');
    assert_int_equal(take_on(&a, ZC_NODE_DEVICE, 0, 60, 100), 'C');
    unlink(table);
    for (int tries = 0; take(&a, 0) == 'C' && access(table, F_OK) != 0; tries++) {
        assert_true(tries < 1000); /* It looks once a second. */
        usleep(10000);
    }
    assert_int_equal(take(&b, 41), 'R');
    assert_int_equal(take(&b, 40), 'C');
    assert_int_equal(take_on(&b, ZC_NODE_DEVICE, 0, 41, 100), 'R');
    end(&a, 0);
    end(&b, 0);
}

static void spoil(const char *bytes, size_t n, off_t size)
{
    int fd = open(table, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, n), n);
    assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
}

static void a_file_that_is_no_roster_of_ones_own_is_left_alone(void **state)
{
    (void)state;
    unlink(table);
    spoil("something else", 14, 14);
    assert_alone("its file is not one of this version");
    spoil(ZC_ROSTER_MAGIC "\0\0\0\7", 14, sizeof(struct zc_roster));
    assert_alone("its file is not one of this version");
    spoil(ZC_ROSTER_MAGIC, 10, 100);
    assert_alone("its file is not one of this version");
    assert_int_equal(chmod(table, 0666), 0);
    assert_alone("its file is not this user's own");
    unlink(table);
    assert_int_equal(symlink("elsewhere", table), 0);
    assert_alone("its file can't be opened");
    unlink(table);
    assert_int_equal(mkfifo(table, 0600), 0);
    assert_alone("its file is not this user's own");
    unlink(table);
    if (geteuid() == 0) {
        spoil("", 0, 0);
        assert_int_equal(chown(table, 65534, 65534), 0);
        assert_alone("its file is not this user's own");
        unlink(table);
    }
    setenv("ZC_BUDGETS", "here", 1);
    assert_alone("ZC_BUDGETS is not the path of a file, from the root on");
    setenv("ZC_BUDGETS", "/nowhere/at/all", 1);
    assert_alone("its file can't be opened");
    setenv("ZC_BUDGETS", "off", 1);
    assert_alone("ZC_BUDGETS is off");
    setenv("ZC_BUDGETS", table, 1);
    /* Its maker may have been killed before it was filled. */
    spoil("", 0, 0);
    struct worker a = start(100);
    assert_int_equal(take(&a, 100), 'C');
    end(&a, 0);
}

static void without_room_for_the_file_each_has_its_own(void **state)
{
    struct rlimit had, small = {4096, RLIM_INFINITY};
    (void)state;
    unlink(table);
    getrlimit(RLIMIT_FSIZE, &had);
    setrlimit(RLIMIT_FSIZE, &small);
    assert_alone("RLIMIT_FSIZE is too low for its file");
    small.rlim_cur = sizeof(struct zc_roster);
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(take_alone(100), 'C');
    unlink(table);
    setrlimit(RLIMIT_FSIZE, &had);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("zc", folder, "tmpfs", 0, "size=64k") != 0)
        skip();
    assert_alone("there is no memory for its file");
    assert_int_equal(umount(folder), 0);
    /* Where nobody names a file. */
    if (mount("zc", "/dev/shm", "tmpfs", 0, NULL) != 0)
        skip();
    char file[64];
    snprintf(file, sizeof(file), "/dev/shm/libzc.%u.budgets", (unsigned)geteuid());
    setenv("ZC_BUDGETS", "", 1);
    struct worker a = start(100), b = start(100);
    assert_int_equal(take(&a, 60), 'C');
    assert_int_equal(take(&b, 60), 'R');
    assert_int_equal(access(file, F_OK), 0);
    end(&a, 0);
    end(&b, 0);
    setenv("ZC_BUDGETS", table, 1);
}

/* Random processes; what each holds is also in memory that all see, counted late and uncounted
 * early. */
#define LIMIT 1000
#define WORKERS 6
#define LIVES 40

static struct {
    _Atomic uint64_t held[LIVES];
    _Atomic bool doomed[LIVES]; /* About to be killed: what it holds may be anybody's now. */
    _Atomic uint64_t broken, taken, refused;
} * all;

static void live(int me)
{
    const struct zc_node_terms terms = {{ZC_LIMIT_BYTES, LIMIT}, {0}, zc_available};
    unsigned seed = (unsigned)me + 1;
    const char *why;
    zc_own_forget();
    zc_options_read();
    zc_node_start(&terms);
    for (int round = 0; round < 400; round++) {
        uint64_t bytes = (uint64_t)rand_r(&seed) % 300, sum = 0;
        if (rand_r(&seed) % 2 && all->held[me] >= bytes) {
            all->held[me] -= bytes;
            zc_node_note(ZC_NODE_PINNED, -1, -(int64_t)bytes);
        } else if (zc_node_take(ZC_NODE_PINNED, -1, bytes, 0, &why) == ZC_NODE_COUNTED) {
            all->held[me] += bytes;
            all->taken++;
        } else {
            all->refused++;
        }
        for (int i = 0; i < LIVES; i++)
            sum += all->doomed[i] ? 0 : all->held[i];
        if (sum > LIMIT)
            all->broken = sum;
    }
    all->doomed[me] = true;
    _exit(rand_r(&seed) % 2);
}

static void random_processes_never_hold_more_together_and_all_comes_back(void **state)
{
    pid_t pid[LIVES];
    unsigned seed = 5;
    (void)state;
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    for (int i = 0; i < LIVES + WORKERS; i++) {
        if (i >= WORKERS) {
            if (i % 2) {
                usleep((useconds_t)(rand_r(&seed) % 3000));
                all->doomed[i - WORKERS] = true;
                kill(pid[i - WORKERS], SIGKILL);
            }
            waitpid(pid[i - WORKERS], NULL, 0);
        }
        if (i < LIVES && (pid[i] = fork()) == 0)
            live(i);
    }
    assert_int_equal(all->broken, 0);
    assert_true(all->taken > LIVES && all->refused > LIVES);
    struct worker last = start(LIMIT);
    assert_int_equal(take(&last, LIMIT), 'C');
    assert_int_equal(take(&last, 1), 'R');
    end(&last, 0);
}

static int make_folder(void **state)
{
    (void)state;
    real_without_driver();
    if (!mkdtemp(folder))
        return -1;
    snprintf(table, sizeof(table), "%s/budgets", folder);
    return setenv("ZC_BUDGETS", table, 1);
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(table);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_processes_hold_together_stays_within_the_limit),
        cmocka_unit_test(a_killed_process_gives_back_what_it_held),
        cmocka_unit_test(a_process_killed_with_the_lock_stops_nobody),
        cmocka_unit_test(a_process_that_stops_with_the_lock_has_the_others_take_nothing),
        cmocka_unit_test(who_has_a_slot_is_known_and_has_no_lock),
        cmocka_unit_test(a_slot_is_its_process_and_no_descriptor_child_or_next_program),
        cmocka_unit_test(each_gpu_has_its_own_limits),
        cmocka_unit_test(the_summary_tells_what_was_held_and_what_was_refused),
        cmocka_unit_test(a_percentage_is_of_what_was_left_and_of_what_others_hold_of_it),
        cmocka_unit_test(where_the_file_is_removed_the_next_one_gets_what_is_held),
        cmocka_unit_test(a_file_that_is_no_roster_of_ones_own_is_left_alone),
        cmocka_unit_test(without_room_for_the_file_each_has_its_own),
        cmocka_unit_test(random_processes_never_hold_more_together_and_all_comes_back),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
