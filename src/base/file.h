/* Whole files: read in one piece; written beside their place, synced and renamed into it. */
#ifndef PENSTOCK_BASE_FILE_H
#define PENSTOCK_BASE_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* Reads all of `path` into memory (free()), terminated with a 0 byte that `size` does not count. Missing or unreadable:
 * PS_BAD_INPUT; larger than `limit` bytes: PS_BAD_INPUT. A path that ends in ".gz" is unpacked, `limit` counting what comes
 * out. */
enum ps_status file_read(const char *path, size_t limit, char **data, size_t *size, struct ps_error *error);
/* Writes and renames; failure is PS_IO and leaves an old file whole. */
enum ps_status file_write(const char *path, const void *data, size_t size, struct ps_error *error);
/* Contents in pieces, one after the other. */
struct file_piece {
    const void *data;
    size_t size;
};
/* As file_write. */
enum ps_status file_write_pieces(const char *path, const struct file_piece *pieces, size_t count, struct ps_error *error);
/* Makes a file that must not be there yet and syncs it: for directories that are renamed as a whole. PS_IO leaves no file. */
enum ps_status file_create(const char *path, const struct file_piece *pieces, size_t count, struct ps_error *error);
/* zlib's CRC-32 of the pieces. */
uint32_t file_checksum(const struct file_piece *pieces, size_t count);
/* Removes a directory and the files in it; one that is not there is fine. PS_IO: something stayed. */
enum ps_status file_remove_directory(const char *path, struct ps_error *error);
/* Makes the directory and its parents. */
enum ps_status file_make_directory(const char *path, struct ps_error *error);
/* Syncs a directory, so that renames in it are durable. */
enum ps_status file_sync_directory(const char *path, struct ps_error *error);
bool file_exists(const char *path);
/* "A/B" into `out`; a result that does not fit is cut and is not found afterwards. */
const char *file_join(char out[4096], const char *directory, const char *name);

/* Makes what was written to the stream durable; `path` is its file's, for messages. From any thread. What cannot be synced (a
 * pipe) counts as durable. */
enum ps_status file_sync_stream(FILE *stream, const char *path, struct ps_error *error);

#endif
