"""Which server answers at an address, and whether it can judge: it has to give the probability of each legal answer.

/props with a context                 llama-server
/v1/models and /extras/tokenize       python -m llama_cpp.server
anything else                         refused, with what to do instead
"""

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.server import llama_server, python_server
from localjudge.engine.server.address import read_address
from localjudge.engine.server.connection import Refused, ServerConnection
from localjudge.engine.server.llama_server import LlamaServer
from localjudge.engine.server.model_server import ModelServer
from localjudge.engine.server.python_server import PythonServer
from localjudge.engine.server.served_model import ServedModel
from localjudge.errors import ModelError, OutOfResource
from localjudge.option_spelling import option
from localjudge.printable import printable

_SERVERS: dict[str, Callable[[ServerConnection, ServedModel], ModelServer]] = {
    llama_server.KIND: LlamaServer.opened,
    python_server.KIND: PythonServer.opened,
}
_TAKES = "localjudge takes llama-server and python -m llama_cpp.server"


def served_model(judge: str, settings: EngineSettings) -> ServedModel:
    """What is served at the address that a judge is named by.

    Raises ModelError if there is no server, or one that cannot judge; UsageError for an address that is not this
    machine's, or none; OutOfResource for one that does not get ready.
    """
    with closing(_connection(judge, settings)) as connection:
        return _read(connection)


def open_server(model: ServedModel, settings: EngineSettings) -> ModelServer:
    """The server, open and tried. Raises as `served_model` does, and if it serves another model by now."""
    with ExitStack() as undo:
        connection = undo.enter_context(closing(_connection(model.source, settings)))
        if _read(connection) != model:
            raise ModelError(f"the server at {model.address} changed its model", hint="run the same command again")
        server: ModelServer = _SERVERS[model.kind](connection, model)
        undo.pop_all()
    return server


def _connection(judge: str, settings: EngineSettings) -> ServerConnection:
    return ServerConnection(read_address(judge), settings.allow_host)


def _read(connection: ServerConnection) -> ServedModel:
    try:
        props = _asked(connection, "/props")
    except OutOfResource as error:
        if connection.made:
            raise
        raise ModelError(
            f"there is no server at {connection.address}: {error.message}",
            hint="start it, for example: llama-server -m MODEL.gguf --port 8080",
        ) from error
    if isinstance(props.get("default_generation_settings"), dict):
        return llama_server.read_model(connection, props)
    models = _asked(connection, "/v1/models").get("data") or []
    owner = models[0].get("owned_by") if isinstance(models, list) and models and isinstance(models[0], dict) else None
    if owner == python_server.OWNER:
        return python_server.read_model(connection, models)
    raise _cannot_judge(connection, owner)


def _cannot_judge(connection: ServerConnection, owner: object) -> ModelError:
    """Why what is there is refused."""
    if "version" in _asked(connection, "/api/version"):
        return ModelError(
            f"at {connection.address} is Ollama, which tells the probabilities of the 20 most likely tokens before the "
            "grammar: not those of the legal answers",
            hint=f"judge with the model's file itself: `localjudge models` lists it, {option('judge', 'ollama:NAME')}",
        )
    if owner is None:
        return ModelError(f"at {connection.address} is no server of a model that localjudge knows", hint=_TAKES)
    return ModelError(
        f"at {connection.address} is a server ({printable(str(owner))}) that does not tell the probabilities of the "
        "legal answers",
        hint=f"judge with the model's file itself ({option('judge', 'MODEL.gguf')}); {_TAKES}",
    )


def _asked(connection: ServerConnection, path: str) -> dict[str, Any]:
    """What is there; nothing for a server that does not know the path."""
    try:
        return connection.get(path)
    except Refused:
        return {}
