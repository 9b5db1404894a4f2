"""transformers in bfloat16, returning the attention weights of every layer."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from benchmarks.sides import DECODE_PROMPT, DECODE_STEPS, prompt


class ReferenceDecoder:
    """The model as its library runs it, with its own cache."""

    def __init__(self, model: Path) -> None:
        logging.disable_progress_bar()
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            model.parent, gguf_file=model.name, dtype=torch.bfloat16, attn_implementation="eager"
        ).eval()

    @torch.inference_mode()
    def decode(self) -> float:
        """Tokens per second of one sequence."""
        output = self._model(torch.tensor([prompt(DECODE_PROMPT)]), use_cache=True)
        started = perf_counter()
        for _ in range(DECODE_STEPS):
            token = output.logits[:, -1].argmax(dim=-1, keepdim=True)
            output = self._model(token, cache=output.cache, use_cache=True, output_attentions=True)
        return DECODE_STEPS / (perf_counter() - started)
