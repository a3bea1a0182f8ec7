/* SPDX-License-Identifier: MIT */
/*
 * Kernels of bfs.  A warp looks at one vertex at a time; if the vertex was reached in the last
 * level, the warp reads its list of neighbours 32 at a time and gives the unseen ones their
 * level. Two warps may do so to one neighbour: both write the same value.
 */
#define BFS_UNSEEN 0xffffffffu

__global__ void bfs_start(unsigned *levels, unsigned vertices, unsigned root)
{
    for (unsigned v = blockIdx.x * blockDim.x + threadIdx.x; v < vertices;
         v += gridDim.x * blockDim.x)
        levels[v] = v == root ? 0 : BFS_UNSEEN;
}

__global__ void bfs_level(const unsigned *offsets, const unsigned *columns, unsigned *levels,
                          unsigned vertices, unsigned level, unsigned *found)
{
    unsigned warps = gridDim.x * blockDim.x / 32;
    unsigned lane = threadIdx.x % 32;

    for (unsigned v = (blockIdx.x * blockDim.x + threadIdx.x) / 32; v < vertices; v += warps) {
        if (levels[v] != level)
            continue;
        for (unsigned e = offsets[v] + lane; e < offsets[v + 1]; e += 32) {
            unsigned to = columns[e];
            if (levels[to] == BFS_UNSEEN) {
                levels[to] = level + 1;
                *found = 1;
            }
        }
    }
}
