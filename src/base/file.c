/*
 * Complete files. A file is written to a new file in the same directory, which is synced and renamed over the old one. So the
 * name refers to a complete file at any time, the old one or the new one.
 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define PATH_SIZE 4096

/* Of a file that cannot be read: it is not there, or none; for any other reason its contents are not known. */
static enum ps_status reading_status(void) {
    static const int of_file[] = {ENOENT, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG, ENXIO, ENODEV, EOVERFLOW};
    for (size_t i = 0; i < sizeof of_file / sizeof of_file[0]; i++)
        if (errno == of_file[i]) return PS_BAD_INPUT;
    return PS_IO;
}

/* Source of bytes: a plain file, or one that zlib unpacks. */
struct source {
    int descriptor; /* of `packed` where that is used */
    gzFile packed;
};

static enum ps_status cannot(struct ps_error *error, enum ps_status status, const char *path, const char *what) {
    /* The path is cut so that the reason always fits. */
    return error_set(error, status, "%.800s: cannot %s: %s", path, what, strerror(errno));
}

/* A pipe without a writer would block for ever, so only regular files are read, and descriptors that are named as such. What a
 * directory is, its reader says. */
static enum ps_status source_open(struct source *source, const char *path, size_t *size_guess, struct ps_error *error) {
    const bool given = strncmp(path, "/dev/fd/", strlen("/dev/fd/")) == 0 || strcmp(path, "/dev/stdin") == 0;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | (given ? 0 : O_NONBLOCK));
    if (descriptor < 0) return cannot(error, reading_status(), path, "open");
    struct stat status = {0};
    const bool known = fstat(descriptor, &status) == 0;
    if (known && !given && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
        close(descriptor);
        return error_set(error, PS_BAD_INPUT, "%.800s: not a regular file", path);
    }
    *size_guess = known && S_ISREG(status.st_mode) && status.st_size > 0 ? (size_t)status.st_size : 0;
    *source = (struct source){.descriptor = descriptor};
    size_t length = strlen(path);
    if (length < 3 || strcmp(path + length - 3, ".gz") != 0) return PS_OK;
    source->packed = gzdopen(descriptor, "rb");
    if (source->packed == NULL) {
        close(descriptor);
        return error_memory(error, path, 32768);
    }
    return PS_OK;
}

/* *got: the bytes read, 0 at the end. */
static enum ps_status source_read(struct source *source, const char *path, char *data, size_t size, ssize_t *got,
                                  struct ps_error *error) {
    size_t piece = size < 1u << 30 ? size : 1u << 30;
    if (source->packed == NULL) {
        do *got = read(source->descriptor, data, piece);
        while (*got < 0 && errno == EINTR);
        return *got < 0 ? cannot(error, reading_status(), path, "read") : PS_OK;
    }
    *got = gzread(source->packed, data, (unsigned)piece);
    int code = Z_OK;
    const char *message = gzerror(source->packed, &code);
    if (code == Z_ERRNO) return cannot(error, reading_status(), path, "read");
    if (code == Z_MEM_ERROR) return error_memory(error, path, piece);
    if (*got > 0 && code == Z_OK) return PS_OK;
    if (*got >= 0 && code == Z_BUF_ERROR) message = "the file is cut off";
    if (*got >= 0 && code == Z_OK) {
        if (!gzdirect(source->packed)) return PS_OK;
        message = "not a gzip file";
    }
    const char *reason = strstr(message, ": "); /* behind zlib's own name of the file */
    return error_set(error, PS_BAD_INPUT, "%s: cannot unpack: %s", path, reason != NULL ? reason + 2 : message);
}

static void source_close(struct source *source) {
    if (source->packed != NULL) gzclose(source->packed);
    if (source->packed == NULL) close(source->descriptor);
}

static enum ps_status too_large(const char *path, size_t limit, struct ps_error *error) {
    return error_set(error, PS_BAD_INPUT, "%s: holds more than the %zu bytes expected", path, limit);
}

/* Reads to the end into a growing buffer; requests one byte more than `limit`, to detect a larger file. */
static enum ps_status read_all(struct source *source, const char *path, size_t limit, size_t size_guess, char **data,
                               size_t *size, struct ps_error *error) {
    if (source->packed == NULL && size_guess > limit) return too_large(path, limit, error);
    size_t capacity = (size_guess < limit ? size_guess : limit) + 2, used = 0;
    char *buffer = malloc(capacity);
    if (buffer == NULL) return error_memory(error, path, capacity);
    for (;;) {
        if (capacity - used < 2) {
            size_t larger = capacity < limit / 2 ? capacity * 2 : limit + 2;
            char *moved = realloc(buffer, larger);
            if (moved == NULL) {
                free(buffer);
                return error_memory(error, path, larger);
            }
            buffer = moved;
            capacity = larger;
        }
        ssize_t got;
        enum ps_status status = source_read(source, path, buffer + used, capacity - used - 1, &got, error);
        if (status == PS_OK) used += (size_t)got;
        if (status != PS_OK || used > limit) {
            free(buffer);
            if (status != PS_OK) return status;
            return too_large(path, limit, error);
        }
        if (got == 0) break;
    }
    buffer[used] = '\0';
    *data = buffer;
    *size = used;
    return PS_OK;
}

enum ps_status file_read(const char *path, size_t limit, char **data, size_t *size, struct ps_error *error) {
    struct source source;
    size_t size_guess;
    if (limit > SIZE_MAX / 2) limit = SIZE_MAX / 2;
    TRY(source_open(&source, path, &size_guess, error));
    enum ps_status status = read_all(&source, path, limit, size_guess, data, size, error);
    source_close(&source);
    return status;
}

enum ps_status file_read_begin(const char *path, size_t size, char *data, size_t *read, struct ps_error *error) {
    struct source source;
    size_t size_guess;
    enum ps_status status = PS_OK;
    ssize_t got = 1;
    *read = 0;
    TRY(source_open(&source, path, &size_guess, error));
    for (; status == PS_OK && got > 0 && *read < size; *read += status == PS_OK ? (size_t)got : 0)
        status = source_read(&source, path, data + *read, size - *read, &got, error);
    source_close(&source);
    return status;
}

enum ps_status file_map(const char *path, struct file_map *map, struct ps_error *error) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return cannot(error, reading_status(), path, "open");
    struct stat file;
    struct file_map made = {0};
    enum ps_status status = PS_OK;
    if (fstat(descriptor, &file) != 0) {
        status = cannot(error, reading_status(), path, "read");
    } else if (!S_ISREG(file.st_mode)) {
        status = error_set(error, PS_BAD_INPUT, "%.800s: not a regular file", path);
    } else if (file.st_size > 0) {
        void *data = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        made = (struct file_map){data, (size_t)file.st_size};
        if (data == MAP_FAILED) status = cannot(error, reading_status(), path, "map");
    }
    close(descriptor);
    if (status == PS_OK) *map = made;
    return status;
}

void file_unmap(struct file_map *map) {
    if (map->data != NULL) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (struct file_map){0};
}

static bool write_all(int descriptor, const char *data, size_t size) {
    while (size > 0) {
        ssize_t done = write(descriptor, data, size);
        if (done < 0 && errno != EINTR) return false;
        if (done > 0) data += done, size -= (size_t)done;
    }
    return true;
}

static bool write_pieces(int descriptor, const struct file_piece *pieces, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!write_all(descriptor, pieces[i].data, pieces[i].size)) return false;
    }
    return true;
}

/* Writes, syncs and closes; errno is the reason of a failure. */
static bool fill(int descriptor, const struct file_piece *pieces, size_t count) {
    bool written = write_pieces(descriptor, pieces, count) && fsync(descriptor) == 0;
    int reason = errno;
    if (close(descriptor) != 0 && written) return false;
    if (!written) errno = reason;
    return written;
}

/* Creates a new file in the directory of `path`; -1 if that fails. Its name begins as the file's does, and is not too long
 * where that is not. */
static int open_temporary(const char *path, mode_t mode, char name[PATH_SIZE]) {
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    for (int attempt = 0; attempt < 100; attempt++) {
        int length =
            snprintf(name, PATH_SIZE, "%.*s%.200s.%ld-%d.tmp", (int)(base - path), path, base, (long)getpid(), attempt);
        if (length >= PATH_SIZE) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
}

/* The descriptor that a path names, which is open already; -1: it names a file. */
static int named_descriptor(const char *path) {
    if (strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    return strncmp(path, "/dev/fd/", 8) == 0 && path[8] >= '0' && path[8] <= '9' ? atoi(path + 8) : -1;
}

/* Writes to a device or pipe, which must not be replaced by a file, or to what is open already and may be a file: from where it
 * stands, and whoever writes next (`{ penstock ... -o -; echo; } >FILE`) goes on behind. */
static enum ps_status write_in_place(const char *path, const struct file_piece *pieces, size_t count, struct ps_error *error) {
    const int named = named_descriptor(path);
    int descriptor = named >= 0 ? fcntl(named, F_DUPFD_CLOEXEC, 0) : open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (descriptor < 0) return cannot(error, PS_IO, path, "write");
    bool written = write_pieces(descriptor, pieces, count);
    enum ps_status status = written ? PS_OK : cannot(error, PS_IO, path, "write");
    close(descriptor);
    return status;
}

static enum ps_status replace(const char *path, const struct file_piece *pieces, size_t count, struct ps_error *error) {
    char name[PATH_SIZE];
    struct stat old;
    const bool replaces = stat(path, &old) == 0; /* a file, whose permissions stay */
    int descriptor = open_temporary(path, replaces ? old.st_mode & 0777 : 0666, name);
    if (descriptor < 0) return cannot(error, PS_IO, path, "write");
    /* Past the program's mask; where a file system has no permissions, there are none to keep. */
    if (replaces) (void)!fchmod(descriptor, old.st_mode & 0777);
    if (fill(descriptor, pieces, count) && rename(name, path) == 0) return PS_OK;
    enum ps_status status = cannot(error, PS_IO, path, "write");
    unlink(name);
    return status;
}

void file_parent(const char *path, char parent[PATH_SIZE]) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        strcpy(parent, ".");
    } else {
        snprintf(parent, PATH_SIZE, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    }
}

bool file_is_stream(const char *path) {
    struct stat status;
    return named_descriptor(path) >= 0 || (stat(path, &status) == 0 && !S_ISREG(status.st_mode));
}

static bool copy_path(char out[PATH_SIZE], const char *path) {
    const bool fits = snprintf(out, PATH_SIZE, "%s", path) < PATH_SIZE;
    if (!fits) errno = ENAMETOOLONG;
    return fits;
}

/* The file that is replaced or made, and its directory: a symbolic link is kept; the file that it points to is written. False:
 * errno says why there is none. */
static bool place_of(const char *path, char target[PATH_SIZE], char parent[PATH_SIZE]) {
    enum { LINKS = 40 };
    char link[PATH_SIZE];
    bool fits = copy_path(target, path);
    for (int links = 0; fits && links < LINKS; links++) {
        char *real = realpath(target, NULL);
        if (real != NULL) {
            fits = copy_path(target, real);
            free(real);
            break;
        }
        if (errno == ENOMEM || errno == ENAMETOOLONG || errno == ELOOP) return false;
        /* It is not there yet; of a link, what it points to is not. */
        const ssize_t length = readlink(target, link, sizeof link - 1);
        if (length < 0) break;
        link[length] = '\0';
        file_parent(target, parent);
        if (link[0] == '/')
            memcpy(target, link, (size_t)length + 1);
        else
            file_join(target, parent, link);
    }
    file_parent(target, parent);
    return fits;
}

bool file_can_be_written(const char *path) {
    char target[PATH_SIZE], parent[PATH_SIZE];
    const int named = named_descriptor(path);
    if (named >= 0) {
        const int flags = fcntl(named, F_GETFL);
        if (flags != -1 && (flags & O_ACCMODE) == O_RDONLY) errno = EBADF;
        return flags != -1 && (flags & O_ACCMODE) != O_RDONLY;
    }
    if (file_is_stream(path)) return access(path, W_OK) == 0;
    return place_of(path, target, parent) && access(parent, W_OK) == 0;
}

enum ps_status file_write_pieces(const char *path, const struct file_piece *pieces, size_t count, struct ps_error *error) {
    char target[PATH_SIZE], parent[PATH_SIZE];
    if (file_is_stream(path)) return write_in_place(path, pieces, count, error);
    if (!place_of(path, target, parent))
        return errno == ENOMEM ? error_memory(error, path, PATH_SIZE) : cannot(error, PS_IO, path, "write");
    TRY(replace(target, pieces, count, error));
    return file_sync_directory(parent, error);
}

enum ps_status file_write(const char *path, const void *data, size_t size, struct ps_error *error) {
    return file_write_pieces(path, &(struct file_piece){data, size}, 1, error);
}

enum ps_status file_write_text(const char *path, const struct text *text, const char *what, struct ps_error *error) {
    TRY(text_status(text, what, error));
    return file_write(path, text->data, text->length, error);
}

enum ps_status file_create(const char *path, const struct file_piece *pieces, size_t count, struct ps_error *error) {
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) return cannot(error, PS_IO, path, "write");
    if (fill(descriptor, pieces, count)) return PS_OK;
    enum ps_status status = cannot(error, PS_IO, path, "write");
    unlink(path);
    return status;
}

uint32_t file_checksum(const struct file_piece *pieces, size_t count) {
    uLong sum = crc32_z(0, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        /* A call without data would reset the sum. */
        if (pieces[i].size > 0) sum = crc32_z(sum, pieces[i].data, pieces[i].size);
    }
    return (uint32_t)sum;
}

/* Of a symbolic link only the link itself is removed; what it points to belongs to others. */
enum ps_status file_remove_directory(const char *path, struct ps_error *error) {
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode))
        return unlink(path) == 0 || errno == ENOENT ? PS_OK : cannot(error, PS_IO, path, "remove the link");
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = directory >= 0 ? fdopendir(directory) : NULL;
    if (entries == NULL && directory >= 0) close(directory);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) unlinkat(directory, entry->d_name, 0);
    if (entries != NULL) closedir(entries);
    return rmdir(path) == 0 || errno == ENOENT ? PS_OK : cannot(error, PS_IO, path, "remove the directory");
}

enum ps_status file_make_directory(const char *path, struct ps_error *error) {
    char partial[PATH_SIZE];
    if (snprintf(partial, sizeof partial, "%s", path) >= PATH_SIZE) {
        errno = ENAMETOOLONG;
        return cannot(error, PS_IO, path, "make the directory");
    }
    for (char *slash = partial; slash != NULL;) {
        slash = strchr(slash + 1, '/');
        if (slash != NULL) *slash = '\0';
        if (mkdir(partial, 0777) != 0 && errno != EEXIST) return cannot(error, PS_IO, path, "make the directory");
        if (slash != NULL) *slash = '/';
    }
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return PS_OK;
    errno = ENOTDIR;
    return cannot(error, PS_IO, path, "make the directory");
}

enum ps_status file_sync_directory(const char *path, struct ps_error *error) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* One may write in a directory whose names one may not list, and there it cannot be done. */
    if (descriptor < 0 && errno == EACCES) return PS_OK;
    if (descriptor < 0) return cannot(error, PS_IO, path, "sync the directory");
    /* Some file systems cannot sync directories; they return EINVAL. */
    bool synced = fsync(descriptor) == 0 || errno == EINVAL;
    enum ps_status status = synced ? PS_OK : cannot(error, PS_IO, path, "sync the directory");
    close(descriptor);
    return status;
}

bool file_exists(const char *path) {
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG && errno != ELOOP);
}

const char *file_join(char out[4096], const char *directory, const char *name) {
    size_t length = strlen(directory);
    bool slash = length > 0 && directory[length - 1] != '/';
    snprintf(out, PATH_SIZE, "%s%s%s", directory, slash ? "/" : "", name);
    return out;
}

enum ps_status file_sync_stream(FILE *stream, const char *path, struct ps_error *error) {
    if (fsync(fileno(stream)) == 0 || errno == EINVAL) return PS_OK;
    return error_set(error, PS_IO, "%s: cannot write: %s", path, strerror(errno));
}
