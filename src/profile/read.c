/*
 * Reading costs from a file of any of the known forms. JSON begins with a brace; a graph has " -- " in its first line; a chain
 * of numbers begins with a digit and has no comma there; all else must be a table with commas. Several files are the same
 * network's costs on several types of devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "profile/lines.h"
#include "profile/read.h"

enum { FILE_LIMIT = 256 << 20 };

/* A file that does not say which network it is of is named after itself: "profiles/vgg16.graph.txt" is vgg16. */
static void name_after_file(struct ps_profile *profile, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    static const char *const endings[] = {".gz", ".txt", ".csv", ".chain", ".graph"};
    size_t length = strlen(name);
    for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
        size_t ending = strlen(endings[e]);
        if (length > ending && strncmp(name + length - ending, endings[e], ending) == 0) length -= ending;
    }
    span_copy_printable((struct span){name, length}, profile->model, sizeof profile->model);
    snprintf(profile->device, sizeof profile->device, "unknown");
    profile->threads = 1;
}

static enum ps_status read_one(const char *path, struct ps_profile **profile, struct ps_error *error) {
    char *data;
    size_t size;
    struct span line = {0};
    enum ps_status status;
    struct ps_profile *made;
    TRY(file_read(path, FILE_LIMIT, &data, &size, error));
    struct lines lines = {.rest = {data, size}};
    bool any = lines_next(&lines, &line), is_json = any && line.text[0] == '{', is_graph = any && span_count(line, " -- ") > 0;
    bool is_chain = any && line.text[0] >= '0' && line.text[0] <= '9' && span_count(line, ",") == 0;
    if (is_json) {
        free(data);
        return profile_read_json(path, profile, error);
    }
    status = is_graph   ? profile_read_graph(data, size, &made, error)
             : is_chain ? profile_read_chain(data, size, &made, error)
                        : profile_read_csv(data, size, &made, error);
    free(data);
    if (status != PS_OK) {
        error_prefix(error, "%s", path);
        return status;
    }
    name_after_file(made, path);
    *profile = made;
    return PS_OK;
}

/* The path up to the next comma, which ends in a file's name only where no file has the whole name. */
static enum ps_status read_next(const char **paths, struct ps_profile **profile, struct ps_error *error) {
    size_t length = strcspn(*paths, ",");
    char *path = strndup(*paths, length);
    if (!path) return error_memory(error, "a path", length);
    enum ps_status status = read_one(path, profile, error);
    free(path);
    *paths += length + ((*paths)[length] == ',');
    return status;
}

enum ps_status ps_profile_read(const char *paths, struct ps_profile **profile, struct ps_error *error) {
    struct ps_profile *made, *other;
    const char *rest = paths;
    if (!strchr(paths, ',') || access(paths, F_OK) == 0) return read_one(paths, profile, error);
    TRY(read_next(&rest, &made, error));
    enum ps_status status = PS_OK;
    while (status == PS_OK && *rest) {
        const char *path = rest;
        status = read_next(&rest, &other, error);
        if (status == PS_OK) {
            status = profile_add_device(made, other, error);
            if (status != PS_OK) error_prefix(error, "%.*s", (int)strcspn(path, ","), path);
        }
    }
    if (status != PS_OK) {
        ps_profile_destroy(made);
        return status;
    }
    *profile = made;
    return PS_OK;
}
