"""Text at the edge of the engine: tokenizer, chat template, incremental detokenizer, stop strings.

Nothing here imports torch, so that web and worker processes can use it.
"""

from inference.text.detokenizer import Detokenizer
from inference.text.stops import StopMatcher
from inference.text.template import ChatTemplate, Message, NoChatTemplate, Part, Segment, TemplateFailed
from inference.text.tokenizer import InvalidText, Merge, Piece, Tokenizer
from inference.text.vocabulary import UnsupportedTokenizer

__all__ = [
    "ChatTemplate",
    "Detokenizer",
    "InvalidText",
    "Merge",
    "Message",
    "NoChatTemplate",
    "Part",
    "Piece",
    "Segment",
    "StopMatcher",
    "TemplateFailed",
    "Tokenizer",
    "UnsupportedTokenizer",
]
