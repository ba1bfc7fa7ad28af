/*
 * NumPy's files; see npz.h. The archive is read from its central directory, whose entries say where each member lies, how it
 * is compressed and how large it is; the fields of 64 bits of large archives ("zip64") are known.
 */
#include "data/npz.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

enum {
    END_BYTES = 22,      /* end of central directory */
    END64_BYTES = 56,    /* the same with fields of 64 bits, */
    LOCATOR_BYTES = 20,  /* and what says where that lies */
    ENTRY_BYTES = 46,    /* of the central directory, without name, extra fields and comment */
    LOCAL_BYTES = 30,    /* before a member's data, likewise */
    EXTRA_BYTES = 20,    /* the extra field with both sizes in 64 bits */
    COMMENT_MAX = 65535, /* of an archive */
    RATIO_MAX = 1032,    /* deflate never packs more bytes into one */
    HEADER_MAX = 65536,  /* of an .npy file: more than NumPy writes for any array of the accepted ranks */
    ALIGNMENT = 64,      /* of the elements in a file that is written */
    SIZE_IN_EXTRA = -1,  /* of 32 bits: the size is in the extra field */
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    FLAG_ENCRYPTED = 1,
    FLAG_UTF8 = 1 << 11,
    EXTRA_ZIP64 = 1,
};
static const uint32_t end_magic = 0x06054b50, end64_magic = 0x06064b50, locator_magic = 0x07064b50, entry_magic = 0x02014b50,
                      local_magic = 0x04034b50;

/* An array in the archive, or the one of an .npy file. */
struct member {
    char *name;
    uint64_t offset; /* of its local header */
    uint64_t packed, size;
    uint32_t checksum;
    int method;
    unsigned char *unpacked; /* NULL: it is stored, or was not asked for yet */
    unsigned char *turned;   /* of an array in Fortran order: its elements in C order */
};

struct npz {
    struct arena arena;
    char *path;
    struct file_map map;
    bool archive;
    struct member *members; /* by name */
    const char **names;     /* in the order of the file */
    int count;
};

static enum ps_status damaged(const struct npz *file, const char *array, struct ps_error *error, const char *what) {
    if (array == NULL) return error_set(error, PS_BAD_INPUT, "%s: %s", file->path, what);
    return error_set(error, PS_BAD_INPUT, "%s: array '%.100s': %s", file->path, array, what);
}

static uint64_t number_at(const unsigned char *from, int bytes) {
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++) number |= (uint64_t)from[i] << (8 * i);
    return number;
}

/* ------------------------------------------------------- the central directory */

struct directory {
    uint64_t entries, bytes, offset;
};

/* The directory as the record at the archive's end says. */
static bool find_directory(const struct npz *file, struct directory *directory) {
    const unsigned char *data = file->map.data;
    if (file->map.size < END_BYTES) return false;
    const size_t last = file->map.size - END_BYTES, first = last > COMMENT_MAX ? last - COMMENT_MAX : 0;
    size_t end = last;
    while (number_at(data + end, 4) != end_magic && end > first) end--;
    const unsigned char *record = data + end;
    if (number_at(record, 4) != end_magic) return false;
    *directory = (struct directory){number_at(record + 10, 2), number_at(record + 12, 4), number_at(record + 16, 4)};
    if (end < LOCATOR_BYTES || number_at(record - LOCATOR_BYTES, 4) != locator_magic) return true;
    const uint64_t at = number_at(record - LOCATOR_BYTES + 8, 8);
    if (at > end || end - at < END64_BYTES || number_at(data + at, 4) != end64_magic) return false;
    *directory = (struct directory){number_at(data + at + 32, 8), number_at(data + at + 40, 8), number_at(data + at + 48, 8)};
    return true;
}

/* Replaces sizes and offset that do not fit into 32 bits by those of the extra fields. */
static bool read_extra(const unsigned char *extra, size_t bytes, struct member *member) {
    uint64_t *const fields[] = {&member->size, &member->packed, &member->offset};
    for (size_t at = 0; at + 4 <= bytes;) {
        const size_t length = number_at(extra + at + 2, 2), end = at + 4 + length;
        if (end > bytes) return false;
        size_t next = at + 4;
        for (int f = 0; f < 3 && number_at(extra + at, 2) == EXTRA_ZIP64; f++) {
            if (*fields[f] != (uint32_t)SIZE_IN_EXTRA) continue;
            if (next + 8 > end) return false;
            *fields[f] = number_at(extra + next, 8);
            next += 8;
        }
        at = end;
    }
    return true;
}

static bool ends_with_npy(const unsigned char *name, size_t length) {
    return length > 4 && memcmp(name + length - 4, ".npy", 4) == 0;
}

/* One entry of the directory; `*at` moves to the next. Members that are no arrays are passed over. */
static enum ps_status read_entry(struct npz *file, size_t *at, size_t end, struct ps_error *error) {
    const unsigned char *entry = file->map.data + *at;
    if (end - *at < ENTRY_BYTES || number_at(entry, 4) != entry_magic)
        return damaged(file, NULL, error, "the archive's directory is damaged");
    const size_t name = number_at(entry + 28, 2), extra = number_at(entry + 30, 2), comment = number_at(entry + 32, 2);
    if (end - *at - ENTRY_BYTES < name + extra + comment)
        return damaged(file, NULL, error, "the archive's directory is damaged");
    *at += ENTRY_BYTES + name + extra + comment;
    const unsigned char *letters = entry + ENTRY_BYTES;
    if (!ends_with_npy(letters, name)) return PS_OK;
    struct member *member = &file->members[file->count];
    *member = (struct member){.name = arena_take(&file->arena, name - 3, 1),
                              .offset = number_at(entry + 42, 4),
                              .packed = number_at(entry + 20, 4),
                              .size = number_at(entry + 24, 4),
                              .checksum = (uint32_t)number_at(entry + 16, 4),
                              .method = (int)number_at(entry + 10, 2)};
    if (member->name == NULL) return arena_check(&file->arena, "the names of arrays", error);
    memcpy(member->name, letters, name - 4);
    if (memchr(member->name, 0, name - 4) != NULL || utf8_invalid(member->name, name - 4) != NULL)
        return damaged(file, NULL, error, "an array's name is not text");
    if (number_at(entry + 8, 2) & FLAG_ENCRYPTED) return damaged(file, member->name, error, "it is encrypted");
    if (!read_extra(letters + name, extra, member)) return damaged(file, member->name, error, "its entry is damaged");
    file->names[file->count++] = member->name;
    return PS_OK;
}

static int by_name(const void *left, const void *right) {
    const struct member *a = left, *b = right;
    return strcmp(a->name, b->name);
}

static enum ps_status read_directory(struct npz *file, struct ps_error *error) {
    struct directory directory;
    if (!find_directory(file, &directory)) return damaged(file, NULL, error, "neither an .npz file nor an .npy file");
    if (directory.offset > file->map.size || directory.bytes > file->map.size - directory.offset ||
        directory.entries > directory.bytes / ENTRY_BYTES || directory.entries > INT_MAX)
        return damaged(file, NULL, error, "the archive's directory lies outside of the file");
    file->members = arena_take(&file->arena, directory.entries, sizeof *file->members);
    file->names = arena_take(&file->arena, directory.entries, sizeof *file->names);
    TRY(arena_check(&file->arena, "the names of arrays", error));
    size_t at = directory.offset;
    for (uint64_t i = 0; i < directory.entries; i++) TRY(read_entry(file, &at, directory.offset + directory.bytes, error));
    qsort(file->members, (size_t)file->count, sizeof *file->members, by_name);
    for (int i = 1; i < file->count; i++)
        if (strcmp(file->members[i].name, file->members[i - 1].name) == 0)
            return damaged(file, file->members[i].name, error, "it is there twice");
    return PS_OK;
}

/* ------------------------------------------------------------------ members */

static enum ps_status unpack(const struct npz *file, struct member *member, const unsigned char *from, struct ps_error *error) {
    if (member->size / RATIO_MAX > member->packed) return damaged(file, member->name, error, "its size is not possible");
    unsigned char *made;
    TRY(memory_new(&made, member->size + 1, member->name, error));
    z_stream stream = {0};
    int code = inflateInit2(&stream, -MAX_WBITS);
    uint64_t taken = 0, given = 0;
    while (code == Z_OK) {
        const uint64_t in = member->packed - taken, out = member->size + 1 - given;
        stream.next_in = (Bytef *)(uintptr_t)(from + taken);
        stream.avail_in = in < UINT_MAX ? (uInt)in : UINT_MAX;
        stream.next_out = made + given;
        stream.avail_out = out < UINT_MAX ? (uInt)out : UINT_MAX;
        code = inflate(&stream, Z_NO_FLUSH);
        taken = (uint64_t)(stream.next_in - from);
        given = (uint64_t)(stream.next_out - made);
    }
    inflateEnd(&stream);
    const bool whole = code == Z_STREAM_END && given == member->size;
    if (!whole || file_checksum(&(struct file_piece){made, member->size}, 1) != member->checksum) {
        free(made);
        return code == Z_MEM_ERROR ? error_memory(error, member->name, member->size)
                                   : damaged(file, member->name, error, "its compressed data are damaged");
    }
    member->unpacked = made;
    return PS_OK;
}

/* The member's bytes: an .npy file of member->size bytes. */
static enum ps_status member_bytes(const struct npz *file, struct member *member, const unsigned char **bytes,
                                   struct ps_error *error) {
    *bytes = member->unpacked;
    if (member->unpacked != NULL) return PS_OK;
    *bytes = file->map.data;
    if (!file->archive) return PS_OK;
    const unsigned char *local = file->map.data + member->offset;
    if (member->offset > file->map.size || file->map.size - member->offset < LOCAL_BYTES || number_at(local, 4) != local_magic)
        return damaged(file, member->name, error, "it is not where the archive's directory says");
    const uint64_t skipped = LOCAL_BYTES + number_at(local + 26, 2) + number_at(local + 28, 2);
    const uint64_t left = file->map.size - member->offset;
    if (left < skipped || left - skipped < member->packed)
        return damaged(file, member->name, error, "its data lie outside of the file");
    *bytes = local + skipped;
    if (member->method == METHOD_STORED && member->size != member->packed)
        return damaged(file, member->name, error, "its entry is damaged");
    if (member->method == METHOD_STORED) return PS_OK;
    if (member->method != METHOD_DEFLATED)
        return error_set(error, PS_BAD_INPUT,
                         "%s: array '%.100s': compressed by method %d; stored and deflated ones are accepted", file->path,
                         member->name, member->method);
    TRY(unpack(file, member, *bytes, error));
    *bytes = member->unpacked;
    return PS_OK;
}

/* ------------------------------------------------------------- the .npy header */

/* The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } */
struct reader {
    const char *at, *end;
};

static bool accept(struct reader *reader, const char *word) {
    while (reader->at < reader->end && isspace((unsigned char)*reader->at)) reader->at++;
    const size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0) return false;
    reader->at += length;
    return true;
}

static bool accept_string(struct reader *reader, char *text, size_t size) {
    const char quote = accept(reader, "'") ? '\'' : '"';
    if (quote == '"' && !accept(reader, "\"")) return false;
    size_t length = 0;
    while (reader->at < reader->end && *reader->at != quote && length + 1 < size) text[length++] = *reader->at++;
    text[length] = '\0';
    return reader->at < reader->end && *reader->at++ == quote;
}

static bool accept_shape(struct reader *reader, struct array *array) {
    if (!accept(reader, "(")) return false;
    for (array->rank = 0; !accept(reader, ")"); array->rank++) {
        if (array->rank > 0 && !accept(reader, ",")) return false;
        if (accept(reader, ")")) return true;
        if (array->rank == ARRAY_RANK_MAX) return false;
        int64_t side = 0;
        int digits = 0;
        for (accept(reader, ""); reader->at < reader->end && isdigit((unsigned char)*reader->at) && digits < 18; digits++)
            side = side * 10 + (*reader->at++ - '0');
        if (digits == 0) return false;
        array->shape[array->rank] = side;
    }
    return true;
}

static bool find_type(const char *descr, enum array_type *type) {
    const bool order = descr[0] == '<' || descr[0] == '|' || descr[0] == '=';
    for (int t = 0; order && t < ARRAY_TYPE_COUNT; t++) {
        if (array_types[t].numpy == NULL || strcmp(array_types[t].numpy, descr + 1) != 0) continue;
        *type = (enum array_type)t;
        return true;
    }
    return false;
}

struct header {
    char descr[32];
    bool fortran, known[3]; /* descr, fortran_order, shape */
};

static bool read_dictionary(struct reader *reader, struct header *header, struct array *array) {
    char key[32];
    bool read = accept(reader, "{");
    while (read && !accept(reader, "}")) {
        read = accept_string(reader, key, sizeof key) && accept(reader, ":");
        const int field = strcmp(key, "descr") == 0           ? 0
                          : strcmp(key, "fortran_order") == 0 ? 1
                          : strcmp(key, "shape") == 0         ? 2
                                                              : 3;
        if (!read || field == 3 || header->known[field]) return false;
        header->known[field] = true;
        if (field == 0) read = accept_string(reader, header->descr, sizeof header->descr);
        if (field == 1) {
            header->fortran = accept(reader, "True");
            read = header->fortran || accept(reader, "False");
        }
        if (field == 2) read = accept_shape(reader, array);
        if (read && !accept(reader, ",")) {
            read = accept(reader, "}");
            break;
        }
    }
    return read && header->known[0] && header->known[1] && header->known[2];
}

/* The elements of an array in Fortran order (the first dimension innermost), put in C order. */
static enum ps_status turn(struct member *member, struct array *array, struct ps_error *error) {
    const size_t bytes = array_types[array->type].bytes;
    const unsigned char *from = array->data;
    const int64_t count = array_elements(array);
    array->data = member->turned;
    if (member->turned != NULL) return PS_OK;
    TRY(memory_new(&member->turned, array_bytes(array), member->name, error));
    array->data = member->turned;
    int64_t place[ARRAY_RANK_MAX] = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0;
        for (int d = array->rank - 1; d >= 0; d--) at = at * array->shape[d] + place[d];
        memcpy(member->turned + (size_t)i * bytes, from + (size_t)at * bytes, bytes);
        for (int d = array->rank - 1; d >= 0 && ++place[d] == array->shape[d]; d--) place[d] = 0;
    }
    return PS_OK;
}

static enum ps_status parse_npy(const struct npz *file, struct member *member, const unsigned char *bytes, struct array *array,
                                struct ps_error *error) {
    const uint64_t size = member->size;
    if (size < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0) return damaged(file, member->name, error, "it is no .npy file");
    const int version = bytes[6], field = version == 1 ? 2 : 4;
    if (version < 1 || version > 3) return damaged(file, member->name, error, "its .npy version is not 1, 2 or 3");
    const uint64_t length = size < 12 ? UINT64_MAX : number_at(bytes + 8, field), first = 8 + (uint64_t)field;
    if (length > HEADER_MAX || length > size - first) return damaged(file, member->name, error, "its .npy header is damaged");
    struct reader reader = {(const char *)bytes + first, (const char *)bytes + first + length};
    struct header header = {0};
    *array = (struct array){.name = member->name, .data = bytes + first + length};
    if (!read_dictionary(&reader, &header, array)) {
        damaged(file, member->name, error, "its .npy header is damaged");
        error_hint(error, "an array has at most %d dimensions, and elements that are numbers or truth values", ARRAY_RANK_MAX);
        return PS_BAD_INPUT;
    }
    if (!find_type(header.descr, &array->type))
        return error_set(error, PS_BAD_INPUT,
                         "%s: array '%.100s': elements of '%s'; little-endian numbers of 8 to 64 bits and bool are accepted",
                         file->path, member->name, header.descr);
    if (array_bytes(array) != size - first - length)
        return damaged(file, member->name, error, "its size does not fit its shape");
    return header.fortran && array->rank > 1 ? turn(member, array, error) : PS_OK;
}

/* --------------------------------------------------------------------- reading */

/* The one array of an .npy file, named as the file. */
static enum ps_status note_npy(struct npz *file, struct ps_error *error) {
    const char *slash = strrchr(file->path, '/'), *name = slash != NULL ? slash + 1 : file->path;
    size_t length = strlen(name);
    if (ends_with_npy((const unsigned char *)name, length)) length -= 4;
    file->members = arena_take(&file->arena, 1, sizeof *file->members);
    file->names = arena_take(&file->arena, 1, sizeof *file->names);
    char *copy = arena_take(&file->arena, length + 1, 1);
    TRY(arena_check(&file->arena, "an array", error));
    memcpy(copy, name, length);
    *file->members = (struct member){.name = copy, .size = file->map.size};
    file->names[0] = copy;
    file->count = 1;
    return PS_OK;
}

enum ps_status npz_open(const char *path, struct npz **out, struct ps_error *error) {
    struct npz *file;
    TRY(memory_new(&file, 1, path, error));
    file->path = arena_copy(&file->arena, path, strlen(path) + 1, 1);
    enum ps_status status = arena_check(&file->arena, path, error);
    if (status == PS_OK) status = file_map(path, &file->map, error);
    if (status == PS_OK) {
        file->archive = file->map.size < 6 || memcmp(file->map.data, "\x93NUMPY", 6) != 0;
        status = file->archive ? read_directory(file, error) : note_npy(file, error);
    }
    if (status != PS_OK) {
        file->count = 0; /* nothing is unpacked yet, and with the last of the memory the members may have gone */
        npz_close(file);
        return status;
    }
    *out = file;
    return PS_OK;
}

void npz_close(struct npz *file) {
    if (file == NULL) return;
    for (int i = 0; i < file->count; i++) {
        free(file->members[i].unpacked);
        free(file->members[i].turned);
    }
    file_unmap(&file->map);
    arena_release(&file->arena);
    free(file);
}

int npz_count(const struct npz *file) { return file->count; }

const char *npz_name(const struct npz *file, int number) { return file->names[number]; }

static struct member *find(const struct npz *file, const char *name) {
    const struct member wanted = {.name = (char *)(uintptr_t)name};
    return file->count > 0 ? bsearch(&wanted, file->members, (size_t)file->count, sizeof wanted, by_name) : NULL;
}

bool npz_has(const struct npz *file, const char *name) { return find(file, name) != NULL; }

enum ps_status npz_get(struct npz *file, const char *name, struct array *array, struct ps_error *error) {
    struct member *member = find(file, name);
    if (member == NULL) {
        char what[64 + 100];
        snprintf(what, sizeof what, "%.100s: array", file->path);
        return error_unknown(error, PS_BAD_INPUT, what, name, file->names, (size_t)file->count);
    }
    const unsigned char *bytes;
    TRY(member_bytes(file, member, &bytes, error));
    return parse_npy(file, member, bytes, array, error);
}

/* --------------------------------------------------------------------- writing */

static unsigned char *put(unsigned char *to, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) *to++ = (unsigned char)(number >> (8 * i));
    return to;
}

/* A member as it is written: its headers, and the fields of its entry. */
struct written {
    size_t header_bytes; /* local header and .npy header */
    uint64_t offset, size;
    uint32_t checksum;
};

enum { NPY_BYTES = 320 /* at most, of a header of an accepted array without its padding */ };

/* The .npy header, padded so that the data behind it, at `offset` + its length, are aligned. */
static size_t npy_header(const struct array *array, uint64_t offset, unsigned char *to) {
    char text[NPY_BYTES];
    const size_t one = array_types[array->type].bytes == 1;
    int length = snprintf(text, sizeof text, "{'descr': '%s%s', 'fortran_order': False, 'shape': (", one ? "|" : "<",
                          array_types[array->type].numpy);
    for (int d = 0; d < array->rank; d++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%lld,%s", (long long)array->shape[d],
                           d + 1 < array->rank ? " " : "");
    length += snprintf(text + length, sizeof text - (size_t)length, "), }");
    const size_t used = 10 + (size_t)length + 1, padding = (ALIGNMENT - (offset + used) % ALIGNMENT) % ALIGNMENT;
    memcpy(to, "\x93NUMPY\x01", 8);
    put(to + 8, used + padding - 10, 2);
    memcpy(to + 10, text, (size_t)length);
    memset(to + 10 + length, ' ', padding);
    to[used + padding - 1] = '\n';
    return used + padding;
}

static size_t header_room(const struct array *array) {
    return LOCAL_BYTES + strlen(array->name) + 4 + EXTRA_BYTES + NPY_BYTES + ALIGNMENT;
}
static size_t entry_room(const struct array *array) { return ENTRY_BYTES + strlen(array->name) + 4 + EXTRA_BYTES + 8; }

/* What local header and entry have in common, from the version that is needed to read them. */
static unsigned char *put_common(unsigned char *to, const struct array *array, const struct written *member, int extra) {
    to = put(to, 45, 2);
    to = put(to, FLAG_UTF8, 2);
    to = put(to, METHOD_STORED, 2);
    to = put(to, 0, 2);          /* time */
    to = put(to, 1 << 5 | 1, 2); /* date: 1980-01-01 */
    to = put(to, member->checksum, 4);
    to = put(to, UINT32_MAX, 4);
    to = put(to, UINT32_MAX, 4);
    to = put(to, strlen(array->name) + 4, 2);
    return put(to, (uint64_t)extra, 2);
}

static unsigned char *put_name(unsigned char *to, const struct array *array) {
    memcpy(to, array->name, strlen(array->name));
    memcpy(to + strlen(array->name), ".npy", 4);
    return to + strlen(array->name) + 4;
}

static unsigned char *put_sizes(unsigned char *to, const struct written *member, int extra) {
    to = put(to, EXTRA_ZIP64, 2);
    to = put(to, (uint64_t)extra - 4, 2);
    to = put(to, member->size, 8);
    return put(to, member->size, 8);
}

/* Local header and .npy header. */
static void make_header(const struct array *array, uint64_t offset, unsigned char *to, struct written *member) {
    const size_t local = LOCAL_BYTES + strlen(array->name) + 4 + EXTRA_BYTES;
    const size_t header = npy_header(array, offset + local, to + local);
    const struct file_piece pieces[] = {{to + local, header}, {array->data, array_bytes(array)}};
    *member = (struct written){.header_bytes = local + header,
                               .offset = offset,
                               .size = header + array_bytes(array),
                               .checksum = file_checksum(pieces, 2)};
    to = put_common(put(to, local_magic, 4), array, member, EXTRA_BYTES);
    put_sizes(put_name(to, array), member, EXTRA_BYTES);
}

static unsigned char *put_entry(unsigned char *to, const struct array *array, const struct written *member) {
    to = put_common(put(put(to, entry_magic, 4), 45, 2), array, member, EXTRA_BYTES + 8);
    to = put(put(to, 0, 6), 0, 4); /* no comment, disk 0, no attributes */
    to = put_name(put(to, UINT32_MAX, 4), array);
    return put(put_sizes(to, member, EXTRA_BYTES + 8), member->offset, 8);
}

/* Both records of the archive's end. */
static unsigned char *put_end(unsigned char *to, uint64_t count, uint64_t bytes, uint64_t offset) {
    to = put(put(to, end64_magic, 4), END64_BYTES - 12, 8);
    to = put(put(to, 45, 2), 45, 2);
    to = put(put(to, 0, 4), 0, 4);
    to = put(put(to, count, 8), count, 8);
    to = put(put(to, bytes, 8), offset, 8);
    to = put(put(to, locator_magic, 4), 0, 4);
    to = put(put(to, offset + bytes, 8), 1, 4);
    to = put(put(to, end_magic, 4), 0, 4);
    to = put(put(to, UINT16_MAX, 2), UINT16_MAX, 2);
    return put(put(put(to, UINT32_MAX, 4), UINT32_MAX, 4), 0, 2);
}

enum ps_status npz_write(const char *path, const struct array *arrays, int count, struct ps_error *error) {
    struct arena arena = {0};
    size_t entries = END64_BYTES + LOCATOR_BYTES + END_BYTES;
    for (int i = 0; i < count; i++) entries += entry_room(&arrays[i]);
    struct written *members = arena_take(&arena, (size_t)count, sizeof *members);
    struct file_piece *pieces = arena_take(&arena, 2 * (size_t)count + 1, sizeof *pieces);
    unsigned char *directory = arena_take(&arena, entries, 1);
    unsigned char **headers = arena_take(&arena, (size_t)count, sizeof *headers);
    for (int i = 0; i < count && headers != NULL; i++) headers[i] = arena_take(&arena, header_room(&arrays[i]), 1);
    TRY(arena_check(&arena, path, error));
    uint64_t offset = 0;
    unsigned char *at = directory;
    for (int i = 0; i < count; i++) {
        make_header(&arrays[i], offset, headers[i], &members[i]);
        pieces[2 * i] = (struct file_piece){headers[i], members[i].header_bytes};
        pieces[2 * i + 1] = (struct file_piece){arrays[i].data, array_bytes(&arrays[i])};
        offset += pieces[2 * i].size + pieces[2 * i + 1].size;
        at = put_entry(at, &arrays[i], &members[i]);
    }
    at = put_end(at, (uint64_t)count, (uint64_t)(at - directory), offset);
    pieces[2 * count] = (struct file_piece){directory, (size_t)(at - directory)};
    const enum ps_status status = file_write_pieces(path, pieces, 2 * (size_t)count + 1, error);
    arena_release(&arena);
    return status;
}
