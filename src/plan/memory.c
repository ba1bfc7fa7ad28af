/* Memory of a stage and of a worker: sums of its blocks. */
#include "plan/memory.h"

int64_t worker_memory_total(const struct worker_memory *memory) {
    return memory->weights + memory->gradients + memory->optimizer + memory->stash + memory->buffers + memory->workspace;
}

struct worker_memory stage_memory(const struct stage_sizes *sizes, const struct stage_slots *slots, int moments) {
    return (struct worker_memory){
        .weights = slots->weights * sizes->parameter_bytes + sizes->statistics_bytes,
        .gradients = slots->forward_only ? 0 : stage_gradient_bytes(sizes),
        .optimizer = slots->forward_only ? 0 : moments * sizes->parameter_bytes,
        .stash = slots->stash * sizes->stash_bytes + slots->delta * sizes->delta_bytes + slots->input * sizes->input_bytes,
        .buffers = (slots->output + slots->output_gradient) * sizes->output_bytes + slots->input_gradient * sizes->input_bytes,
        .workspace = sizes->workspace_bytes,
    };
}

void worker_memory_add(struct worker_memory *total, const struct worker_memory *stage) {
    total->weights += stage->weights;
    total->gradients += stage->gradients;
    total->optimizer += stage->optimizer;
    total->stash += stage->stash;
    total->buffers += stage->buffers;
    if (stage->workspace > total->workspace) total->workspace = stage->workspace;
}
