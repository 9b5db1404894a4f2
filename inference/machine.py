"""A loaded model with everything that is asked of it: generation, views, embeddings, safety scores."""

from __future__ import annotations

import logging
from typing import Any

import torch

from inference.cache import KVCache, ResidualPool
from inference.checkpoint import ModelConfig, load_checkpoint
from inference.checkpoint.sampling_defaults import Defaults, sampling_defaults
from inference.engine import Engine
from inference.judge import TextJudge
from inference.messages import Ready
from inference.model.decoder import CUT, Chunk, Decoder
from inference.settings import MIB, EngineSettings
from inference.text import Tokenizer
from inference.viewer import Viewer

logger = logging.getLogger(__name__)
BLOCK_SIZE = 64
WARM_UP_TOKENS = 8


class ModelMachine:
    """One engine, and beside it what looks into its responses and what judges texts."""

    def __init__(self, engine: Engine, judge: TextJudge, name: str, defaults: Defaults) -> None:
        """`defaults` are the sampling parameters that the checkpoint states."""
        self._engine = engine
        self._card = judge.card
        self._name = name
        self._defaults = defaults
        self.submit = engine.submit
        self.proceed = engine.proceed
        self.cancel = engine.cancel
        self.step = engine.step
        viewer = Viewer(engine)
        self.view = viewer.answer
        self.is_quick = viewer.is_quick
        self.embed = judge.embed
        self.judge = judge.judge

    @property
    def has_work(self) -> bool:
        return self._engine.has_work

    def ready(self) -> Ready:
        return self._engine.ready(describe(self._name, self._engine.decoder.config, self._defaults), self._card)


def load_machine(settings: EngineSettings) -> ModelMachine:
    """Raises FileNotFoundError, UnsupportedCheckpoint, ValueError with what to do."""
    defaults = sampling_defaults(settings.model)
    engine = load_engine(settings)
    judge = TextJudge.load(settings.encoder, settings.safety_heads)
    return ModelMachine(engine, judge, settings.model_name, defaults)


def load_engine(settings: EngineSettings) -> Engine:
    """The same without views, embeddings and judging."""
    tokenizer = Tokenizer.load(settings.model, settings.cache)
    checkpoint = load_checkpoint(settings.model)
    decoder = Decoder.load(
        checkpoint, device=settings.device, kernel=settings.kernel, remembered=settings.cache / "kernels.json"
    )
    if settings.threads:
        torch.set_num_threads(settings.threads)
    logger.info("%s on %s: %s", settings.model_name, decoder.plan, decoder.plan.reason)
    cache, residuals = _memory(settings, decoder)
    # Libraries set themselves up in their first pass: the first response should not pay for it, nor show it.
    decoder.forward([Chunk([0] * WARM_UP_TOKENS, 0, [0], wants_logits=True, record=False)], cache)
    num_aside = settings.aside_memory * MIB // cache.bytes_per_block
    return Engine(decoder, tokenizer, cache, residuals, num_aside=num_aside)


def _memory(settings: EngineSettings, decoder: Decoder) -> tuple[KVCache, ResidualPool]:
    """As many blocks as the budgets allow, and no fewer than one cut. The residual pool is not larger than the
    cache: it is addressed by the same ids."""
    config, device = decoder.config, decoder.device
    one = KVCache(config, 1, BLOCK_SIZE, device=device)
    num_blocks = max(settings.cache_memory * MIB // one.bytes_per_block, CUT // BLOCK_SIZE)
    traced = settings.trace_memory * MIB // ResidualPool(config, 1, BLOCK_SIZE, device=device).bytes_per_block
    return (
        KVCache(config, num_blocks, BLOCK_SIZE, device=device),
        ResidualPool(config, min(traced, num_blocks), BLOCK_SIZE, device=device),
    )


def describe(name: str, config: ModelConfig, defaults: Defaults) -> dict[str, Any]:
    """A checkpoint's dimensions, and the sampling parameters it states, for `Ready.model`."""
    return {
        "name": name,
        "architecture": config.architecture,
        "n_layers": config.n_layers,
        "n_heads": config.n_heads,
        "n_kv_heads": config.n_kv_heads,
        "head_width": config.head_width,
        "width": config.width,
        "feed_forward_width": config.feed_forward_width,
        "vocabulary": config.vocabulary,
        "context_length": config.context_length,
        "score_divisor": config.score_divisor,
        "windows": [kind.window for kind in config.layers],
        "rotates": [kind.rotary is not None for kind in config.layers],
        "num_parameters": config.num_parameters,
        "sampling": defaults,
    }
