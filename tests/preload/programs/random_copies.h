/* SPDX-License-Identifier: MIT */
/* Copies and sets of the random program: every direction and form, whole, in part, past the end. */
#ifndef RANDOM_COPIES_H
#define RANDOM_COPIES_H

#include "random_scene.h"

#define MOST_ROWS 9
#define MOST_PLANES 3

/* The two ends of a copy. */
struct copy {
    struct block *to, *from;
    size_t to_at, from_at, bytes;
    struct stream *stream; /* Of asynchronous ones, else the legacy one. */
    bool async;
};

static inline bool free_of_graphs(const struct block *b)
{
    return !b->held;
}

/* Mostly whole blocks or round offsets, and now and then a range that leaves its block. */
static inline bool choose_range(struct copy *c)
{
    size_t most_to, most_from, most;
    c->to_at = one_in(2) ? 0 : below(c->to->bytes);
    c->from_at = one_in(2) ? 0 : below(c->from->bytes);
    if (one_in(2)) {
        c->to_at &= ~(size_t)255;
        c->from_at &= ~(size_t)255;
    }
    most_to = c->to->bytes - c->to_at;
    most_from = c->from->bytes - c->from_at;
    most = most_to < most_from ? most_to : most_from;
    c->bytes = one_in(2) ? most : one_in(16) ? 0 : 1 + below(most);
    if (c->to == c->from)
        return false;
    return true;
}

/* Both blocks are in the stream's hands before the copy, and those of the CPU again after it where
 * CUDA says that the copy is complete then. One that moves nothing waits for nothing. */
static inline void copied(struct copy *c, CUresult code)
{
    bool done = !c->async && (!on_device(c->to) || !on_device(c->from));
    if (code != CUDA_SUCCESS || c->bytes < MOST_ROWS * MOST_PLANES)
        return;
    if (pageable(c->to) || (done && !on_device(c->to)))
        c->to->last = NULL;
    if (pageable(c->from) || (done && !on_device(c->from)))
        c->from->last = NULL;
}

static inline CUresult linear(const struct copy *c, const char **name)
{
    CUdeviceptr to = address(c->to, c->to_at), from = address(c->from, c->from_at);
    CUstream s = c->stream->handle;
    bool into = on_device(c->to), out_of = on_device(c->from);
    if (one_in(3) || (!into && !out_of)) {
        *name = "copy";
        return c->async ? cuMemcpyAsync(to, from, c->bytes, s) : cuMemcpy(to, from, c->bytes);
    }
    if (into && out_of && one_in(2)) {
        CUcontext a = contexts[c->to->device], b = contexts[c->from->device];
        *name = "peer";
        return c->async ? cuMemcpyPeerAsync(to, a, from, b, c->bytes, s)
                        : cuMemcpyPeer(to, a, from, b, c->bytes);
    }
    if (into && out_of) {
        *name = "DtoD";
        return c->async ? cuMemcpyDtoDAsync(to, from, c->bytes, s)
                        : cuMemcpyDtoD(to, from, c->bytes);
    }
    if (into) {
        void *h = c->from->at + c->from_at;
        *name = "HtoD";
        return c->async ? cuMemcpyHtoDAsync(to, h, c->bytes, s) : cuMemcpyHtoD(to, h, c->bytes);
    }
    void *h = c->to->at + c->to_at;
    *name = "DtoH";
    return c->async ? cuMemcpyDtoHAsync(h, from, c->bytes, s) : cuMemcpyDtoH(h, from, c->bytes);
}

/* The same range as rows of some pitch; the bytes between the rows stay as they are. */
static inline CUDA_MEMCPY3D strided(const struct copy *c)
{
    size_t rows = 1 + below(MOST_ROWS), planes = 1 + below(MOST_PLANES);
    size_t pitch = c->bytes / (rows * planes);
    size_t width = pitch == 0 ? 0 : 1 + below(pitch);
    if (pitch > 1 && one_in(16))
        width = pitch + 1; /* Which CUDA refuses where there are several rows. */
    CUmemorytype host = one_in(2) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
    CUmemorytype device = one_in(2) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
    CUmemorytype to = on_device(c->to) ? device : host, from = on_device(c->from) ? device : host;
    return (CUDA_MEMCPY3D){.srcMemoryType = from,
                           .srcHost = c->from->at + c->from_at,
                           .srcDevice = address(c->from, c->from_at),
                           .srcPitch = pitch,
                           .srcHeight = rows,
                           .dstMemoryType = to,
                           .dstHost = c->to->at + c->to_at,
                           .dstDevice = address(c->to, c->to_at),
                           .dstPitch = pitch,
                           .dstHeight = rows,
                           .WidthInBytes = width,
                           .Height = rows,
                           .Depth = planes};
}

static inline CUDA_MEMCPY2D flat(const CUDA_MEMCPY3D *c)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = c->srcMemoryType,
                           .srcHost = c->srcHost,
                           .srcDevice = c->srcDevice,
                           .srcPitch = c->srcPitch,
                           .dstMemoryType = c->dstMemoryType,
                           .dstHost = (void *)c->dstHost,
                           .dstDevice = c->dstDevice,
                           .dstPitch = c->dstPitch,
                           .WidthInBytes = c->WidthInBytes,
                           .Height = c->Height};
}

/* The same between the contexts of both blocks. */
static inline CUresult between(const struct copy *c, const CUDA_MEMCPY3D *box)
{
    const CUDA_MEMCPY3D_PEER peer = {.srcMemoryType = box->srcMemoryType,
                                     .srcDevice = box->srcDevice,
                                     .srcContext = contexts[c->from->device],
                                     .srcPitch = box->srcPitch,
                                     .srcHeight = box->srcHeight,
                                     .dstMemoryType = box->dstMemoryType,
                                     .dstDevice = box->dstDevice,
                                     .dstContext = contexts[c->to->device],
                                     .dstPitch = box->dstPitch,
                                     .dstHeight = box->dstHeight,
                                     .WidthInBytes = box->WidthInBytes,
                                     .Height = box->Height,
                                     .Depth = box->Depth};
    return c->async ? cuMemcpy3DPeerAsync(&peer, c->stream->handle) : cuMemcpy3DPeer(&peer);
}

static inline CUresult rectangle(const struct copy *c, const char **name)
{
    CUDA_MEMCPY3D box = strided(c);
    CUDA_MEMCPY2D rows = flat(&box);
    if (on_device(c->to) && on_device(c->from) && one_in(2)) {
        *name = "3Dpeer";
        return between(c, &box);
    }
    if (one_in(2)) {
        *name = "3D";
        return c->async ? cuMemcpy3DAsync(&box, c->stream->handle) : cuMemcpy3D(&box);
    }
    *name = "2D";
    if (c->async)
        return cuMemcpy2DAsync(&rows, c->stream->handle);
    return one_in(2) ? cuMemcpy2D(&rows) : cuMemcpy2DUnaligned(&rows);
}

/* Two copies, of the halves. */
static inline CUresult batch(const struct copy *c, const char **name)
{
    size_t half = c->bytes / 2, counts[] = {half, c->bytes - half}, first = 0;
    CUdeviceptr to[] = {address(c->to, c->to_at), address(c->to, c->to_at + half)};
    CUdeviceptr from[] = {address(c->from, c->from_at), address(c->from, c->from_at + half)};
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    *name = "batch";
    return cuMemcpyBatchAsync(to, from, counts, 2, &how, &first, 1, c->stream->handle);
}

static inline void copy(void)
{
    struct copy c = {.to = pick(free_of_graphs), .from = pick(free_of_graphs)};
    const char *name = "";
    unsigned form = below(8);
    CUresult code;
    if (!c.to || !c.from || !choose_range(&c))
        return;
    c.async = one_in(2);
    c.stream = c.async ? any_stream() : legacy(current);
    bool as_batch = form == 0 && c.async && !c.stream->legacy && c.bytes > 1;
    if (on_device(c.to) == on_device(c.from) || one_in(24))
        as_batch = false;
    take(c.stream, c.to);
    take(c.stream, c.from);
    if (as_batch)
        code = batch(&c, &name);
    else
        code = form == 1 || form == 2 ? rectangle(&c, &name) : linear(&c, &name);
    say("%s%s %d <- %d, %zu + %zu <- %zu: %d", name, c.async ? "Async" : "", (int)(c.to - blocks),
        (int)(c.from - blocks), c.bytes, c.to_at, c.from_at, (int)code);
    if (as_batch) {
        settle(c.to);
        settle(c.from);
    }
    copied(&c, code);
    if (one_in(3))
        show_content("copy:", c.to);
}

static inline bool device_block(const struct block *b)
{
    return on_device(b) && !b->held;
}

/* Ranges that leave their block. */
static inline void copy_too_much(void)
{
    struct block *b = pick(device_block);
    static __thread char host[8192];
    if (!b || b->kind == OWN) /* Behind which addresses are reserved too. */
        return;
    size_t at = b->bytes - 1 - below(b->bytes < 100 ? b->bytes : 100), n = b->bytes - at + 4097;
    struct stream *s = legacy(current);
    take(s, b);
    say("past the end of %d kind %d: %d", (int)(b - blocks), (int)b->kind,
        (int)cuMemcpyDtoH(host, address(b, at), n));
    say("and into: %d", (int)cuMemcpyHtoD(address(b, at), host, n));
    say("and set: %d", (int)cuMemsetD8(address(b, at), 3, n));
}

static inline CUresult set_rows(CUdeviceptr at, size_t n, struct stream *s)
{
    size_t rows = 1 + below(7), pitch = n / rows, width = pitch ? 1 + below(pitch) : 0;
    unsigned char v = (unsigned char)below(256);
    return s ? cuMemsetD2D8Async(at, pitch, v, width, rows, s->handle)
             : cuMemsetD2D8(at, pitch, v, width, rows);
}

static inline void set(void)
{
    struct block *b = pick(device_block);
    struct stream *s = one_in(2) ? any_stream() : NULL;
    if (!b || b->device != current)
        return;
    size_t low = one_in(2) ? 0 : below(b->bytes), n = 1 + below(b->bytes - low);
    CUdeviceptr at = address(b, low);
    unsigned v = below(1u << 31);
    CUresult code;
    take(s ? s : legacy(current), b);
    switch (below(4)) {
    case 0:
        code = s ? cuMemsetD8Async(at, (unsigned char)v, n, s->handle)
                 : cuMemsetD8(at, (unsigned char)v, n);
        break;
    case 1:
        code = s ? cuMemsetD16Async(at, (unsigned short)v, n / 2, s->handle)
                 : cuMemsetD16(at, (unsigned short)v, n / 2);
        break;
    case 2:
        code = s ? cuMemsetD32Async(at, v, n / 4, s->handle) : cuMemsetD32(at, v, n / 4);
        break;
    default:
        code = set_rows(at, n, s);
    }
    say("set %d, %zu at %zu: %d", (int)(b - blocks), n, low, (int)code);
    if (one_in(4))
        show_content("set:", b);
}

/* One side of a copy: the rows of a block side by side, or of an image. */
static inline void image_end(CUDA_MEMCPY3D *c, CUarray image, const struct block *b, bool to)
{
    CUmemorytype type =
        b ? on_device(b) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
    if (to) {
        c->dstMemoryType = type;
        c->dstArray = image;
        c->dstPitch = b ? c->WidthInBytes : 0;
        c->dstHost = b ? b->at : NULL;
        c->dstDevice = b ? address(b, 0) : 0;
    } else {
        c->srcMemoryType = type;
        c->srcArray = image;
        c->srcPitch = b ? c->WidthInBytes : 0;
        c->srcHost = b ? b->at : NULL;
        c->srcDevice = b ? address(b, 0) : 0;
    }
}

static inline CUresult copy_image(CUarray image, const struct block *b, size_t width, size_t height,
                                  bool in, struct stream *s)
{
    CUDA_MEMCPY3D c = {.WidthInBytes = width, .Height = height, .Depth = 1};
    CUDA_MEMCPY2D rows;
    image_end(&c, image, NULL, in);
    image_end(&c, NULL, b, !in);
    if (one_in(2))
        return cuMemcpy3DAsync(&c, s->handle);
    rows = flat(&c);
    rows.srcArray = c.srcArray;
    rows.dstArray = c.dstArray;
    return cuMemcpy2DAsync(&rows, s->handle);
}

/* A block goes through an image in the order of streams and comes back elsewhere. */
static inline void through_image(void)
{
    struct block *a = pick(free_of_graphs), *b = pick(free_of_graphs);
    struct stream *s = any_stream();
    if (!a || !b || a == b)
        return;
    size_t n = a->bytes < b->bytes ? a->bytes : b->bytes, height = 1 + below(64);
    size_t width = n / height < 4096 ? n / height : 4096;
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = width, .Height = height, .NumChannels = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8};
    CUarray image;
    if (width == 0)
        return;
    CHECK(cuArrayCreate(&image, &shape));
    take(s, a);
    say("to image from %d: %d", (int)(a - blocks),
        (int)copy_image(image, a, width, height, true, s));
    take(s, b);
    say("from image to %d: %d", (int)(b - blocks),
        (int)copy_image(image, b, width, height, false, s));
    show_content("image:", b);
    settle(a);
    CHECK(cuArrayDestroy(image));
}

/* A block goes through an array and comes back elsewhere. */
static inline void through_array(void)
{
    struct block *a = pick(free_of_graphs), *b = pick(free_of_graphs);
    if (!a || !b || a == b)
        return;
    size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    n = n < 32768 ? n : 32768;
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = n, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    CUarray array;
    settle(a);
    settle(b);
    CHECK(cuArrayCreate(&array, &shape));
    say("to array from %d: %d", (int)(a - blocks),
        (int)(on_device(a) ? cuMemcpyDtoA(array, 0, address(a, 0), n)
                           : cuMemcpyHtoA(array, 0, a->at, n)));
    say("from array to %d: %d", (int)(b - blocks),
        (int)(on_device(b) ? cuMemcpyAtoD(address(b, 0), array, 0, n)
                           : cuMemcpyAtoH(b->at, array, 0, n)));
    CHECK(synchronize_context());
    CHECK(cuArrayDestroy(array));
    show_content("array:", b);
}

#endif
