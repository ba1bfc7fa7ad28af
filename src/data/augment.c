/* Crops, flips and normalisation; see the header. */
#include "data/augment.h"

#include <stdio.h>
#include <string.h>

enum ps_status augment_cut_options(const char *rest, const char *format, char directory[4096], struct options *options,
                                   struct ps_error *error) {
    const char *slash = strrchr(rest, '/'), *comma = strchr(slash ? slash : rest, ',');
    const size_t length = comma ? (size_t)(comma - rest) : strlen(rest);
    if (length >= 4096) return error_set(error, PS_USAGE, "%s: the directory's name is longer than 4095 characters", format);
    char text[sizeof options->buffer];
    const int wanted = snprintf(text, sizeof text, "%s%s", format, comma ? comma : "");
    if (wanted >= (int)sizeof text) {
        return error_set(error, PS_USAGE, "%s: the options are longer than %zu characters", format, sizeof text - 1);
    }
    TRY(options_parse(text, format, options, error));
    memcpy(directory, rest, length);
    directory[length] = '\0';
    return PS_OK;
}

enum ps_status augment_parse(struct options *options, struct augmentation *augmentation, struct ps_error *error) {
    int flip = augmentation->flip;
    TRY(options_int(options, "pad", 0, 4096, &augmentation->pad, error));
    TRY(options_int(options, "flip", 0, 1, &flip, error));
    augmentation->flip = flip == 1;
    return PS_OK;
}

int64_t augment_offset(const struct random_key *key, enum augment_draw draw, int64_t size, int64_t side, int pad) {
    const int64_t room = size - side, half = room / 2;
    if (!key || room + 2 * pad < 0) return half + (room % 2 != 0 && half % 2 != 0); /* half a pixel: to the even one */
    return (int64_t)random_below(*key, draw, (uint64_t)(room + 2 * pad) + 1) - pad;
}

bool augment_flips(const struct augmentation *augmentation, const struct random_key *key) {
    return augmentation->flip && key && random_below(*key, DRAW_FLIP, 2) == 1;
}

static const struct named_normalisation {
    const char *name;
    struct normalisation values;
} normalisations[] = {
    {"imagenet", {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}}},
    {"cifar", {{0.491f, 0.482f, 0.447f}, {0.202f, 0.199f, 0.201f}}},
    {"none", {{0, 0, 0}, {1, 1, 1}}},
};
enum { NORMALISATIONS = sizeof normalisations / sizeof *normalisations };

static float mean_of(const float values[AUGMENT_CHANNELS_MAX]) { return (values[0] + values[1] + values[2]) / 3; }

enum ps_status augment_normalisation(const char *name, int64_t channels, struct normalisation *out, struct ps_error *error) {
    const char *names[NORMALISATIONS];
    for (int i = 0; i < NORMALISATIONS; i++) {
        names[i] = normalisations[i].name;
        if (strcmp(name, names[i]) != 0) continue;
        *out = normalisations[i].values;
        if (channels == 1) {
            out->mean[0] = mean_of(normalisations[i].values.mean);
            out->deviation[0] = mean_of(normalisations[i].values.deviation);
        }
        return PS_OK;
    }
    return error_unknown(error, PS_USAGE, "images: normalise", name, names, NORMALISATIONS);
}
