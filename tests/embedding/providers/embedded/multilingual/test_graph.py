# ruff: noqa: RUF001 - texts in other scripts
from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.embedding.providers.embedded.built_models import MULTILINGUAL
from agentctx.embedding.providers.embedded.cache import ensure_built
from agentctx.embedding.providers.embedded.model import SentenceModel, load_model
from agentctx.embedding.providers.embedded.multilingual.graph import DIMENSION, TABLE_NAME
from agentctx.storage.vectors import Vectors
from tests.embedding.providers.embedded.multilingual.installed import needs_weights
from tests.embedding.providers.embedded.multilingual.reference import REFERENCE, Reference

pytestmark = needs_weights


@pytest.fixture(scope="module")
def model(built_multilingual: Path) -> SentenceModel:
    graph = ensure_built(built_multilingual, MULTILINGUAL)
    return load_model(graph, MULTILINGUAL.find_tokenizer(graph), threads=1)


def vector(model: SentenceModel, text: str) -> Vectors:
    row: Vectors = model.vector(text, DIMENSION)[0][0]
    return row


@pytest.mark.parametrize("reference", REFERENCE, ids=lambda each: each.text)
def test_vectors_are_those_of_the_published_engine(reference: Reference, model: SentenceModel) -> None:
    assert vector(model, reference.text) @ reference.unit_vector() > 0.99


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        (
            "Wann darf ich mit Jonas einen Termin machen?",
            "Jonas mag keine Besprechungen vor zehn Uhr.",
            "Der Drucker im dritten Stock druckt nur, wenn das Papierfach 2 gewählt ist.",
        ),
        (
            "¿Cómo llamo a mi nueva rama?",
            "Las ramas de git llevan delante el número de la incidencia.",
            "El contrato con la agencia de transporte vence en marzo de 2027.",
        ),
        (
            "田中さんにはどうやって連絡すればいい？",
            "田中さんへの連絡は電話ではなくチャットでお願いします。",
            "ログは九十日後に自動で削除されます。",
        ),
        (
            "谁来定期更新数据库口令？",
            "生产数据库的密码每九十天更换一次，由运维组负责。",
            "办公室的空调由物业统一控制，晚上八点以后关闭。",
        ),
        (
            "Как попасть в серверную?",
            "Ключ от серверной лежит у охранника на первом этаже.",
            "Мария не работает по средам, вместо неё отвечает Олег.",
        ),
        (
            "متى نلتقي كل أسبوع؟",
            "الاجتماع الأسبوعي للفريق يوم الأحد الساعة العاشرة صباحا.",
            "لا نخزن أرقام بطاقات العملاء في قاعدة البيانات.",
        ),
    ],
)
def test_an_answer_is_nearer_than_another_text_of_its_language(
    question: str, answer: str, other: str, model: SentenceModel
) -> None:
    asked = vector(model, question)
    assert asked @ vector(model, answer) > asked @ vector(model, other) + 0.01


def test_the_word_table_is_a_file_of_its_own(built_multilingual: Path) -> None:
    graph = ensure_built(built_multilingual, MULTILINGUAL)
    assert graph.stat().st_size < 25_000_000
    assert graph.with_name(TABLE_NAME).stat().st_size > 50_000_000
