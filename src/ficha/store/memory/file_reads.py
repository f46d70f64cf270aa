"""The memory store's answers about files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.records import (
    File,
    FileUsage,
)
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _get_files(store: MemoryStore, query: q.GetFiles) -> list[File]:
    files = store.state.of(File)
    return [files[key] for key in dict.fromkeys(query.ids) if key in files]


def _list_files(store: MemoryStore, query: q.ListFiles) -> list[File]:
    def fits(file: File) -> bool:
        return (
            file.state != "removed"
            and query.account_id in (None, file.account_id)
            and query.role in (None, file.role)
            and (query.before is None or file.id < query.before)
        )

    found = sorted(filter(fits, store.state.of(File).values()), key=lambda file: file.id, reverse=True)
    return found[: query.limit]


def _list_linked_files(store: MemoryStore, query: q.ListLinkedFiles) -> list[File]:
    def link(file: File) -> str | None:
        return file.job_id if query.link == "job" else file.reservation_id

    wanted = [file for file in store.state.of(File).values() if file.state != "removed" and link(file) in query.ids]
    return sorted(wanted, key=lambda file: file.id)[: query.limit]


def _list_due_files(store: MemoryStore, query: q.ListDueFiles) -> list[File]:
    now = store.clock()
    due = [(file.expires_at, file.id, file) for file in store.state.of(File).values() if file.expires_at is not None]
    return [file for expires_at, _, file in sorted(due, key=lambda one: one[:2]) if expires_at <= now][: query.limit]


def _get_file_usage(store: MemoryStore, query: q.GetFileUsage) -> FileUsage:
    return store.state.of(FileUsage).get(query.account_id, FileUsage(query.account_id))


FILE_READS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.GetFiles: _get_files,
    q.ListFiles: _list_files,
    q.ListLinkedFiles: _list_linked_files,
    q.ListDueFiles: _list_due_files,
    q.GetFileUsage: _get_file_usage,
}
