/* Placeholders. */
#include "graph.h"
#include "capture.h"
#include "vmm.h"
#include "launch.h"
CUresult sim_capture_unsafe_call(void){return 0;}
CUresult sim_capture_unsafe_stream(struct sim_stream *stream){(void)stream;return 0;}
CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work){(void)stream;(void)work;return 801;}
void sim_capture_stream_end(struct sim_stream *stream){(void)stream;}
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event){(void)stream;(void)event;return 801;}
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event){(void)stream;(void)event;return 801;}
CUresult sim_capture_implicit(struct sim_stream *stream){(void)stream;return 0;}
CUresult sim_capture_alloc(struct sim_stream *stream, struct sim_pool *pool, size_t size, CUdeviceptr *dptr){(void)stream;(void)pool;(void)size;(void)dptr;return 801;}
CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr dptr){(void)stream;(void)dptr;return 801;}
CUresult sim_graph_run(struct sim_graph *graph, struct sim_context *ctx){(void)graph;(void)ctx;return 801;}
CUresult sim_graph_exec_run(struct sim_graph_exec *graph, struct sim_context *ctx){(void)graph;(void)ctx;return 801;}
void sim_graph_exec_unref(struct sim_graph_exec *exec){(void)exec;}
CUresult sim_graph_alloc_run(struct sim_work *work){(void)work;return 801;}
size_t sim_graphs_count(void){return 0;}
void sim_graph_free(struct sim_graph *graph){(void)graph;}
struct sim_graph *sim_graph_clone(const struct sim_graph *graph){(void)graph;return 0;}
