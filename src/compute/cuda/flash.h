/* Attention whose scores are never in memory: sources/flash.cu. */
#ifndef PENSTOCK_COMPUTE_CUDA_FLASH_H
#define PENSTOCK_COMPUTE_CUDA_FLASH_H

#include "compute/attention.h"
#include "compute/cuda/cuda.h"

/* Can it compute the node: in bf16, heads of 16 to 64 features, all with keys of their own, without cap and with no mask but of
 * tokens, on a GPU with tensor cores for bf16? */
bool flash_serves(const struct kernel *kernel, const struct attention_shape *shape);
/* Compiles the kernels and sets inner_bytes and workspace_bytes. */
enum ps_status flash_prepare(struct kernel *kernel, const struct attention_shape *shape, const struct cuda_module **module,
                             struct ps_error *error);
enum ps_status flash_forward(struct kernel *kernel, const struct attention_shape *shape, const struct cuda_module *module,
                             const struct kernel_call *call);
enum ps_status flash_backward(struct kernel *kernel, const struct attention_shape *shape, const struct cuda_module *module,
                              const struct kernel_call *call);

#endif
