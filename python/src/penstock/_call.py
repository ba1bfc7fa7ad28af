"""Calls of the library: errors as exceptions, options by keyword, long calls that Ctrl-C interrupts, log lines."""

from __future__ import annotations

import atexit
import ctypes
import difflib
import enum
import logging
import operator
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ._abi import constants, lib, statuses, structs

Status = enum.IntEnum("Status", {name.removeprefix("PS_"): value for name, value, _ in statuses})  # type: ignore[misc]
Status.__doc__ = "Why a call failed; each is also an exit status of the command ``penstock``."


class Error(Exception):
    """The library refused or failed: ``status``, its one line ``message``, and a ``hint`` of what to do, which may be empty."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\n{hint}" if hint else message)
        self.status: int = status
        self.message = message
        self.hint = hint


class UsageError(Error, ValueError):
    """A wrong argument, or arguments that contradict each other."""


class BadInputError(Error, ValueError):
    """A file or data that cannot be read as what they should be."""


class NoPlanError(Error):
    """No plan fits: the message names the stage, what it needs and the limit."""


class FileError(Error, OSError):
    """Reading or writing failed."""


class WorkerLostError(Error):
    """A worker of a distributed run was lost."""


class NoCheckpointError(Error):
    """There is no usable checkpoint."""


class MemoryRanOutError(Error, MemoryError):
    """Memory ran out."""


class StoppedError(Error):
    """The training was stopped on request."""


_EXCEPTIONS: dict[str, type[Error]] = {
    "PS_USAGE": UsageError, "PS_BAD_INPUT": BadInputError, "PS_NO_PLAN": NoPlanError, "PS_IO": FileError,
    "PS_WORKER_LOST": WorkerLostError, "PS_NO_CHECKPOINT": NoCheckpointError, "PS_OUT_OF_MEMORY": MemoryRanOutError,
    "PS_STOPPED": StoppedError,
}
_BY_STATUS = {constants[name]: exception for name, exception in _EXCEPTIONS.items()}

_Result = TypeVar("_Result")


def call(function: Callable[..., int], *arguments: Any) -> None:
    """Calls a function whose last argument is the error; raises what it says."""
    error = structs["ps_error"]()
    status = function(*arguments, ctypes.byref(error))
    if status != constants["PS_OK"]:
        raise _BY_STATUS.get(status, Error)(status, error.message.decode("utf-8", "replace"),
                                            error.hint.decode("utf-8", "replace"))


def create(function: Callable[..., int], *arguments: Any) -> int:
    """The same of a function that makes an object, whose address is the argument before the error."""
    address = ctypes.c_void_p()
    call(function, *arguments, ctypes.byref(address))
    assert address.value is not None
    return address.value


def _leave_without_destructors() -> None:
    """When this process exits, with whatever status, the destructors of libraries do not run: they would take away what the call
    that goes on computes with. glibc has on_exit; Python's own streams have been flushed by then."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)


def interruptible(work: Callable[[], _Result], discard: Callable[[_Result], object], *keep: object) -> _Result:
    """Does work that takes long. In the main thread Ctrl-C raises KeyboardInterrupt at once; the library's call, which nothing
    can stop, then goes on beside the program, and what it comes to is discarded. ``keep`` is what the call reads: it lives until
    the call has ended."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[_Result] = []
    failures: list[BaseException] = []
    abandoned = threading.Event()

    def run(*_keep: object) -> None:
        try:
            results.append(work())
        except BaseException as failure:
            failures.append(failure)
        if abandoned.is_set() and results:
            discard(results[0])

    thread = threading.Thread(target=run, args=keep, name="penstock", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        abandoned.set()
        _leave_without_destructors()
        raise
    if failures:
        raise failures[0]
    return results[0]


def encode(value: Any, name: str = "a text") -> Any:
    """Strings and paths as the library takes them: UTF-8, which NUL ends."""
    encoded = str(value).encode() if value is not None and not isinstance(value, (int, float, bytes)) else value
    if isinstance(encoded, bytes) and b"\0" in encoded:
        raise ValueError(f"{name}: {value!r} has a NUL character")
    return encoded


_WHOLE = {ctypes.c_int, ctypes.c_int64, ctypes.c_uint64, ctypes.c_size_t}


def whole(name: str, value: Any, kind: Any = ctypes.c_int) -> int:
    """A whole number that a type of C's can hold; ctypes itself takes the lowest bits of any."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: a whole number is wanted, not {type(value).__name__}") from None
    if kind(number).value != number:
        bits = 8 * ctypes.sizeof(kind)
        least, most = (-2**(bits - 1), 2**(bits - 1) - 1) if kind(-1).value < 0 else (0, 2**bits - 1)
        raise ValueError(f"{name}: {number} is not from {least} to {most}")
    return number


def _text(name: str, value: Any) -> Any:
    """What a text option is given: numbers count as they are written, other objects are a mistake."""
    if not isinstance(value, (str, bytes, os.PathLike, int, float)):
        raise TypeError(f"{name}: a text is wanted, not {type(value).__name__}")
    return encode(str(value) if isinstance(value, (int, float)) else value, name)


def fill(options: Mapping[str, Any], *targets: ctypes.Structure) -> None:
    """Sets fields of structs of options: each in the first struct that has a field of its name."""
    for name, value in options.items():
        for target in targets:
            kind = dict(target._fields_).get(name)  # type: ignore[arg-type]
            if kind is not None and name != "struct_size":
                if value is not None:
                    setattr(target, name, _text(name, value) if kind is ctypes.c_char_p else
                            whole(name, value, kind) if kind in _WHOLE else value)
                break
        else:
            known = [field[0] for target in targets for field in target._fields_ if field[0] != "struct_size"]
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"there is no option {name!r}" +
                            (f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"))


def options(name: str) -> Any:
    """A struct of options with its defaults."""
    made = structs[name]()
    getattr(lib, name + "_init")(ctypes.byref(made))
    return made


def get(name: str, of: int, *at: int, result: str | None = None) -> Any:
    """A struct of results."""
    made = structs[result or name]()
    getattr(lib, name + "_get")(of, *at, ctypes.byref(made), ctypes.sizeof(made))
    return made


def values(struct: ctypes.Structure, kind: type[_Result]) -> _Result:
    """A struct of results as a dataclass whose fields have the same names."""
    fields: dict[str, Any] = {}
    for name in kind.__dataclass_fields__:  # type: ignore[attr-defined]
        value = getattr(struct, name)
        fields[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return kind(**fields)


log = logging.getLogger("penstock")
_LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR]


def _line(_context: int | None, level: int, text: bytes) -> None:
    log.log(_LEVELS[level], "%s", text.decode("utf-8", "replace"))


def _make_sink() -> Any:
    sink = structs["ps_log_sink"]
    made = sink(struct_size=ctypes.sizeof(sink), level=constants["PS_LOG_INFO"])
    made.line = dict(sink._fields_)["line"](_line)
    return made


_sink = _make_sink()
call(lib.ps_log_to, ctypes.byref(_sink))


def _end() -> None:
    """The interpreter ends: nobody calls it any more."""
    lib.ps_log_to(None, None)


atexit.register(_end)
