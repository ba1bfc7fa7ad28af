/* A network by what names it: a file of one of the formats, or the specification of a built-in one. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "graph/model.h"
#include "onnx/onnx.h"

static bool ends_with(const char *text, size_t length, const char *end) {
    return length > strlen(end) && memcmp(text + length - strlen(end), end, strlen(end)) == 0;
}

/* How much of the text is a file's path, which ",split=..." may follow; 0: it is no file. */
static size_t path_length(const char *text) {
    char name[4096];
    const char *splits = strstr(text, ",split=");
    size_t length = splits != NULL ? (size_t)(splits - text) : strlen(text);
    const struct model *entry;
    if (length >= sizeof name) return 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ","), text);
    if (ends_with(text, length, ".json") || ends_with(text, length, ".onnx")) return length;
    if (model_find(name, &entry, NULL) == PS_OK) return 0;
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    return file_exists(name) ? length : 0;
}

/* No built-in network has a name like that of a file. */
static enum ps_status open_built_in(const char *text, struct ps_network **network, struct ps_error *error) {
    const int length = (int)strcspn(text, ",");
    const struct model *entry;
    struct ps_error known = {0};
    char name[256];
    snprintf(name, sizeof name, "%.*s", length, text);
    if (strpbrk(name, "./") == NULL || model_find(name, &entry, &known) == PS_OK) return model_generate(text, network, error);
    if (file_exists(name))
        return error_set(error, PS_USAGE, "model '%s': a file takes the options split= and precision=, not '%s'", name,
                         text + length + (text[length] == ','));
    error_set(error, PS_USAGE, "model '%s': there is no such file, and no such network is built in", name);
    error_hint(error, "%s; files are NAME.onnx or NAME.json", known.hint);
    return PS_USAGE;
}

static enum ps_status open_wide(const char *text, struct ps_network **network, struct ps_error *error) {
    char path[4096];
    size_t length = path_length(text);
    struct ps_network *whole;
    if (length == 0) return open_built_in(text, network, error);
    snprintf(path, sizeof path, "%.*s", (int)length, text);
    if (text[length] == '\0') return ps_network_read(path, network, error);
    TRY(ps_network_read(path, &whole, error));
    enum ps_status status = network_create_split(whole, text + length + strlen(",split="), network, error);
    ps_network_destroy(whole);
    return status;
}

enum ps_status ps_network_open(const char *text, struct ps_network **network, struct ps_error *error) {
    char rest[4096], precision[8];
    struct ps_network *made;
    TRY(network_cut_precision(text, rest, sizeof rest, precision, error));
    TRY(open_wide(rest, &made, error));
    enum ps_status status = precision[0] != '\0' ? ps_network_set_precision(made, precision, error) : PS_OK;
    if (status == PS_OK)
        *network = made;
    else
        ps_network_destroy(made);
    return status;
}

/* What a file is that is no document in JSON, by how it begins: NULL where that says nothing. */
static const char *kind_of_file(const char *path) {
    static const struct {
        const char *begins, *kind;
    } kinds[] = {{"PK\3\4", "an archive, as torch.save writes weights"}, {"\200\2", "a pickle, as torch.save writes weights"}};
    char begin[4] = {0};
    FILE *file = fopen(path, "rbe");
    size_t read = file != NULL ? fread(begin, 1, sizeof begin, file) : 0;
    if (file != NULL) fclose(file);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t length = strlen(kinds[k].begins);
        if (read >= length && memcmp(begin, kinds[k].begins, length) == 0) return kinds[k].kind;
    }
    return NULL;
}

enum ps_status ps_network_read(const char *path, struct ps_network **network, struct ps_error *error) {
    if (onnx_is_file(path)) return onnx_read_network(path, network, error);
    enum ps_status status = network_read_json(path, network, error);
    if (status != PS_BAD_INPUT || ends_with(path, strlen(path), ".json")) return status;
    const char *kind = kind_of_file(path);
    if (kind != NULL) error_set(error, status, "%s: %s, and no network", path, kind);
    error_hint(error,
               "networks come as ONNX (NAME.onnx, as torch.onnx.export writes it) or JSON; weights alone, as safetensors, "
               "are for `init`");
    return status;
}

enum ps_status ps_network_write(const struct ps_network *network, const char *path, struct ps_error *error) {
    const struct onnx_write_options usual = {0};
    return onnx_is_file(path) ? onnx_write_network(network, &usual, path, error) : network_write_json(network, path, error);
}
