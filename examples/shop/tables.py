"""The shop's own tables, in the same database as Ficha's. `python tables.py` creates them."""

import asyncio
import os
from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, String, Text, func
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.pool import NullPool

URL = os.environ["FICHA_DATABASE_URL"].replace("postgresql://", "postgresql+asyncpg://", 1)

# Without a pool, for the sake of tests, each of which has an event loop of its own.
engine = create_async_engine(URL, poolclass=NullPool if os.environ.get("SHOP_TESTS") else None)
sessions = async_sessionmaker(engine, class_=AsyncSession, expire_on_commit=False)


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    """The `sub` of their token, and their account in Ficha."""
    since: Mapped[datetime] = mapped_column(server_default=func.now())


class Order(Base):
    __tablename__ = "orders"

    job_id: Mapped[UUID] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"), index=True)
    tool: Mapped[str] = mapped_column(Text)
    title: Mapped[str] = mapped_column(String(40))
    status: Mapped[str] = mapped_column(Text, default="open")
    """How its job ended; "open" until then."""


class Payment(Base):
    __tablename__ = "payments"

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    credits: Mapped[int]


async def create() -> None:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)


if __name__ == "__main__":
    asyncio.run(create())
