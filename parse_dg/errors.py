"""The one exception that is the user's to mend."""

from collections.abc import Iterable


class InputError(ValueError):
    """What the user gave cannot be used: says what was expected, what was found, what would be valid.

    The command line shows its message as one line and exits with code 2; anything else that is raised is a
    bug of ours and keeps its traceback.
    """


def unknown(kind: str, found: object, valid: Iterable[object]) -> InputError:
    """The error for a name that is not in a table: `unknown method 'emr': valid are erm, parse`."""
    return InputError(f"unknown {kind} {str(found)!r}: valid are {', '.join(str(v) for v in valid)}")
