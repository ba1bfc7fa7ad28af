/* Complete files: read into memory; written to a temporary file in the same directory, synced and renamed. */
#ifndef PENSTOCK_BASE_FILE_H
#define PENSTOCK_BASE_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text.h"

/* Reads all of `path` into memory (free()), terminated with a 0 byte that `size` does not count. Missing: PS_BAD_INPUT; larger
 * than `limit` bytes: PS_BAD_INPUT. A path that ends in ".gz" is unpacked, and `limit` applies to the unpacked size. PS_IO: the
 * system cannot or may not read it. */
enum ps_status file_read(const char *path, size_t limit, char **data, size_t *size, struct ps_error *error);
/* The first `size` bytes, or as many as there are: `read`. */
enum ps_status file_read_begin(const char *path, size_t size, char *data, size_t *read, struct ps_error *error);
/* A file that is mapped into memory and read as it is needed. Nobody may shorten it until file_unmap. */
struct file_map {
    const unsigned char *data; /* NULL: the file is empty */
    size_t size;
};
/* Missing, unreadable or no regular file: PS_BAD_INPUT. */
enum ps_status file_map(const char *path, struct file_map *map, struct ps_error *error);
void file_unmap(struct file_map *map);
/* Writes and renames; a failure is PS_IO and leaves an old file unchanged. The permissions of an old file stay, and so do
 * symbolic links: what they point to is written. */
enum ps_status file_write(const char *path, const void *data, size_t size, struct ps_error *error);
/* As file_write; of a text that memory ran out for nothing, which is text_status(). */
enum ps_status file_write_text(const char *path, const struct text *text, const char *what, struct ps_error *error);
/* A piece of a file's contents; pieces are written in order. */
struct file_piece {
    const void *data;
    size_t size;
};
/* As file_write. */
enum ps_status file_write_pieces(const char *path, const struct file_piece *pieces, size_t count, struct ps_error *error);
/* Creates a file that must not exist yet and syncs it: for directories that are renamed when they are complete. PS_IO leaves no
 * file. */
enum ps_status file_create(const char *path, const struct file_piece *pieces, size_t count, struct ps_error *error);
/* zlib's CRC-32 of the pieces. */
uint32_t file_checksum(const struct file_piece *pieces, size_t count);
/* Removes a directory and the files in it, if it exists; of a symbolic link the link alone. PS_IO: not everything could be
 * removed. */
enum ps_status file_remove_directory(const char *path, struct ps_error *error);
/* Makes the directory and its parents. */
enum ps_status file_make_directory(const char *path, struct ps_error *error);
/* Syncs a directory, so that renames in it are durable. */
enum ps_status file_sync_directory(const char *path, struct ps_error *error);
/* The directory that holds `path`, which is another array. */
void file_parent(const char *path, char parent[4096]);
bool file_exists(const char *path);
/* A pipe, a device or what is open already, as /dev/stdout: nothing can be written beside it. */
bool file_is_stream(const char *path);
/* Whether file_write may write `path`, as far as can be said before: a stream is open for it, or the directory takes a file.
 * False: errno says why. */
bool file_can_be_written(const char *path);
/* "A/B" into `out`; a longer result is cut off, and no such file is found. */
const char *file_join(char out[4096], const char *directory, const char *name);

/* Syncs what was written to the stream; `path` names its file in messages. From any thread. A stream that cannot be synced (a
 * pipe) is fine. */
enum ps_status file_sync_stream(FILE *stream, const char *path, struct ps_error *error);

#endif
