/* SPDX-License-Identifier: MIT */
/* Scenes that run twice, with the kernel alone and with fault handling on, and must tell the same
 * story and end the same way. */
#ifndef TESTS_UNIT_FAULT_STORY_H
#define TESTS_UNIT_FAULT_STORY_H

#include "fault_test.h"

#include <stdio.h>
#include <ucontext.h>

/* What a scene saw, in memory that it shares with the test. */
static struct story {
    int length;
    long told[64];
} * story;

static bool handled;               /* Whether fault handling is on in this run. */
static enum { FIRST, LAST } order; /* Whether it was on before the scene began. */
static sigjmp_buf way_out;

static inline void tell(long what)
{
    if (story->length < 64)
        story->told[story->length++] = what;
}

/* Where a scene has made its settings: fault handling may begin here, and a protected page is
 * touched in any case. */
static inline void settled(void)
{
    if (!handled)
        return;
    if (order == LAST)
        if (zc_fault_start(&fake_ops))
            _exit(99);
    fake_protect(PROT_NONE);
    poke(region + 5 * PAGE);
    if (faults != 1)
        _exit(98);
}

static inline void set_action(int sig, void (*handler)(int, siginfo_t *, void *), int flags,
                              int masked)
{
    struct sigaction act;
    memset(&act, 0, sizeof(act));
    act.sa_sigaction = handler;
    act.sa_flags = flags;
    if (masked)
        sigaddset(&act.sa_mask, masked);
    if (sigaction(sig, &act, NULL) != 0)
        _exit(97);
}

static inline bool blocked_now(int sig)
{
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    return sigismember(&now, sig);
}

/* On an address, tells the offset in the page that faulted. */
static inline void tell_info(const siginfo_t *info)
{
    tell(info->si_signo);
    tell(info->si_code);
    if (info->si_code > 0)
        tell((char *)info->si_addr - foreign);
    tell(blocked_now(SIGSEGV));
    tell(blocked_now(SIGUSR1));
    tell(blocked_now(SIGUSR2));
    tell(blocked_now(33));
}

static inline void touch_shared(void)
{
    if (handled) {
        fake_protect(PROT_NONE);
        poke(region + 7 * PAGE);
        if (faults != 1)
            _exit(96);
    }
}

static inline void repair(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    tell_info(info);
    tell(sigismember(&((ucontext_t *)context)->uc_sigmask, SIGUSR2));
    touch_shared();
    mprotect(foreign, PAGE, PROT_READ | PROT_WRITE);
    errno = 77;
}

static inline void repair_plain(int sig)
{
    tell(sig);
    mprotect(foreign, PAGE, PROT_READ | PROT_WRITE);
}

static inline void only_tell(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    tell_info(info);
}

static inline void compare(void (*scene)(void))
{
    struct story bare;
    memset(story, 0, sizeof(*story));
    handled = false;
    int status = in_child(scene);
    bare = *story;
    for (int when = FIRST; when <= LAST; when++) {
        memset(story, 0, sizeof(*story));
        handled = true;
        order = when;
        pid_t child = fork();
        if (child == 0) {
            for (int sig = 1; sig < 32; sig++)
                signal(sig, SIG_DFL);
            if (when == FIRST && zc_fault_start(&fake_ops))
                _exit(95);
            alarm(300);
            scene();
            _exit(0);
        }
        int with;
        assert_int_equal(waitpid(child, &with, 0), child);
        assert_int_equal(with, status);
        assert_int_equal(story->length, bare.length);
        for (int i = 0; i < bare.length; i++)
            if (story->told[i] != bare.told[i])
                print_message("# told %d: %lx, bare %lx\n", i, story->told[i], bare.told[i]);
        for (int i = 0; i < bare.length; i++)
            assert_int_equal(story->told[i], bare.told[i]);
    }
}

/* Makes a test of a scene, and a row of the table of tests. */
#define TEST(scene)                                                                                \
    static void as_the_kernel_does__##scene(void **test)                                           \
    {                                                                                              \
        (void)test;                                                                                \
        compare(scene);                                                                            \
    }
#define ROW(scene) cmocka_unit_test(as_the_kernel_does__##scene),

#define RUN_SCENES(scenes)                                                                         \
    int main(void)                                                                                 \
    {                                                                                              \
        fake_map();                                                                                \
        story = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);       \
        cmocka_set_message_output(CM_OUTPUT_TAP);                                                  \
        const struct CMUnitTest tests[] = {scenes(ROW)};                                           \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }

#endif
