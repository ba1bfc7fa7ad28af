/* The sources in sources/, and graph/functions.def, as texts in the program (cmake/Texts.cmake). */
#ifndef PENSTOCK_COMPUTE_CUDA_TEXTS_H
#define PENSTOCK_COMPUTE_CUDA_TEXTS_H

struct cuda_text {
    const char *name;
    const unsigned char *bytes; /* ends with a 0 */
};
extern const struct cuda_text cuda_texts[]; /* ends with a NULL name */

#endif
