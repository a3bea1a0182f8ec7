/* SPDX-License-Identifier: MIT */
/*
 * The kernels of zc-views, as PTX.  tests/sim/kernels/views.cpp says the same in C++:
 *
 *   view_copy(from, to, words)       to[i] = from[i]
 *   view_fill(to, words, value)      to[i] = value
 *   view_watch(from, stride, count, expected, wrong, stop, most)
 *       one thread reads from[0], from[stride] ... over and over, until *stop or `most` times, and
 *       counts in wrong[1] how often it has read; wrong[0], at its end: what was not as expected
 *   view_count(to, stop, last, most)
 *       one thread writes 1, 2, 3 ... to *to, until *stop or `most`; *last: what it wrote last
 */
#pragma once

static const char view_kernels[] = "\
.version 6.0\n\
.target sm_50\n\
.address_size 64\n\
.visible .entry view_copy(.param .u64 from, .param .u64 to, .param .u64 words)\n\
{\n\
    .reg .pred %p;\n\
    .reg .b32 %r<6>;\n\
    .reg .b64 %d<9>;\n\
    ld.param.u64 %d1, [from];\n\
    ld.param.u64 %d2, [to];\n\
    ld.param.u64 %d3, [words];\n\
    mov.u32 %r1, %ctaid.x;\n\
    mov.u32 %r2, %ntid.x;\n\
    mov.u32 %r3, %tid.x;\n\
    mad.lo.u32 %r4, %r1, %r2, %r3;\n\
    cvt.u64.u32 %d4, %r4;\n\
    mov.u32 %r5, %nctaid.x;\n\
    mul.lo.u32 %r5, %r5, %r2;\n\
    cvt.u64.u32 %d5, %r5;\n\
next:\n\
    setp.ge.u64 %p, %d4, %d3;\n\
    @%p bra done;\n\
    shl.b64 %d6, %d4, 2;\n\
    add.u64 %d7, %d1, %d6;\n\
    add.u64 %d8, %d2, %d6;\n\
    ld.volatile.global.u32 %r1, [%d7];\n\
    st.volatile.global.u32 [%d8], %r1;\n\
    add.u64 %d4, %d4, %d5;\n\
    bra next;\n\
done:\n\
    ret;\n\
}\n\
.visible .entry view_fill(.param .u64 to, .param .u64 words, .param .u32 value)\n\
{\n\
    .reg .pred %p;\n\
    .reg .b32 %r<7>;\n\
    .reg .b64 %d<7>;\n\
    ld.param.u64 %d1, [to];\n\
    ld.param.u64 %d2, [words];\n\
    ld.param.u32 %r6, [value];\n\
    mov.u32 %r1, %ctaid.x;\n\
    mov.u32 %r2, %ntid.x;\n\
    mov.u32 %r3, %tid.x;\n\
    mad.lo.u32 %r4, %r1, %r2, %r3;\n\
    cvt.u64.u32 %d3, %r4;\n\
    mov.u32 %r5, %nctaid.x;\n\
    mul.lo.u32 %r5, %r5, %r2;\n\
    cvt.u64.u32 %d4, %r5;\n\
next:\n\
    setp.ge.u64 %p, %d3, %d2;\n\
    @%p bra done;\n\
    shl.b64 %d5, %d3, 2;\n\
    add.u64 %d6, %d1, %d5;\n\
    st.volatile.global.u32 [%d6], %r6;\n\
    add.u64 %d3, %d3, %d4;\n\
    bra next;\n\
done:\n\
    ret;\n\
}\n\
.visible .entry view_watch(.param .u64 from, .param .u64 stride, .param .u64 count,\n\
                           .param .u32 expected, .param .u64 wrong, .param .u64 stop,\n\
                           .param .u32 most)\n\
{\n\
    .reg .pred %p;\n\
    .reg .b32 %r<7>;\n\
    .reg .b64 %d<9>;\n\
    ld.param.u64 %d1, [from];\n\
    ld.param.u64 %d2, [stride];\n\
    ld.param.u64 %d3, [count];\n\
    ld.param.u32 %r1, [expected];\n\
    ld.param.u64 %d4, [wrong];\n\
    ld.param.u64 %d5, [stop];\n\
    ld.param.u32 %r2, [most];\n\
    shl.b64 %d2, %d2, 2;\n\
    mov.u32 %r3, 0;\n\
    mov.u32 %r4, 0;\n\
    mov.u64 %d6, 0;\n\
    mov.u64 %d7, %d1;\n\
next:\n\
    ld.volatile.global.u32 %r5, [%d7];\n\
    add.u32 %r4, %r4, 1;\n\
    st.volatile.global.u32 [%d4+4], %r4;\n\
    setp.eq.u32 %p, %r5, %r1;\n\
    @%p bra right;\n\
    add.u32 %r3, %r3, 1;\n\
right:\n\
    add.u64 %d6, %d6, 1;\n\
    add.u64 %d7, %d7, %d2;\n\
    setp.lt.u64 %p, %d6, %d3;\n\
    @%p bra on;\n\
    mov.u64 %d6, 0;\n\
    mov.u64 %d7, %d1;\n\
on:\n\
    ld.volatile.global.u32 %r6, [%d5];\n\
    setp.ne.u32 %p, %r6, 0;\n\
    @%p bra done;\n\
    setp.lt.u32 %p, %r4, %r2;\n\
    @%p bra next;\n\
done:\n\
    st.volatile.global.u32 [%d4], %r3;\n\
    ret;\n\
}\n\
.visible .entry view_count(.param .u64 to, .param .u64 stop, .param .u64 last, .param .u32 most)\n\
{\n\
    .reg .pred %p;\n\
    .reg .b32 %r<4>;\n\
    .reg .b64 %d<4>;\n\
    ld.param.u64 %d1, [to];\n\
    ld.param.u64 %d2, [stop];\n\
    ld.param.u64 %d3, [last];\n\
    ld.param.u32 %r1, [most];\n\
    mov.u32 %r2, 0;\n\
next:\n\
    add.u32 %r2, %r2, 1;\n\
    st.volatile.global.u32 [%d1], %r2;\n\
    ld.volatile.global.u32 %r3, [%d2];\n\
    setp.ne.u32 %p, %r3, 0;\n\
    @%p bra done;\n\
    setp.lt.u32 %p, %r2, %r1;\n\
    @%p bra next;\n\
done:\n\
    st.volatile.global.u32 [%d3], %r2;\n\
    ret;\n\
}\n";
