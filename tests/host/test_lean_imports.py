import subprocess
import sys

import pytest

from agentctx.host.lean_imports import hide_modules


def test_hidden_modules_cannot_be_imported_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    with hide_modules("this"), pytest.raises(ModuleNotFoundError):
        __import__("this")
    assert "this" not in sys.modules


def test_modules_already_imported_stay() -> None:
    with hide_modules("json"):
        assert __import__("json") is sys.modules["json"]
    assert sys.modules["json"] is not None


def test_fastapi_describes_routes_although_its_models_are_built_late() -> None:
    script = (
        "from agentctx.host.lean_imports import import_fastapi\n"
        "import_fastapi()\n"
        "from fastapi import FastAPI\n"
        "from fastapi.openapi.models import OpenAPI\n"
        "from pydantic import BaseModel\n"
        "assert not OpenAPI.__pydantic_complete__\n"
        "class Own(BaseModel):\n"
        "    name: str\n"
        "assert Own.__pydantic_complete__\n"
        "app = FastAPI()\n"
        "@app.post('/own')\n"
        "def own(body: Own) -> Own: ...\n"
        "assert 'post' in app.openapi()['paths']['/own']\n"
        "assert OpenAPI.__pydantic_complete__\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
