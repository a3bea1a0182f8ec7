/* SPDX-License-Identifier: MIT */
/*
 * pitched [width [height [depth]]]: memory with rows.  A pitched image goes in by cudaMemcpy2D, is
 * blurred with weights from a constant symbol, travels through an array and comes back; a volume
 * goes in by cudaMemcpy3D and is summed into a device symbol.
 */
#include "common.cuh"
#include "pitched.cuh"

#define SUM_THREADS 64

/* The run's sizes, in words. */
struct shape {
    size_t width, height, depth;
};

static const unsigned host_weights[3] = {3, 5, 7};

static unsigned pixel(size_t x, size_t y)
{
    return (unsigned)(x * 31 + y * 17 + x * y % 13);
}

static unsigned voxel(size_t i)
{
    return (unsigned)(i * 7 % 1009);
}

static unsigned expected_pixel(const struct shape *s, size_t x, size_t y)
{
    unsigned left = x > 0 ? pixel(x - 1, y) : 0;
    unsigned right = x + 1 < s->width ? pixel(x + 1, y) : 0;

    return host_weights[0] * left + host_weights[1] * pixel(x, y) + host_weights[2] * right;
}

/* Copies a pitched image into an array and from there to another pitched image. */
static void through_array(const struct shape *s, unsigned char *to, size_t to_pitch,
                          const unsigned char *from, size_t from_pitch)
{
    cudaChannelFormatDesc words = cudaCreateChannelDesc<unsigned>();
    size_t row = s->width * sizeof(unsigned);
    cudaArray_t array;

    CHECK(cudaMallocArray(&array, &words, s->width, s->height));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, from, from_pitch, row, s->height,
                              cudaMemcpyDeviceToDevice));
    CHECK(
        cudaMemcpy2DFromArray(to, to_pitch, array, 0, 0, row, s->height, cudaMemcpyDeviceToDevice));
    CHECK(cudaFreeArray(array));
}

/* Blurs the image in `image` (tight rows) and leaves the result there. */
static void blur_image(const struct shape *s, unsigned *image)
{
    size_t row = s->width * sizeof(unsigned), in_pitch, out_pitch;
    unsigned char *in, *out;
    dim3 threads(32, 8);
    dim3 blocks((unsigned)((s->width + 31) / 32), (unsigned)((s->height + 7) / 8));

    CHECK(cudaMallocPitch(&in, &in_pitch, row, s->height));
    CHECK(cudaMallocPitch(&out, &out_pitch, row, s->height));
    CHECK(cudaMemcpy2D(in, in_pitch, image, row, row, s->height, cudaMemcpyHostToDevice));
    CHECK(cudaMemset2D(out, out_pitch, 0xff, row, s->height));
    CHECK(cudaMemcpyToSymbol(weights, host_weights, sizeof(host_weights)));
    blur<<<blocks, threads>>>(in, out, in_pitch, out_pitch, (unsigned)s->width,
                              (unsigned)s->height);
    CHECK(cudaGetLastError());
    through_array(s, in, in_pitch, out, out_pitch);
    CHECK(cudaMemcpy2D(image, row, in, in_pitch, row, s->height, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}

/* The sum of a volume of width x height x depth words, computed on the device. */
static unsigned long long sum_of_volume(const struct shape *s, unsigned *volume)
{
    cudaExtent extent = make_cudaExtent(s->width * sizeof(unsigned), s->height, s->depth);
    cudaMemcpy3DParms copy = {};
    cudaPitchedPtr device;
    unsigned long long sum = 0;

    CHECK(cudaMalloc3D(&device, extent));
    copy.srcPtr = make_cudaPitchedPtr(volume, s->width * sizeof(unsigned), s->width, s->height);
    copy.dstPtr = device;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    CHECK(cudaMemcpyToSymbol(volume_sum, &sum, sizeof(sum)));
    sum_volume<<<(unsigned)(s->height * s->depth), SUM_THREADS>>>((const unsigned char *)device.ptr,
                                                                  device.pitch, (unsigned)s->width);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyFromSymbol(&sum, volume_sum, sizeof(sum)));
    CHECK(cudaFree(device.ptr));
    return sum;
}

static int verify(const struct shape *s, const unsigned *image, unsigned long long sum)
{
    unsigned long long expected = 0;

    for (size_t y = 0; y < s->height; y++) {
        for (size_t x = 0; x < s->width; x++) {
            if (image[y * s->width + x] != expected_pixel(s, x, y))
                return 0;
        }
    }
    for (size_t i = 0; i < s->width * s->height * s->depth; i++)
        expected += voxel(i);
    return sum == expected;
}

int main(int argc, char **argv)
{
    struct report report = {};
    struct shape s;

    at_most_arguments(argc, argv, 3, "[width [height [depth]]]");
    s.width = size_argument(argc, argv, 1, "width", 333, 1, 65536);
    s.height = size_argument(argc, argv, 2, "height", 129, 1, 32768);
    s.depth = size_argument(argc, argv, 3, "depth", 5, 1, 1024);
    report_size(&report, "width", s.width);
    report_size(&report, "height", s.height);
    report_size(&report, "depth", s.depth);

    size_t pixels = s.width * s.height, voxels = pixels * s.depth;
    unsigned *image = (unsigned *)host_alloc(pixels * sizeof(unsigned));
    unsigned *volume = (unsigned *)host_alloc(voxels * sizeof(unsigned));
    for (size_t i = 0; i < pixels; i++)
        image[i] = pixel(i % s.width, i / s.width);
    for (size_t i = 0; i < voxels; i++)
        volume[i] = voxel(i);

    double start = now_ms();
    blur_image(&s, image);
    report_ms(&report, "image", now_ms() - start);

    start = now_ms();
    unsigned long long sum = sum_of_volume(&s, volume);
    report_ms(&report, "volume", now_ms() - start);

    int verified = verify(&s, image, sum);
    uint64_t checksum = fnv1a(FNV_START, image, pixels * sizeof(unsigned));
    checksum = fnv1a(checksum, &sum, sizeof(sum));
    free(image);
    free(volume);
    return report_print(&report, "pitched", checksum, verified);
}
