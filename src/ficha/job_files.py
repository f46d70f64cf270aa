"""A file as a handler sees it: `ficha.File` for coroutines, `ficha.ThreadFile` for plain functions.

As the type of a handler's parameter it is the id of a file in the payload: text in the schema, with the format
`ficha-file`. What must stay out: where bytes are stored, and who may read them; the handler's caller provides both.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from msgspec import Struct
from msgspec.structs import asdict

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

FORMAT: Final = "ficha-file"
"""The format of a file's id in a JSON Schema."""
LINK_S: Final = 3_600
"""How long a link to a file is valid by default."""


class FileFacts(Struct, frozen=True):
    """The facts about a file that are known without reading it, in plain values that can be sent to another process."""

    id: str
    name: str
    media_type: str
    size: int


class FileCall(Protocol):
    """How a run reaches the files of its job: `open_file` answers with an iterator, `url_of` with a link."""

    def __call__(self, verb: str, *args: Any, **options: Any) -> Awaitable[Any]: ...


class FoundFiles:
    """Collects the files that a payload names, while it is read; `kind` is the class that the handler gets for each."""

    def __init__(self, kind: type[BaseJobFile]) -> None:
        self.kind = kind
        self.files: list[BaseJobFile] = []

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file.id for file in self.files))


class BaseJobFile:
    """What both kinds share: the facts, and the JSON forms."""

    __slots__ = ("_call", "_facts", "id")

    def __init__(self, file_id: str, facts: FileFacts | None = None, call: FileCall | None = None) -> None:
        self.id: Final = file_id
        self._facts = facts
        self._call = call

    @property
    def name(self) -> str:
        """The name that its owner gave it. Never use it as a path."""
        return self._known.name

    @property
    def media_type(self) -> str:
        """The type of its content, such as `image/png`, whatever its uploader declared."""
        return self._known.media_type

    @property
    def size(self) -> int:
        """Its number of bytes."""
        return self._known.size

    @property
    def _known(self) -> FileFacts:
        if self._facts is None:
            raise RuntimeError(
                f"of the file {self.id} only its id is known here: annotate the handler's parameter as ficha.File, and "
                "look at it in the handler"
            )
        return self._facts

    def bind(self, facts: FileFacts | None, call: FileCall) -> None:
        """Gives the file its facts and the call that reads it."""
        self._facts, self._call = facts, call

    def json(self) -> dict[str, Any]:
        """Its form in a result."""
        if self._facts is None:
            return {"file": self.id}
        facts = asdict(self._facts)
        return {"file": facts.pop("id"), **facts}

    def __repr__(self) -> str:
        told = "" if self._facts is None else f", name={self._facts.name!r}, size={self._facts.size}"
        return f"{'ThreadFile' if isinstance(self, ThreadJobFile) else 'File'}(id={self.id!r}{told})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BaseJobFile) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def _caller(self) -> FileCall:
        if self._call is None:
            raise RuntimeError(f"the file {self.id} can be read only in the run of a job that has it")
        return self._call

    @classmethod
    def _read_json(cls, value: Any, found: Any) -> BaseJobFile:
        """A file from its id in a payload, or from its form in a result."""
        from pydantic_core import PydanticCustomError

        given = value.get("file") if isinstance(value, dict) else value
        try:
            file_id = str(UUID(given)) if isinstance(given, str) else None
        except ValueError:
            file_id = None
        if file_id is None:
            raise PydanticCustomError("ficha_file", "Input should be the id of a file, which its upload answered with")
        if isinstance(found, FoundFiles):
            file = found.kind(file_id)
            found.files.append(file)
            return file
        known = isinstance(value, dict) and {"name", "media_type", "size"} <= value.keys()
        return cls(file_id, FileFacts(file_id, value["name"], value["media_type"], value["size"]) if known else None)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, make: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.with_info_plain_validator_function(
            lambda value, info: value if isinstance(value, BaseJobFile) else cls._read_json(value, info.context),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda file: file.json()),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, make: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "format": FORMAT}


class JobFile(BaseJobFile):
    """A file in a coroutine handler: an input that its payload names, or a result that it saved."""

    __slots__ = ()

    async def read(self) -> bytes:
        """All its bytes. A large one is better read by `chunks`, or saved to a path."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """Its bytes, piece by piece."""
        async for chunk in await self._caller("open_file", self.id):
            yield chunk

    async def save_to(self, path: str | os.PathLike[str]) -> Path:
        """Writes its bytes to a path of the handler's own choice, and returns it."""
        target = Path(path)
        with await asyncio.to_thread(target.open, "wb") as file:
            async for chunk in self.chunks():
                await asyncio.to_thread(file.write, chunk)
        return target

    async def url(self, expires_s: int = LINK_S) -> str:
        """A link with which anyone, such as an external provider, can read the file for `expires_s`."""
        url: str = await self._caller("url_of", self.id, expires_s)
        return url


class ThreadJobFile(BaseJobFile):
    """The same in a plain function, which runs in a thread: its calls block."""

    __slots__ = ("_wait",)

    def wait_with(self, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        """Sets how this thread waits for a call on the event loop."""
        self._wait = wait

    def read(self) -> bytes:
        """All its bytes. A large one is better read by `chunks`, or saved to a path."""
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """Its bytes, piece by piece."""
        source = self._wait(self._opened())
        while (chunk := self._wait(_next(source))) is not None:
            yield chunk

    async def _opened(self) -> AsyncIterator[bytes]:
        source: AsyncIterator[bytes] = await self._caller("open_file", self.id)
        return source

    def save_to(self, path: str | os.PathLike[str]) -> Path:
        """Writes its bytes to a path of the handler's own choice, and returns it."""
        target = Path(path)
        with target.open("wb") as file:
            file.writelines(self.chunks())
        return target

    def url(self, expires_s: int = LINK_S) -> str:
        """A link with which anyone, such as an external provider, can read the file for `expires_s`."""
        url: str = self._wait(JobFile(self.id, self._facts, self._caller).url(expires_s))
        return url


async def _next(source: AsyncIterator[bytes]) -> bytes | None:
    return await anext(source, None)
