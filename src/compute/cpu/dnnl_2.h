/*
 * oneDNN's generation 3 in terms of generation 2 (Debian 12 has 2.6, later systems 3.x), for the calls of dnnl.c: where 2 fills
 * in a description and creates a primitive descriptor from it, 3 has one function; where memory descriptors are structs in 2,
 * they are pointers in 3. Empty where generation 3 itself is there.
 */
#ifndef PENSTOCK_COMPUTE_CPU_DNNL_2_H
#define PENSTOCK_COMPUTE_CPU_DNNL_2_H

#include <dnnl.h>

#if DNNL_VERSION_MAJOR >= 3

static inline const_dnnl_memory_desc_t dnnl_descriptor(const dnnl_memory_desc_t *descriptor) { return *descriptor; }

static inline dnnl_status_t dnnl_append(dnnl_post_ops_t operations, dnnl_alg_kind_t kind, float alpha) {
    return dnnl_post_ops_append_eltwise(operations, kind, alpha, 0);
}

static inline dnnl_status_t dnnl_append_sum(dnnl_post_ops_t operations) {
    return dnnl_post_ops_append_sum(operations, 1, 0, dnnl_data_type_undef);
}

static inline int dnnl_rank(const_dnnl_memory_desc_t descriptor) {
    int rank;
    dnnl_memory_desc_query(descriptor, dnnl_query_ndims_s32, &rank);
    return rank;
}

static inline int64_t dnnl_side(const_dnnl_memory_desc_t descriptor, int from_last) {
    const dnnl_dims_t *sides;
    dnnl_memory_desc_query(descriptor, dnnl_query_dims, (void *)&sides);
    return (*sides)[dnnl_rank(descriptor) - 1 - from_last];
}

/* A product by the next best code after the best `skipped`. */
static inline dnnl_status_t dnnl_matmul_after(int skipped, dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                              const_dnnl_memory_desc_t left, const_dnnl_memory_desc_t right,
                                              const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t product,
                                              const_dnnl_primitive_attr_t attributes) {
    dnnl_status_t status = dnnl_matmul_primitive_desc_create(plan, engine, left, right, bias, product, attributes);
    while (status == dnnl_success && skipped-- > 0) status = dnnl_primitive_desc_next_impl(*plan);
    return status;
}

#else

typedef const dnnl_memory_desc_t *const_dnnl_memory_desc_t;

static inline const_dnnl_memory_desc_t dnnl_descriptor(const dnnl_memory_desc_t *descriptor) { return descriptor; }

static inline dnnl_status_t dnnl_append(dnnl_post_ops_t operations, dnnl_alg_kind_t kind, float alpha) {
    return dnnl_post_ops_append_eltwise(operations, 1, kind, alpha, 0);
}

static inline dnnl_status_t dnnl_append_sum(dnnl_post_ops_t operations) { return dnnl_post_ops_append_sum(operations, 1); }

static inline dnnl_status_t dnnl_memory_desc_create_with_tag(dnnl_memory_desc_t *made, int rank, const dnnl_dims_t dims,
                                                             dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_init_by_tag(made, rank, dims, type, tag);
}

static inline dnnl_status_t dnnl_memory_desc_create_with_strides(dnnl_memory_desc_t *made, int rank, const dnnl_dims_t dims,
                                                                 dnnl_data_type_t type, const dnnl_dims_t strides) {
    return dnnl_memory_desc_init_by_strides(made, rank, dims, type, strides);
}

static inline dnnl_status_t dnnl_memory_desc_clone(dnnl_memory_desc_t *copy, const_dnnl_memory_desc_t original) {
    *copy = *original;
    return dnnl_success;
}

static inline dnnl_status_t dnnl_memory_desc_destroy(dnnl_memory_desc_t descriptor) {
    (void)descriptor;
    return dnnl_success;
}

/* The common end: `status` is that of filling in the description. */
static inline dnnl_status_t dnnl_plan_described(dnnl_status_t status, dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                                const_dnnl_op_desc_t description, const_dnnl_primitive_desc_t hint,
                                                const_dnnl_primitive_attr_t attributes) {
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(plan, description, attributes, engine, hint);
}

static inline dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *plan, dnnl_engine_t engine, dnnl_prop_kind_t kind, dnnl_alg_kind_t algorithm,
    const_dnnl_memory_desc_t source, const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t bias,
    const_dnnl_memory_desc_t destination, const dnnl_dims_t strides, const dnnl_dims_t dilations, const dnnl_dims_t pad_before,
    const dnnl_dims_t pad_after, const_dnnl_primitive_attr_t attributes) {
    dnnl_convolution_desc_t d;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(&d, kind, algorithm, source, weights, bias, destination,
                                                                      strides, dilations, pad_before, pad_after);
    return dnnl_plan_described(status, plan, engine, &d, NULL, attributes);
}

static inline dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *plan, dnnl_engine_t engine, dnnl_alg_kind_t algorithm, const_dnnl_memory_desc_t source,
    const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t destination, const dnnl_dims_t strides,
    const dnnl_dims_t dilations, const dnnl_dims_t pad_before, const dnnl_dims_t pad_after, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attributes) {
    dnnl_convolution_desc_t d;
    dnnl_status_t status = dnnl_dilated_convolution_backward_data_desc_init(&d, algorithm, source, weights, destination,
                                                                            strides, dilations, pad_before, pad_after);
    return dnnl_plan_described(status, plan, engine, &d, hint, attributes);
}

static inline dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *plan, dnnl_engine_t engine, dnnl_alg_kind_t algorithm, const_dnnl_memory_desc_t source,
    const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t destination,
    const dnnl_dims_t strides, const dnnl_dims_t dilations, const dnnl_dims_t pad_before, const dnnl_dims_t pad_after,
    const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attributes) {
    dnnl_convolution_desc_t d;
    dnnl_status_t status = dnnl_dilated_convolution_backward_weights_desc_init(
        &d, algorithm, source, weights, bias, destination, strides, dilations, pad_before, pad_after);
    return dnnl_plan_described(status, plan, engine, &d, hint, attributes);
}

static inline dnnl_status_t
dnnl_inner_product_forward_primitive_desc_create(dnnl_primitive_desc_t *plan, dnnl_engine_t engine, dnnl_prop_kind_t kind,
                                                 const_dnnl_memory_desc_t source, const_dnnl_memory_desc_t weights,
                                                 const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t destination,
                                                 const_dnnl_primitive_attr_t attributes) {
    dnnl_inner_product_desc_t d;
    dnnl_status_t status = dnnl_inner_product_forward_desc_init(&d, kind, source, weights, bias, destination);
    return dnnl_plan_described(status, plan, engine, &d, NULL, attributes);
}

static inline dnnl_status_t dnnl_inner_product_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *plan, dnnl_engine_t engine, const_dnnl_memory_desc_t source, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t destination, const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attributes) {
    dnnl_inner_product_desc_t d;
    dnnl_status_t status = dnnl_inner_product_backward_data_desc_init(&d, source, weights, destination);
    return dnnl_plan_described(status, plan, engine, &d, hint, attributes);
}

static inline dnnl_status_t dnnl_inner_product_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *plan, dnnl_engine_t engine, const_dnnl_memory_desc_t source, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t destination, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attributes) {
    dnnl_inner_product_desc_t d;
    dnnl_status_t status = dnnl_inner_product_backward_weights_desc_init(&d, source, weights, bias, destination);
    return dnnl_plan_described(status, plan, engine, &d, hint, attributes);
}

static inline dnnl_status_t
dnnl_pooling_forward_primitive_desc_create(dnnl_primitive_desc_t *plan, dnnl_engine_t engine, dnnl_prop_kind_t kind,
                                           dnnl_alg_kind_t algorithm, const_dnnl_memory_desc_t source,
                                           const_dnnl_memory_desc_t destination, const dnnl_dims_t strides,
                                           const dnnl_dims_t kernel, const dnnl_dims_t dilations, const dnnl_dims_t pad_before,
                                           const dnnl_dims_t pad_after, const_dnnl_primitive_attr_t attributes) {
    dnnl_pooling_v2_desc_t d;
    dnnl_status_t status = dnnl_pooling_v2_forward_desc_init(&d, kind, algorithm, source, destination, strides, kernel,
                                                             dilations, pad_before, pad_after);
    return dnnl_plan_described(status, plan, engine, &d, NULL, attributes);
}

static inline dnnl_status_t
dnnl_pooling_backward_primitive_desc_create(dnnl_primitive_desc_t *plan, dnnl_engine_t engine, dnnl_alg_kind_t algorithm,
                                            const_dnnl_memory_desc_t source, const_dnnl_memory_desc_t destination,
                                            const dnnl_dims_t strides, const dnnl_dims_t kernel, const dnnl_dims_t dilations,
                                            const dnnl_dims_t pad_before, const dnnl_dims_t pad_after,
                                            const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attributes) {
    dnnl_pooling_v2_desc_t d;
    dnnl_status_t status = dnnl_pooling_v2_backward_desc_init(&d, algorithm, source, destination, strides, kernel, dilations,
                                                              pad_before, pad_after);
    return dnnl_plan_described(status, plan, engine, &d, hint, attributes);
}

static inline dnnl_status_t dnnl_eltwise_forward_primitive_desc_create(dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                                                       dnnl_prop_kind_t kind, dnnl_alg_kind_t algorithm,
                                                                       const_dnnl_memory_desc_t source,
                                                                       const_dnnl_memory_desc_t destination, float alpha,
                                                                       float beta, const_dnnl_primitive_attr_t attributes) {
    dnnl_eltwise_desc_t d;
    (void)destination; /* as the source */
    dnnl_status_t status = dnnl_eltwise_forward_desc_init(&d, kind, algorithm, source, alpha, beta);
    return dnnl_plan_described(status, plan, engine, &d, NULL, attributes);
}

static inline dnnl_status_t
dnnl_eltwise_backward_primitive_desc_create(dnnl_primitive_desc_t *plan, dnnl_engine_t engine, dnnl_alg_kind_t algorithm,
                                            const_dnnl_memory_desc_t source_gradient, const_dnnl_memory_desc_t gradient,
                                            const_dnnl_memory_desc_t source, float alpha, float beta,
                                            const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attributes) {
    dnnl_eltwise_desc_t d;
    (void)source_gradient; /* as the gradient */
    dnnl_status_t status = dnnl_eltwise_backward_desc_init(&d, algorithm, gradient, source, alpha, beta);
    return dnnl_plan_described(status, plan, engine, &d, hint, attributes);
}

static inline int dnnl_rank(const_dnnl_memory_desc_t descriptor) { return descriptor->ndims; }

static inline int64_t dnnl_side(const_dnnl_memory_desc_t descriptor, int from_last) {
    return descriptor->dims[descriptor->ndims - 1 - from_last];
}

static inline dnnl_status_t dnnl_matmul_after(int skipped, dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                              const_dnnl_memory_desc_t left, const_dnnl_memory_desc_t right,
                                              const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t product,
                                              const_dnnl_primitive_attr_t attributes) {
    dnnl_matmul_desc_t d;
    dnnl_primitive_desc_iterator_t iterator;
    dnnl_status_t status = dnnl_matmul_desc_init(&d, left, right, bias, product);
    if (status == dnnl_success) status = dnnl_primitive_desc_iterator_create(&iterator, &d, attributes, engine, NULL);
    if (status != dnnl_success) return status;
    while (status == dnnl_success && skipped-- > 0) status = dnnl_primitive_desc_iterator_next(iterator);
    *plan = status == dnnl_success ? dnnl_primitive_desc_iterator_fetch(iterator) : NULL;
    dnnl_primitive_desc_iterator_destroy(iterator);
    return status;
}

#endif
#endif
