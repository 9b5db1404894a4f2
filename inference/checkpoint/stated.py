"""Fields of a checkpoint's own description, read by type. Never imports torch."""

import math
from collections.abc import Callable
from typing import Any

from inference.checkpoint.unsupported import UnsupportedCheckpoint

REQUIRED: Any = object()


class Stated:
    """What a file states by name. Every method raises UnsupportedCheckpoint, naming the field, for what is missing
    or of another type; a default makes a field optional."""

    def __init__(self, prefix: str, find: Callable[[str], Any]) -> None:
        """`find` returns a field's value, None where the file does not state it; messages name the field with the
        prefix before it."""
        self._prefix = prefix
        self._find = find

    def whole(self, name: str, default: Any = REQUIRED, *, at_least: int = 0) -> int:
        value: int = self._read(
            name, default, lambda value: _is_whole(value) and value >= at_least, f"a whole number, {at_least} at least"
        )
        return value

    def number(self, name: str, default: Any = REQUIRED) -> float:
        """A finite number."""
        return float(self._read(name, default, _is_number, "a finite number"))

    def flag(self, name: str, default: bool = False) -> bool:
        value: bool = self._read(name, default, lambda value: isinstance(value, bool), "true or false")
        return value

    def text(self, name: str, default: Any = REQUIRED) -> str:
        value: str = self._read(name, default, lambda value: isinstance(value, str), "a text")
        return value

    def list(self, name: str) -> list[Any] | None:
        """None where it is not stated."""
        value: list[Any] | None = self._read(name, None, lambda value: isinstance(value, list), "a list")
        return value

    def part(self, name: str) -> "Stated | None":
        """Fields within a field. None where it is not stated."""
        value = self._read(name, None, lambda value: isinstance(value, dict), "an object")
        return None if value is None else Stated(f"{self._prefix}{name}.", value.get)

    def named(self, name: str) -> str:
        """The field as messages call it."""
        return f"{self._prefix}{name}"

    def states(self, name: str) -> bool:
        return self._find(name) is not None

    def _read(self, name: str, default: Any, fits: Callable[[Any], bool], expected: str) -> Any:
        value = self._find(name)
        if value is None:
            if default is REQUIRED:
                raise UnsupportedCheckpoint(f"{self._prefix}{name} is missing")
            return default
        if not fits(value):
            raise UnsupportedCheckpoint(f"{self._prefix}{name} is {value!r}; it must be {expected}")
        return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
