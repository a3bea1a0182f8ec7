/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target on kept inputs without libFuzzer, so that any compiler can build it and every
 * test run replays the corpus: each file named on the command line and each file in a folder named
 * there is one test case. Without arguments it takes the folder tests/fuzz/corpus/NAME, NAME being
 * its own name without "_fuzz-replay".
 */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned cases;

/* A fault of the target ends the process, so that a case that returns has passed. */
static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t size = 0, cap = 4096;
    uint8_t *data = malloc(cap);

    if (file == NULL || data == NULL) {
        printf("not ok %u - %s cannot be read\n", ++cases, path);
        return 1;
    }
    for (size_t n; (n = fread(data + size, 1, cap - size, file)) > 0;) {
        size += n;
        if (size == cap && (data = realloc(data, cap *= 2)) == NULL)
            abort();
    }
    fclose(file);
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (exact == NULL)
        abort();
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    free(data);
    printf("ok %u - %s\n", ++cases, path);
    fflush(stdout);
    return 0;
}

static int run_path(const char *path)
{
    char file[4096];
    struct dirent *entry;
    DIR *dir = opendir(path);
    int failed = 0;

    if (dir == NULL)
        return run_file(path);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        failed |= run_file(file);
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    char corpus[512];
    const char *name = strrchr(argv[0], '/');
    int failed = 0;

    name = name != NULL ? name + 1 : argv[0];
    size_t length = strcspn(name, "_");
    snprintf(corpus, sizeof corpus, "tests/fuzz/corpus/%.*s", (int)length, name);
    for (int i = 1; i < argc; i++)
        failed |= run_path(argv[i]);
    if (argc == 1)
        failed |= run_path(corpus);
    printf("1..%u\n", cases);
    return failed || cases == 0;
}
