"""The checkpoint's chat template: from messages to the exact prompt, cut into segments that say where they came from.

A template is a Jinja program of the checkpoint's author, so it runs in a sandbox. To know which part of its
output is whose, it runs twice: once with the real contents, once with a placeholder for each. What stands between
placeholders is the template's own; control tokens are recognised only there, so a person who types `<|im_end|>`
gets plain characters. Text between two control tokens is tokenised as one piece: cut anywhere else, merges would
differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from jinja2 import TemplateError as JinjaError
from jinja2.ext import Extension
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from inference.text.tokenizer import Before, Tokenizer

ROLES = ("system", "developer", "tool", "user", "assistant")
TEMPLATE = "template"  # the source of what the template itself wrote
_PLACEHOLDER = "\ue000{}\ue001"
_PLACEHOLDERS = re.compile("\ue000([0-9]+)\ue001")
_ROLE_LINE = re.compile(rf"({'|'.join(ROLES)}|model)(?:\n+|$)")


class NoChatTemplate(ValueError):
    """The checkpoint has no chat template: it completes text but holds no conversation."""


class TemplateFailed(ValueError):
    """The chat template refused these messages; the message says why."""


@dataclass(frozen=True)
class Part:
    """A stretch of a message's content; `source` is the caller's word for its origin (history, retrieved …).

    `token_ids`, where given, spell the text as the model itself once wrote it, and are taken as they are.
    """

    text: str
    source: str
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Message:
    """One message of a conversation. `role` is one of ROLES."""

    role: str
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, role: str, text: str, source: str | None = None, token_ids: tuple[int, ...] = ()) -> Message:
        """A message in one part, whose source is its role unless told otherwise."""
        return cls(role, (Part(text, source or role, token_ids),))

    @property
    def content(self) -> str:
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True)
class Segment:
    """A stretch of the prompt.

    `is_marker`: control tokens and role names. A token that reaches over a boundary belongs to the segment it
    begins in, so a short segment can have no tokens.
    """

    role: str
    source: str
    text: str
    is_marker: bool
    token_ids: tuple[int, ...] = ()


class _GenerationBlocks(Extension):
    """`{% generation %}` marks what an assistant says, for training; here it stands for its contents."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises NoChatTemplate."""
        if tokenizer.chat_template is None:
            raise NoChatTemplate("This checkpoint has no chat template: it can complete a raw prompt only.")
        self._tokenizer = tokenizer
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _GenerationBlocks]
        )
        environment.globals["raise_exception"] = _refuse
        self._template = environment.from_string(tokenizer.chat_template)
        names = {index: tokenizer.token_text(index) for index in tokenizer.end_ids}
        self._names = {"bos_token": "", "eos_token": next(iter(names.values()), "")}
        if tokenizer.start_id is not None:
            self._names["bos_token"] = tokenizer.token_text(tokenizer.start_id)

    def render(self, messages: Sequence[Message], *, answer: bool = True) -> list[Segment]:
        """The prompt for these messages; with `answer` it ends where the assistant begins to speak.

        Concatenated texts are the template's output, concatenated ids the prompt. Raises TemplateFailed.
        """
        contents = [message.content for message in messages]
        prompt = self._run(messages, contents, answer)
        skeleton = self._run(messages, [_PLACEHOLDER.format(i) for i in range(len(messages))], answer)
        for trimmed in (False, True):  # many templates strip each content
            segments = self._fill(skeleton, messages, trimmed)
            if "".join(segment.text for segment in segments) == prompt:
                return self._tokenise(segments)
        raise TemplateFailed("The chat template rewrites the messages' contents: their origin would be lost.")

    def _run(self, messages: Sequence[Message], contents: list[str], answer: bool) -> str:
        turns = [{"role": m.role, "content": text} for m, text in zip(messages, contents, strict=True)]
        try:
            return self._template.render(messages=turns, add_generation_prompt=answer, **self._names)
        except JinjaError as error:
            raise TemplateFailed(f"The chat template failed: {error}") from error

    def _fill(self, skeleton: str, messages: Sequence[Message], trimmed: bool) -> list[Segment]:
        """The skeleton as segments, with the contents in the placeholders' places."""
        segments: list[Segment] = []
        for index, stretch in enumerate(_PLACEHOLDERS.split(skeleton)):
            if index % 2 == 0:
                segments += self._literals(stretch)
                continue
            message = messages[int(stretch)]
            parts = _trim(message.parts) if trimmed else message.parts
            segments += [
                Segment(message.role, part.source, part.text, False, part.token_ids) for part in parts if part.text
            ]
        return _join_markers(segments)

    def _literals(self, text: str) -> list[Segment]:
        """The template's own text: control tokens and role names (markers), sentences (a default prompt)."""
        segments: list[Segment] = []
        for part in self._tokenizer.split_control(text):
            role_line = _ROLE_LINE.match(part)
            if part in self._tokenizer.control_names or not part.strip():
                segments.append(Segment("", TEMPLATE, part, True))
            elif role_line:
                role = "assistant" if role_line[1] == "model" else role_line[1]  # as Gemma calls it
                segments.append(Segment(role, TEMPLATE, role_line[0], True))
                if rest := part[role_line.end() :]:
                    segments.append(Segment("", TEMPLATE, rest, False))
            else:
                segments.append(Segment("", TEMPLATE, part, False))
        return segments

    def _tokenise(self, segments: list[Segment]) -> list[Segment]:
        """Encode each stretch between two control tokens in one go and deal the tokens out to the segments. One that
        has its tokens already stands apart."""
        ids: list[list[int]] = [[] for _ in segments]
        stretch, owners = "", list[int]()
        before: Before = "nothing"

        def flush(then: Before) -> None:
            nonlocal stretch, before
            for token, start in self._tokenizer.encode_with_starts(stretch, before):
                ids[owners[start]].append(token)
            stretch, before = "", then
            owners.clear()

        for index, segment in enumerate(segments):
            if segment.token_ids:
                first = self._tokenizer.token_bytes(segment.token_ids[0])
                if self._tokenizer.drops_first_space and first.startswith(b" "):
                    stretch = stretch.removesuffix(" ")  # it wrote the template's space with its first word
                flush("text")
                ids[index] += segment.token_ids
                continue
            for part in self._tokenizer.split_control(segment.text):
                # Contents are never markers: what a person typed stays text.
                if segment.is_marker and part in self._tokenizer.control_names:
                    flush("control")
                    ids[index].append(self._tokenizer.control_id(part))
                else:
                    stretch += part
                    owners.extend([index] * len(part))
        flush("nothing")
        return [replace(segment, token_ids=tuple(own)) for segment, own in zip(segments, ids, strict=True)]


def _join_markers(segments: list[Segment]) -> list[Segment]:
    """Give every segment the role of its turn and join the markers that open or close the same turn.

    A control token right before a role name opens that turn; any other marker belongs to the turn before it.
    """
    joined: list[Segment] = []
    role = ""
    for index, segment in enumerate(segments):
        following = segments[index + 1] if index + 1 < len(segments) else None
        opens = segment.is_marker and not segment.role and following is not None
        if opens and following is not None and following.is_marker and following.role:
            role = following.role
            joined.append(replace(segment, role=role))
            continue
        role = segment.role or role
        if segment.is_marker and joined and joined[-1].is_marker and joined[-1].role == role:
            joined[-1] = replace(joined[-1], text=joined[-1].text + segment.text)
        else:
            joined.append(replace(segment, role=role))
    return joined


def _trim(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts without the white space around their whole."""
    whole = "".join(part.text for part in parts)
    begin = len(whole) - len(whole.lstrip())
    end = len(whole.rstrip())
    trimmed, offset = [], 0
    for part in parts:
        text = part.text[max(begin - offset, 0) : max(end - offset, 0)]
        trimmed.append(part if text == part.text else Part(text, part.source))
        offset += len(part.text)
    return tuple(trimmed)


def _refuse(reason: str) -> NoReturn:
    """What templates call as `raise_exception`."""
    raise JinjaError(reason)
