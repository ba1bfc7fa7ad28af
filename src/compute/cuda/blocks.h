/* Work on the GPU's blocks: slots of struct device_memory and struct device_class (blocks.c). */
#ifndef PENSTOCK_COMPUTE_CUDA_BLOCKS_H
#define PENSTOCK_COMPUTE_CUDA_BLOCKS_H

#include "compute/cuda/cuda.h"

void cuda_block_add(struct device *device, enum number_type type, size_t count, void *y, const void *x);
/* Both in the GPU's memory. */
void cuda_block_convert(struct cuda_device *device, size_t count, enum number_type to_type, void *to,
                        enum number_type from_type, const void *from);
/* The same of `rows` rows of `columns` numbers, which are `pitch` apart; where both are in rows without gaps, a conversion. */
void cuda_block_repitch(struct cuda_device *device, int64_t rows, int64_t columns, enum number_type to_type, void *to,
                        int64_t to_pitch, enum number_type from_type, const void *from, int64_t from_pitch);
void cuda_block_scale(struct device *device, size_t count, float *y, float factor, float divisor);
void cuda_block_clip(struct device *device, const struct stretch *stretches, int count, double limit);
void cuda_update(struct device *device, const struct optimizer *rule, const struct optimizer_settings *settings,
                 const struct optimizer_call *call, bool predict_only, double seconds);

/* Room for so many bytes in the GPU's memory, for work that is enqueued before the next call. */
enum ps_status cuda_room(struct cuda_device *device, size_t bytes, void **room, struct ps_error *error);

#endif
