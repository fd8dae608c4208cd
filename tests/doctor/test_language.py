"""The language of a memory, by samples of many."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.config.embedding import EmbeddingSettings
from agentctx.doctor.language import FEWEST, is_english, judge_language, language_check
from agentctx.doctor.provider import make_embedding
from agentctx.doctor.runner import run_checks
from agentctx.embedding_providers.fake import FakeProvider
from tests.running_core import running_core, save

ENGLISH = "Deploys are only on Tuesdays, and the release is announced before noon."
GERMAN = "Das Team spricht dienstags über die Änderungen und schreibt sie in den Kalender."


@pytest.mark.parametrize(
    ("text", "english"),
    [
        (ENGLISH, True),
        ("We never restart the replica during the export.", True),
        (GERMAN, False),
        ("Los despliegues se hacen los martes antes del mediodía.", False),
        ("Les déploiements se font le mardi, avant midi, avec une annonce.", False),
        ("I deploy si fanno il martedì, e il team che li fa è di turno.", False),
        ("De uitrol is op dinsdag en wordt van tevoren aangekondigd met een bericht.", False),
        ("Wdrożenia są we wtorki, nie w piątki, i zespół jest na dyżurze.", False),
        ("デプロイは火曜日の正午までに行います。", False),
        ("Развёртывание проводится по вторникам.", False),
        ("部署只在星期二进行。", False),
        ("النشر يوم الثلاثاء فقط.", False),
        ("def drain(queue): return queue.pop()", None),
        ("2026-11-23 10.0.0.1 502", None),
        ("", None),
    ],
)
def test_a_language_is_known_by_script_and_common_words(text: str, english: bool | None) -> None:
    assert is_english(text) is english


def test_a_memory_that_is_mostly_not_english_is_warned_of() -> None:
    mixed = [GERMAN] * FEWEST + [ENGLISH] * (FEWEST - 1)
    assert judge_language(mixed).status == "warn"
    assert judge_language([*mixed, ENGLISH]).status == "pass"
    assert judge_language([GERMAN] * (FEWEST - 1)).status == "skip"
    assert "embedding.next" in judge_language(mixed).hint


async def test_only_the_memory_of_the_embedded_model_is_judged(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider(dimension=8)) as core:
        for number in range(FEWEST):
            await save(core, key=f"k{number}", content=f"{GERMAN} Nummer {number}")
        for provider, status in (("embedded", "warn"), ("fake", "skip"), ("none", "skip")):
            embedding = make_embedding(EmbeddingSettings(provider=provider), offline=False)
            (result,) = await run_checks([language_check(core.storage.search, embedding)])
            assert result.status == status
