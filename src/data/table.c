/* All dataset formats. To add one, add a file to this directory and a line here. */
#include "data/dataset.h"

extern const struct dataset_class dataset_idx, dataset_cifar10, dataset_cifar100, dataset_synthetic, dataset_images,
    dataset_reviews, dataset_pairs, dataset_text, dataset_npz, dataset_npy, dataset_safetensors, dataset_csv;

const struct dataset_class *const dataset_table[] = {
    &dataset_idx,   &dataset_cifar10, &dataset_cifar100, &dataset_synthetic, &dataset_images,      &dataset_reviews,
    &dataset_pairs, &dataset_text,    &dataset_npz,      &dataset_npy,       &dataset_safetensors, &dataset_csv,
    NULL,
};
