# The usual jobs, by one word each. `make demo` and `make check` need nothing but git and make on a fresh Debian or Ubuntu:
# scripts/setup installs what is missing. The build itself is CMake's (CMakeLists.txt, CMakePresets.json).
.DEFAULT_GOAL := help
.PHONY: help setup build demo check check-long bench asan tsan format lint install clean

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

# $(call make-preset,NAME): configures build/NAME once (with Ninja where there is one) and builds it.
define make-preset
	@test -f build/$(1)/CMakeCache.txt || cmake --preset $(1) $$(command -v ninja >/dev/null && echo -G Ninja)
	@cmake --build --preset $(1) --parallel $(JOBS)
endef

help:
	@echo "make build       library and program, in build/release"
	@echo "make demo        trains a small network on four workers and draws what happened"
	@echo "make check       all tests; make check-long: the ones that take long"
	@echo "make bench       measurements"
	@echo "make asan, tsan  tests under the address and undefined-behaviour, or the thread sanitizer"
	@echo "make format, lint"
	@echo "make install     to PREFIX=$(PREFIX)"
	@echo "make clean"

setup:
	@scripts/setup

build: setup
	$(call make-preset,release)

demo: build
	@scripts/demo

check: build
	@ctest --preset release

check-long: build
	@ctest --preset long

bench: build
	@bench/run

asan tsan: setup
	$(call make-preset,$@)
	@ctest --preset $@

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

clean:
	rm -rf build
