# Packages for Debian and Ubuntu (make deb): the program, the shared library, and what programs that use it are built with.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME penstock)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "pipeline-parallel training of neural networks")
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/debian/contact.cmake)
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
set(about "Penstock profiles a neural network, searches for the cut into stages
and for the schedule of a pipeline over several workers, predicts speed
and memory of each worker, and trains.")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME penstock)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "${about}\n.\nThis package has the program.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libpenstock${soname})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "${about}\n.\nThis package has the shared library.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers ${PROJECT_BINARY_DIR}/debian/shlibs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libpenstock-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# Who links asks pkg-config for what penstock.pc requires, and the static library for the rest of what it names.
set(development "libpenstock${soname} (= ${PROJECT_VERSION}-1)" libjansson-dev libpcre2-dev libutf8proc-dev zlib1g-dev libjpeg-dev
    libpng-dev libdnnl-dev)
if(MPI_C_LIBRARIES MATCHES mpich)
    list(APPEND development libmpich-dev)
elseif(MPI_C_LIBRARIES)
    list(APPEND development libopenmpi-dev)
endif()
list(JOIN development ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "${about}\n.\nThis package has what programs that use the library are built with.")

# What Debian wants of every package beside its files.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/files.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/repack.cmake)
file(COPY ${PROJECT_SOURCE_DIR}/cmake/debian/copyright DESTINATION ${PROJECT_BINARY_DIR}/debian)
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs "libpenstock ${soname} libpenstock${soname} (>= ${PROJECT_VERSION})\n")
include(CPack)
