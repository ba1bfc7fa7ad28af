/* Writing and checking manifests; see manifest.h. */
#include "store/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"

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
    TRY(text_status(manifest, "a manifest", error));
    struct file_piece text = {manifest->data, manifest->length};
    return file_create(file_join(path, directory, MANIFEST_NAME), &text, 1, error);
}

/* ---------------------------------------------------------------------- checking */

/* The lines of a manifest. */
struct line {
    unsigned sum;
    size_t size;
    char name[LINE_SIZE];
};

static enum ps_status damaged(const char *directory, struct ps_error *error) {
    return error_set(error, PS_BAD_INPUT, "%s/%s: is damaged", directory, MANIFEST_NAME);
}

/* Reads the line at *text and moves *text past it; false: it is none, as the last one, "xxxxxxxx end". */
static bool next_line(const char **text, const char *end, struct line *line) {
    char copy[LINE_SIZE + 64];
    const char *stop = memchr(*text, '\n', (size_t)(end - *text));
    const size_t length = stop ? (size_t)(stop - *text) : sizeof copy;
    if (length >= sizeof copy) return false;
    memcpy(copy, *text, length);
    copy[length] = '\0';
    *text = stop + 1;
    return sscanf(copy, "%8x %zu %511s", &line->sum, &line->size, line->name) == 3 && !strchr(line->name, '/');
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Checks that no file is named twice, and that no file of weights or moments is there without being named. */
static enum ps_status check_names(const char *directory, char **names, size_t count, struct ps_error *error) {
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return error_set(error, PS_BAD_INPUT, "%s/%s: names %s twice", directory, MANIFEST_NAME, names[i]);
    DIR *entries = opendir(directory);
    if (!entries)
        return error_set(error, errno == ENOMEM ? PS_OUT_OF_MEMORY : PS_IO, "%s: cannot read: %s", directory, strerror(errno));
    enum ps_status status = PS_OK;
    for (struct dirent *entry; status == PS_OK && (entry = readdir(entries));) {
        const char *name = entry->d_name, *dot = strrchr(name, '.');
        if (!dot || strcmp(dot, ".safetensors") != 0 || bsearch(&name, names, count, sizeof *names, by_name)) continue;
        status = error_set(error, PS_BAD_INPUT, "%s/%s: is not in %s", directory, name, MANIFEST_NAME);
    }
    closedir(entries);
    return status;
}

/* Checks the file of one line. */
static enum ps_status check_file(const char *directory, const struct line *line, struct ps_error *error) {
    char path[4096], *contents;
    size_t size;
    TRY(file_read(file_join(path, directory, line->name), FILE_LIMIT, &contents, &size, error));
    uint32_t is = file_checksum(&(struct file_piece){contents, size}, 1);
    free(contents);
    if (size != line->size) return error_set(error, PS_BAD_INPUT, "%s: has %zu bytes, expected %zu", path, size, line->size);
    if (is != line->sum) return error_set(error, PS_BAD_INPUT, "%s: is not as it was written: its checksum is another", path);
    return PS_OK;
}

/* The names in `arena`, and the manifest as it should be in `again`. */
static enum ps_status check_text(const char *directory, const char *text, size_t size, struct arena *arena, struct text *again,
                                 struct ps_error *error) {
    const char *end = text + size, *at = strchr(text, '\n');
    struct line line;
    size_t count = 0, most = 0;
    for (const char *c = text; c < end; c++) most += *c == '\n';
    char **names = arena_take(arena, most + 1, sizeof *names);
    TRY(arena_check(arena, "a manifest", error));
    manifest_begin(again);
    for (at = at ? at + 1 : end; at < end && next_line(&at, end, &line);) {
        names[count++] = arena_copy(arena, line.name, strlen(line.name) + 1, 1);
        TRY(arena_check(arena, "a manifest", error));
        add_line(again, line.sum, line.size, line.name);
    }
    add_end(again);
    TRY(text_status(again, "a manifest", error));
    if (strcmp(again->data, text) != 0) return damaged(directory, error);
    TRY(check_names(directory, names, count, error));
    at = strchr(text, '\n') + 1;
    while (next_line(&at, end, &line)) TRY(check_file(directory, &line, error));
    return PS_OK;
}

enum ps_status manifest_check(const char *directory, struct ps_error *error) {
    char path[4096], *text;
    size_t size;
    TRY(file_read(file_join(path, directory, MANIFEST_NAME), MANIFEST_LIMIT, &text, &size, error));
    struct text again = {0};
    struct arena arena = {0};
    enum ps_status status =
        strlen(text) == size ? check_text(directory, text, size, &arena, &again, error) : damaged(directory, error);
    arena_release(&arena);
    text_free(&again);
    free(text);
    return status;
}

enum ps_status manifest_look(const char *directory, struct ps_error *error) {
    char path[4096], *text;
    size_t size;
    struct ps_error missing = {0};
    struct line line;
    struct stat file;
    if (file_read(file_join(path, directory, MANIFEST_NAME), MANIFEST_LIMIT, &text, &size, &missing) != PS_OK)
        return error_set(error, PS_IO, "%s", missing.message);
    const char *end = text + size, *at = strchr(text, '\n');
    enum ps_status status = PS_OK;
    for (at = at ? at + 1 : end; status == PS_OK && at < end && next_line(&at, end, &line);)
        if (stat(file_join(path, directory, line.name), &file) != 0 || (size_t)file.st_size != line.size)
            status = error_set(error, PS_IO, "%s: is gone, or not as it was written", path);
    free(text);
    return status;
}
