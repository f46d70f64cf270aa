"""The guide to identity: its example makes tokens that the server takes, and its figures are the code's."""

import re
from pathlib import Path
from typing import Any

import pytest

from ficha.server.identity import Identity, api_keys, attempts, job_tokens, jwks, tokens
from tests.server.identity.refusing import shown
from tests.server.identity.signing import AUDIENCE, ISSUER, JWT_SECRET

GUIDE = (Path(__file__).parents[3] / "docs/identity.md").read_text()


async def test_the_token_of_the_guide_is_taken(shared: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SECRET", JWT_SECRET), ("AUDIENCE", AUDIENCE), ("ISSUER", ISSUER)):
        monkeypatch.setenv(f"FICHA_JWT_{name}", value)
    guide: dict[str, Any] = {}
    [example] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    exec(example, guide)  # noqa: S102 (our own page)
    assert (await shown(shared, guide["token_for"]("ana"))).account == "ana"


@pytest.mark.parametrize(
    "words",
    [
        f"within {api_keys.CACHE_S:.0f} seconds in all others",
        f"{job_tokens.TTL_S / 60:.0f} minutes, at most {job_tokens.MAX_TTL_S / 3_600:.0f} hours",
        f"differ by {tokens.LEEWAY_S} seconds",
        f"more than {tokens.TOKEN_LENGTH // 1_024} KiB",
        f"once they are {jwks.REFRESH_S / 60:.0f} minutes\nold",
        f"at most every {jwks.PAUSE_S:.0f} seconds",
        f"for at most {jwks.KEEP_S / 3_600:.0f} hours",
        f"at most {jwks.ANSWER_BYTES // 1_024} KiB within {jwks.TIMEOUT_S:.0f} seconds",
        f"up to {attempts.MAX_SUBJECTS:,} addresses",
    ],
)
def test_the_figures_of_the_guide_are_right(words: str) -> None:
    assert words in GUIDE
