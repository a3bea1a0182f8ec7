/* SPDX-License-Identifier: MIT */
/* Eight independent lanes of 16 bytes a step, each a 64-bit multiplication whose halves are
 * folded: processors start one in every cycle, so the lanes wait for memory and not for each
 * other. */
#include "base/hash.h"

#include <string.h>

#define LANES 8
#define STEP (16 * (size_t)LANES)

/* Digits of pi, so that no lane begins like another. */
static const uint64_t keys[LANES] = {
    UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344), UINT64_C(0xa4093822299f31d0),
    UINT64_C(0x082efa98ec4e6c89), UINT64_C(0x452821e638d01377), UINT64_C(0xbe5466cf34e90c6c),
    UINT64_C(0xc0ac29b7c97c50dd), UINT64_C(0x3f84d5b5b5470917),
};

__extension__ typedef unsigned __int128 wide;

static inline uint64_t fold(uint64_t a, uint64_t b)
{
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t lane(uint64_t state, uint64_t key, const unsigned char *at)
{
    uint64_t word[2];
    memcpy(word, at, sizeof(word));
    return fold(word[0] ^ key, word[1] ^ state);
}

static inline void step(uint64_t state[LANES], const unsigned char *at)
{
#define LANE(i) state[i] = lane(state[i], keys[i], at + 16 * (i))
    LANE(0);
    LANE(1);
    LANE(2);
    LANE(3);
    LANE(4);
    LANE(5);
    LANE(6);
    LANE(7);
#undef LANE
}

uint64_t zc_hash(const void *memory, size_t bytes)
{
    const unsigned char *at = memory;
    unsigned char rest[STEP] = {0};
    uint64_t state[LANES], hash = bytes;
    memcpy(state, keys, sizeof(state));
    size_t left = bytes;
    for (; left >= STEP; left -= STEP, at += STEP)
        step(state, at);
    if (left) {
        memcpy(rest, at, left);
        step(state, rest);
    }
    for (unsigned i = 0; i < LANES; i++)
        hash = fold(hash ^ keys[i], state[i] ^ keys[LANES - 1 - i]) + i;
    return hash;
}
