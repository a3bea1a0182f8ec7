/* uthash's doubly linked lists: a member is taken out without a walk. */
#ifndef ZC_BASE_LIST_H
#define ZC_BASE_LIST_H

#ifndef NDEBUG
#define NDEBUG /* Its asserts would end the program. */
#endif
#include <utlist.h>

#endif
