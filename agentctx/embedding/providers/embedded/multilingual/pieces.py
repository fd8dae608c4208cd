"""The tokenizer of multilingual-e5-small as a SentencePiece model: built once, loaded by a provider."""

from __future__ import annotations

import io
import sys
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agentctx.config.extras import install_hint
from agentctx.embedding.providers.embedded.multilingual.graph import WINDOW
from agentctx.embedding.providers.embedded.multilingual.weights_file import WeightsFile
from agentctx.errors import ConfigInvalid

PIECES_NAME: Final = "tokenizer.model"
EXTRA: Final = "multilingual"
_UNKNOWN: Final = "<unk>"
_SPECIAL: Final = frozenset({"<s>", "<pad>", "</s>", "<mask>"})


def load_pieces(path: Path) -> tuple[Callable[[str], tuple[list[int], list[int], list[int]]], int]:
    """Return the tokenizer (see `tokens.Tokens`) and the model's window.

    In a text, the special tokens are ordinary text.

    Raises:
        ConfigInvalid: the package sentencepiece is missing, or the file is invalid.
    """
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise ConfigInvalid(
            "The model multilingual-e5-small needs the package sentencepiece.", hint=install_hint(EXTRA)
        ) from error
    try:
        processor = SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise ConfigInvalid(f"{path} cannot be read as a SentencePiece model: {error}") from error
    # Without the prefixes `query:` and `passage:` of the model's card: a text and the same question must have
    # one vector, and with one prefix for both, search finds less than without.
    before, after = [processor.bos_id()], [processor.eos_id()]
    return lambda text: (before, processor.encode(text), after), WINDOW


def write_pieces(weights: WeightsFile, target: Path) -> None:
    """Write the model to `target`."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    piece_kind = ModelProto.SentencePiece
    model = ModelProto()
    for piece, score in zip(weights.pieces, weights.scores, strict=True):
        special = piece_kind.CONTROL if piece in _SPECIAL else piece_kind.NORMAL
        kind = piece_kind.UNKNOWN if piece == _UNKNOWN else special
        model.pieces.add(piece=piece, score=score, type=kind)
    trained = model.trainer_spec
    trained.vocab_size = len(weights.pieces)
    trained.bos_id, trained.pad_id, trained.eos_id, trained.unk_id = 0, 1, 2, 3
    rules = normalization_rules(weights.normalization)
    model.normalizer_spec.precompiled_charsmap = _compiled(rules, target.with_name("rules.tsv"))
    target.write_bytes(model.SerializeToString())


def normalization_rules(replaced: Mapping[str, str]) -> dict[str, str]:
    """Return what each sequence of characters becomes.

    The weights contain the rules of single characters. Those of a letter with its accents apart are added:
    it becomes what the composed character becomes, as in the published tokenizer.
    """
    rules = dict(replaced)
    for code in range(0x80, sys.maxunicode + 1):
        composed = chr(code)
        apart = unicodedata.normalize("NFD", composed)
        if apart != composed and unicodedata.normalize("NFC", apart) == composed:
            rules[apart] = replaced.get(composed, composed)
    # The compiler takes no NUL; the tokenizer drops it.
    rules.pop("\0", None)
    return rules


def _compiled(rules: Mapping[str, str], file: Path) -> bytes:
    """Compile the rules, through a temporary `file`. Only the trainer can, so one is trained on a letter."""
    from sentencepiece import SentencePieceTrainer
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    lines = [f"{_codes(source)}\t{_codes(result)}\n" for source, result in sorted(rules.items())]
    file.write_text("".join(lines), encoding="ascii")
    trained = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["a"]),
        model_writer=trained,
        model_type="char",
        hard_vocab_limit=False,
        normalization_rule_tsv=str(file),
        minloglevel=2,
    )
    file.unlink()
    compiled: bytes = ModelProto.FromString(trained.getvalue()).normalizer_spec.precompiled_charsmap
    return compiled


def _codes(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)
