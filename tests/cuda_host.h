/*
 * A stand-in for NVIDIA's libraries, for tests of the cuda device on machines without a GPU. Its one GPU is the host: memory is
 * the host's, a stream does its work when it is told to, kernels are compiled by the host's C compiler (CC, else cc), and
 * products and convolutions are plain loops. What it cannot show is what runs at the same time on a GPU: races within a block
 * or between streams.
 */
#ifndef PENSTOCK_TESTS_CUDA_HOST_H
#define PENSTOCK_TESTS_CUDA_HOST_H

#include <stddef.h>

/* Puts it in the place of the libraries, before the first device is opened, for as long as the process lives. */
void cuda_host_use(void);
/* The same where no GPU can be opened. */
void cuda_host_unless_gpu(void);
/* The GPU's memory: 16 GiB at first. What is taken beyond it is refused. */
void cuda_host_set_memory(size_t bytes);
/* How much of it is taken, and how many sources were compiled. */
size_t cuda_host_taken(void);
int cuda_host_compiled(void);

#endif
