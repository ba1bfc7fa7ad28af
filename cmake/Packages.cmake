# Packages for Debian and Ubuntu (make deb): the program, the shared library, and what programs that use it are built with.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME penstock)
set(CPACK_PACKAGE_CONTACT "Penstock developers <penstock@example.org>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program library development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
    WORLD_EXECUTE)
set(soname ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
# The first line is the synopsis.
set(about "Penstock profiles a neural network, searches for the cut into stages
and for the schedule of a pipeline over several workers, predicts speed
and memory of each worker, and trains.")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME penstock)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "trains neural networks as pipelines over several workers\n${about}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libpenstock${soname})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "pipeline-parallel training of neural networks (library)\n${about}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers ${PROJECT_BINARY_DIR}/debian/shlibs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libpenstock-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libpenstock${soname} (= ${PROJECT_VERSION}-1)")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "pipeline-parallel training of neural networks (development)\n${about}")

# What Debian wants of every package beside its files.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/files.cmake)
file(COPY ${PROJECT_SOURCE_DIR}/cmake/debian/copyright DESTINATION ${PROJECT_BINARY_DIR}/debian)
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs "libpenstock ${soname} libpenstock${soname} (>= ${PROJECT_VERSION})\n")
include(CPack)
