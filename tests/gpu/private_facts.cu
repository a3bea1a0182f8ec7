/* SPDX-License-Identifier: MIT */
/*
 * Asks hardware what the GPU sees of private mappings of a file, and of shared ones that the CPU
 * may only read: whose pages a registration takes, the file's or the mapping's own, and who sees
 * what is written then, also after a fork.  Prints one line a fact, so that the simulated GPU can
 * be compared with a real one.
 *
 *   private_facts      ends with status 77 where no GPU answers
 */
#include "facts.cuh"

/* One file, seen by the CPU in three ways. */
static volatile int *whole, *view, *own; /* shared, shared to read, private */

static volatile int *mapping(int protection, int sharing, int file)
{
    void *p = mmap(NULL, PAGE, protection, sharing, file, 0);

    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return (volatile int *)p;
}

static void open_file(int first)
{
    int file = memfd_create("facts", 0);

    if (file < 0 || ftruncate(file, (off_t)PAGE) != 0) {
        perror("memfd_create");
        exit(1);
    }
    whole = mapping(PROT_READ | PROT_WRITE, MAP_SHARED, file);
    view = mapping(PROT_READ, MAP_SHARED, file);
    own = mapping(PROT_READ | PROT_WRITE, MAP_PRIVATE, file);
    for (size_t i = 0; i < WORDS; i++)
        whole[i] = first;
    close(file);
}

static void pin(const char *fact, volatile int *p, unsigned flags)
{
    say(fact, cudaHostRegister((void *)p, PAGE, flags));
}

static void all_see(volatile int *p)
{
    kernel_reads("a kernel reads there", p);
    copy_reads("a copy reads there", p);
    show("the CPU reads there", *p);
    show("the file has", *whole);
}

/* The same where no kernel may look. */
static void copies_see(volatile int *p)
{
    copy_reads("a copy reads there", p);
    show("the CPU reads there", *p);
    show("the file has", *whole);
}

/* h is private, d the view to read: the parts of a pair. */
static void view_to_read(void)
{
    open_file(7);
    pin("the view registered", view, cudaHostRegisterDefault);
    pin("for reading", view, cudaHostRegisterReadOnly);
    all_see(view);
    *own = 8;
    show("the private mapping has", *own);
    all_see(view);
    *whole = 9;
    all_see(view);
    copy_reads("a copy reads the private mapping", own);
    say("unregistered", cudaHostUnregister((void *)view));
}

/* A private mapping that nobody has touched yet, then one that was read, then one with its own
 * page. */
static void private_mapping(unsigned flags, int touch)
{
    open_file(7);
    if (touch == 1)
        show("the CPU reads there", *own);
    if (touch == 2)
        *own = 8;
    pin("registered", own, flags);
    all_see(own);
    *whole = 9;
    all_see(own);
    *own = 10;
    all_see(own);
    if (flags == cudaHostRegisterDefault) {
        kernel_writes("a kernel writes there", own, 11);
        all_see(own);
        copy_writes("a copy writes there", own, 12);
        all_see(own);
    }
    say("unregistered", cudaHostUnregister((void *)own));
    copies_see(own);
}

static void private_untouched(void)
{
    private_mapping(cudaHostRegisterDefault, 0);
}

static void private_read(void)
{
    private_mapping(cudaHostRegisterDefault, 1);
}

static void private_written(void)
{
    private_mapping(cudaHostRegisterDefault, 2);
}

static void private_untouched_for_reading(void)
{
    private_mapping(cudaHostRegisterReadOnly, 0);
}

static void private_read_for_reading(void)
{
    private_mapping(cudaHostRegisterReadOnly, 1);
}

static void private_written_for_reading(void)
{
    private_mapping(cudaHostRegisterReadOnly, 2);
}

/* The CPU's rights to the private mapping come after the registration. */
static void private_without_writing(void)
{
    open_file(7);
    mprotect((void *)own, PAGE, PROT_READ);
    pin("registered", own, cudaHostRegisterDefault);
    pin("for reading", own, cudaHostRegisterReadOnly);
    mprotect((void *)own, PAGE, PROT_READ | PROT_WRITE);
    all_see(own);
    *own = 8;
    all_see(own);
}

/* Registered pages that are thrown away: those of the file come back. */
static void private_discarded(void)
{
    open_file(7);
    *own = 8;
    pin("registered", own, cudaHostRegisterDefault);
    show("madvise", madvise((void *)own, PAGE, MADV_DONTNEED));
    all_see(own);
    *own = 9;
    all_see(own);
    say("unregistered", cudaHostUnregister((void *)own));
    copies_see(own);
}

/* The page of the file itself goes, as with a hole that is punched. */
static void file_removed(void)
{
    open_file(7);
    pin("the view registered for reading", view, cudaHostRegisterReadOnly);
    show("madvise", madvise((void *)whole, PAGE, MADV_REMOVE));
    all_see(view);
    *whole = 8;
    all_see(view);
}

static void child_writes(volatile int *p)
{
    show("a child reads there", *p);
    *p = 20;
    show("a child reads what it wrote", *p);
}

static void forked(volatile int *p, void (*see)(volatile int *))
{
    pid_t child = fork();

    if (child == 0) {
        child_writes(p);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    see(p);
    *p = 30;
    see(p);
}

static void private_and_a_child(void)
{
    open_file(7);
    pin("registered", own, cudaHostRegisterDefault);
    *own = 8;
    forked(own, all_see);
}

static void view_and_a_child(void)
{
    open_file(7);
    pin("the view registered for reading", view, cudaHostRegisterReadOnly);
    *own = 8;
    forked(own, copies_see);
    all_see(view);
}

/* The parent writes first; the child still runs, and reads when it is told. */
static void parent_writes_first(void)
{
    pid_t child;
    int told[2];
    char none;

    open_file(7);
    pin("registered", own, cudaHostRegisterDefault);
    if (pipe(told) != 0)
        perror("pipe");
    child = fork();
    if (child == 0) {
        close(told[1]);
        (void)!read(told[0], &none, 1);
        show("a child reads what the parent wrote", *own);
        _exit(0);
    }
    *own = 8;
    all_see(own);
    close(told[0]);
    close(told[1]);
    waitpid(child, NULL, 0);
}

#define GROUP(function, copies)                                                                    \
    {                                                                                              \
#function, function, copies                                                                \
    }
static const struct group groups[] = {
    GROUP(view_to_read, true),
    GROUP(private_untouched, true),
    GROUP(private_read, false),
    GROUP(private_written, false),
    GROUP(private_untouched_for_reading, true),
    GROUP(private_read_for_reading, false),
    GROUP(private_written_for_reading, false),
    GROUP(private_without_writing, false),
    GROUP(private_discarded, false),
    GROUP(file_removed, false),
    GROUP(private_and_a_child, false),
    GROUP(view_and_a_child, false),
    GROUP(parent_writes_first, false),
};

int main(void)
{
    return run_groups("private_facts", groups, sizeof(groups) / sizeof(groups[0]));
}
