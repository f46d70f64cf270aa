"""Batches as text: what a line may be, and what is said of one that is wrong."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ficha.batch_lines import BadLine, header_line, read_items, result_line
from tests.support.shop import shop

SCHEMAS = {name: tool.schema() for name, tool in shop().tools.items()}


def items(text: str, form: Any, tool: str | None = None, parse: Callable[[str], Any] = json.loads) -> list[Any]:
    return list(read_items(text.splitlines(keepends=True), form, tool, SCHEMAS, parse))


def test_lines_of_json_name_their_tools_or_are_payloads_of_one() -> None:
    assert items('{"tool": "upscale", "payload": {"image": "x"}}\n\n{"tool": "hasty"}\n', "jsonl") == [
        ("upscale", {"image": "x"}),
        ("hasty", {}),
    ]
    assert items('{"image": "x"}\n', "jsonl", "upscale") == [("upscale", {"image": "x"})]


def test_cells_of_csv_are_what_the_tools_schema_says() -> None:
    text = 'tool,image,scale,seconds\nupscale,007,4,\nvideo,,,12\n\nupscale,"a ""b"", c\nd",,\n'
    assert items(text, "csv") == [
        ("upscale", {"image": "007", "scale": 4}),
        ("video", {"seconds": 12}),
        ("upscale", {"image": 'a "b", c\nd'}),
    ]
    assert items('texts\n"[""a"", ""b""]"\n', "csv", "embed_all") == [("embed_all", {"texts": ["a", "b"]})]


def test_a_field_that_no_schema_knows_is_json_if_it_can_be() -> None:
    text = 'n,yes,text,thing\n1.5,true,plain words,"{""a"": [1]}"\n'
    assert items(text, "csv", "anything") == [
        ("anything", {"n": 1.5, "yes": True, "text": "plain words", "thing": {"a": [1]}})
    ]


@pytest.mark.parametrize(
    ("form", "tool", "text", "words"),
    [
        ("jsonl", None, '{"tool": "hasty"}\n{"tool": \n', "line 2 is not JSON: Expecting value"),
        ("jsonl", None, '{"image": "x"}\n', 'line 1 must be {"tool": …, "payload": {…}}; or name one tool'),
        ("jsonl", None, "[1]\n", "line 1 must be"),
        ("csv", None, "image\nx\n", "no column `tool`"),
        ("csv", "upscale", "image,image\nx,y\n", "each once and none empty"),
        ("csv", "upscale", "image,\nx,y\n", "each once and none empty"),
        ("csv", "upscale", "image,scale\nx,2\ny\n", "line 3 has 1 cells, and the first line 2"),
        ("csv", "upscale", "image,scale\nx,two\n", "line 2, column scale: 'two' is not of the type integer"),
        ("csv", "upscale", 'image\n"x" y\n', "line 2 is not CSV"),
    ],
)
def test_a_wrong_line_is_named_with_what_to_do(form: str, tool: str | None, text: str, words: str) -> None:
    with pytest.raises(BadLine) as told:
        items(text, form, tool)
    assert words in str(told.value)


async def test_a_result_is_a_line_and_no_cell_a_formula() -> None:
    async with shop("memory:") as app:
        await app.open_account("ana", plan="open", credits=10)
        batch = await app.submit_batch([("embed", {"text": "x\n=1"}), ("hasty", {})], account="ana")
        assert batch.batch_id is not None
        await app.run_worker(burst=True)
        jobs = [job async for job in app.batch_results(batch.batch_id)]
    assert [job.tool for job in jobs] == ["embed", "hasty"]
    one = json.loads(result_line(jobs[0], "jsonl", with_payload=True))
    assert one == {
        "job_id": jobs[0].id,
        "tool": "embed",
        "status": "completed",
        "cost": 2,
        "error": None,
        "result": 4,
        "payload": {"text": "x\n=1"},
    }
    assert header_line("csv", with_payload=False) == "job_id,tool,status,cost,error,result\r\n"
    assert result_line(jobs[0], "csv", with_payload=False) == f"{jobs[0].id},embed,completed,2,,4\r\n"

    class Evil:
        id, tool, status, cost, result, payload = jobs[0].id, "embed", "failed", 2, None, {}
        error = "=cmd()"

    assert ",'=cmd()," in result_line(Evil(), "csv", with_payload=False)  # type: ignore[arg-type]
