#!/bin/sh
# What is installed is enough: the README's example is built with the flags of pkg-config, against the shared library and against the
# static one, and as a CMake project, from another directory than the prefix was made for; the program and the examples run. What was
# installed can be removed again.
# PENSTOCK_SOURCE and PENSTOCK_BUILD are the trees, CC and CMAKE the tools. (The rest stands in support.sh.)
. "$(dirname "$0")/support.sh"
: "${PENSTOCK_SOURCE:?the source tree}" "${PENSTOCK_BUILD:?the build tree}" "${CC:?the compiler}" "${CMAKE:?the path of cmake}"
errors=out

check() { # WHAT COMMAND...
    begins "$1"
    shift
    "$@" >out 2>&1 || complain "$section"
}

learns() { # COMMAND...: the example, which says how well it did
    "$@" >said && cat said && grep -Eq '^accuracy (0\.[0-9]+|1\.0+)$' said
}

check install "$CMAKE" --install "$PENSTOCK_BUILD" --prefix "$PWD/first"
mv first prefix || exit 1
check program prefix/bin/penstock models --model lenet5
check "man pages" test -s prefix/share/man/man1/penstock-train.1
check "completions" test -s prefix/share/bash-completion/completions/penstock

sed -n '/^#include <penstock.h>/,/^}/p' "$PENSTOCK_SOURCE/README.md" >example.c
pc=$(dirname "$(find prefix -name penstock.pc)")
lib=$(dirname "$(find "$PWD/prefix" -name libpenstock.a)")
flags() { PKG_CONFIG_PATH=$pc pkg-config "$@" penstock; }

# shellcheck disable=SC2046
check "example by pkg-config" "$CC" example.c $(flags --cflags --libs) -o shared
check "example with the shared library" learns env LD_LIBRARY_PATH="$lib" ./shared

mkdir static && cp "$lib/libpenstock.a" static/ || exit 1
# shellcheck disable=SC2046
check "example by pkg-config --static" "$CC" example.c -Lstatic $(flags --cflags --libs --static | sed 's/-L[^ ]*//') -o alone
check "example with the static library" learns ./alone

cat >CMakeLists.txt <<X
cmake_minimum_required(VERSION 3.22)
project(example C)
find_package(penstock REQUIRED)
add_executable(example example.c)
target_link_libraries(example PRIVATE penstock::penstock)
X
check "cmake" "$CMAKE" -S . -B build -DCMAKE_PREFIX_PATH="$PWD/prefix" -DCMAKE_C_COMPILER="$CC"
check "example by CMake" "$CMAKE" --build build
check "example of CMake" learns build/example

check "cmake of the examples" "$CMAKE" -S prefix/share/doc/libpenstock-dev/examples -B examples -DCMAKE_PREFIX_PATH="$PWD/prefix" \
    -DCMAKE_C_COMPILER="$CC"
check "examples by CMake" "$CMAKE" --build examples
check "an example that was installed" examples/example_plan

check "install again" "$CMAKE" --install "$PENSTOCK_BUILD" --prefix "$PWD/second"
check "uninstall" make -C "$PENSTOCK_SOURCE" uninstall BUILD="$PENSTOCK_BUILD" PREFIX="$PWD/second"
check "nothing is left" test -z "$(find second ! -type d)"
check "no uninstall of another place" sh -c "! make -C '$PENSTOCK_SOURCE' uninstall BUILD='$PENSTOCK_BUILD' PREFIX=/nowhere"

# What `make deb` would say: libpenstock-dev brings what penstock.pc requires, or depends on what does, and the maintainer is who packs.
begins "packages"
wanted=$(sed -n 's/^set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "\(.*\)")$/\1/p' "$PENSTOCK_BUILD/CPackConfig.cmake" | sed 's/([^)]*)//g; s/,/ /g')
for name in $(sed -n 's/^Requires.private: //p' "$pc/penstock.pc"); do
    command -v dpkg-query >/dev/null || break
    owner=$(dpkg-query -S "$(pkg-config --variable=pcfiledir "$name")/$name.pc" 2>/dev/null | sed 's/:.*//')
    # shellcheck disable=SC2086
    { printf '%s\n' $wanted; dpkg-query -W -f '${Depends}\n' $wanted 2>/dev/null; } | tr ',' '\n' | sed 's/(.*//; s/ //g; s/:any$//' >brought
    [ -z "$owner" ] || grep -qxF "$owner" brought || complain "libpenstock-dev does not bring $owner, which has $name.pc"
done
# shellcheck disable=SC2016
printf 'include(%s)\nmessage("${CPACK_PACKAGE_CONTACT}")\n' "$PENSTOCK_SOURCE/cmake/debian/contact.cmake" >contact.cmake
contact() { env -u DEBFULLNAME -u DEBEMAIL "$@" "$CMAKE" -P contact.cmake 2>&1; }
[ "$(contact DEBFULLNAME="A. Packer" DEBEMAIL=a@b.org)" = "A. Packer <a@b.org>" ] && [ "$(contact DEBEMAIL=a@b.org)" = "a@b.org <a@b.org>" ] ||
    complain "the contact is not who packs: $(contact DEBFULLNAME="A. Packer" DEBEMAIL=a@b.org)"
case $(contact DEBEMAIL=) in *"@"*".invalid>") ;; *) complain "the contact is somebody's: $(contact DEBEMAIL=)" ;; esac

finish
