"""docs/operating.md names every finding and every limit of `ficha doctor`."""

import re
from pathlib import Path

from ficha.core.alerts import AlertCode
from ficha.doctor import EXIT_CODES, DoctorLimits
from ficha.doctor.alert_check import REMEDIES
from tests.docs.test_docs import rows

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/operating.md").read_text()


def test_every_code_of_a_finding_is_documented() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "src/ficha/doctor").glob("*.py"))
    known = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', code)) - {*REMEDIES, "EXIT_CODES", "FICHA_SECRET"}
    assert len(known) > 30
    assert known == {name for name in rows(GUIDE) if name.isupper()}


def test_every_alert_says_what_to_do() -> None:
    assert set(REMEDIES) == set(AlertCode.__args__)  # type: ignore[attr-defined]


def test_every_limit_and_exit_code_is_documented() -> None:
    assert set(DoctorLimits.__struct_fields__) <= rows(GUIDE)
    assert all(
        f"{field}:" in (DoctorLimits.__doc__ or "").replace(",", ":") for field in DoctorLimits.__struct_fields__
    )
    for code in {0, *EXIT_CODES.values()}:
        assert f"| {code} | " in GUIDE
