/* SPDX-License-Identifier: MIT */
/* Faults of threads that begin with SIGSEGV blocked. */
#include "fault_test.h"

/* The usual way to keep signals from a new thread: it inherits the mask. */
static void *touch_page(void *arg)
{
    poke(arg);
    return NULL;
}

static void inherited_mask(void)
{
    sigset_t all, old;
    pthread_t thread;
    sigfillset(&all);
    if (zc_fault_start(&fake_ops))
        _exit(5);
    fake_protect(PROT_NONE);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_create(&thread, NULL, touch_page, region);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_join(thread, NULL);
    if (faults != 1)
        _exit(6);
}

static void a_thread_with_an_inherited_mask_is_served(void **test)
{
    (void)test;
    assert_int_equal(in_child(inherited_mask), 0);
}

static void *touch_page_and_ask(void *arg)
{
    sigset_t now;
    poke(arg);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    if (!sigismember(&now, SIGSEGV) || !sigismember(&now, SIGUSR1))
        _exit(8);
    return arg;
}

/* A mask that an attribute has from before pages were protected, or from after. */
static void mask_of_attribute(void)
{
    sigset_t all, now;
    pthread_t thread;
    pthread_attr_t before, after;
    void *result = NULL;
    sigfillset(&all);
    pthread_attr_init(&before);
    pthread_attr_init(&after);
    pthread_attr_setsigmask_np(&before, &all);
    if (zc_fault_start(&fake_ops))
        _exit(5);
    fake_protect(PROT_NONE);
    pthread_attr_setsigmask_np(&after, &all);
    pthread_create(&thread, &before, touch_page_and_ask, region);
    pthread_join(thread, NULL);
    pthread_create(&thread, &after, touch_page_and_ask, region + PAGE);
    pthread_join(thread, &result);
    pthread_attr_getsigmask_np(&after, &now);
    if (faults != 2 || result != region + PAGE || !sigismember(&now, SIGSEGV))
        _exit(6);
}

static void end_otherwise(int sig)
{
    (void)sig;
    _exit(8);
}

/* Its own fault ends the process, past the handler. */
static void own_fault_of_attribute(void)
{
    sigset_t all;
    pthread_t thread;
    pthread_attr_t attr;
    sigfillset(&all);
    pthread_attr_init(&attr);
    signal(SIGSEGV, end_otherwise);
    if (zc_fault_start(&fake_ops))
        _exit(5);
    pthread_attr_setsigmask_np(&attr, &all);
    pthread_create(&thread, &attr, touch_page, foreign);
    pthread_join(thread, NULL);
}

static void a_thread_whose_attribute_has_a_mask_is_served(void **test)
{
    (void)test;
    assert_int_equal(in_child(mask_of_attribute), 0);
    int status = in_child(own_fault_of_attribute);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_with_an_inherited_mask_is_served),
        cmocka_unit_test(a_thread_whose_attribute_has_a_mask_is_served),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, fake_setup, NULL);
}
