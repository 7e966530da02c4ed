"""What is shipped: the files of the built wheels, what they import, and what a package index shows."""

import ast
import re
import subprocess
import sys
from email import message_from_bytes
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest

from stretto.local_engine.pocket import MODELS

pytestmark = pytest.mark.thorough  # it is built
SOURCE = Path(__file__).parents[1]
MOST_BYTES = 3_000_000
MOST_BYTES_UNPACKED = 5_500_000
MOST_BYTES_OF_WEIGHTS = 27_000_000  # the pocket model with its adapters, and what two others change of it
TRAINING = (
    "recipes/lexical/train.py",
    "recipes/pocket/data/",
    "recipes/pocket/train.py",
    "recipes/router/data/",
    "recipes/router/train.py",
)


def built(folder, source):
    """A wheel, built from this tree with the build tools that are installed: nothing is downloaded."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", folder], cwd=source, check=True
    )
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("wheel"), SOURCE)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """The wheel of the demonstration models."""
    return built(tmp_path_factory.mktemp("weights"), SOURCE / "pocket")


@pytest.fixture(scope="module")
def metadata(wheel):
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def names(wheel):
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_nothing_beside_the_package_and_what_describes_it(wheel):
    assert {PurePosixPath(name).parts[0] for name in names(wheel)} == {"stretto", "stretto-0.1.0.dist-info"}
    assert not {name for name in names(wheel) if "__pycache__" in name or name.endswith((".pyc", ".jsonl"))}


def test_the_wheel_holds_what_the_library_reads_at_run_time(wheel):
    assert {
        "stretto/py.typed",
        "stretto/router/model.npz",
        "stretto/router/lexicon.txt",
        "stretto/backends/known_models.toml",
        "stretto/prices/prices.toml",
        "stretto/backends/resilience/scripts/limits_take.lua",
        "stretto/language/words.toml",
        "stretto/language/lists.toml",
    } <= names(wheel)
    assert any(name.startswith("stretto/prompts/templates/general/") for name in names(wheel))


def test_what_trains_the_models_is_not_in_the_wheel(wheel):
    assert [name for name in sorted(names(wheel)) if name.startswith(TRAINING)] == []


def test_the_wheels_are_small(wheel, weights):
    assert wheel.stat().st_size < MOST_BYTES
    with ZipFile(wheel) as archive:
        assert sum(each.file_size for each in archive.infolist()) < MOST_BYTES_UNPACKED
    assert weights.stat().st_size < MOST_BYTES_OF_WEIGHTS


def test_the_wheel_of_the_weights_holds_files_and_no_code(weights):
    assert {PurePosixPath(name).parts[0] for name in names(weights)} == {
        "stretto_pocket",
        "stretto_pocket-0.1.0.dist-info",
    }
    assert [name for name in names(weights) if name.endswith(".py")] == ["stretto_pocket/__init__.py"]
    assert "stretto_pocket-0.1.0.dist-info/licenses/LICENSE" in names(weights)
    for model in MODELS.values():
        assert f"stretto_pocket/{model}/config.json" in names(weights)


def test_the_modules_of_the_wheel_import_only_modules_of_the_wheel(wheel):
    with ZipFile(wheel) as archive:
        sources = {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in sources}
    missing = {
        f"{name} imports {wanted}"
        for name, source in sources.items()
        for wanted in imported(source, modules)
        if wanted not in modules
    }
    assert missing == set()


def imported(source, modules):
    """The modules of the package that a module imports, wherever it does; a submodule that is imported by name too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "stretto")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "stretto":
            yield node.module
            folder = SOURCE / node.module.replace(".", "/")
            for alias in node.names:
                if (folder / f"{alias.name}.py").is_file() or (folder / alias.name / "__init__.py").is_file():
                    yield f"{node.module}.{alias.name}"


def test_a_reader_of_a_package_index_can_follow_every_link_of_the_readme(metadata):
    shown = metadata.get_payload()
    links = re.findall(r"\]\(([^)\s]+)\)", shown)
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert re.findall(r"""(?:src|href)=["'](?!https://)""", shown) == []


def test_the_links_of_the_readme_lead_to_files_of_the_repository(metadata):
    base = re.compile(
        r"https://(?:github\.com/stretto-ai/stretto/blob|raw\.githubusercontent\.com/stretto-ai/stretto)/main/"
    )
    links = re.findall(r"\]\(([^)\s]+)\)", metadata.get_payload())
    inside = {base.sub("", link).partition("#")[0] for link in links if base.match(link)}
    assert inside
    assert {path for path in inside if not (SOURCE / path).exists()} == set()
    images = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", metadata.get_payload())
    assert [link for link in images if "/blob/" in link] == []


def test_the_plain_install_is_what_the_first_example_needs(metadata):
    plain = {re.match(r"[\w-]+", line)[0] for line in metadata.get_all("Requires-Dist") if "extra ==" not in line}
    assert plain == {
        "anyio",
        "jiter",
        "jsonschema-rs",
        "markdown-it-py",
        "numpy",
        "openai",
        "opentelemetry-api",
        "platformdirs",
        "pydantic",
        "sentencex",
    }


def test_the_extra_all_holds_every_extra_but_ray_and_those_of_developers(metadata):
    of = {extra: set() for extra in metadata.get_all("Provides-Extra")}
    for line in metadata.get_all("Requires-Dist"):
        if extra := re.search(r"extra == '([\w-]+)'", line):
            of[extra[1]].add(re.match(r"[\w.-]+", line)[0])
    others = set(of) - {"all", "dev", "ray", "test"}
    assert of["all"] == set().union(*(of[extra] for extra in others))
    assert of["ray"] - of["all"] == {"ray"}


def test_the_lowest_versions_that_are_promised_are_those_that_are_tested(metadata):
    pins = dict(
        line.split("==")
        for line in (SOURCE / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line and not line.startswith("#")
    )
    promised = {}
    for line in metadata.get_all("Requires-Dist"):
        if (found := re.match(r"([\w-]+)>=([\d.]+)", line)) and "extra == 'dev'" not in line:
            promised[found[1]] = found[2]
    promised.pop("torch")  # constraints-lowest.txt says why
    differing = {name: (low, pins.get(name)) for name, low in promised.items() if not same(low, pins.get(name, ""))}
    assert promised
    assert differing == {}


def same(version, other):
    """Whether two versions are equal but for zeros at the end."""
    return re.sub(r"(\.0)+$", "", version) == re.sub(r"(\.0)+$", "", other)
