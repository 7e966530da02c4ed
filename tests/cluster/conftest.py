import pytest
import ray
import ray_cluster
from ports import reserved_port
from ray import serve

from stretto.integrations.ray_serve import RayOptions, build


@pytest.fixture(scope="session")
def port():
    with reserved_port() as chosen:  # the processes of Ray take many ports
        ray.init(num_cpus=8, num_gpus=0, include_dashboard=False, object_store_memory=200_000_000, log_to_driver=False)
        serve.start(http_options={"host": "127.0.0.1", "port": chosen})
        yield chosen
        serve.shutdown()
        ray.shutdown()


@pytest.fixture(scope="session")
def cluster(port):
    options = RayOptions(engines=2, concurrent_calls=4, cpus=0.2, server_cpus=0.2, engine={"threads": 1}, drain_s=2)
    serve.run(build(options), name="main", route_prefix="/")
    return ray_cluster.Cluster(port, "main", options)


@pytest.fixture
def anyio_backend():
    return "asyncio"
