/*
 * Profiles that are kept; see cache.h. A file begins with a line of the checksum of all that follows it; then come the key, in
 * one line, a line of its state, and the profile's own file. It is named by the key's checksum, and counts only if its key is
 * the wanted one and it is whole: a damaged file is measured anew and replaced. Of more than ENTRIES files those that were not
 * used for longest go.
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

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/processor.h"
#include "base/text.h"
#include "graph/network.h"
#include "profile/profile.h"

enum { ENTRIES = 100, CHECKSUM_LENGTH = 9, FILE_MAX = 64 << 20 };
#define SUFFIX ".profile"
/* Measurements that differ by less, as factors, are alike. */
#define ALIKE 1.25

enum state { MEASURED, DOUBTED, CONFIRMED, STATES };
static const char *const state_texts[STATES] = {"measured", "doubted", "confirmed"};

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

/* The line that begins at *at, which moves behind it; NULL: there is none. */
static char *take_line(char **at) {
    char *line = *at, *end = strchr(line, '\n');
    if (!end) return NULL;
    *end = '\0';
    *at = end + 1;
    return line;
}

struct entry {
    char *data, *key, *json; /* data: the file, in which the others are */
    size_t json_size;
    enum state state;
};

/* What stands in the file; false: it is not there, or not whole. The caller frees `data`. */
static bool read_entry(const char *path, struct entry *entry) {
    size_t size;
    char *data, sum[16];
    if (!file_exists(path) || file_read(path, FILE_MAX, &data, &size, NULL) != PS_OK) return false;
    char *at = data, *said = size > CHECKSUM_LENGTH ? take_line(&at) : NULL;
    const struct file_piece rest = {at, size - (size_t)(at - data)};
    snprintf(sum, sizeof sum, "%08" PRIx32, file_checksum(&rest, 1));
    bool whole = said && strcmp(said, sum) == 0;
    char *key = whole ? take_line(&at) : NULL, *state = key ? take_line(&at) : NULL;
    int number = 0;
    while (state && number < STATES && strcmp(state, state_texts[number]) != 0) number++;
    *entry = (struct entry){data, key, at, size - (size_t)(at - data), (enum state)number};
    if (state && number < STATES) return true;
    free(data);
    return false;
}

/* The profile of that key; false: it is not there, or not whole. */
static bool find_entry(const char *path, const char *key, struct ps_profile **profile, enum state *state) {
    struct entry entry;
    if (!read_entry(path, &entry)) return false;
    const bool found = strcmp(entry.key, key) == 0 && profile_parse(entry.json, entry.json_size, profile, NULL) == PS_OK;
    *state = entry.state;
    free(entry.data);
    return found;
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

static enum ps_status write_entry(const char *path, const char *key, enum state state, const char *json, size_t size) {
    char sum[16];
    const char *text = state_texts[state];
    const struct file_piece pieces[] = {{sum, CHECKSUM_LENGTH}, {key, strlen(key)}, {"\n", 1},
                                        {text, strlen(text)},   {"\n", 1},          {json, size}};
    snprintf(sum, sizeof sum, "%08" PRIx32 "\n", file_checksum(pieces + 1, 5));
    return file_write_pieces(path, pieces, 6, NULL);
}

static enum ps_status keep(const char *directory, const char *path, const char *key, enum state state,
                           const struct ps_profile *profile) {
    char *json = ps_profile_json(profile);
    if (!json) return PS_OUT_OF_MEMORY;
    enum ps_status status = file_make_directory(directory, NULL);
    if (status == PS_OK) status = write_entry(path, key, state, json, strlen(json));
    free(json);
    if (status == PS_OK) bound(directory);
    return status;
}

/* Of all layers, at the smallest size. */
static double total_s(const struct ps_profile *profile) {
    const struct cost_table *table = &profile->tables[0];
    const struct layer_times time = stage_cost(table, 0, table->layer_count - 1).time;
    return time.forward_s + time.backward_input_s + time.backward_weight_s;
}

/* Measures, and keeps it; `old`: what was doubted, or NULL. */
static enum ps_status measure(const char *directory, const char *path, const char *key, const struct ps_network *network,
                              const struct ps_profile_options *options, const struct ps_profile *old,
                              struct ps_profile **profile, struct ps_error *error) {
    TRY(ps_profile_measure(network, options, profile, error));
    if (!key) return PS_OK;
    const double change = old ? total_s(*profile) / total_s(old) : 0;
    const enum state state = change > 1 / ALIKE && change < ALIKE ? CONFIRMED : MEASURED;
    if (keep(directory, path, key, state, *profile) == PS_OK)
        (*profile)->kept_at = arena_copy(&(*profile)->arena, path, strlen(path) + 1, 1);
    else
        log_debug("%s: the profile could not be kept", path);
    return PS_OK;
}

enum ps_status profile_cache_measure(const char *directory, const struct ps_network *network,
                                     const struct ps_profile_options *options, const char *announcement,
                                     struct ps_profile **profile, struct ps_error *error) {
    char path[4096] = "", *key = directory ? make_key(network, options) : NULL;
    struct ps_profile *old = NULL;
    enum state state = MEASURED;
    enum ps_status status = PS_OK;
    if (key) entry_path(directory, key, path);
    const bool found = key && find_entry(path, key, &old, &state);
    if (found && state != DOUBTED) {
        utimensat(AT_FDCWD, path, NULL, 0);
        log_info("%s: found in %s; `no_cache` measures anew", announcement, path);
        old->kept_at = arena_copy(&old->arena, path, strlen(path) + 1, 1);
        *profile = old;
    } else {
        log_info("%s%s", announcement, found ? ": anew, as a run did not agree with what was measured before" : "");
        status = measure(directory, path, key, network, options, old, profile, error);
        ps_profile_destroy(old);
    }
    free(key);
    return status;
}

/* Marks the file if its key begins so and its times have not been confirmed. */
static void doubt(const char *path, const char *prefix) {
    struct entry entry;
    if (!read_entry(path, &entry)) return;
    if (entry.state == MEASURED && strncmp(entry.key, prefix, strlen(prefix)) == 0)
        write_entry(path, entry.key, DOUBTED, entry.json, entry.json_size);
    free(entry.data);
}

bool profile_cache_doubt(const struct ps_profile *profile) {
    struct entry entry;
    char directory[4096], path[4096];
    if (!profile || !profile->kept_at || !read_entry(profile->kept_at, &entry)) return false;
    /* Of the same version, network and device, at any size and with any threads: they were measured one after the other. */
    char *end = strstr(entry.key, "; threads ");
    const bool doubts = entry.state == MEASURED && end;
    if (doubts) *end = '\0';
    snprintf(directory, sizeof directory, "%s", profile->kept_at);
    *strrchr(directory, '/') = '\0';
    DIR *entries = doubts ? opendir(directory) : NULL;
    for (const struct dirent *other; entries && (other = readdir(entries));)
        if (other->d_name[0] != '.') doubt(file_join(path, directory, other->d_name), entry.key);
    if (entries) closedir(entries);
    free(entry.data);
    return doubts;
}
