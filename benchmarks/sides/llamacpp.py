"""llama.cpp through the C interface that its Python package carries, on one thread."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import llama_cpp
import numpy as np

from benchmarks.sides import BATCH, BATCH_STEPS, DECODE_PROMPT, DECODE_STEPS, PREFILL, prompt


class LlamaCpp:
    """One model with its context; `BATCH` sequences, each with keys and values of its own."""

    def __init__(self, model: Path) -> None:
        _be_quiet()
        llama_cpp.llama_backend_init()
        model_parameters = llama_cpp.llama_model_default_params()
        self._model = llama_cpp.llama_model_load_from_file(str(model).encode(), model_parameters)
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {model}")
        self._num_tokens = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = BATCH * PREFILL
        parameters.n_batch = parameters.n_ubatch = PREFILL
        parameters.n_seq_max = BATCH
        parameters.n_threads = parameters.n_threads_batch = 1
        self._context = llama_cpp.llama_init_from_model(self._model, parameters)
        if not self._context:
            raise RuntimeError("llama.cpp cannot make a context")
        self._batch = llama_cpp.llama_batch_init(PREFILL, 0, 1)

    def decode(self) -> float:
        """Tokens per second of one sequence."""
        return self._generate(1, DECODE_STEPS)

    def decode_batch(self) -> float:
        """Tokens per second of all sequences of a batch together."""
        return self._generate(BATCH, BATCH_STEPS)

    def prefill(self) -> float:
        """Tokens per second of reading a prompt."""
        self._forget()
        started = perf_counter()
        self._read(prompt(PREFILL), 0)
        return PREFILL / (perf_counter() - started)

    def _generate(self, num_sequences: int, steps: int) -> float:
        self._forget()
        tokens = [self._read(prompt(DECODE_PROMPT, number), number) for number in range(num_sequences)]
        started = perf_counter()
        for position in range(DECODE_PROMPT, DECODE_PROMPT + steps):
            for row, token in enumerate(tokens):
                self._set(row, token, position, sequence=row, wants_logits=True)
            self._run(num_sequences)
            tokens = [self._best(row) for row in range(num_sequences)]
        return num_sequences * steps / (perf_counter() - started)

    def _read(self, token_ids: Sequence[int], sequence: int) -> int:
        """Computes a prompt; the first token of its answer."""
        last = len(token_ids) - 1
        for position, token in enumerate(token_ids):
            self._set(position, token, position, sequence, wants_logits=position == last)
        self._run(len(token_ids))
        return self._best(last)

    def _set(self, row: int, token: int, position: int, sequence: int, wants_logits: bool) -> None:
        batch = self._batch
        batch.token[row] = token
        batch.pos[row] = position
        batch.n_seq_id[row] = 1
        batch.seq_id[row][0] = sequence
        batch.logits[row] = wants_logits

    def _run(self, num_rows: int) -> None:
        self._batch.n_tokens = num_rows
        if status := llama_cpp.llama_decode(self._context, self._batch):
            raise RuntimeError(f"llama_decode returned {status}")

    def _best(self, row: int) -> int:
        logits = llama_cpp.llama_get_logits_ith(self._context, row)
        return int(np.ctypeslib.as_array(logits, shape=(self._num_tokens,)).argmax())

    def _forget(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)


def requantised(model: Path, folder: Path) -> Path:
    """The same weights in llama.cpp's fastest format, Q4_0, made once and kept in the folder."""
    target = folder / f"{model.stem}.requantised-Q4_0.gguf"
    if target.exists():
        return target
    _be_quiet()
    folder.mkdir(parents=True, exist_ok=True)
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0
    parameters.allow_requantize = True
    parameters.nthread = 1
    unfinished = target.with_suffix(".part")
    if llama_cpp.llama_model_quantize(str(model).encode(), str(unfinished).encode(), ctypes.byref(parameters)):
        raise RuntimeError(f"llama.cpp cannot requantise {model}")
    os.replace(unfinished, target)
    return target


def _nothing(level: int, text: bytes, data: object) -> None:
    """What it has to say about loading is of no interest here."""


_log = llama_cpp.llama_log_callback(_nothing)  # kept: the library calls it as long as it lives


def _be_quiet() -> None:
    llama_cpp.llama_log_set(_log, ctypes.c_void_p(0))
