/* NVIDIA's libraries, found when they are first needed (api.def). */
#ifndef PENSTOCK_COMPUTE_CUDA_API_H
#define PENSTOCK_COMPUTE_CUDA_API_H

#include "base/error.h"

enum cuda_library { LIBRARY_driver, LIBRARY_nvrtc, LIBRARY_blas, LIBRARY_dnn, LIBRARY_COUNT };

/* All functions of all libraries; NULL where a library is missing. Tests put functions of the host in their places. */
struct cuda_api {
#define FUNCTION(library, name, symbol, arguments) int(*name) arguments;
#include "compute/cuda/api.def"
};
extern struct cuda_api cuda;

/* Opens the libraries, once per process. PS_USAGE names the first that is missing, and how to install it. */
enum ps_status cuda_open_libraries(struct ps_error *error);
/* Where a library was found; NULL: it is missing. After cuda_open_libraries. Its name, and the command that installs it. */
const char *cuda_library_path(enum cuda_library library);
const char *cuda_library_name(enum cuda_library library);
const char *cuda_library_install(enum cuda_library library);

/* PS_FAILED with the driver's text where `status` is not 0. */
enum ps_status cuda_check(int status, const char *what, struct ps_error *error);

#endif
