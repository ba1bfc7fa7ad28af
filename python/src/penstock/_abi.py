"""The library's header, read once when the package is imported: its structs, enumerations and functions as those of ctypes.

The wheel carries ``penstock.h`` beside the library, so a declaration stands in one place alone. The header is plain enough for a
few regular expressions; ``tests/test_abi.py`` holds sizes, offsets and enumerations against a C compiler.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Any

_SCALARS: dict[str, Any] = {
    "void": None, "char": ctypes.c_char, "bool": ctypes.c_bool, "int": ctypes.c_int, "size_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_NAME = r"[A-Za-z_]\w*"
_ITEM = re.compile(
    rf"enum (?P<enum>{_NAME}) \{{(?P<values>[^}}]*)\}};"
    rf"|struct (?P<struct>{_NAME}) \{{(?P<fields>[^}}]*)\}};"
    rf"|PS_GETTER\((?P<getter>{_NAME}), (?P<of>{_NAME})\)"
    rf"|PS_GETTER_AT\((?P<getter_at>{_NAME}), (?P<result>{_NAME}), (?P<of_at>{_NAME})\)"
    rf"|static inline [^{{]*\{{[^}}]*\}}"
    rf"|(?P<returns>[\w ]+?[ *]+)(?P<function>{_NAME})\((?P<arguments>[^;{{}}]*)\);")


class Header:
    """What a header declares: ``structs``, ``constants`` and ``functions`` (name to result and arguments)."""

    def __init__(self, text: str) -> None:
        self.statuses = [(name, int(value), words) for name, value, words in
                         re.findall(rf'X\(({_NAME}), (\d+), "([^"]*)"\)', text)]
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", " ", text, flags=re.M)
        text = re.sub(r"\s+", " ", text.replace('extern "C" {', " "))
        self.constants = {name: value for name, value, _ in self.statuses}
        self.functions: dict[str, tuple[Any, list[Any]]] = {}
        bodies = dict(re.findall(rf"struct ({_NAME}) \{{([^}}]*)\}};", text))
        self.structs: dict[str, Any] = {name: type(name, (ctypes.Structure,), {}) for name in bodies}
        for item in _ITEM.finditer(text):
            if item["struct"]:
                fields = item["fields"].split(";")[:-1]
                self.structs[item["struct"]]._fields_ = [pair for field in fields for pair in self._declarations(field.strip())]
            elif item["enum"] and item["enum"] != "ps_status":
                self._enumerate(item["values"])
            elif item["function"]:
                arguments = [] if item["arguments"] == "void" else self._arguments(item["arguments"])
                result = self._type(item["returns"], 0)
                self.functions[item["function"]] = (ctypes.c_void_p if item["returns"].strip() == "char *" else result, arguments)
            elif item["getter"]:
                self._getter(item["getter"], item["getter"], [])
            elif item["getter_at"]:
                self._getter(item["getter_at"], item["result"], [ctypes.c_int])

    def _enumerate(self, values: str) -> None:
        following = 0
        for value in filter(None, (word.strip() for word in values.split(","))):
            name, _, number = value.partition(" = ")
            following = int(number) if number else following
            self.constants[name] = following
            following += 1

    def _getter(self, function: str, result: str, at: list[Any]) -> None:
        pointer = ctypes.POINTER(self.structs[result])
        self.functions[function + "_get"] = (None, [ctypes.c_void_p, *at, pointer, ctypes.c_size_t])

    def _type(self, words: str, stars: int) -> Any:
        """A C type: its words, which may hold stars, and as many stars more."""
        stars += words.count("*")
        name = re.sub(r"\bconst\b|\*", " ", words).split()
        if name[0] == "enum":
            base: Any = ctypes.c_int
        elif name[0] == "struct":
            base = self.structs.get(name[1])
            if base is None:  # of the library's own: only ever a pointer to it
                base, stars = ctypes.c_void_p, stars - 1
        else:
            base = _SCALARS[name[0]]
            if name[0] == "void" and stars > 0:
                base, stars = ctypes.c_void_p, stars - 1
            elif name[0] == "char" and stars > 0:
                # Strings to be freed come by their addresses.
                base, stars = ctypes.c_char_p if "const" in words or stars == 1 else ctypes.c_void_p, stars - 1
        for _ in range(stars):
            base = ctypes.POINTER(base)
        return base

    def _declarations(self, text: str) -> list[tuple[str, Any]]:
        """``const char *a, *b``, ``int64_t shape[3]`` or ``void (*line)(void *context)``: names and types."""
        function = re.fullmatch(rf"(.+?)\(\*({_NAME})\)\((.*)\)", text)
        if function:
            return [(function[2], ctypes.CFUNCTYPE(self._type(function[1], 0), *self._arguments(function[3])))]
        first, *others = (word.strip() for word in text.split(","))
        head = re.fullmatch(rf"((?:const )?(?:struct |enum )?{_NAME})\b(.*)", first)
        assert head is not None, text
        declared = []
        for word in [head[2].strip(), *others]:
            name = re.fullmatch(rf"(.*?)({_NAME})(?:\[(\d+)\])?", word)
            assert name is not None, text
            kind = self._type(head[1] + " " + name[1], 0)
            declared.append((name[2], kind * int(name[3]) if name[3] else kind))
        return declared

    def _arguments(self, text: str) -> list[Any]:
        kinds = (self._declarations(argument.strip())[0][1] for argument in text.split(","))
        return [ctypes.POINTER(kind._type_) if issubclass(kind, ctypes.Array) else kind for kind in kinds]


def _load_needed(library: str) -> None:
    """Loads the libraries that the wheel has beside its own, in whatever order they need each other: the system then takes them
    for the names that it looks for."""
    directory = Path(__file__).resolve().parent / "lib"
    left = [path for path in sorted(directory.glob("*.so*")) if path != Path(library)] if Path(library).parent == directory else []
    while left:
        waiting = []
        for path in left:
            try:
                ctypes.CDLL(str(path))
            except OSError:
                waiting.append(path)
        if len(waiting) == len(left):
            return  # what is missing is said when the library itself is loaded
        left = waiting


def _open() -> tuple[Header, ctypes.CDLL]:
    """The header and the library beside this file, or those of the variables PENSTOCK_HEADER and PENSTOCK_LIBRARY."""
    here = Path(__file__).resolve().parent
    header = Path(os.environ.get("PENSTOCK_HEADER") or here / "penstock.h")
    library = os.environ.get("PENSTOCK_LIBRARY") or next(map(str, sorted((here / "lib").glob("libpenstock.so*"))), None)
    if library is None or not header.is_file():
        raise ImportError(f"{library or here / 'lib' / 'libpenstock.so'} or {header} is missing: install the wheel, or set "
                          "PENSTOCK_LIBRARY and PENSTOCK_HEADER")
    _load_needed(library)
    parsed, loaded = Header(header.read_text(encoding="utf-8")), ctypes.CDLL(library)
    for name, (result, arguments) in parsed.functions.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return parsed, loaded


_header, _library = _open()
#: The library's functions; their types are those of the header. ctypes releases the interpreter's lock while one runs.
lib: Any = _library
structs = _header.structs
constants = _header.constants
statuses = _header.statuses

_free = ctypes.CDLL(None).free
_free.argtypes, _free.restype = [ctypes.c_void_p], None


def take_text(address: int | None) -> str:
    """The string at an address that the library gave away."""
    if address is None:
        raise MemoryError("out of memory")
    try:
        return ctypes.string_at(address).decode("utf-8", "replace")
    finally:
        _free(address)
