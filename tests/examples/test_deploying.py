"""The files of examples/deploying: they can be read, fit together, and ask for metrics that there are."""

import json
import re
from pathlib import Path

import httpx
import pytest
import yaml
from typer.main import get_command

from stretto import AsyncStretto
from stretto.cli.app import app as commands
from stretto.server import create_app
from stretto.testing import ScriptedBackend

FOLDER = Path(__file__).parents[2] / "examples" / "deploying"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
OBJECTS = {
    (each["kind"], each["metadata"]["name"]): each
    for each in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8"))
}
BOARD = json.loads((FOLDER / "grafana" / "stretto.json").read_text(encoding="utf-8"))
FUNCTIONS = {"sum", "rate", "histogram_quantile", "by"}
LAST_S = 5  # what the server takes at most after --drain


def pod(name):
    return OBJECTS["Deployment", name]["spec"]["template"]["spec"]


def served(arguments):
    """The options of a start line of `stretto serve`, read by the program itself."""
    assert arguments[0] == "serve"
    serve = get_command(commands).commands["serve"]
    return serve.make_context("serve", list(arguments[1:])).params


def names_in(expression):
    """The metrics that an expression of Prometheus asks for."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\bby \([^)]*\)", " ", expression)
    return set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", bare)) - FUNCTIONS


@pytest.mark.anyio
async def test_every_metric_of_the_dashboard_is_one_that_the_server_gives():
    async with AsyncStretto(ScriptedBackend({"": "Yes."})) as client:
        transport = httpx.ASGITransport(create_app(client, environ={}))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            asked = {"model": "stretto", "messages": [{"role": "user", "content": "Why?"}]}
            assert (await http.post("/v1/chat/completions", json=asked)).status_code == 200
            shown = (await http.get("/metrics")).text
    types = dict(re.findall(r"^# TYPE (\S+) (\w+)$", shown, re.MULTILINE))  # lines with labels come with a first count
    parts = {name: ("_bucket", "_sum", "_count") if kind == "histogram" else ("",) for name, kind in types.items()}
    given = {name + part for name in parts for part in parts[name]}
    wanted = {name for panel in BOARD["panels"] for target in panel["targets"] for name in names_in(target["expr"])}
    assert len(wanted) > 15
    assert wanted - given == set()


def test_panels_do_not_lie_on_each_other_and_each_has_its_own_number():
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in BOARD["panels"]}
    assert len(places) == len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_prometheus_looks_where_the_services_of_the_compose_file_listen():
    jobs = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    hosts = {target.partition(":")[0] for job in jobs for each in job["static_configs"] for target in each["targets"]}
    assert hosts <= set(COMPOSE["services"])
    secrets = {Path(job["authorization"]["credentials_file"]).name for job in jobs if "authorization" in job}
    assert secrets <= set(COMPOSE["services"]["prometheus"]["secrets"]) <= set(COMPOSE["secrets"])


def test_the_compose_file_starts_a_server_that_the_program_understands():
    service = COMPOSE["services"]["stretto"]
    options = served(service["command"])
    assert options["base_url"] == "http://vllm:8000/v1"
    assert options["shared"] == "redis://redis:6379/0"
    assert Path(options["keys"]).name in service["secrets"]
    assert int(service["stop_grace_period"].removesuffix("s")) >= options["drain"] + LAST_S
    assert f"--model={options['model'][0].removeprefix('vllm:')}" in COMPOSE["services"]["vllm"]["command"]


def test_only_this_machine_reaches_the_ports_of_the_compose_file():
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_files_that_the_compose_file_names_are_there():
    named = [
        volume.partition(":")[0]
        for service in COMPOSE["services"].values()
        for volume in service.get("volumes", ())
        if volume.startswith("./")
    ]
    assert len(named) == 4
    assert all((FOLDER / name).is_file() for name in named)
    assert (FOLDER / "Dockerfile").is_file()


def test_the_probes_of_kubernetes_ask_paths_of_the_server():
    (container,) = pod("stretto")["containers"]
    port = served(container["args"])["port"]
    assert [each["containerPort"] for each in container["ports"]] == [port]
    asked = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
    assert asked == {"startupProbe": "/health", "readinessProbe": "/ready", "livenessProbe": "/health"}


def test_kubernetes_waits_for_answers_under_way_before_it_ends_a_pod():
    (container,) = pod("stretto")["containers"]
    waits_s = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    drains_s = served(container["args"])["drain"]
    assert pod("stretto")["terminationGracePeriodSeconds"] >= waits_s + drains_s + LAST_S


@pytest.mark.parametrize("name", ["stretto", "redis", "vllm"])
def test_a_service_of_kubernetes_leads_to_the_pods_of_its_deployment(name):
    deployment, service = OBJECTS["Deployment", name]["spec"], OBJECTS["Service", name]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    ports = {each["name"] for container in pod(name)["containers"] for each in container["ports"]}
    assert {each["targetPort"] for each in service["ports"]} <= ports


def test_what_the_server_of_kubernetes_calls_is_a_service_there():
    (container,) = pod("stretto")["containers"]
    options = served(container["args"])
    for host, port in re.findall(r"//([a-z]+):(\d+)", f"{options['base_url']} {options['shared']}"):
        assert int(port) in [each["port"] for each in OBJECTS["Service", host]["spec"]["ports"]]
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert str(options["keys"]).startswith(mounted["keys"])
