"""Builds the wheel and the source archive: the whole backend of PEP 517, with nothing but Python and CMake.

    python3 build_backend.py wheel DIR            what `make wheel` runs: libraries that it needs are in it
    pip wheel . -C build-dir=../build/release     takes a library that is built already; for this machine alone

The library is plain C that ctypes loads, so one wheel serves all versions of Python. It is built without MPI, whose libraries
belong to a machine: to train over MPI, set PENSTOCK_LIBRARY to an installed library.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: The tree of the library: this directory is in it, or, in a source archive, has it as `core`.
TREE = HERE / "core" if (HERE / "core").is_dir() else HERE.parent
#: What every Linux has in a version new enough (PEP 600), and so does not go into the wheel.
SYSTEM = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so.*")
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def version() -> str:
    found = re.search(r"project\(penstock VERSION ([0-9.]+)", (TREE / "CMakeLists.txt").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def date() -> int:
    return max(int(os.environ.get("SOURCE_DATE_EPOCH", 315532800)), 315532800)


def metadata() -> str:
    lines = ["Metadata-Version: 2.4", f"Name: {PROJECT['name']}", f"Version: {version()}", f"Summary: {PROJECT['description']}",
             f"License-Expression: {PROJECT['license']}", "License-File: LICENSE", f"Requires-Python: {PROJECT['requires-python']}",
             f"Keywords: {','.join(PROJECT['keywords'])}"]
    lines += [f"Classifier: {one}" for one in PROJECT["classifiers"]]
    lines += [f"Requires-Dist: {one}" for one in PROJECT["dependencies"]]
    for extra, needed in PROJECT["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {one}; extra == "{extra}"' for one in needed)]
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", (HERE / "README.md").read_text(encoding="utf-8")])


def build(directory: Path) -> Path:
    """Builds the library, and returns it."""
    subprocess.run(["cmake", "-S", TREE, "-B", directory, "-DCMAKE_BUILD_TYPE=Release", "-DPENSTOCK_TESTS=OFF",
                    "-DPENSTOCK_MPI=OFF"], check=True, stdout=sys.stderr)
    subprocess.run(["cmake", "--build", directory, "--parallel", os.environ.get("JOBS") or str(os.cpu_count())], check=True,
                   stdout=sys.stderr)
    return directory / "libpenstock.so"


def needed(library: Path) -> dict[str, Path]:
    """The libraries that it loads, by name, but for those of the system."""
    lines = subprocess.run(["ldd", library], check=True, capture_output=True, text=True).stdout.splitlines()
    found = (re.match(r"\s*(\S+) => (/\S+)", line) for line in lines)
    return {line[1]: Path(line[2]) for line in found if line is not None and not SYSTEM.fullmatch(line[1])}


def architecture() -> str:
    return os.uname().machine


def build_wheel(wheel_directory: str, config_settings: dict[str, str] | None = None,
                metadata_directory: str | None = None) -> str:
    built = (config_settings or {}).get("build-dir")
    with tempfile.TemporaryDirectory() as scratch:
        library = Path(built) / "libpenstock.so" if built else build(Path(scratch))
        libraries = {"libpenstock.so": library.resolve(), **({} if built else needed(library))}
        glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")  # type: ignore[union-attr]
        tag = f"py3-none-linux_{architecture()}" if built else f"py3-none-manylinux_{glibc}_{architecture()}"
        files = {f"penstock/{path.name}": path.read_bytes() for path in (HERE / "src" / "penstock").iterdir() if path.is_file()}
        files["penstock/penstock.h"] = (TREE / "include" / "penstock.h").read_bytes()
        for name, path in libraries.items():
            stripped = Path(scratch) / ("stripped-" + name)
            shutil.copy(path, stripped)
            if shutil.which("strip"):
                subprocess.run(["strip", "--strip-unneeded", stripped], check=True)
            files[f"penstock/lib/{name}"] = stripped.read_bytes()
    info = f"penstock-{version()}.dist-info"
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: penstock\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/licenses/LICENSE"] = (TREE / "LICENSE").read_bytes()
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
                     for name, data in sorted(files.items()))
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"penstock-{version()}-{tag}.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items(), key=lambda file: (".dist-info/" in file[0], file[0])):
            entry = zipfile.ZipInfo(name, time.gmtime(date())[:6])
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            archive.writestr(entry, data)
    return wheel


def build_sdist(sdist_directory: str, config_settings: dict[str, str] | None = None) -> str:
    files = {path.relative_to(HERE): path.read_bytes() for pattern in ("*.py", "*.toml", "*.md", "src/penstock/*", "tests/*.py")
             for path in HERE.glob(pattern) if path.is_file()}
    for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/**/*"):
        files |= {Path("core") / path.relative_to(TREE): path.read_bytes() for path in TREE.glob(pattern) if path.is_file()}
    files[Path("LICENSE")] = (TREE / "LICENSE").read_bytes()
    files[Path("PKG-INFO")] = metadata().encode()
    name = f"penstock-{version()}"
    with open(Path(sdist_directory) / f"{name}.tar.gz", "wb") as raw, \
            gzip.GzipFile("", "wb", fileobj=raw, mtime=date()) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mtime, entry.mode = len(data), date(), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return f"{name}.tar.gz"


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("wheel", "sdist"):
        raise SystemExit(__doc__)
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    made = {"wheel": build_wheel, "sdist": build_sdist}[sys.argv[1]](sys.argv[2])
    print(Path(sys.argv[2]) / made)
