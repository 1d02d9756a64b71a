"""What is said to the user in one line; anything else that is raised is a bug of ours and keeps its traceback."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from parse_dg.wording import short

EXIT_FAILED, EXIT_INPUT, EXIT_BUSY, EXIT_INTERRUPTED = 1, 2, 3, 130
"""How a command says what happened."""


class InputError(ValueError):
    """What the user gave cannot be used: says what was expected, what was found, what is valid; exit code 2."""


class BusyError(InputError):
    """Another process is at this run; exit code 3."""


class FailedError(RuntimeError):
    """What was asked for was tried and could not be done, through no fault of what was given; exit code 1."""


class FieldError(InputError):
    """A value that cannot be used, with the path of its field or the name of its option."""

    def __init__(self, path: str, found: object, expected: str) -> None:
        super().__init__(path, found, expected)
        self.path, self.found, self.expected = path, found, expected

    def __str__(self) -> str:
        return f"{self.path} must be {self.expected}, found {short(self.found, 200)}"


def unknown(kind: str, found: object, valid: Iterable[object]) -> InputError:
    """The error for a name that is not in a table: `unknown method 'emr': valid are erm, parse`."""
    said = short(found if isinstance(found, str) else short(found), 200)
    return InputError(f"unknown {kind} {said}: valid are {', '.join(str(v) for v in valid)}")


def require_known(kind: str, found: object, valid: Collection[object]) -> None:
    """Raise that error unless the name is in the table."""
    if found not in valid:
        raise unknown(kind, found, valid)


@contextmanager
def about(what: object) -> Iterator[None]:
    """Within, an `InputError` begins with what it is about: `WHAT: ...`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from error
