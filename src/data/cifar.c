/*
 * CIFAR-10 and CIFAR-100 in their binary versions: a directory with data_batch_1.bin ... data_batch_5.bin and test_batch.bin,
 * or with train.bin and test.bin. A file is a sequence of records without a header: the label (CIFAR-100: the coarse label,
 * then the fine label, which is used), then 1024 red, 1024 green and 1024 blue bytes, each a plane of 32x32 pixels row by row.
 * (A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.)
 *
 * The training files that exist are read in order. A file may hold any whole number of records, so subsets need no special
 * treatment. Pixels are normalised per channel with the mean and deviation of the whole training set. With `pad` training takes
 * a random crop of the image with this many black pixels added on each side; with `flip` it mirrors images with probability
 * 1/2.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/pixels.h"

enum { SIDE = 32, CHANNELS = 3, IMAGE_BYTES = CHANNELS * SIDE * SIDE, NAMES_LIMIT = 1 << 16 };

struct cifar_kind {
    const char *name;
    const char *files[2][6]; /* by dataset_part; NULL-terminated */
    const char *names_file;  /* the names of the classes, a line each */
    int classes;
    size_t label_bytes; /* the last of them is used */
    float mean[CHANNELS], deviation[CHANNELS];
};

static const struct cifar_kind cifar10 = {
    .name = "cifar10",
    .files = {[DATASET_TRAIN] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                 "data_batch_5.bin"},
              [DATASET_TEST] = {"test_batch.bin"}},
    .names_file = "batches.meta.txt",
    .classes = 10,
    .label_bytes = 1,
    .mean = {0.4914f, 0.4822f, 0.4465f},
    .deviation = {0.2470f, 0.2435f, 0.2616f},
};

static const struct cifar_kind cifar100 = {
    .name = "cifar100",
    .files = {[DATASET_TRAIN] = {"train.bin"}, [DATASET_TEST] = {"test.bin"}},
    .names_file = "fine_label_names.txt",
    .classes = 100,
    .label_bytes = 2,
    .mean = {0.5071f, 0.4865f, 0.4409f},
    .deviation = {0.2673f, 0.2564f, 0.2762f},
};

static enum ps_status append(char **all, size_t used, char *data, size_t size, const char *path, struct ps_error *error) {
    if (used == 0) {
        *all = data;
        return PS_OK;
    }
    char *grown = realloc(*all, used + size);
    if (grown) {
        memcpy(grown + used, data, size);
        *all = grown;
    }
    free(data);
    return grown ? PS_OK : error_memory(error, path, used + size);
}

/* Adds a file's records to the dataset and checks their labels. */
static enum ps_status add_file(const struct cifar_kind *kind, const char *path, struct byte_dataset *bytes,
                               struct ps_error *error) {
    const size_t record = kind->label_bytes + IMAGE_BYTES;
    const int64_t before = bytes->dataset.samples;
    char *data;
    size_t size;
    TRY(file_read(path, BYTES_FILE_LIMIT, &data, &size, error));
    if (size == 0 || size % record != 0) {
        free(data);
        return error_set(error, PS_BAD_INPUT, "%s: %s: %zu bytes are not a whole number of %s records of %zu bytes", path,
                         size ? "truncated" : "empty", size, kind->name, record);
    }
    TRY(append(&bytes->buffers[0], (size_t)before * record, data, size, path, error));
    const uint8_t *records = (const uint8_t *)bytes->buffers[0];
    bytes->pixels = records + kind->label_bytes;
    bytes->labels = records + kind->label_bytes - 1;
    bytes->dataset.samples = before + (int64_t)(size / record);
    return byte_dataset_check_labels(bytes, before, path, error);
}

static enum ps_status add_files(const struct cifar_kind *kind, const char *directory, enum dataset_part part,
                                struct byte_dataset *bytes, struct ps_error *error) {
    const char *const *files = kind->files[part];
    for (int i = 0; files[i]; i++) {
        char path[4096];
        if (file_exists(file_join(path, directory, files[i]))) TRY(add_file(kind, path, bytes, error));
    }
    if (bytes->dataset.samples > 0) return PS_OK;
    error_set(error, PS_BAD_INPUT, "%s: there is no file %s", directory, files[0]);
    error_hint(error, "%s reads the binary version of the data set, unpacked", kind->name);
    return PS_BAD_INPUT;
}

/* The lines of the file of names, where it is there and has one for each class. */
static enum ps_status read_names(const struct cifar_kind *kind, const char *directory, struct dataset *dataset,
                                 struct ps_error *error) {
    char path[4096], *text, *to;
    size_t size;
    int count = 0;
    if (!file_exists(file_join(path, directory, kind->names_file))) return PS_OK;
    TRY(file_read(path, NAMES_LIMIT, &text, &size, error));
    to = text;
    for (char *line = text; *line;) {
        const size_t length = strcspn(line, "\r\n");
        char *next = line + length + strspn(line + length, "\r\n");
        if (length > 0) {
            memmove(to, line, length);
            to += length;
            /* The file ends with a 0 byte of its own. */
            *to++ = '\0';
            count++;
        }
        line = next;
    }
    if (count == kind->classes)
        dataset->class_names = text;
    else
        free(text);
    return PS_OK;
}

static enum ps_status parse_options(struct byte_dataset *bytes, struct spec *options, const char *name,
                                    struct ps_error *error) {
    static const char *const keys[] = {"pad", "flip"};
    TRY(augment_parse(options, &bytes->augmentation, error));
    return spec_finish(options, name, keys, sizeof keys / sizeof *keys, error);
}

static enum ps_status give_normalisation(const struct cifar_kind *kind, struct normalisation *out) {
    memcpy(out->mean, kind->mean, sizeof out->mean);
    memcpy(out->deviation, kind->deviation, sizeof out->deviation);
    return PS_OK;
}

static enum ps_status normalisation_10(const char *rest, int64_t channels, struct normalisation *out, struct ps_error *error) {
    (void)rest, (void)channels, (void)error;
    return give_normalisation(&cifar10, out);
}

static enum ps_status normalisation_100(const char *rest, int64_t channels, struct normalisation *out, struct ps_error *error) {
    (void)rest, (void)channels, (void)error;
    return give_normalisation(&cifar100, out);
}

static enum ps_status open_kind(const struct cifar_kind *kind, const char *rest, enum dataset_part part,
                                struct dataset **dataset, struct ps_error *error) {
    char directory[4096];
    struct spec options;
    TRY(augment_cut_options(rest, kind->name, directory, &options, error));
    TRY(byte_dataset_check_directory(directory, kind->name, error));
    struct byte_dataset *bytes = byte_dataset_create(error);
    if (!bytes) return PS_OUT_OF_MEMORY;
    bytes->dataset.shape =
        (struct dataset_shape){.channels = CHANNELS, .height = SIDE, .width = SIDE, .classes = kind->classes};
    bytes->pixel_stride = bytes->label_stride = kind->label_bytes + IMAGE_BYTES;
    for (int c = 0; c < CHANNELS; c++) byte_dataset_normalise(bytes, c, kind->mean[c], kind->deviation[c]);
    enum ps_status status = parse_options(bytes, &options, kind->name, error);
    if (status == PS_OK) status = add_files(kind, directory, part, bytes, error);
    if (status == PS_OK) status = read_names(kind, directory, &bytes->dataset, error);
    if (status != PS_OK) {
        byte_dataset_close(&bytes->dataset);
        return status;
    }
    *dataset = &bytes->dataset;
    return PS_OK;
}

static enum ps_status open_cifar10(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                                   struct dataset **dataset, struct ps_error *error) {
    (void)required;
    return open_kind(&cifar10, rest, part, dataset, error);
}

static enum ps_status open_cifar100(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                                    struct dataset **dataset, struct ps_error *error) {
    (void)required;
    return open_kind(&cifar100, rest, part, dataset, error);
}

const struct dataset_class dataset_cifar10 = {
    .name = "cifar10",
    .summary = "DIR[,pad=N,flip=1] with CIFAR-10's binary files (data_batch_1.bin ..., test_batch.bin)",
    .example = "DIR",
    .task = DATASET_IMAGES,
    .open = open_cifar10,
    .normalisation = normalisation_10,
    .close = byte_dataset_close,
    .read = byte_dataset_read,
    .read_augmented = byte_dataset_read_augmented,
    .target = byte_dataset_target,
};

const struct dataset_class dataset_cifar100 = {
    .name = "cifar100",
    .summary = "DIR with CIFAR-100's binary files (train.bin, test.bin), fine labels",
    .example = "DIR",
    .task = DATASET_IMAGES,
    .open = open_cifar100,
    .normalisation = normalisation_100,
    .close = byte_dataset_close,
    .read = byte_dataset_read,
    .read_augmented = byte_dataset_read_augmented,
    .target = byte_dataset_target,
};
