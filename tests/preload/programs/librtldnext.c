/* A library that asks for the next definition of a symbol behind itself, as interposers do.  NAME is
 * its name and marker(), of which every library of the test has one, returns that. */
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

/* A tail call with optimisation, an ordinary one without. */
void *NEXT_FROM(NAME)(const char *symbol)
{
    return dlsym(RTLD_NEXT, symbol);
}
