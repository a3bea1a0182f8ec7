/* SPDX-License-Identifier: MIT */
/* A thread closes all descriptors, its own and others', and opens files, while another one
 * allocates large blocks. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

#define MIB ((size_t)1 << 20)

enum { BLOCKS = 300, KEPT = 24, FILES = 8 };

static atomic_bool over;
static const char word[] = "hello";

/* Files that are closed too soon are this program's fault, and none of them gets longer. */
static void *close_all(void *path)
{
    long longer = 0;
    while (!over) {
        struct stat found;
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        for (int i = 0; i < FILES; i++)
            if (open(path, O_RDWR) >= 0 && i == 0)
                longer += stat(path, &found) != 0 || found.st_size != (off_t)strlen(word);
    }
    return (void *)longer;
}

static size_t allocate_all(void)
{
    static unsigned char *kept[KEPT];
    size_t wrong = 0;
    for (int i = 0; i < BLOCKS; i++) {
        size_t n = MIB + (size_t)(i * 7 % 11) * 2 * MIB;
        free(kept[i % KEPT]);
        unsigned char *p = kept[i % KEPT] = malloc(n);
        memset(p, i, n);
        for (size_t at = 0; at < n; at += 4096)
            wrong += p[at] != (unsigned char)i;
    }
    return wrong;
}

int main(void)
{
    char path[] = "/tmp/zc-closes-XXXXXX";
    int fd = mkstemp(path);
    pthread_t thread;
    void *longer;
    EXPECT(fd >= 0 && write(fd, word, strlen(word)) == (ssize_t)strlen(word) && close(fd) == 0);
    EXPECT(pthread_create(&thread, NULL, close_all, path) == 0);
    size_t wrong = allocate_all();
    over = true;
    EXPECT(pthread_join(thread, &longer) == 0);
    printf("%zu wrong, %ld longer\n", wrong, (long)longer);
    return unlink(path);
}
