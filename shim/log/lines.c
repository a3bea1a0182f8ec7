/* SPDX-License-Identifier: MIT */
/* The lines about blocks, transfers, sites and warnings. */
#include "log/lines.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/own.h"
#include "ledger/site.h"
#include "log/log.h"

/* The fields that identify a block, in every line about it. */
static void block_fields(struct zc_line *line, const struct zc_block *block)
{
    zc_line_u64(line, "block", block->id);
    zc_line_hex(line, "site", zc_site_id(block->site), 8);
    zc_line_str(line, "api", zc_api_name((enum zc_api)block->api));
    zc_line_u64(line, "size_bytes", block->size);
    zc_line_str(line, "place", zc_place_name((enum zc_place_id)block->place));
    zc_line_address(line, "address", block->base);
    zc_line_i64(line, "device", block->device);
    if (zc_block_spilled(block) != 0)
        zc_line_u64(line, "spilled_bytes", zc_block_spilled(block));
}

const struct zc_flow_names zc_flow_asked = {"dir", "src_kind", "dst_kind"};
static const struct zc_flow_names flow_real = {"real_dir", "real_src_kind", "real_dst_kind"};

void zc_line_flow(struct zc_line *line, const struct zc_flow_names *names, unsigned flow)
{
    zc_line_str(line, names->dir, zc_dir_name(zc_flow_dir(flow)));
    zc_line_str(line, names->src, zc_kind_name(zc_flow_src(flow)));
    zc_line_str(line, names->dst, zc_kind_name(zc_flow_dst(flow)));
}

void zc_line_traffic(struct zc_line *line, const struct zc_cell sum[ZC_DIR_COUNT])
{
    ZC_LINE_OPEN(line, "traffic", '[');
    for (int dir = 0; dir < ZC_DIR_COUNT; dir++) {
        if (zc_count_asked(sum[dir].by).calls == 0)
            continue;
        ZC_LINE_OPEN(line, NULL, '{');
        zc_line_str(line, "dir", zc_dir_name((enum zc_dir)dir));
        zc_line_counts(line, sum[dir].by, sum[dir].ticks);
    }
}

void zc_log_alloc(const struct zc_block *block, const struct zc_log_request *request)
{
    struct zc_line line;
    if (!zc_log_begin(&line, ZC_LOG_ALLOCS, "alloc"))
        return;
    block_fields(&line, block);
    zc_line_str(&line, "asked_kind", zc_kind_name((enum zc_kind)block->asked));
    zc_line_str(&line, "real_kind", zc_kind_name((enum zc_kind)block->real));
    zc_line_bool(&line, "converted", (block->flags & (ZC_BLOCK_CONVERTED | ZC_BLOCK_HOST)) != 0);
    zc_line_bool(&line, "stream_ordered", (block->flags & ZC_BLOCK_STREAM) != 0);
    zc_line_bool(&line, "foreign", (block->flags & ZC_BLOCK_FOREIGN) != 0);
    zc_line_str(&line, "stream_kind", zc_stream_name(request->stream));
    zc_line_str(&line, "thread_name", request->thread);
    zc_line_str(&line, "rule", request->rule);
    zc_line_id(&line, "line", request->line);
    zc_line_str(&line, "why", request->why);
    zc_line_str(&line, "range", request->range);
    zc_log_write(&line);
}

ZC_OWN struct zc_log_unmet zc_log_unmet;

void zc_log_count_unmet(uint64_t bytes, uint64_t free_bytes)
{
    zc_raise_shared(&zc_log_unmet.largest_bytes, bytes);
    zc_raise_shared(&zc_log_unmet.lacking_bytes, bytes > free_bytes ? bytes - free_bytes : 0);
    __atomic_fetch_add(&zc_log_unmet.requests, 1, __ATOMIC_RELAXED);
}

ZC_OWN uint64_t zc_log_registered[ZC_COUNTERS_SITES];

ZC_OWN struct zc_log_moves zc_log_moves;

void zc_log_move(const struct zc_block *block, bool to_host, uint64_t bytes, const char *why,
                 uint64_t ticks, uint64_t waited, bool hidden)
{
    struct zc_line line;
    *(to_host ? &zc_log_moves.to_host : &zc_log_moves.to_device) += bytes;
    zc_log_moves.hidden += hidden ? bytes : 0;
    zc_log_moves.blocked += ticks;
    zc_log_moves.waited += waited;
    if (!zc_log_begin(&line, ZC_LOG_ALLOCS, "move"))
        return;
    zc_line_u64(&line, "block", block->id);
    zc_line_str(&line, "to", to_host ? "host" : "device");
    zc_line_u64(&line, "bytes", bytes);
    zc_line_u64(&line, "blocked_ns", zc_ticks_to_ns(ticks));
    zc_line_u64(&line, "waited_ns", zc_ticks_to_ns(waited));
    zc_line_bool(&line, "hidden", hidden);
    zc_line_str(&line, "why", why);
    zc_log_write(&line);
}

ZC_OWN struct zc_pair_counts zc_log_pairs;

void zc_line_pair_counts(struct zc_line *line, const struct zc_pair_counts *c)
{
    zc_line_u64(line, "elided_copies", c->elided_copies);
    zc_line_u64(line, "elided_bytes", c->elided_bytes);
    zc_line_u64(line, "copied_bytes", c->copied_bytes);
}

void zc_log_pair(const struct zc_pair_names *names, bool one, const struct zc_pair_counts *counts)
{
    struct zc_line line;
    if (!zc_log_begin(&line, ZC_LOG_ALLOCS, "pair"))
        return;
    zc_line_id(&line, "device_block", names->device_block);
    zc_line_id(&line, "host_block", names->host_block);
    zc_line_site(&line, "device_site", names->device_site);
    zc_line_site(&line, "host_site", names->host_site);
    zc_line_str(&line, "why", names->why);
    zc_line_u64(&line, "size_bytes", names->bytes);
    zc_line_str(&line, "backing", one ? "one" : "own");
    zc_line_pair_counts(&line, counts);
    zc_log_write(&line);
}

void zc_log_block(const struct zc_block *block, bool live)
{
    struct zc_line line;
    struct zc_cell sum[ZC_DIR_COUNT] = {0};
    if (!zc_log_begin(&line, ZC_LOG_ALLOCS, live ? "block" : "free"))
        return;
    block_fields(&line, block);
    if (live)
        zc_line_bool(&line, "live", true);
    zc_cell_sum_all(sum, block->cell);
    zc_line_traffic(&line, sum);
    zc_log_write(&line);
}

/* Not inlined, so that its line is not on the stack together with those of the call's site. */
__attribute__((noinline)) static void write_transfer(const struct zc_transfer *t,
                                                     const struct zc_log_call *call)
{
    static const char *const outcomes[ZC_OUTCOME_COUNT] = {
        [ZC_MOVED] = "moved", [ZC_CPU] = "cpu_copied", [ZC_ELIDED] = "elided"};
    struct zc_line line;
    if (!zc_log_begin(&line, ZC_LOG_EVENTS, "transfer"))
        return;
    zc_line_str(&line, "function", call->function);
    zc_line_flow(&line, &zc_flow_asked, t->asked);
    zc_line_flow(&line, &flow_real, t->real);
    zc_line_u64(&line, "bytes", t->bytes);
    zc_line_str(&line, "outcome", outcomes[t->outcome]);
    zc_line_u64(&line, "driver_copies", t->outcome == ZC_MOVED ? t->copies : 0);
    zc_line_u64(&line, "blocked_ns", zc_ticks_to_ns(t->ticks));
    if (t->links > 1)
        zc_line_u64(&line, "links", t->links);
    zc_line_id(&line, "src_block", t->src != NULL ? t->src->id : 0);
    zc_line_id(&line, "dst_block", t->dst != NULL ? t->dst->id : 0);
    zc_line_address(&line, "src_address", call->src);
    zc_line_address(&line, "dst_address", call->dst);
    zc_line_str(&line, "src_memory", zc_source_name((enum zc_source)t->src_source));
    zc_line_str(&line, "dst_memory", zc_source_name((enum zc_source)t->dst_source));
    if (call->stream == ZC_STREAM_CREATED)
        zc_line_address(&line, "stream", call->handle);
    else
        zc_line_str(&line, "stream", zc_stream_name(call->stream));
    zc_line_u64(&line, "thread", zc_thread_id());
    zc_line_site(&line, "call_site", t->call != 0 ? zc_site_id(t->call) : 0);
    zc_line_str(&line, "range", call->range);
    zc_log_write(&line);
}

void zc_log_transfer(const struct zc_transfer *t, const struct zc_log_call *call)
{
    if (zc_log_level() < ZC_LOG_EVENTS)
        return;
    if (zc_site_is_new(t->call))
        zc_log_site(t->call);
    write_transfer(t, call);
}

static void frames_field(struct zc_line *line, const struct zc_site *site)
{
    ZC_LINE_OPEN(line, "frames", '[');
    for (uint32_t i = 0; i < site->nframes && i < ZC_SITE_FRAMES; i++) {
        char buf[ZC_SITE_MODULE + 20];
        struct zc_text t = zc_text_on(buf, sizeof(buf));
        zc_text_fmt(&t, "%s+0x%x", site->frame[i].module, site->frame[i].offset);
        zc_line_str(line, NULL, zc_text_cstr(&t));
    }
}

/* The frames last, because they may be too many for the line. */
static void python_fields(struct zc_line *line, const struct zc_python_path *path)
{
    zc_line_hex(line, "native", path->native, 8);
    zc_line_u64(line, "before_python", path->before);
    ZC_LINE_OPEN(line, "python", '[');
    for (uint32_t i = 0; i < path->n; i++) {
        const struct zc_python_frame *f = &path->frame[i];
        ZC_LINE_OPEN(line, NULL, '{');
        zc_line_str(line, "function", f->function);
        zc_line_str(line, "file", f->file);
        zc_line_id(line, "line", f->line);
    }
}

/* Not inlined, so that its line is not on the stack together with those of modules. */
__attribute__((noinline)) static void write_site(const struct zc_site *site,
                                                 const struct zc_python_path *path)
{
    struct zc_line line;
    if (!zc_log_begin(&line, ZC_LOG_SUMMARY, "site"))
        return;
    zc_line_hex(&line, "site", site->id, 8);
    frames_field(&line, site);
    if (path != NULL)
        python_fields(&line, path);
    zc_log_write(&line);
}

void zc_log_site(uint32_t site_index)
{
    const struct zc_site *site = zc_site_get(site_index);
    if (zc_log_level() == ZC_LOG_OFF)
        return;
    zc_log_modules(site);
    write_site(site, zc_site_python(site_index));
}

bool zc_log_warn(enum zc_severity severity, const char *code, const char *text)
{
    static const char *const names[] = {"note", "warning", "error", "error"};
    struct zc_line line;
    if (!zc_log_begin(&line, ZC_LOG_SUMMARY, "warn"))
        return false;
    zc_line_str(&line, "severity", names[severity]);
    zc_line_str(&line, "code", code);
    zc_line_str(&line, "text", text);
    zc_log_write(&line);
    return true;
}
