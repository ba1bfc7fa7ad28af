/*
 * A directory of images, one folder per class: DIR/train/CLASS/FILE and DIR/val/CLASS/FILE (or test/); a DIR that has neither
 * holds the classes itself, both for training and for tests. Labels number the classes of the training set in the order of
 * their names. Files are JPEG or PNG, found by their extensions and read when a sample is read.
 *
 * An image is scaled so that its shorter side has `resize` pixels (by default as many as the network takes), and the square
 * that the network takes is cropped from the centre. Training may use random crops and mirror them (data/pixels.h). Rounding is
 * torchvision's: Resize rounds the longer side down, CenterCrop rounds the offset to even.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "data/picture.h"
#include "data/pixels.h"

enum { FOLDERS_DEEP = 4 };

struct image_file {
    size_t path; /* offset in `paths` */
    int32_t label;
};

struct images {
    struct dataset dataset; /* first: a struct dataset * of this format points here */
    char directory[4096];   /* of the training or test set; paths are relative to it */
    char *paths;
    size_t paths_used, paths_size;
    struct image_file *files; /* dataset.samples of them */
    size_t files_size;
    int64_t resize;
    struct augmentation augmentation;
    struct normalisation normalisation;
};

/* ------------------------------------------------------------ finding files */

static bool is_image(const char *name) {
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++) {
        if (strcasecmp(dot, endings[i]) == 0) return true;
    }
    return false;
}

static int visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* Compares bytes, so labels and order do not depend on the locale. */
static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static bool is_directory(const char *path) {
    char inside[4096];
    return file_exists(file_join(inside, path, "."));
}

static enum ps_status list(const char *path, struct dirent ***entries, int *count, struct ps_error *error) {
    *count = scandir(path, entries, visible, by_name);
    if (*count < 0 && errno == ENOMEM) return error_memory(error, path, sizeof ***entries);
    return *count >= 0 ? PS_OK : error_set(error, PS_BAD_INPUT, "%s: cannot be listed as a directory", path);
}

static void free_list(struct dirent **entries, int count) {
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
}

static enum ps_status add_file(struct images *images, const char *path, int32_t label, struct ps_error *error) {
    const char *own = path + strlen(images->directory) + 1;
    const size_t size = strlen(own) + 1;
    TRY(memory_grow(&images->paths, &images->paths_size, images->paths_used + size, "names of images", error));
    TRY(memory_grow(&images->files, &images->files_size, images->dataset.samples + 1, "names of images", error));
    images->files[images->dataset.samples++] = (struct image_file){images->paths_used, label};
    memcpy(images->paths + images->paths_used, own, size);
    images->paths_used += size;
    return PS_OK;
}

/* Adds all images below `path`, those in nested folders included. */
static enum ps_status add_folder(struct images *images, const char *path, int32_t label, int deep, struct ps_error *error) {
    struct dirent **entries;
    int count;
    TRY(list(path, &entries, &count, error));
    enum ps_status status = PS_OK;
    for (int i = 0; i < count && status == PS_OK; i++) {
        char inside[4096];
        file_join(inside, path, entries[i]->d_name);
        if (is_image(entries[i]->d_name))
            status = add_file(images, inside, label, error);
        else if (deep < FOLDERS_DEEP && is_directory(inside))
            status = add_folder(images, inside, label, deep + 1, error);
    }
    free_list(entries, count);
    return status;
}

/* The folders in `path`; other entries are removed from the list. */
static enum ps_status list_classes(const char *path, struct dirent ***entries, int *count, struct ps_error *error) {
    int kept = 0;
    TRY(list(path, entries, count, error));
    for (int i = 0; i < *count; i++) {
        char inside[4096];
        if (is_directory(file_join(inside, path, (*entries)[i]->d_name)))
            (*entries)[kept++] = (*entries)[i];
        else
            free((*entries)[i]);
    }
    *count = kept;
    if (kept > 0) return PS_OK;
    free_list(*entries, 0);
    return error_set(error, PS_BAD_INPUT, "%s: has no folders; each class must have one with its images", path);
}

/* The folders' names, for who says more than a number. */
static enum ps_status keep_names(struct dataset *dataset, struct dirent **classes, int count, struct ps_error *error) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += strlen(classes[i]->d_name) + 1;
    TRY(memory_new(&dataset->class_names, size, "names of classes", error));
    char *place = dataset->class_names;
    for (int i = 0; i < count; i++) place = stpcpy(place, classes[i]->d_name) + 1;
    return PS_OK;
}

static enum ps_status add_class(struct images *images, const char *name, struct dirent **classes, int class_count,
                                struct ps_error *error) {
    int32_t label = 0;
    while (label < class_count && strcmp(classes[label]->d_name, name) != 0) label++;
    if (label == class_count) {
        return error_set(error, PS_BAD_INPUT, "%s/%s: the training set has no class of this name", images->directory, name);
    }
    char path[4096];
    const int64_t before = images->dataset.samples;
    TRY(add_folder(images, file_join(path, images->directory, name), label, 0, error));
    if (images->dataset.samples > before) return PS_OK;
    return error_set(error, PS_BAD_INPUT, "%s: has no images; .jpg, .jpeg and .png files are read", path);
}

/* `training` is the directory whose folders are the classes. */
static enum ps_status add_classes(struct images *images, const char *training, struct ps_error *error) {
    struct dirent **classes, **own;
    int class_count, own_count;
    TRY(list_classes(training, &classes, &class_count, error));
    enum ps_status status = list_classes(images->directory, &own, &own_count, error);
    if (status == PS_OK) {
        status = keep_names(&images->dataset, classes, class_count, error);
        for (int i = 0; i < own_count && status == PS_OK; i++) {
            status = add_class(images, own[i]->d_name, classes, class_count, error);
        }
        free_list(own, own_count);
    }
    free_list(classes, class_count);
    images->dataset.shape.classes = class_count;
    return status;
}

static enum ps_status find_files(struct images *images, const char *directory, enum dataset_part part, struct ps_error *error) {
    char train[4096], val[4096], test[4096];
    TRY(byte_dataset_check_directory(directory, "images", error));
    const bool has_train = is_directory(file_join(train, directory, "train"));
    const bool has_val = is_directory(file_join(val, directory, "val"));
    const bool has_test = is_directory(file_join(test, directory, "test"));
    const char *own = part == DATASET_TRAIN ? train : has_val ? val : test;
    if (!has_train && !has_val && !has_test) own = directory;
    snprintf(images->directory, sizeof images->directory, "%s", own);
    if (!is_directory(own)) {
        return error_set(error, PS_BAD_INPUT, "%s: there is no folder %s", directory,
                         part == DATASET_TRAIN ? "'train'" : "'val' or 'test'");
    }
    return add_classes(images, has_train ? train : own, error);
}

/* ------------------------------------------------------------------ reading */

/* The window of the picture that is scaled to the network's square. */
static struct picture_window choose_window(const struct images *images, const struct picture *picture,
                                           const struct random_key *key) {
    const int64_t side = images->dataset.shape.height,
                  shorter = picture->height < picture->width ? picture->height : picture->width;
    const int64_t height = images->resize * picture->height / shorter, width = images->resize * picture->width / shorter;
    const struct random_key *crop_key = images->augmentation.crop == CROP_RANDOM ? key : NULL;
    const int64_t top = augment_offset(crop_key, DRAW_TOP, height, side, images->augmentation.pad);
    const int64_t left = augment_offset(crop_key, DRAW_LEFT, width, side, images->augmentation.pad);
    const double down = (double)picture->height / (double)height, across = (double)picture->width / (double)width;
    return (struct picture_window){(double)top * down, (double)left * across, (double)side * down, (double)side * across};
}

/* A window of random area and aspect ratio that fits into the picture; after ATTEMPTS failures the window of evaluation. */
static struct picture_window choose_scaled_window(const struct images *images, const struct picture *picture,
                                                  const struct random_key *key) {
    enum { ATTEMPTS = 10, DRAWS = 4 };
    const double height = (double)picture->height, width = (double)picture->width;
    for (uint64_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        const uint64_t first = DRAW_AREA + attempt * DRAWS;
        const double area = height * width * (0.08 + 0.92 * (double)random_uniform(*key, first));
        const double ratio = pow(16.0 / 9, (double)random_uniform(*key, first + 1)) * 0.75;
        const double h = sqrt(area / ratio), w = sqrt(area * ratio);
        if (h > height || w > width) continue;
        return (struct picture_window){(height - h) * (double)random_uniform(*key, first + 2),
                                       (width - w) * (double)random_uniform(*key, first + 3), h, w};
    }
    return choose_window(images, picture, NULL);
}

static void normalise(const struct images *images, float *image) {
    const struct dataset_shape *shape = &images->dataset.shape;
    const int64_t pixels = shape->height * shape->width;
    for (int64_t i = 0; i < pixels; i++) {
        for (int64_t c = 0; c < shape->channels; c++, image++)
            *image = (*image / 255 - images->normalisation.mean[c]) / images->normalisation.deviation[c];
    }
}

/* `key` NULL: nothing is random. */
static enum ps_status read_with(const struct images *images, int64_t index, const struct random_key *key, float *image,
                                int32_t *label, struct ps_error *error) {
    const struct image_file *file = &images->files[index];
    struct picture picture;
    char path[4096];
    TRY(picture_read(file_join(path, images->directory, images->paths + file->path), (int)images->dataset.shape.channels,
                     &picture, error));
    const struct augmentation *augmentation = &images->augmentation;
    const struct picture_window window = augmentation->crop == CROP_SCALE && key ? choose_scaled_window(images, &picture, key)
                                                                                 : choose_window(images, &picture, key);
    const enum ps_status status =
        picture_scale(&picture, &window, images->dataset.shape.height, augment_flips(augmentation, key), image, error);
    picture_free(&picture);
    normalise(images, image);
    *label = file->label;
    return status;
}

static enum ps_status read_image(const struct dataset *dataset, int64_t index, void *input, void *target,
                                 struct ps_error *error) {
    return read_with((const struct images *)dataset, index, NULL, input, target, error);
}

static enum ps_status read_augmented(const struct dataset *dataset, int64_t index, struct random_key key, void *input,
                                     void *target, struct ps_error *error) {
    return read_with((const struct images *)dataset, index, &key, input, target, error);
}

static enum ps_status read_label(const struct dataset *dataset, int64_t index, void *target, struct ps_error *error) {
    int32_t *label = target;
    (void)error;
    *label = ((const struct images *)dataset)->files[index].label;
    return PS_OK;
}

/* Name, label, size and time of the last change of the file. */
static uint64_t trace_of(const struct dataset *dataset, int64_t index) {
    const struct images *images = (const struct images *)dataset;
    const struct image_file *file = &images->files[index];
    char path[4096];
    struct stat status = {0};
    uint64_t hash = hash_text(HASH_BEGIN + (uint64_t)file->label, images->paths + file->path);
    (void)stat(file_join(path, images->directory, images->paths + file->path), &status); /* who reads it says what is wrong */
    hash = hash_step(hash, (uint64_t)status.st_size);
    hash = hash_step(hash, (uint64_t)status.st_mtim.tv_sec);
    return hash_step(hash, (uint64_t)status.st_mtim.tv_nsec);
}

/* ----------------------------------------------------------- open and close */

static void close_images(struct dataset *dataset) {
    struct images *images = (struct images *)dataset;
    free(dataset->class_names);
    free(images->paths);
    free(images->files);
    free(images);
}

static enum ps_status parse_crop(struct spec *options, enum augment_crop *crop, struct ps_error *error) {
    static const char *const names[] = {[CROP_CENTRE] = "centre", [CROP_RANDOM] = "random", [CROP_SCALE] = "scale"};
    const char *name = names[*crop];
    TRY(spec_string(options, "crop", &name, error));
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *crop = (enum augment_crop)i;
        return PS_OK;
    }
    return error_unknown(error, PS_USAGE, "images: crop", name, names, 3);
}

static enum ps_status parse_options(struct images *images, struct spec *options, struct ps_error *error) {
    static const char *const keys[] = {"resize", "crop", "pad", "flip", "normalise"};
    const int64_t side = images->dataset.shape.height;
    const char *normalisation = "imagenet";
    int resize = (int)side;
    TRY(spec_int(options, "resize", (int)side, 16384, &resize, error));
    TRY(augment_parse(options, &images->augmentation, error));
    images->augmentation.crop = images->augmentation.pad > 0 || resize > side ? CROP_RANDOM : CROP_CENTRE;
    TRY(parse_crop(options, &images->augmentation.crop, error));
    if (images->augmentation.pad > 0 && images->augmentation.crop != CROP_RANDOM)
        return error_set(error, PS_USAGE, "images: pad=%d: only crop=random pads images", images->augmentation.pad);
    TRY(spec_string(options, "normalise", &normalisation, error));
    TRY(augment_normalisation(normalisation, images->dataset.shape.channels, &images->normalisation, error));
    images->resize = resize;
    return spec_finish(options, "images", keys, sizeof keys / sizeof *keys, error);
}

static enum ps_status normalisation_of(const char *rest, int64_t channels, struct normalisation *out, struct ps_error *error) {
    char directory[4096];
    struct spec options;
    const char *name = "imagenet";
    TRY(augment_cut_options(rest, "images", directory, &options, error));
    TRY(spec_string(&options, "normalise", &name, error));
    return augment_normalisation(name, channels, out, error);
}

static enum ps_status open_images(const char *rest, enum dataset_part part, const struct dataset_shape *required,
                                  struct dataset **dataset, struct ps_error *error) {
    char directory[4096];
    struct spec options;
    TRY(augment_cut_options(rest, "images", directory, &options, error));
    if (required->channels != 1 && required->channels != 3)
        return error_set(error, PS_USAGE, "images have 1 or 3 channels, and the network takes %lld",
                         (long long)required->channels);
    struct images *images;
    TRY(memory_new(&images, 1, "a dataset", error));
    images->dataset.shape = (struct dataset_shape){
        .channels = required->channels, .height = required->height, .width = required->width, .classes = required->classes};
    enum ps_status status = parse_options(images, &options, error);
    if (status == PS_OK) status = find_files(images, directory, part, error);
    if (status != PS_OK) {
        close_images(&images->dataset);
        return status;
    }
    *dataset = &images->dataset;
    return PS_OK;
}

const struct dataset_class dataset_images = {
    .name = "images",
    .summary = "DIR[,resize=N,crop=centre|random|scale,pad=N,flip=1,normalise=NAME]: JPEG and PNG files, a folder per class",
    .example = "DIR",
    .task = DATASET_IMAGES,
    .several_readers = true,
    .trace = trace_of,
    .open = open_images,
    .normalisation = normalisation_of,
    .close = close_images,
    .read = read_image,
    .read_augmented = read_augmented,
    .target = read_label,
};
