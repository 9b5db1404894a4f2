"""Rules that can be read: each finds one thing in a text and says what that means for the decision.

They stand beside the learned scores, for what can be told by its form. `RULES` is the whole list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from webtrace.reporting.service_reports import RuleHit
from webtrace.safety.personal_data import cards, emails, phones, redact

Direction = Literal["input", "output"]
Effect = Literal["flag", "lower", "constrain", "redirect", "review", "refuse"]
"""flag: noted, nothing else. lower: the heads act from their caution threshold on. The others name a decision."""

SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Rule:
    """`find` gives what it found, or nothing. A changed rule gets a new version."""

    id: str
    version: str
    directions: tuple[Direction, ...]
    effect: Effect
    find: Callable[[str], str | None]


def hits(text: str, direction: Direction) -> list[RuleHit]:
    """Every rule for this direction that finds something in `text` (as `passages.plain` makes it)."""
    return list(_hits(text, direction))


def _hits(text: str, direction: Direction) -> Iterator[RuleHit]:
    for rule in RULES:
        if direction in rule.directions and (found := rule.find(text)) is not None:
            detail = redact(" ".join(found.split()))[:SHOWN_CHARACTERS]
            yield RuleHit(rule=rule.id, version=rule.version, effect=rule.effect, detail=detail)


def _pattern(expression: str) -> Callable[[str], str | None]:
    compiled = re.compile(expression, re.IGNORECASE | re.VERBOSE)

    def find(text: str) -> str | None:
        match = compiled.search(text)
        return match.group() if match else None

    return find


def _any_of(find_all: Callable[[str], list[str]]) -> Callable[[str], str | None]:
    def find(text: str) -> str | None:
        found = find_all(text)
        return ", ".join(found) if found else None

    return find


_announced_violence = _pattern(
    r"""\b (?: i | we )
    (?: ['’]ll | \s will | \s shall | (?: ['’](?:m|re) | \s am | \s are )? \s going \s to | \s gonna )
    \s (?: \w+ \s ){0,2}?
    (?: kill | murder | shoot | stab | strangle | hang | hurt | beat | burn | bomb )
    \s (?: you | him | her | them | every\w* | all | your | his | their ) \b"""
)
_self_harm = _pattern(
    r"""\b i \b [^.!?\n]{0,40} \b (?:
        kill(?:ing)? \s myself (?! \s laughing ) | hurt(?:ing)? \s myself \s on \s purpose
      | end(?:ing)? \s my \s (?: own \s )? life | tak(?:e|ing) \s my \s own \s life
      | suicidal | do \s not \s want \s to \s live | don['’]?t \s want \s to \s (?: live | be \s alive ) )
    \b"""
)
_finding_a_person = _pattern(
    r"""\b (?: find | get | give | look \s up | dig \s up | track \s down ) \b [^.!?\n]{0,40}
    \b (?: home \s address | private \s address | where \s (?: he | she ) \s lives ) \b"""
)
_making_a_weapon = _pattern(
    r"""\b (?: how \s (?: do | can | could | would | should | to ) | (?: show | teach | tell | explain \s to ) \s me
        | instructions | recipe | steps | guide | help \s me | i \s (?: want | need | would \s like ) \s to ) \b
    [^.!?\n]{0,40}
    \b (?: make | making | build | building | construct | assemble | cook | create | produce | synthesi[sz]e | for ) \b
    (?: \s (?! (?: bath | photo | glitter | seed | fork | logic | stink | cocoa | chocolate | toy | paper | lego
        | fake | model | prop | game ) \b ) [\w'’-]+ ){0,4}?
    \s (?: bombs? | explosives | explosive \s devices? | (?: hand \s )? grenades? | molotov \s cocktails? | napalm
        | sarin | ricin | nerve \s (?: gas | agent )s? | mustard \s gas | land \s? mines? ) \b
    (?! \s (?: shelter | squad | disposal | detector | calorimeter | cyclone | prop | costume | cake | sound | emoji ) )
    (?! [^.!?\n]* \b (?: minecraft | game | unity | unreal | blender | lego | story | novel | cosplay ) \b )"""
)
_injection = _pattern(
    r"""\b (?: ignore | disregard | forget ) \s (?: all \s | any \s | the \s | your \s | these \s ){0,2}
        (?: previous | prior | above | earlier | system ) \s (?: instructions? | prompts? | rules | messages? ) \b
    | \b (?: reveal | print | repeat | show ) \s (?: me \s )? (?: your | the ) \s (?: hidden \s )? system \s prompt \b
    | <\| \w+ \|>"""
)

RULES = (
    Rule("announced-violence", "1", ("input", "output"), "lower", _announced_violence),
    Rule("self-harm", "1", ("input",), "redirect", _self_harm),
    Rule("finding-a-person", "1", ("input",), "review", _finding_a_person),
    Rule("making-a-weapon", "1", ("input",), "refuse", _making_a_weapon),
    Rule("payment-card", "1", ("input",), "constrain", _any_of(cards)),
    Rule("payment-card-output", "1", ("output",), "refuse", _any_of(cards)),
    Rule("contact-data", "1", ("output",), "flag", _any_of(lambda text: [*emails(text), *phones(text)])),
    Rule("prompt-injection", "1", ("input",), "flag", _injection),
)
VERSION = "2"
"""Of the list as a whole: raised with every rule that changes, comes or goes."""
