# What Penstock links with. Each missing thing is named together with the Debian package that has it.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON IMPORTED_TARGET jansson>=2.12)
if(NOT JANSSON_FOUND)
    message(FATAL_ERROR "jansson 2.12 or newer was not found; on Debian and Ubuntu: apt install libjansson-dev")
endif()

pkg_check_modules(PCRE2 IMPORTED_TARGET libpcre2-8>=10.32)
pkg_check_modules(UTF8PROC IMPORTED_TARGET libutf8proc)
if(NOT PCRE2_FOUND OR NOT UTF8PROC_FOUND)
    message(FATAL_ERROR "PCRE2 or utf8proc was not found; on Debian and Ubuntu: apt install libpcre2-dev libutf8proc-dev")
endif()

# oneDNN by hand: the CMake files of Debian 12's package ask for OpenCL, which nothing here needs.
find_path(ONEDNN_INCLUDE_DIR dnnl.h)
find_library(ONEDNN_LIBRARY dnnl)
if(NOT ONEDNN_INCLUDE_DIR OR NOT ONEDNN_LIBRARY)
    message(FATAL_ERROR "oneDNN was not found; on Debian and Ubuntu: apt install libdnnl-dev")
endif()
add_library(penstock::onednn UNKNOWN IMPORTED)
set_target_properties(penstock::onednn PROPERTIES
    IMPORTED_LOCATION "${ONEDNN_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${ONEDNN_INCLUDE_DIR}")

find_package(JPEG)
find_package(PNG 1.6)
if(NOT JPEG_FOUND OR NOT PNG_FOUND)
    message(FATAL_ERROR "libjpeg or libpng 1.6 was not found; on Debian and Ubuntu: apt install libjpeg-dev libpng-dev")
endif()

# MPI is optional: without it all workers are threads of one process. -DMPI_C_COMPILER=mpicc.mpich takes MPICH where Open MPI is
# the default, -DPENSTOCK_MPI=OFF none.
option(PENSTOCK_MPI "Train over MPI, where there is an MPI library" ON)
if(PENSTOCK_MPI)
    find_package(MPI COMPONENTS C)
    if(MPI_C_FOUND AND MPI_C_VERSION AND MPI_C_VERSION VERSION_LESS 3.1)
        message(WARNING "MPI ${MPI_C_VERSION} is older than 3.1 and is not used")
        set(MPI_C_FOUND FALSE)
    endif()
endif()
