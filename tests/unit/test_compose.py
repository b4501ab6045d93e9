"""compose/compose.yaml runs the programs that bin/up runs, closed to everything that they do not need."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from jobs.classes import CONTROL, declared, stop_grace_seconds
from stack.embedded import POSTGRES_SETTINGS
from stack.programs import ROOT, Places, Plan, app_programs
from stack.supervision import Program

COMPOSE_FILE = ROOT / "compose/compose.yaml"
SERVERS = {"postgres", "valkey"}
SECRETS = ("POSTGRES_PASSWORD", "VALKEY_PASSWORD", "FLOWER_PASSWORD", "WEIGHBRIDGE_SECRET_KEY")
# ${NAME:-default} and ${NAME:?sentence}; the file uses no other forms.
VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>\w+):(?P<kind>[-?])(?P<text>[^}]*)\}")


def programs() -> dict[str, Program]:
    classes = {name: cost_class.processes for name, cost_class in declared().items()}
    graces = {name: stop_grace_seconds(name) for name in [*classes, CONTROL]}
    plan = Plan(classes, settings.WEIGHBRIDGE_WEB_PROCESSES, graces)
    places = Places(Path("/data"), web_port=8000, flower_port=5555, flower_password="secret")
    return {program.name: program for program in app_programs(plan, places)}


def in_a_container(word: str) -> str:
    """A word of a program's command as a container says it: there, other containers are let in."""
    return word.replace(sys.executable, "python").replace(str(ROOT), "/app").replace("127.0.0.1", "0.0.0.0")


def parsed(text: str) -> dict[str, Any]:
    import yaml

    return dict(yaml.safe_load(text))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The file with every default filled in, and `secret` for every required variable."""
    return parsed(
        VARIABLE.sub(lambda found: found["text"] if found["kind"] == "-" else "secret", COMPOSE_FILE.read_text())
    )


def seconds(duration: str) -> int:
    assert re.fullmatch(r"\d+s", duration), f"{duration} is not a number of seconds"
    return int(duration[:-1])


def test_the_services_are_the_programs_the_servers_and_the_migration(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == {*programs(), *SERVERS, "migrate"}


def test_each_service_runs_the_command_of_its_program(compose: dict[str, Any]) -> None:
    for name, program in programs().items():
        assert compose["services"][name]["command"] == [in_a_container(word) for word in program.command]


def test_each_service_is_given_as_long_to_stop_as_its_program(compose: dict[str, Any]) -> None:
    for name, program in programs().items():
        assert seconds(compose["services"][name]["stop_grace_period"]) >= program.stop_wait_seconds, name


def test_a_program_gets_its_own_environment_too(compose: dict[str, Any]) -> None:
    for name, program in programs().items():
        assert program.environment.items() <= compose["services"][name]["environment"].items()


def test_every_service_is_locked_down_and_comes_back_but_the_migration(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["restart"] == ("no" if name == "migrate" else "unless-stopped")
        assert service.get("init", False) is (name not in SERVERS)
        assert name not in SERVERS or service["user"] == name


def test_everything_that_can_be_asked_has_a_health_check(compose: dict[str, Any]) -> None:
    silent = {name for name, service in compose["services"].items() if "healthcheck" not in service}
    assert silent == {"migrate", "beat"}


def test_only_the_web_is_published_and_only_to_this_machine(compose: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert published == {"web": ["127.0.0.1:8000:8000"]}


def test_the_programs_wait_for_the_migration_and_the_servers(compose: dict[str, Any]) -> None:
    for name in programs():
        conditions = {other: rule["condition"] for other, rule in compose["services"][name]["depends_on"].items()}
        assert conditions == {
            "migrate": "service_completed_successfully",
            "postgres": "service_healthy",
            "valkey": "service_healthy",
        }


def test_web_and_workers_count_into_one_directory_that_begins_empty(compose: dict[str, Any]) -> None:
    for name in programs():
        service = compose["services"][name]
        counts = name == "web" or name.startswith("worker-")
        assert (service["environment"].get("PROMETHEUS_MULTIPROC_DIR") == "/metrics") is counts
        assert ("metrics:/metrics" in service["volumes"]) is counts
    assert compose["volumes"]["metrics"]["driver_opts"]["type"] == "tmpfs"


def test_the_database_is_set_up_like_the_embedded_one(compose: dict[str, Any]) -> None:
    embedded = dict(line.split(" = ") for line in POSTGRES_SETTINGS.splitlines() if not line.startswith("#"))
    wanted = ["max_connections", "log_min_error_statement", "log_error_verbosity", "log_parameter_max_length_on_error"]
    command = compose["services"]["postgres"]["command"]
    assert command == ["postgres", *(f"--{name}={embedded[name]}" for name in wanted)]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_required_wherever_it_is_used_and_a_sentence_asks_for_it(secret: str) -> None:
    uses = [found for found in VARIABLE.finditer(COMPOSE_FILE.read_text()) if found["name"] == secret]
    assert uses
    for use in uses:
        assert use["kind"] == "?"
        assert re.fullmatch(rf"Set {secret} .*\.", use["text"])


def test_the_image_gets_what_it_copies_and_does_not_run_as_root() -> None:
    lines = (ROOT / "compose/Dockerfile").read_text().splitlines()
    copied = {line.split()[1] for line in lines if line.startswith("COPY ") and "--from" not in line}
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)
    assert [line for line in lines if line.startswith("USER ")] == ["USER 10001:10001"]


def docker_compose_config(folder: Path, environment_file: str) -> subprocess.CompletedProcess[str]:
    """What docker-compose makes of a copy with this .env; of our own environment it sees only the path."""
    for name in ("compose.yaml", "settings.env"):
        shutil.copy(COMPOSE_FILE.with_name(name), folder)
    (folder / ".env").write_text(environment_file)
    return subprocess.run(
        ["docker-compose", "-f", str(folder / "compose.yaml"), "config"],
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )


needs_docker_compose = pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not there")


@needs_docker_compose
def test_docker_compose_reads_it_as_we_do(tmp_path: Path, compose: dict[str, Any]) -> None:
    done = docker_compose_config(tmp_path, "".join(f"{name}=secret\n" for name in SECRETS))
    assert done.returncode == 0, done.stderr
    services = parsed(done.stdout)["services"]
    assert {name: service["command"] for name, service in services.items()} == {
        name: service["command"] for name, service in compose["services"].items()
    }


@needs_docker_compose
@pytest.mark.parametrize("missing", SECRETS)
def test_docker_compose_asks_for_a_missing_secret(tmp_path: Path, missing: str) -> None:
    done = docker_compose_config(tmp_path, "".join(f"{name}=secret\n" for name in SECRETS if name != missing))
    assert done.returncode != 0
    assert f"Set {missing} in compose/.env" in done.stderr
