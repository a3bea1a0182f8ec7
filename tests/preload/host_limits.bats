#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Limits on memory: what a program has left of them bare it has with libc's memory in `pinned`.

load host.bash

setup() {
    host_setup host_family
}

@test "the malloc family keeps its contract where few addresses can be reserved" {
    write_policy "$PINNED"
    for kib in 4000000 400000; do
        run -0 bash -c "ulimit -v $kib; exec env ZC_POLICY=$BATS_TEST_TMPDIR/policy.conf \
            LD_PRELOAD=$LIBZC $PROGRAMS/host_family"
    done
}

@test "what RLIMIT_DATA leaves to the program stays the program's" {
    "${CC:-gcc}" -O1 -fno-builtin -xc -o "$BATS_TEST_TMPDIR/program" - <<-'END'
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/mman.h>
	#include <sys/resource.h>
	static void use(size_t mib)
	{
	    char *p = malloc(mib << 20);
	    printf("%zu MiB: %d\n", mib, p && memset(p, 1, mib << 20));
	    free(p);
	}
	int main(void)
	{
	    struct rlimit limit = {300 << 20, RLIM_INFINITY};
	    use(200);
	    setrlimit(RLIMIT_DATA, &limit);
	    for (size_t mib = 210; mib <= 280; mib += 10)
	        use(mib);
	    printf("%d\n", mmap(NULL, 280 << 20, PROT_READ | PROT_WRITE,
	                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	}
	END
    run -0 "$BATS_TEST_TMPDIR/program"
    [[ $output != *": 0"* ]]
    local bare=$output
    run -0 under_policy "$PINNED" "$BATS_TEST_TMPDIR/program"
    [[ $output == "$bare" ]]
}

@test "a program that sets RLIMIT_AS has the addresses that it has bare" {
    "${CC:-gcc}" -D_GNU_SOURCE -O1 -fno-builtin -xc -o "$BATS_TEST_TMPDIR/program" - <<-'END'
	#include <errno.h>
	#include <pthread.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/mman.h>
	#include <sys/resource.h>
	#include <unistd.h>
	static int holds(const char *p, size_t n, int c)
	{
	    return p && p[0] == c && !memcmp(p, p + 1, n - 1);
	}
	static void *exchange(void *limit)
	{
	    printf("%d\n", prlimit(gettid(), RLIMIT_AS, limit, NULL));
	    return NULL;
	}
	static int in_thread(struct rlimit *limit)
	{
	    pthread_t thread;
	    return pthread_create(&thread, NULL, exchange, limit) || pthread_join(thread, NULL);
	}
	int main(int argc, char **argv)
	{
	    struct rlimit limit = {(size_t)4 << 30, (size_t)4 << 30}, old;
	    char *before = memset(malloc(3 << 20), 1, 3 << 20);
	    errno = 0;
	    printf("%d\n", argc == 1              ? setrlimit(RLIMIT_AS, &limit)
	                   : argv[1][0] == 't' ? in_thread(&limit)
	                                       : prlimit(0, RLIMIT_AS, &limit, &old));
	    void *map = mmap(NULL, (size_t)2 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	    printf("%d %d\n", map != MAP_FAILED, errno);
	    for (size_t n = 1000; n < 100 << 20; n = n * 3 / 2) {
	        char *p = malloc(n);
	        printf("%zu %d\n", n, p && holds(memset(p, 2, n), n, 2));
	    }
	    before = realloc(before, 20 << 20);
	    printf("%d\n", holds(before, 3 << 20, 1));
	    printf("%d\n", malloc((size_t)4 << 30) == NULL && errno == ENOMEM);
	}
	END
    for how in '' prlimit thread; do
        run -0 "$BATS_TEST_TMPDIR/program" $how
        local bare=$output
        run -0 under_policy "$PINNED" "$BATS_TEST_TMPDIR/program" $how
        [[ $output == "$bare" ]]
    done
}

@test "what was freed before a program sets RLIMIT_DATA does not count" {
    "${CC:-gcc}" -O1 -fno-builtin -xc -o "$BATS_TEST_TMPDIR/program" - <<-'END'
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/mman.h>
	#include <sys/resource.h>
	int main(void)
	{
	    struct rlimit limit = {300 << 20, RLIM_INFINITY};
	    free(memset(malloc(200 << 20), 1, 200 << 20));
	    printf("%d\n", setrlimit(RLIMIT_DATA, &limit));
	    printf("%d\n", mmap(NULL, 200 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	                        -1, 0) != MAP_FAILED);
	}
	END
    run -0 "$BATS_TEST_TMPDIR/program"
    [[ $output == $'0\n1' ]]
    run -0 under_policy "$PINNED" "$BATS_TEST_TMPDIR/program"
    [[ $output == $'0\n1' ]]
}

@test "a child of vfork that sets RLIMIT_AS takes no addresses from its parent" {
    "${CC:-gcc}" -D_GNU_SOURCE -O1 -fno-builtin -xc -o "$BATS_TEST_TMPDIR/program" - <<-'END'
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/resource.h>
	#include <sys/wait.h>
	#include <unistd.h>
	static unsigned long longest(void)
	{
	    unsigned long from, to, most = 0;
	    FILE *maps = fopen("/proc/self/maps", "r");
	    while (fscanf(maps, "%lx-%lx%*[^\n]", &from, &to) == 2)
	        most = to - from > most ? to - from : most;
	    fclose(maps);
	    return most;
	}
	int main(void)
	{
	    memset(malloc(3 << 20), 1, 3 << 20);
	    unsigned long before = longest();
	    if (!vfork()) {
	        struct rlimit limit = {1 << 30, RLIM_INFINITY};
	        _exit(setrlimit(RLIMIT_AS, &limit) != 0);
	    }
	    int status;
	    printf("%d\n", wait(&status) > 0 && status == 0 && longest() == before);
	}
	END
    run -0 "$BATS_TEST_TMPDIR/program"
    [[ $output == 1 ]]
    run -0 under_policy "$PINNED" "$BATS_TEST_TMPDIR/program"
    [[ $output == 1 ]]
}

@test "a program that may lock its memory may do so with placed blocks" {
    "${CC:-gcc}" -D_GNU_SOURCE -O1 -fno-builtin -xc -o "$BATS_TEST_TMPDIR/program" - <<-'END'
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/mman.h>
	#include <sys/resource.h>
	#include <unistd.h>
	int main(void)
	{
	    struct rlimit limit = {512 << 20, 512 << 20};
	    size_t n = 3 << 20, pages = 0;
	    char *before = memset(malloc(n), 1, n);
	    int raised = setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
	    if (geteuid() == 0 && setuid(65534) != 0) /* Root may lock anything. */
	        return 1;
	    int locked = mlockall(MCL_CURRENT) == 0 && mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
	    munlockall();
	    char *after = memset(malloc(n), 2, n);
	    FILE *statm = fopen("/proc/self/statm", "r");
	    int few = fscanf(statm, "%zu", &pages) == 1 && pages * 4096 < 100 << 20;
	    printf("%d %d: %d, %d\n", before[n - 1], after[n - 1], locked || !raised, few);
	    return 0;
	}
	END
    run -0 "$BATS_TEST_TMPDIR/program"
    [[ $output == '1 2: 1, 1' ]]
    run -0 under_policy "$PINNED" "$BATS_TEST_TMPDIR/program"
    [[ $output == '1 2: 1, 1' ]]
}
