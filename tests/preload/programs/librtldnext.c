/* SPDX-License-Identifier: MIT */
/* A library that asks for the next definition of a symbol behind itself, as interposers do. NAME
 * is its name and marker(), of which every library of the test has one, returns that. */
#include <dlfcn.h>

#define JOIN(a, b) a##b
#define NEXT_FROM(name) JOIN(next_from_, name)
#define TEXT(name) #name
#define NAME_OF(name) TEXT(name)

const char *marker(void);
void *NEXT_FROM(NAME)(const char *symbol);

const char *marker(void)
{
    return NAME_OF(NAME);
}

/* The caller is whoever stands in the return address, so the call must not become a tail call. */
void *NEXT_FROM(NAME)(const char *symbol)
{
    void *found = dlsym(RTLD_NEXT, symbol);
    __asm__ volatile("" : "+r"(found));
    return found;
}
