/* SPDX-License-Identifier: MIT */
/* Copies and sets that meet a device block of `shared` or its host block. */
#pragma once

#include "driver/copy.h"

/* Before anything else looks at the blocks of a transfer: makes a device block one with the host
 * block that is copied into it, or gives it memory of its own.  Returns ZC_FACT_PAIR for a copy
 * between both sides of a pair; ZC_FACT_FAILED where c->result is the program's answer. */
uint32_t zc_shared_facts(struct zc_copy *c);

/* Carries out a copy between both sides.  True where it is answered, by c->result; false where the
 * device block has got memory of its own meanwhile: the copy is to be planned anew. */
bool zc_shared_copy(struct zc_copy *c);

/* Before a planned copy is made: a source that is ONE stays that until zc_shared_release(), because
 * its own memory would come to the same addresses.  No lock of the driver's may be taken meanwhile
 * (driver/launch.h).  False where it has changed since the plan, which is to be made anew. */
bool zc_shared_keep(struct zc_copy *c);
void zc_shared_release(struct zc_copy *c);

/* True for a side that zc_shared_copy() has to see. */
bool zc_shared_meets(const struct zc_operand *box);
