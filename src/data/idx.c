/*
 * IDX files, the format of MNIST and its relatives (Fashion-MNIST, KMNIST, EMNIST, ...): a directory with
 *
 *     train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte  t10k-labels-idx1-ubyte
 *
 * each of them plain or compressed (.gz), with '-' or '.' before "idx". A file is a magic number (0, 0, type 8 = byte, number
 * of dimensions), the dimensions as big-endian 32-bit numbers, and the bytes, rows of the image one after the other. (Y. LeCun,
 * C. Cortes, C. Burges, "The MNIST database of handwritten digits".)
 *
 * Pixels are normalised with the mean and deviation of MNIST (0.1307, 0.3081), also for its relatives: with constants a subset,
 * or the test set without the training set, gives the same numbers. The files do not give the number of classes: it is the
 * network's, and each label is checked against it.
 */
#include <stdlib.h>

#include "base/file.h"
#include "base/text.h"
#include "data/pixels.h"

#define MNIST_MEAN 0.1307f
#define MNIST_DEVIATION 0.3081f

struct idx_file {
    char path[4096];
    char *data;
    int rank;
    uint32_t size[3];
    const uint8_t *values;
};

/* The path of the "images" or "labels" file of the training or test set, under any of its names. */
static enum ps_status find_file(const char *directory, enum dataset_part part, const char *what, int rank, char path[4096],
                                struct ps_error *error) {
    static const char *const parts[] = {[DATASET_TRAIN] = "train", [DATASET_TEST] = "t10k"};
    static const char *const endings[] = {"", ".gz"};
    char name[64];
    for (int dot = 0; dot < 2; dot++) {
        for (int packed = 0; packed < 2; packed++) {
            snprintf(name, sizeof name, "%s-%s%cidx%d-ubyte%s", parts[part], what, dot ? '.' : '-', rank, endings[packed]);
            if (file_exists(file_join(path, directory, name))) return PS_OK;
        }
    }
    return error_set(error, PS_BAD_INPUT, "%s: there is no file %s-%s-idx%d-ubyte, with or without .gz", directory, parts[part],
                     what, rank);
}

static uint32_t read_u32(const char *data) {
    const uint8_t *byte = (const uint8_t *)data;
    return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

static enum ps_status check_magic(const struct idx_file *file, size_t size, size_t header, struct ps_error *error) {
    const uint32_t expected = 0x800u | (uint32_t)file->rank;
    if (size < header) {
        return error_set(error, PS_BAD_INPUT, "%s: truncated: %zu bytes, and the header alone takes %zu", file->path, size,
                         header);
    }
    const uint32_t magic = read_u32(file->data);
    if (magic == expected) return PS_OK;
    error_set(error, PS_BAD_INPUT, "%s: not an IDX file of bytes in %d dimension%s: the magic number is 0x%08x, not 0x%08x",
              file->path, file->rank, text_plural(file->rank), magic, expected);
    if (magic >> 16 == 0x1f8b) error_hint(error, "the file is compressed by gzip: give it a name that ends in .gz");
    return PS_BAD_INPUT;
}

/* Fails unless the header's sizes match the bytes that follow it. */
static enum ps_status parse_header(struct idx_file *file, size_t size, struct ps_error *error) {
    const size_t header = 4 + 4 * (size_t)file->rank;
    TRY(check_magic(file, size, header, error));
    char sizes[48] = "";
    uint64_t promised = 1;
    bool overflow = false;
    for (int i = 0, used = 0; i < file->rank; i++) {
        file->size[i] = read_u32(file->data + 4 + 4 * i);
        overflow |= __builtin_mul_overflow(promised, (uint64_t)file->size[i], &promised);
        used += snprintf(sizes + used, sizeof sizes - (size_t)used, "%s%u", i ? "x" : "", file->size[i]);
    }
    if (overflow || promised > BYTES_FILE_LIMIT) {
        return error_set(error, PS_BAD_INPUT, "%s: the header promises %s bytes, which is too large", file->path, sizes);
    }
    if (promised == 0) return error_set(error, PS_BAD_INPUT, "%s: no samples: the header says %s", file->path, sizes);
    const uint64_t present = size - header;
    if (present < promised) {
        return error_set(error, PS_BAD_INPUT, "%s: truncated: the header promises %s = %llu bytes, and %llu follow", file->path,
                         sizes, (unsigned long long)promised, (unsigned long long)present);
    }
    if (present > promised) {
        return error_set(error, PS_BAD_INPUT, "%s: the header promises %s = %llu bytes, but %llu follow", file->path, sizes,
                         (unsigned long long)promised, (unsigned long long)present);
    }
    file->values = (const uint8_t *)file->data + header;
    return PS_OK;
}

static enum ps_status read_idx(const char *directory, enum dataset_part part, const char *what, struct idx_file *file,
                               struct ps_error *error) {
    TRY(find_file(directory, part, what, file->rank, file->path, error));
    /* Not much more than what the header promises is read: a small file can be unpacked to any size. */
    char header[4 + 4 * 3];
    size_t size;
    uint64_t promised = 1;
    TRY(file_read_begin(file->path, 4 + 4 * (size_t)file->rank, header, &size, error));
    for (size_t at = 4; at + 4 <= size && promised <= BYTES_FILE_LIMIT; at += 4) promised *= read_u32(header + at);
    if (promised > BYTES_FILE_LIMIT) promised = 0; /* which is refused */
    TRY(file_read(file->path, (size_t)promised + (1 << 24), &file->data, &size, error));
    return parse_header(file, size, error);
}

static enum ps_status read_both(const char *directory, enum dataset_part part, struct idx_file *images, struct idx_file *labels,
                                struct ps_error *error) {
    TRY(read_idx(directory, part, "images", images, error));
    TRY(read_idx(directory, part, "labels", labels, error));
    if (images->size[0] == labels->size[0]) return PS_OK;
    return error_set(error, PS_BAD_INPUT, "%s: has %u images, but %s has %u labels", images->path, images->size[0],
                     labels->path, labels->size[0]);
}

static enum ps_status open_idx(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                               struct dataset **dataset, struct ps_error *error) {
    TRY(byte_dataset_check_directory(rest, "idx", error));
    struct idx_file images = {.rank = 3}, labels = {.rank = 1};
    struct byte_dataset *bytes = byte_dataset_create(error);
    if (!bytes) return PS_OUT_OF_MEMORY;
    enum ps_status status = read_both(rest, part, &images, &labels, error);
    bytes->buffers[0] = images.data;
    bytes->buffers[1] = labels.data;
    if (status == PS_OK) {
        bytes->dataset.samples = images.size[0];
        bytes->dataset.shape = (struct dataset_shape){
            .channels = 1, .height = images.size[1], .width = images.size[2], .classes = required->classes};
        bytes->pixels = images.values;
        bytes->pixel_stride = (size_t)images.size[1] * images.size[2];
        bytes->labels = labels.values;
        bytes->label_stride = 1;
        byte_dataset_normalise(bytes, 0, MNIST_MEAN, MNIST_DEVIATION);
        status = byte_dataset_check_labels(bytes, 0, labels.path, error);
        if (status != PS_OK) error_hint(error, "the network's option classes= sets their number, here %d", required->classes);
    }
    if (status != PS_OK) {
        byte_dataset_close(&bytes->dataset);
        return status;
    }
    *dataset = &bytes->dataset;
    return PS_OK;
}

static enum ps_status normalisation(const char *rest, int64_t channels, struct normalisation *out, struct ps_error *error) {
    (void)rest, (void)channels, (void)error;
    out->mean[0] = MNIST_MEAN;
    out->deviation[0] = MNIST_DEVIATION;
    return PS_OK;
}

const struct dataset_class dataset_idx = {
    .name = "idx",
    .summary = "DIR with IDX files, plain or .gz (MNIST, Fashion-MNIST, KMNIST, ...)",
    .example = "DIR",
    .task = DATASET_IMAGES,
    .open = open_idx,
    .normalisation = normalisation,
    .close = byte_dataset_close,
    .read = byte_dataset_read,
    .target = byte_dataset_target,
};
