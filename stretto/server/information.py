"""What a server reports about itself: models, health, metrics, and where a request would go."""

from __future__ import annotations

from typing import Any

from stretto.local_engine.model.loading.loading_progress import doing
from stretto.local_engine.serving.request_progress import waiting_for
from stretto.server.apis.api_answer import Read, read_by
from stretto.server.apis.bodies import read_object
from stretto.server.exchange import Exchange
from stretto.server.problems import Problem, of_error, retry_after
from stretto.server.service import Service
from stretto.values.errors import StrettoError


async def models(service: Service, exchange: Exchange) -> None:
    """List all names in a form that clients of OpenAI and of Anthropic can read."""
    data = service.models.listed()
    pages = {"has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}
    await exchange.send_json({"object": "list", "data": data} | pages)


async def model(service: Service, exchange: Exchange) -> None:
    """Describe one name."""
    await exchange.send_json(service.models.described(exchange.scope["path_params"]["name"]))


async def health(service: Service, exchange: Exchange) -> None:
    """Report that the process is alive, and whether its models are loaded: the web chat need not provoke a 503 to know.

    Without keys, also report what requests are waiting for: anyone can ask, and it includes the length of a prompt.
    """
    status = "draining" if service.admission.draining else "ok"
    loading = {"loading": what} if not service.prepared and (what := doing()) else {}
    waiting = {"waiting": what} if not service.keyring.holders and (what := waiting_for()) else {}
    await exchange.send_json({"status": status, "prepared": service.prepared, **loading, **waiting})


async def ready(service: Service, exchange: Exchange) -> None:
    """Report whether requests are answered without delay: 503 while models load and while the server shuts down."""
    service.admission.check_open()
    if not service.prepared:
        raise Problem(503, "The models are being loaded.", "server_error", code="not_ready", headers=retry_after(1))
    await exchange.send_json(
        {"status": "ready", "running": service.admission.running, "waiting": service.admission.waiting}
    )


async def metrics(service: Service, exchange: Exchange) -> None:
    """Respond with the Prometheus metrics. Raises `Problem` (403) for one of several keys that may not read them."""
    if service.keyring.has_several and not exchange.holder.metrics:
        raise Problem(
            403,
            f"The counters cover the requests of all keys, and {exchange.holder.name} may not read them. "
            "The owner of the server can set metrics = true for a key.",
            code="metrics_not_allowed",
        )
    body, kind = await service.metrics.shown(exchange.headers)
    await exchange.send_bytes(body, kind)


def routing(read: Read) -> Any:
    """Return a handler that responds with the route of a request, and generates nothing."""

    async def route(service: Service, exchange: Exchange) -> None:
        service.admission.check_open()
        body = await read_object(exchange.receive, exchange.headers, service.options)
        ask = (await read_by(read, body, service, exchange)).asks[0]
        try:
            async with exchange.attended(), service.admission.admitted(exchange.holder, exchange.end):
                found = await ask.served.client.route(ask.prompt, **ask.options)
        except StrettoError as error:
            raise of_error(error) from error
        await exchange.send_json(found.model_dump(mode="json"))

    return route
