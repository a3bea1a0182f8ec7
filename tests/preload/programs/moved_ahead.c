/* SPDX-License-Identifier: MIT */
/* Kernels read what is fetched to the device, ahead of them, and other blocks beside it. */
#include "moved_look.h"

/* Each is filled once it is made, as a model's weights are. */
static void load(unsigned n)
{
    start_gpu(0);
    count = n;
    for (unsigned i = 0; i < n; i++) {
        CHECK(cuMemAlloc(&blocks[i], BLOCK));
        bring(i);
    }
}

/* Four blocks of eight have room. */
static void spread(void)
{
    load(8);
    show("loaded");
    look_through(0, 8, 8);
    finish();
}

/* While one block is read, those of the next two launches have come, wherever they began. */
static void next_two(void)
{
    unsigned late = 0;
    start(24);
    for (unsigned t = 0; t < 12 * 24; t++) {
        look(t % 24, NULL);
        CHECK(cuCtxSynchronize());
        late += t >= 8 * 24 && (hosted(blocks[(t + 1) % 24]) || hosted(blocks[(t + 2) % 24]));
    }
    printf("late: %u\n", late);
    finish();
}

/* Blocks that kernels write, made when the device is full of weights that are read in turn. */
static void beside(void)
{
    load(8);
    for (unsigned t = 0; t < 8; t++) {
        look_through(0, 8, 2);
        CHECK(cuMemAlloc(&blocks[8], BLOCK));
        CHECK(cuMemsetD8(blocks[8], 7, BLOCK));
        printf("%c", hosted(blocks[8]) ? 'H' : 'D');
        value[8] = 7;
        add(8, 0, 0, NULL);
        look(8, NULL);
        CHECK(cuMemFree(blocks[8]));
    }
    puts("");
    finish();
}

/* Between two kernels that read a block memory is made, for which another one leaves. */
static void between(void)
{
    unsigned late = 0;
    load(8);
    for (unsigned t = 0; t < 8; t++)
        for (unsigned i = 0; i < 8; i++) {
            CUdeviceptr made;
            look(i, NULL);
            CHECK(cuMemAlloc(&made, BLOCK));
            late += t > 3 && (hosted(blocks[i]) || hosted(made));
            look(i, NULL);
            CHECK(cuMemFree(made));
        }
    printf("late: %u\n", late);
    finish();
}

/* None that is much larger leaves for a block. */
static void small(void)
{
    CUdeviceptr made;
    load(4);
    look_through(0, 4, 4);
    CHECK(cuMemAlloc(&made, 2 * MIB));
    printf("made: %c\n", hosted(made) ? 'H' : 'D');
    look_through(0, 4, 1);
    CHECK(cuMemFree(made));
    finish();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"spread", spread},
                                          {"next_two", next_two},
                                          {"beside", beside},
                                          {"between", between},
                                          {"small", small}};
    return RUN_SCENARIO(all, argc, argv);
}
