/*
 * NVIDIA's libraries by dlopen. The driver's comes with the driver; the others are looked for in the library path, and then
 * where pip puts them: site-packages/nvidia/<part>/lib of the Python that is first in the PATH, and of the usual places.
 */
#include "compute/cuda/api.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cuda_api cuda;

struct library {
    const char *name, *files[3]; /* the newest first */
    const char *install;
    char path[1024]; /* "": it was not found */
};

static struct library libraries[LIBRARY_COUNT] = {
    [LIBRARY_driver] = {.name = "NVIDIA driver", .files = {"libcuda.so.1"}, .install = "install NVIDIA's driver"},
    [LIBRARY_nvrtc] = {.name = "NVRTC",
                       .files = {"libnvrtc.so.13", "libnvrtc.so.12"},
                       .install = "pip install nvidia-cuda-nvrtc"},
    [LIBRARY_blas] = {.name = "cuBLASLt",
                      .files = {"libcublasLt.so.13", "libcublasLt.so.12"},
                      .install = "pip install nvidia-cublas"},
    [LIBRARY_dnn] = {.name = "cuDNN", .files = {"libcudnn.so.9"}, .install = "pip install nvidia-cudnn-cu13"},
};

const char *cuda_library_path(enum cuda_library library) { return libraries[library].path[0] ? libraries[library].path : NULL; }
const char *cuda_library_name(enum cuda_library library) { return libraries[library].name; }
const char *cuda_library_install(enum cuda_library library) { return libraries[library].install; }

/* The library of one of these files; `pattern` holds a %s for its name. */
static void *open_matching(const char *pattern, const char *file, char *path, size_t size) {
    char name[1024];
    glob_t found;
    void *opened = NULL;
    snprintf(name, sizeof name, pattern, file);
    if (glob(name, 0, NULL, &found) != 0) return NULL;
    for (size_t i = 0; i < found.gl_pathc && !opened; i++) {
        opened = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
        if (opened) snprintf(path, size, "%s", found.gl_pathv[i]);
    }
    globfree(&found);
    return opened;
}

/* Beside the interpreter that a virtual environment, or the system, has as python3. */
static void *open_beside_python(const char *file, char *path, size_t size) {
    const char *folder = getenv("PATH");
    while (folder && *folder) {
        const size_t length = strcspn(folder, ":");
        char python[512], pattern[768];
        snprintf(python, sizeof python, "%.*s/python3", (int)length, folder);
        FILE *there = fopen(python, "r");
        if (there) {
            fclose(there);
            snprintf(pattern, sizeof pattern, "%.*s/../lib/python3*/site-packages/nvidia/*/lib/%%s", (int)length, folder);
            void *opened = open_matching(pattern, file, path, size);
            if (opened) return opened;
        }
        folder += length + (folder[length] == ':');
    }
    return NULL;
}

static void *open_library(struct library *library) {
    static const char *const usual[] = {"/usr/local/lib/python3*/*-packages/nvidia/*/lib/%s",
                                        "/usr/lib/python3*/*-packages/nvidia/*/lib/%s", "/usr/local/cuda/lib64/%s"};
    void *opened = NULL;
    for (int f = 0; f < 3 && library->files[f] && !opened; f++) {
        const char *file = library->files[f], *home = getenv("HOME");
        char own[512];
        opened = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
        if (opened) snprintf(library->path, sizeof library->path, "%s", file);
        if (!opened) opened = open_beside_python(file, library->path, sizeof library->path);
        snprintf(own, sizeof own, "%s/.local/lib/python3*/site-packages/nvidia/*/lib/%%s", home ? home : "");
        if (!opened) opened = open_matching(own, file, library->path, sizeof library->path);
        for (int u = 0; u < 3 && !opened; u++) opened = open_matching(usual[u], file, library->path, sizeof library->path);
    }
    return opened;
}

/* A function's address, which ISO C does not let dlsym return. */
static int find(void *library, const char *symbol, void *function) {
    void *address = library ? dlsym(library, symbol) : NULL;
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static void load(void) {
    void *opened[LIBRARY_COUNT] = {0};
    if (cuda.cuInit) return; /* a test's */
    /* The others are large, and of no use without a driver. */
    for (int l = 0; l < LIBRARY_COUNT && (l == 0 || opened[LIBRARY_driver]); l++) opened[l] = open_library(&libraries[l]);
#define FUNCTION(library, name, symbol, arguments)                                                                             \
    if (opened[LIBRARY_##library] && !find(opened[LIBRARY_##library], symbol, &cuda.name))                                     \
        libraries[LIBRARY_##library].path[0] = '\0';
#include "compute/cuda/api.def"
}

enum ps_status cuda_open_libraries(struct ps_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const bool substituted = cuda.cuInit && !libraries[LIBRARY_driver].path[0];
    pthread_once(&once, load);
    for (int l = 0; l < LIBRARY_COUNT && !substituted; l++)
        if (!cuda_library_path((enum cuda_library)l))
            return error_set(error, PS_USAGE, "device cuda: the %s is not there, or too old: %s", libraries[l].name,
                             libraries[l].install);
    return PS_OK;
}

enum ps_status cuda_check(int status, const char *what, struct ps_error *error) {
    const char *text = NULL;
    if (status == 0) return PS_OK;
    if (cuda.cuGetErrorString) cuda.cuGetErrorString(status, &text);
    return error_set(error, PS_FAILED, "device cuda: %s: %s (%d)", what, text ? text : "unknown error", status);
}
