/*
 * Profiles that are kept; see cache.h. A file begins with a line of the checksum of all that follows it; then come the key, in
 * one line, and the profile's own file. It is named by the key's checksum, and counts only if its key is the wanted one and it
 * is whole: a damaged file is measured anew and replaced. Of more than ENTRIES files those that were not used for longest go.
 */
#include "profile/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/processor.h"
#include "base/text.h"
#include "graph/network.h"
#include "profile/profile.h"

enum { ENTRIES = 100, CHECKSUM_LENGTH = 9, FILE_MAX = 64 << 20 };
#define SUFFIX ".profile"

/* In one line. */
static char *make_key(const struct ps_network *network, const struct ps_profile_options *options) {
    struct text key = {0};
    char hash[17], cpu[128];
    network_hash_text(network->hash, hash);
    text_add(&key, "penstock %s; %s %s; %s", ps_version(), hash, network->name, options->device ? options->device : "cpu");
    text_add(&key, "; threads %d, busy %d, rounds %d %d %d, memory %lld; micro-batches", options->threads, options->busy,
             options->warmup, options->repeats, options->quick, (long long)options->memory_bytes);
    for (int m = 0; m < options->micro_batch_count; m++) text_add(&key, " %d", options->micro_batches[m]);
    text_add(&key, "; %s, %d cores", processor_name(cpu, sizeof cpu), cores_usable());
    return text_take(&key);
}

static void entry_path(const char *directory, const char *key, char path[4096]) {
    char name[32];
    const struct file_piece piece = {key, strlen(key)};
    snprintf(name, sizeof name, "%08" PRIx32 SUFFIX, file_checksum(&piece, 1));
    file_join(path, directory, name);
}

/* The entry of that key; false: it is not there, or not whole. */
static bool read_entry(const char *path, const char *key, struct ps_profile **profile) {
    char *data;
    size_t size;
    if (!file_exists(path) || file_read(path, FILE_MAX, &data, &size, NULL) != PS_OK) return false;
    const size_t head = CHECKSUM_LENGTH + strlen(key) + 1;
    bool whole = size > head && data[CHECKSUM_LENGTH - 1] == '\n' && data[head - 1] == '\n';
    if (whole) {
        const struct file_piece rest = {data + CHECKSUM_LENGTH, size - CHECKSUM_LENGTH};
        char sum[16];
        snprintf(sum, sizeof sum, "%08" PRIx32, file_checksum(&rest, 1));
        whole = memcmp(sum, data, CHECKSUM_LENGTH - 1) == 0 && memcmp(data + CHECKSUM_LENGTH, key, strlen(key)) == 0 &&
                profile_parse(data + head, size - head, profile, NULL) == PS_OK;
    }
    free(data);
    return whole;
}

/* Removes the entry that was not used for longest, if there are more than ENTRIES. */
static void bound(const char *directory) {
    DIR *entries = opendir(directory);
    char oldest[4096] = "";
    struct timespec since = {0};
    int count = 0;
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        const size_t length = strlen(entry->d_name), suffix = strlen(SUFFIX);
        char path[4096];
        struct stat status;
        if (length <= suffix || strcmp(entry->d_name + length - suffix, SUFFIX) != 0) continue;
        if (stat(file_join(path, directory, entry->d_name), &status) != 0) continue;
        const struct timespec *used = &status.st_mtim;
        const bool older = used->tv_sec < since.tv_sec || (used->tv_sec == since.tv_sec && used->tv_nsec < since.tv_nsec);
        if (count++ > 0 && !older) continue;
        since = *used;
        memcpy(oldest, path, sizeof oldest);
    }
    if (entries) closedir(entries);
    if (count > ENTRIES) unlink(oldest);
}

static enum ps_status write_entry(const char *directory, const char *path, const char *key, const struct ps_profile *profile) {
    char *json = ps_profile_json(profile), sum[16];
    if (!json) return PS_OUT_OF_MEMORY;
    const struct file_piece pieces[] = {{sum, CHECKSUM_LENGTH}, {key, strlen(key)}, {"\n", 1}, {json, strlen(json)}};
    snprintf(sum, sizeof sum, "%08" PRIx32 "\n", file_checksum(pieces + 1, 3));
    enum ps_status status = file_make_directory(directory, NULL);
    if (status == PS_OK) status = file_write_pieces(path, pieces, 4, NULL);
    free(json);
    if (status == PS_OK) bound(directory);
    return status;
}

enum ps_status profile_cache_measure(const char *directory, const struct ps_network *network,
                                     const struct ps_profile_options *options, const char *announcement,
                                     struct ps_profile **profile, struct ps_error *error) {
    char path[4096] = "", *key = directory ? make_key(network, options) : NULL;
    if (key) entry_path(directory, key, path);
    enum ps_status status = PS_OK;
    if (key && read_entry(path, key, profile)) {
        utimensat(AT_FDCWD, path, NULL, 0);
        log_info("%s: found in %s; `no_cache` measures anew", announcement, path);
    } else {
        log_info("%s", announcement);
        status = ps_profile_measure(network, options, profile, error);
        if (key && status == PS_OK && write_entry(directory, path, key, *profile) != PS_OK)
            log_debug("%s: the profile could not be kept", path);
    }
    free(key);
    return status;
}
