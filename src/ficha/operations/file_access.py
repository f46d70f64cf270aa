"""The file storage of an application and the links to its files, both created when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.outcomes import Refusal
from ..errors import Refused
from ..files.links import FileLinks
from ..files.storage import FileStorage, StorageError, StoredBytes, open_storage

if TYPE_CHECKING:
    from ..files.inspection import Inspector
    from ..files.inspection_limits import InspectionLimits
    from ..signing import Signer


class FileAccess:
    """Opens the storage, the inspector and the links when they are needed: an application without files opens no
    storage, and one without links needs no secret.

    url: the file storage. signer, public_url: needed for links only. limits: of the inspection of files.
    """

    def __init__(
        self,
        url: str,
        signer: Signer | None = None,
        public_url: str | None = None,
        limits: InspectionLimits | None = None,
    ) -> None:
        self.url = url
        self._limits = limits
        self._signer = signer
        self._public_url = public_url
        self._storage: FileStorage | None = None
        self._inspector: Inspector | None = None

    @property
    def storage(self) -> FileStorage:
        if self._storage is None:
            try:
                self._storage = open_storage(self.url)
            except StorageError as error:
                raise Refused.of(Refusal("OVERLOADED", f"{error}; nothing was changed.", retry_after_s=5.0)) from None
        return self._storage

    async def inspected(self, key: str, stored: StoredBytes) -> tuple[str, str | None]:
        """The media type of the bytes under a key, such as `image/png`; and why they are unsafe, if they are."""
        # Imported here because it needs the extra `files`.
        from ..files.inspection import Inspector, UnsafeFile

        if self._inspector is None:
            self._inspector = Inspector(self._limits)
        try:
            return (await self._inspector.inspect(self.storage, key, stored)).media_type, None
        except UnsafeFile as error:
            return "", str(error)

    @property
    def links(self) -> FileLinks:
        if self._signer is None or self._public_url is None:
            missing = "secret (FICHA_SECRET)" if self._signer is None else "public_url (FICHA_PUBLIC_URL)"
            raise Refused.of(Refusal("INVALID_STATE", f"a link to a file needs the application's {missing}; set it."))
        return FileLinks(self._signer, self._public_url)

    async def close(self) -> None:
        storage, self._storage = self._storage, None
        if storage is not None:
            await storage.close()
        inspector, self._inspector = self._inspector, None
        if inspector is not None:
            await inspector.close()
