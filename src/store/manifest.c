/* Writing and checking manifests; see manifest.h. */
#include "store/manifest.h"

#include <stdlib.h>
#include <string.h>

enum { MANIFEST_LIMIT = 1 << 24, LINE_SIZE = 512 };
#define FILE_LIMIT ((size_t)1 << 40)
static const char heading[] = "penstock-manifest 1\n";

static void add_line(struct text *manifest, uint32_t sum, size_t size, const char *name) {
    text_add(manifest, "%08x %zu %s\n", (unsigned)sum, size, name);
}

static void add_end(struct text *manifest) {
    uint32_t sum = file_checksum(&(struct file_piece){manifest->data, manifest->length}, 1);
    text_add(manifest, "%08x end\n", (unsigned)sum);
}

void manifest_begin(struct text *manifest) { text_add(manifest, "%s", heading); }

enum ps_status manifest_create_file(struct text *manifest, const char *directory, const char *name,
                                    const struct file_piece *pieces, size_t count, struct ps_error *error) {
    char path[4096];
    size_t size = 0;
    for (size_t i = 0; i < count; i++) size += pieces[i].size;
    TRY(file_create(file_join(path, directory, name), pieces, count, error));
    add_line(manifest, file_checksum(pieces, count), size, name);
    return PS_OK;
}

enum ps_status manifest_end(struct text *manifest, const char *directory, struct ps_error *error) {
    char path[4096];
    if (!manifest->failed) add_end(manifest);
    if (manifest->failed) return error_memory(error, "a manifest", MANIFEST_LIMIT);
    struct file_piece text = {manifest->data, manifest->length};
    return file_create(file_join(path, directory, MANIFEST_NAME), &text, 1, error);
}

/* ---------------------------------------------------------------------- checking */

/* Checks the file of one line, and adds what its line should be. */
static enum ps_status check_file(const char *directory, const char *line, struct text *again, struct ps_error *error) {
    char path[4096], name[LINE_SIZE], *contents;
    size_t said, size;
    unsigned sum;
    if (sscanf(line, "%8x %zu %511s", &sum, &said, name) != 3 || strchr(name, '/'))
        return error_set(error, PS_BAD_INPUT, "%s/%s: is damaged", directory, MANIFEST_NAME);
    TRY(file_read(file_join(path, directory, name), FILE_LIMIT, &contents, &size, error));
    uint32_t is = file_checksum(&(struct file_piece){contents, size}, 1);
    free(contents);
    if (size != said) return error_set(error, PS_BAD_INPUT, "%s: has %zu bytes, expected %zu", path, size, said);
    if (is != sum) return error_set(error, PS_BAD_INPUT, "%s: is not as it was written: its checksum is another", path);
    add_line(again, sum, said, name);
    return PS_OK;
}

static enum ps_status check_files(const char *directory, const char *text, struct text *again, struct ps_error *error) {
    manifest_begin(again);
    for (const char *line = strchr(text, '\n'); line; line = strchr(line, '\n')) {
        line++;
        if (*line == '\0' || strlen(line) == 13) break; /* the last line, "xxxxxxxx end\n" */
        TRY(check_file(directory, line, again, error));
    }
    add_end(again);
    if (again->failed) return error_memory(error, "a manifest", MANIFEST_LIMIT);
    if (strcmp(again->data, text) != 0) return error_set(error, PS_BAD_INPUT, "%s/%s: is damaged", directory, MANIFEST_NAME);
    return PS_OK;
}

enum ps_status manifest_check(const char *directory, struct ps_error *error) {
    char path[4096], *text;
    size_t size;
    TRY(file_read(file_join(path, directory, MANIFEST_NAME), MANIFEST_LIMIT, &text, &size, error));
    struct text again = {0};
    enum ps_status status = strlen(text) == size ? check_files(directory, text, &again, error)
                                                 : error_set(error, PS_BAD_INPUT, "%s: is damaged", path);
    text_free(&again);
    free(text);
    return status;
}
