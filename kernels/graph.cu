/* SPDX-License-Identifier: MIT */
/*
 * graph [elements [launches]]: captures copies in, two kernels and a copy out into a graph once and
 * launches it many times.  The input changes between launches, the state stays on the device.
 */
#include "common.cuh"
#include "graph.cuh"

/* The buffers of one run. */
struct buffers {
    unsigned n;         /* words in each */
    unsigned *in, *out; /* host, pinned */
    unsigned *device_in, *state, *device_out;
};

static unsigned input_word(size_t launch, size_t i)
{
    return (unsigned)(launch * 97 + i * 13 + 1);
}

/* Captures one step on `stream`; the graph holds the buffers' addresses, not their contents. */
static cudaGraphExec_t capture_step(const struct buffers *b, cudaStream_t stream)
{
    const unsigned threads = 256, blocks = (b->n + threads - 1) / threads;
    size_t bytes = b->n * sizeof(unsigned);
    cudaGraph_t graph;
    cudaGraphExec_t step;

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(b->device_in, b->in, bytes, cudaMemcpyHostToDevice, stream));
    accumulate<<<blocks, threads, 0, stream>>>(b->state, b->device_in, b->n);
    fold<<<blocks, threads, 0, stream>>>(b->state, b->device_out, b->n);
    CHECK(cudaMemcpyAsync(b->out, b->device_out, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&step, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return step;
}

/* Runs the launches and checksums every one's output; 0 at the first wrong word. */
static int run(const struct buffers *b, size_t launches, cudaGraphExec_t step, cudaStream_t stream,
               uint64_t *checksum)
{
    unsigned *state = (unsigned *)host_alloc(b->n * sizeof(unsigned));
    int verified = 1;

    memset(state, 0, b->n * sizeof(unsigned));
    for (size_t launch = 0; launch < launches; launch++) {
        for (size_t i = 0; i < b->n; i++)
            b->in[i] = input_word(launch, i);
        CHECK(cudaGraphLaunch(step, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (size_t i = 0; i < b->n; i++) {
            state[i] = state[i] * 3 + input_word(launch, i);
            verified &= b->out[i] == (state[i] ^ (state[i] >> 7));
        }
        *checksum = fnv1a(*checksum, b->out, b->n * sizeof(unsigned));
    }
    free(state);
    return verified;
}

int main(int argc, char **argv)
{
    struct report report = {};
    struct buffers b = {};
    cudaStream_t stream;
    uint64_t checksum = FNV_START;

    at_most_arguments(argc, argv, 2, "[elements [launches]]");
    b.n = (unsigned)size_argument(argc, argv, 1, "elements", 1 << 16, 1, (size_t)1 << 28);
    size_t launches = size_argument(argc, argv, 2, "launches", 10, 1, 10000);
    size_t bytes = b.n * sizeof(unsigned);
    report_size(&report, "elements", b.n);
    report_size(&report, "launches", launches);

    double start = now_ms();
    CHECK(cudaMallocHost(&b.in, bytes));
    CHECK(cudaMallocHost(&b.out, bytes));
    CHECK(cudaMalloc(&b.device_in, bytes));
    CHECK(cudaMalloc(&b.state, bytes));
    CHECK(cudaMalloc(&b.device_out, bytes));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemsetAsync(b.state, 0, bytes, stream));
    cudaGraphExec_t step = capture_step(&b, stream);
    report_ms(&report, "setup", now_ms() - start);

    start = now_ms();
    int verified = run(&b, launches, step, stream, &checksum);
    report_ms(&report, "launches", now_ms() - start);

    CHECK(cudaGraphExecDestroy(step));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(b.device_in));
    CHECK(cudaFree(b.state));
    CHECK(cudaFree(b.device_out));
    CHECK(cudaFreeHost(b.in));
    CHECK(cudaFreeHost(b.out));
    return report_print(&report, "graph", checksum, verified);
}
