# The usual jobs, by one word each. `make demo` and `make check` need nothing but git and make on a fresh Debian or Ubuntu:
# scripts/setup installs what is missing. The build itself is CMake's (CMakeLists.txt, CMakePresets.json).
.DEFAULT_GOAL := help
.PHONY: help setup build demo check check-long torture bench papers papers-long asan tsan valgrind aarch64 fuzz coverage mutants format lint install uninstall wheel deb source clean

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# One test more at a time than there are cores, or two in its place of those that wait most of their time (tests/CMakeLists.txt).
TESTS ?= $(shell expr 2 \* $(JOBS) + 2)

# $(call make-preset,NAME): configures build/NAME once (with Ninja where there is one) and builds it.
define make-preset
	@test -f build/$(1)/CMakeCache.txt || cmake --preset $(1) $$(command -v ninja >/dev/null && echo -G Ninja)
	@cmake --build --preset $(1) --parallel $(JOBS)
endef

help:
	@echo "make build       library and program, in build/release"
	@echo "make demo        trains a small network on four workers and draws what happened"
	@echo "make check       all tests; make check-long: the ones that take long"
	@echo "make torture     faults and kills, for SECONDS=3600"
	@echo "make bench       measurements"
	@echo "make papers      the papers' tables and figures, beside Penstock's; make papers-long: those that take hours"
	@echo "make asan, tsan  tests under the address and undefined-behaviour, or the thread sanitizer"
	@echo "make valgrind    tests under valgrind's memcheck, with smaller sizes"
	@echo "make aarch64     for 64-bit Arm by a cross compiler, and the tests in C under QEMU (docs/how-to.md)"
	@echo "make fuzz        readers of files on hostile contents, with clang's libFuzzer, FUZZ_SECONDS each (300)"
	@echo "make coverage    which lines the tests run, by module and file (needs gcovr)"
	@echo "make mutants     changes the tests do not notice, COUNT=300 of them (needs universalmutator)"
	@echo "make format, lint"
	@echo "make install     to PREFIX=$(PREFIX), with man pages and completions; make uninstall"
	@echo "make wheel       the Python package, in dist; make source: the source archive"
	@echo "make deb         packages for Debian, in dist, by DEBFULLNAME and DEBEMAIL"
	@echo "make clean"

setup:
	@scripts/setup

build: setup
	$(call make-preset,release)

demo: build
	@scripts/demo

check check-long asan tsan valgrind aarch64 coverage: export TMPDIR ?= $(shell scripts/test-directory)

check: build
	@ctest --preset release --parallel $(TESTS)

check-long: build
	@ctest --preset long

# SECONDS to go on for, SEED of the choice; a deviation prints the words that repeat it. With both MPI libraries where both are
# installed. Many trials wait most of their time: more of them than there are cores go on at once.
SECONDS ?= 3600
SEED ?= $(shell date +%s)
torture: build
	@build/release/tests/torture build/release/penstock build/release/tests/libfaulty.so --seconds $(SECONDS) --seed $(SEED) \
	    --jobs $$((4 * $(JOBS))) --results bench/results/torture.txt $$(command -v mpirun >/dev/null && echo --mpirun mpirun) \
	    $$(other=$(CURDIR)/build/release/tests/penstock_other; test -x $$other && \
	    echo --other $$(sed -n 's/^OTHER_MPIRUN:FILEPATH=//p' build/release/CMakeCache.txt)=$$other)

bench: build
	@bench/run

papers: build
	@bench/papers/run

papers-long: build
	@bench/papers/run long

# Debian's release whose libraries the foreign program gets.
SUITE ?= bookworm
aarch64: build/sysroot-arm64
build/sysroot-arm64:
	@scripts/setup aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static mmdebstrap
	@scripts/sysroot arm64 $@ $(SUITE)

asan tsan valgrind aarch64: setup
	$(call make-preset,$@)
	@ctest --preset $@ --parallel $(TESTS)

# Files on which a target fails stay in build/fuzz/found-*; mended ones become seeds, which `make check` runs.
FUZZ_SECONDS ?= 300
FUZZ_CC ?= clang
fuzz: setup
	@FUZZ_SECONDS=$(FUZZ_SECONDS) CC=$(FUZZ_CC) JOBS=$(JOBS) scripts/fuzz

# bench/results/coverage.txt; `scripts/coverage 'src/plan/*.c'` then lists the lines.
coverage: setup
	@command -v gcovr >/dev/null || { echo "coverage: no gcovr; apt install gcovr or pip install gcovr has it" >&2; exit 1; }
	$(call make-preset,coverage)
	@find build/coverage -name '*.gcda' -delete
	-@ctest --preset coverage --parallel $(TESTS)
	@scripts/coverage

# bench/results/mutants.txt; goes on with a campaign that was ended.
COUNT ?= 300
MUTANT_SEED ?= 1
mutants: setup
	@scripts/mutants --count $(COUNT) --seed $(MUTANT_SEED)

format: setup
	@scripts/setup clang-format
	git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i

lint: setup
	@scripts/setup clang-tidy
	@test -f build/debug/CMakeCache.txt || cmake --preset debug $$(command -v ninja >/dev/null && echo -G Ninja)
	sh tests/test_includes.sh . cc
	git ls-files -z 'src/*.c' | xargs -0 clang-tidy --quiet -p build/debug --extra-arg=-Wno-unknown-warning-option

install: build
	cmake --install build/release --prefix $(PREFIX)
	@library=$$(sed -n 's,/libpenstock.a$$,,p' build/release/install_manifest.txt); \
	if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ] && ldconfig && ldconfig -p | grep -q "$$library/libpenstock"; then :; else \
	    echo "$(PREFIX)/bin/penstock runs as it is; programs with the shared library need LD_LIBRARY_PATH=$$library"; \
	    echo "or -Wl,-rpath,$$library, unless the dynamic linker searches there"; fi

# What `make install` wrote last, and directories that are empty then.
BUILD ?= build/release
uninstall:
	@grep -q '^$(PREFIX)/' $(BUILD)/install_manifest.txt || \
	    { echo "uninstall: the last 'make install' was not to PREFIX=$(PREFIX)" >&2; exit 1; }
	@sed 's,^,$(DESTDIR),' $(BUILD)/install_manifest.txt | xargs -d '\n' rm -f
	@find $(DESTDIR)$(PREFIX) -depth -type d -path '*penstock*' -empty -delete

wheel: setup
	@JOBS=$(JOBS) python3 python/build_backend.py wheel dist

# The same tree gives the same bytes: times are those of the commit, and no path of the build is in the files.
VERSION := $(shell sed -n 's/^project.penstock VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
deb: setup
	@scripts/setup file dpkg-shlibdeps:dpkg-dev
	@cmake -S . -B build/deb $$(command -v ninja >/dev/null && echo -G Ninja) -DCMAKE_BUILD_TYPE=Release -DPENSTOCK_TESTS=OFF \
	    -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_C_FLAGS_RELEASE=-O3 -DCMAKE_C_FLAGS="-ffile-prefix-map=$(CURDIR)=. $(DEB_CFLAGS)" >/dev/null
	@cmake --build build/deb --parallel $(JOBS)
	@rm -f build/deb/*.deb
	@cd build/deb && cpack -G DEB >cpack.log || { cat cpack.log >&2; exit 1; }
	@mkdir -p dist && cp build/deb/*.deb dist && ls dist/*.deb

source:
	@mkdir -p dist
	@git archive --format=tar --prefix=penstock-$(VERSION)/ HEAD | gzip -9n >dist/penstock-$(VERSION).tar.gz
	@ls dist/penstock-$(VERSION).tar.gz

clean:
	rm -rf build
