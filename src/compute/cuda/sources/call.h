/*
 * The one argument of every kernel of the cuda device: struct kernel_call (compute/kernel.h) with addresses in the GPU's
 * memory. Both compilers read this: the host's, and NVRTC, for which CALL_INPUTS is the number of the node's inputs.
 */
#ifndef PENSTOCK_COMPUTE_CUDA_CALL_H
#define PENSTOCK_COMPUTE_CUDA_CALL_H

/* In the host's memory, where kernels write the first thing in the data that is wrong. */
struct fault {
    int kind; /* 0: none; 1: a token outside of the vocabulary */
    int value, limit;
    long long index, positions;
};

enum { CALL_NUMBERS = 8, CALL_MORE = 6, CALL_FACTORS = 12 };

struct call {
    void *output;
    const void *output_gradient;
    void *inner;
    char *workspace;
    float *state;
    const void *target;
    const void *weights[4];
    float *gradients[4], *statistics[4];
    double *loss;
    long long *correct, *correct5;
    struct fault *fault;
    /* Of this launch: how many things it goes over; more blocks and numbers, as the operator's host code has them. */
    long long count;
    void *more[CALL_MORE];
    long long number[CALL_NUMBERS];
    float factor[CALL_FACTORS];
    unsigned key[4];
    int counted, training, update_statistics;
    float gradient_scale;
    struct {
        const void *value;
        void *gradient; /* 0: it is not needed */
    } input[CALL_INPUTS];
};

#endif
