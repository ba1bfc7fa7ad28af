/*
 * A manifest: which files a directory holds, how large each is and its checksum (zlib's CRC-32), as text:
 *
 *     penstock-manifest 1
 *     8f3a0c11 246852 model-00001-of-00002.safetensors
 *     ...
 *     5c0d1e77 end
 *
 * The last line's checksum is that of all lines before it. The text is compared byte for byte with what would be written, so
 * that no cut and no changed byte of a file or of the manifest itself goes unseen.
 */
#ifndef PENSTOCK_STORE_MANIFEST_H
#define PENSTOCK_STORE_MANIFEST_H

#include "base/file.h"
#include "base/text.h"

#define MANIFEST_NAME "manifest.txt"

/* Begins a manifest in an empty text. */
void manifest_begin(struct text *manifest);
/* Makes the file in the directory (file_create) and adds its line. */
enum ps_status manifest_create_file(struct text *manifest, const char *directory, const char *name,
                                    const struct file_piece *pieces, size_t count, struct ps_error *error);
/* Ends it and writes it into the directory. The text stays the caller's. */
enum ps_status manifest_end(struct text *manifest, const char *directory, struct ps_error *error);

/* Are all files there, and as they were written? PS_BAD_INPUT says which is not. */
enum ps_status manifest_check(const char *directory, struct ps_error *error);

/* Are its files still there, with their sizes? They are not read. PS_IO says which is not. */
enum ps_status manifest_look(const char *directory, struct ps_error *error);

#endif
