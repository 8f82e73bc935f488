"""The command that opens a local page: ``serve``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from whowrote.cli.options import between, say
from whowrote.errors import InputError

EXTRA = "pip install 'whowrote[web]'"
DEMO = "presidents"


def serve(
    model: Annotated[
        Path | None, typer.Argument(help="The folder that `whowrote train` wrote; may be left out.")
    ] = None,
    port: Annotated[
        int, typer.Option(callback=between(0, 65535), help="0 takes a free one.")
    ] = 8765,
    host: Annotated[
        str, typer.Option(help="The address to listen at; beyond this machine a token is demanded.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar="WHOWROTE_TOKEN", help="The token to demand; made up where needed."),
    ] = None,
    models: Annotated[
        Path, typer.Option(help="The folder in which the page saves and finds models.")
    ] = Path("whowrote-models"),
    cases: Annotated[
        Path, typer.Option(help="The folder in which the page keeps cases, with their texts.")
    ] = Path("whowrote-cases"),
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Twelve presidents, learnt first if that was not done before."),
    ] = False,
) -> None:
    """Open a local page and an HTTP interface: ask, compare, keep cases, train, read the card.

    Binds to this machine alone unless --host says otherwise. Texts that are asked about stay in
    memory and are never logged. The interface is described at /openapi.json. Needs the extra
    `web`.

    Example: `whowrote serve letters.model`

    Example: `whowrote serve --demo --port 0` (a model of twelve presidents, at a free port)

    Example: `whowrote serve letters.model --host 0.0.0.0` (to others too: prints a token)
    """
    _require_extra()
    from whowrote.web.limits import access_for
    from whowrote.web.server import bound_socket, create_app, run

    access = access_for(host, token)
    if demo and model is None:
        model = _demo_model(models)
    listening = bound_socket(host, port)
    app = create_app(model, models=models, cases=cases, access=access)
    name = f"[{host}]" if ":" in host else host
    key = f"/?token={access.token}" if access.token else "/"
    say(f"Page: http://{name}:{listening.getsockname()[1]}{key} (Ctrl-C ends it)")
    run(app, listening)


def _require_extra() -> None:
    from importlib.util import find_spec

    needed = ("fastapi", "uvicorn", "sse_starlette", "python_multipart", "jinja2")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise InputError(f"the page needs {', '.join(missing)}, not installed here: {EXTRA}")


def _demo_model(models: Path) -> Path:
    """The model of the demo, learnt from addresses that come with the installation."""
    from whowrote.attribution.jobs import train_model
    from whowrote.demo import OUTSIDER, as_corpus, hold_out, read_addresses
    from whowrote.progress import stage_bars

    out = models / f"{DEMO}.model"
    if not out.is_dir():
        say("Learning twelve presidents, once; about a minute.")
        trial = hold_out(read_addresses(), presidents=12, outsider=OUTSIDER, seed=0)
        os.makedirs(models, exist_ok=True)
        with stage_bars():
            train_model(as_corpus(trial.training), out)
    return out
