"""The command's entry point: its verbs in the order of the help, and how errors are shown."""

from __future__ import annotations

import sys
import traceback
from functools import cache
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

from ..environment import SettingError
from ..errors import Refused
from ..extras import MissingExtra
from ..store.base import StoreError, Transient, Unavailable
from . import (
    accounts,
    admin,
    api_keys,
    audit,
    backup,
    batches,
    bulk,
    dead,
    dev,
    doctor,
    files,
    hooks,
    jobs,
    library,
    migrate,
    openapi,
    pools,
    providers,
    prune,
    schedules,
    serve,
    simulate,
    submit,
    tools,
    top,
    verify,
    watch,
    webhooks,
    worker,
    workers,
)
from .listing import refusal
from .load_app import AppNotLoaded
from .logs import plain_unconfigured
from .options import ErrorForm, UsageError
from .output import echo, failure, printable

app = typer.Typer(
    name="ficha",
    help="A durable job queue with a credit ledger inside.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

JOBS: Final = "Jobs"
MONEY: Final = "Accounts and credits"
OPERATING: Final = "Operating"
DATABASE: Final = "Database"

for verb, panel in (
    (submit.submit, JOBS),
    (watch.watch, JOBS),
    (jobs.jobs, JOBS),
    (jobs.job, JOBS),
    (jobs.cancel, JOBS),
):
    app.command(rich_help_panel=panel)(verb)
app.add_typer(tools.app, name="tools", rich_help_panel=JOBS)
app.add_typer(batches.app, name="batch", rich_help_panel=JOBS)
app.command(rich_help_panel=JOBS)(files.upload)
app.command(rich_help_panel=JOBS)(files.files)
app.command(rich_help_panel=JOBS)(files.download)
app.command(rich_help_panel=JOBS)(files.remove_file)
app.add_typer(library.app, name="library", rich_help_panel=JOBS)
app.add_typer(accounts.app, name="account", rich_help_panel=MONEY)
app.command(rich_help_panel=MONEY)(accounts.ledger)
app.command(rich_help_panel=OPERATING)(dev.dev)
app.command(rich_help_panel=OPERATING)(serve.serve)
app.command(rich_help_panel=OPERATING)(openapi.openapi)
app.command(rich_help_panel=OPERATING)(worker.worker)
app.command(rich_help_panel=OPERATING)(workers.workers)
app.command(rich_help_panel=OPERATING)(simulate.simulate)
app.command(rich_help_panel=OPERATING)(top.top)
app.command(rich_help_panel=OPERATING)(admin.stats)
app.command(rich_help_panel=OPERATING)(admin.stuck)
app.command(rich_help_panel=OPERATING)(admin.recover)
app.command(rich_help_panel=OPERATING)(admin.refund)
app.add_typer(dead.app, name="dead", rich_help_panel=OPERATING)
app.add_typer(bulk.app, name="bulk", rich_help_panel=OPERATING)
app.add_typer(pools.app, name="pools", rich_help_panel=OPERATING)
app.add_typer(schedules.app, name="schedules", rich_help_panel=OPERATING)
app.add_typer(hooks.app, name="hooks", rich_help_panel=OPERATING)
app.add_typer(providers.app, name="providers", rich_help_panel=OPERATING)
app.command(rich_help_panel=OPERATING)(providers.margins)
app.command(rich_help_panel=OPERATING)(admin.reservations)
app.command(rich_help_panel=OPERATING)(admin.idempotency)
app.add_typer(api_keys.app, name="apikey", rich_help_panel=OPERATING)
app.add_typer(webhooks.app, name="webhooks", rich_help_panel=OPERATING)
app.command(rich_help_panel=OPERATING)(audit.audit)
app.add_typer(migrate.app, name="migrate", rich_help_panel=DATABASE)
app.command(rich_help_panel=DATABASE)(verify.verify)
app.command(rich_help_panel=DATABASE)(prune.prune)
app.command(rich_help_panel=DATABASE)(doctor.doctor)
app.command(rich_help_panel=DATABASE)(backup.backup)


class Debug:
    """Whether errors are shown with their tracebacks."""

    wanted = False


def _version(wanted: bool) -> None:
    if wanted:
        from ..version import __version__

        print(f"ficha {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", envvar="FICHA_DEBUG", help="Show tracebacks of errors.")] = False,
) -> None:
    Debug.wanted = debug


@cache
def command() -> Any:
    """The assembled command, cached: assembling takes longer than most verbs run."""
    return get_command(app)


def main() -> None:
    """Runs the command. An error is one line on standard error; `--debug` shows its traceback."""
    ErrorForm.as_json = False
    plain_unconfigured()
    try:
        code = command()(prog_name="ficha", standalone_mode=False)
    except UsageError as error:
        code = _wrong_use(error)
    except typer.Abort:  # Not confirmed: the answer was no, standard input has ended, or Ctrl-C.
        unchanged = "nobody confirmed it, so nothing was changed; with --yes it does not ask"
        failure("INVALID_STATE", unchanged, as_json=ErrorForm.as_json)
        code = 1
    except Exception as error:
        if Debug.wanted:
            print(printable("".join(traceback.format_exception(error)), keep="\n\t"), file=sys.stderr, flush=True)
            code = 1
        else:
            code = _failed(error)
    sys.exit(code if isinstance(code, int) else 0)


def _wrong_use(error: Any) -> int:
    message = error.format_message()
    if message:  # Empty if no argument was given: then the help was shown.
        path = error.ctx.command_path if error.ctx is not None else "ficha"
        echo(f"{message.rstrip('.')}; see `{path} --help`", "error: ", "bold red")
    return 2


def _failed(error: Exception) -> int:
    match error:
        case Refused():
            refusal(error, as_json=ErrorForm.as_json)
        case StoreError():
            retryable = isinstance(error, Transient | Unavailable)
            failure("DATABASE", str(error), as_json=ErrorForm.as_json, retryable=retryable)
        case SettingError():
            failure("SETTINGS", str(error), as_json=ErrorForm.as_json)
        case AppNotLoaded() | MissingExtra():
            failure("APPLICATION", str(error), as_json=ErrorForm.as_json)
        case _:
            _failed_otherwise(error)
    return 1


def _failed_otherwise(error: Exception) -> None:
    from ..client import ServerError, Unreachable  # Only here: its import takes as long as all the rest.

    if isinstance(error, ServerError):
        failure("SERVER", str(error), as_json=ErrorForm.as_json, retryable=isinstance(error, Unreachable))
    else:
        message = f"{type(error).__name__}: {error} (ficha --debug … shows the traceback)"
        failure("UNEXPECTED", message, as_json=ErrorForm.as_json)
