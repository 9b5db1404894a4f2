"""Personal data that can be told by its form: payment cards, e-mail addresses, telephone numbers."""

from __future__ import annotations

import re

_CARD = re.compile(r"(?<![\d-])[2-6](?:[ -]?\d){12,18}(?![\d-])")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
_PHONE = re.compile(
    r"(?<![\w.,+-])(?:\+|00|\(?0)\d(?:[ ()/-]{0,2}\d){7,13}(?![\w-])"
    r"|(?<![\w.,-])\(?\d{3}\)?[ -]\d{3}-\d{4}(?![\w-])"
)
BLACKED_OUT = "■"


def cards(text: str) -> list[str]:
    """Numbers of 13 to 19 digits that begin as payment cards do and pass the Luhn check, as written."""
    return [match.group() for match in _CARD.finditer(text) if passes_luhn(match.group())]


def emails(text: str) -> list[str]:
    return _EMAIL.findall(text)


def phones(text: str) -> list[str]:
    """Numbers written as international or trunk numbers, or as 555-123-4567; bare digits are not enough."""
    return [match.group() for match in _PHONE.finditer(text)]


def redact(text: str) -> str:
    """The text with every piece of personal data blacked out, character by character."""
    for piece in [*cards(text), *emails(text), *phones(text)]:
        text = text.replace(piece, BLACKED_OUT * len(piece))
    return text


def passes_luhn(number: str) -> bool:
    """The check of ISO/IEC 7812: every second digit from the right doubled, digit sums, total divisible by ten."""
    digits = [int(character) for character in number if character.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[::-2]) + sum(doubled)) % 10 == 0 and any(digits)
