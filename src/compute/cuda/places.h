/* Where elements lie, as constants for a source: the compiler turns divisions by them into multiplications. */
#ifndef PENSTOCK_COMPUTE_CUDA_PLACES_H
#define PENSTOCK_COMPUTE_CUDA_PLACES_H

#include "base/text.h"
#include "compute/broadcast.h"

/* "#define NAME(i) ...": the place of an operand for number i of all elements of `b`. */
void cuda_define_place(struct text *out, const char *name, const struct broadcast *b, int operand);
/* "#define NAME number" */
void cuda_define_number(struct text *out, const char *name, int64_t number);
/* INDEX, an unsigned type for numbers below `limit`. Sources that do not depend on shapes take the wide one, limit INT64_MAX.
 */
void cuda_define_index(struct text *out, int64_t limit);
/* "#define EACH_INPUT(X) X(0, f32) ...", all inputs with their types and what `more` adds to them. For operators that move
 * elements (`moves`), i32 are named f32: they pass through a float's register as they are. */
void cuda_define_inputs(struct text *out, const struct kernel *kernel, bool moves,
                        void (*more)(const struct kernel *kernel, int input, struct text *out));
/* The name of a type, of something that is only moved. */
const char *cuda_moved_type(enum number_type type);

#endif
