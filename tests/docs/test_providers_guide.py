"""The guide to providers: its examples of those built in run, and it names every option that they have."""

import inspect
import re
from pathlib import Path

import pytest

from ficha.providers import (
    CallbackFields,
    Fal,
    GenericProvider,
    HmacSignature,
    Provider,
    Replicate,
    RequestTemplate,
    RunningHub,
    StandardSignature,
    StateFields,
)
from ficha.providers import fal as fal_module
from ficha.providers import replicate as replicate_module
from ficha.providers import runninghub as runninghub_module
from ficha.providers.generic import OF_A_REQUEST, OF_A_START
from ficha.providers.signatures import TOLERANCE_S

GUIDE = (Path(__file__).parents[2] / "docs/providers.md").read_text()
BUILT_IN = GUIDE.partition("\n## Built in\n")[2].partition("\n## ")[0]
SECTIONS = {part.partition("\n")[0]: part for part in BUILT_IN.split("\n### ")[1:]}


def options(cls: type) -> set[str]:
    return set(inspect.signature(cls).parameters) - {"limits"}


@pytest.mark.parametrize(
    ("heading", "cls"),
    [("Replicate", Replicate), ("fal", Fal), ("RunningHub", RunningHub), ("A generic one", GenericProvider)],
)
def test_every_option_of_a_built_in_provider_is_documented(heading: str, cls: type) -> None:
    known = options(cls) - ({"name"} if cls is GenericProvider else set())
    assert known
    assert [option for option in sorted(known) if f"`{option}`" not in SECTIONS[heading]] == []


def test_the_options_that_all_have_are_documented() -> None:
    general = BUILT_IN.partition("\n### ")[0]
    assert [option for option in options(Provider) - {"name"} if f"`{option}`" not in general] == []
    assert f"{TOLERANCE_S} seconds" in general


@pytest.mark.parametrize("kind", [StateFields, HmacSignature, StandardSignature, CallbackFields, RequestTemplate])
def test_every_field_of_the_generic_ones_configuration_is_in_its_section(kind: type) -> None:
    section = SECTIONS["A generic one"]
    assert [name for name in options(kind) if not re.search(rf"`{name}`|\b{name}=", section)] == []
    assert [name for name in OF_A_START | OF_A_REQUEST if f"`{{{name}}}`" not in section] == []


@pytest.mark.parametrize(
    ("heading", "module"),
    [("Replicate", replicate_module), ("fal", fal_module), ("RunningHub", runninghub_module)],
)
def test_every_option_of_a_call_and_every_default_address_is_documented(heading: str, module: object) -> None:
    assert [option for option in module.OPTIONS if f"`{option}`" not in SECTIONS[heading]] == []
    assert module.BASE_URL in SECTIONS[heading]


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_examples_run(heading: str) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", SECTIONS[heading], re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)  # noqa: S102 (the documentation's own)
    assert [value for value in names.values() if isinstance(value, Provider)]


@pytest.mark.parametrize("guide", ["providers.md", "testing.md"])
def test_the_examples_of_tools_and_of_a_provider_of_ones_own_run(guide: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / guide).read_text()
    parts = (
        [text.partition("\n### Providers\n")[2].partition("\n## ")[0]]
        if guide == "testing.md"
        else [text.partition("\n## ")[0], text.partition("\n## Write your own\n")[2]]
    )
    for part in parts:
        (example,) = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
        exec(compile(example, guide, "exec"), {"__name__": "guide"})  # noqa: S102 (an example of our own)
