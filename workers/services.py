"""The services that jobs may call by name, as the operator has set them up:

    WEIGHBRIDGE_SERVICES = {"prices": {"base_url": "http://10.0.0.7:8080/v1", "places": 6}}

`places` is how many calls a machine makes to the service at once. Services that name the same `pool` share its places.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from jobs.ranges import Whole, WrongSetting

SETTING = "WEIGHBRIDGE_SERVICES"
NAME = r"^[A-Za-z0-9_.-]{1,60}$"


@dataclass(frozen=True)
class Service:
    """One entry of the setting: base_url without a slash at its end, and which pool with how many places it uses."""

    base_url: str
    pool: str
    places: int


def services() -> Mapping[str, Service]:
    """The setting, read. Raises WrongSetting."""
    given = getattr(settings, SETTING, {})
    if not isinstance(given, Mapping):
        raise WrongSetting(SETTING, given, "a dictionary of services by name")
    read = {name: _service(name, entry) for name, entry in given.items()}
    places: dict[str, int] = {}
    for name, service in read.items():
        if places.setdefault(service.pool, service.places) != service.places:
            others = f"{places[service.pool]}, as the other services of pool {service.pool!r} say"
            raise WrongSetting(f"{SETTING}[{name!r}]['places']", service.places, others)
    return read


def _service(name: object, entry: Any) -> Service:
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        raise WrongSetting(f"A name in {SETTING}", name, "1 to 60 letters, digits, _, . or -")
    if not isinstance(entry, Mapping) or not {"base_url", "places"} <= entry.keys() <= {"base_url", "places", "pool"}:
        raise WrongSetting(f"{SETTING}[{name!r}]", entry, "a dictionary of base_url, places and, if wanted, pool")
    pool = entry.get("pool", name)
    if not isinstance(pool, str) or not re.fullmatch(NAME, pool):
        raise WrongSetting(f"{SETTING}[{name!r}]['pool']", pool, "1 to 60 letters, digits, _, . or -")
    places = Whole(1, 100).read(f"{SETTING}[{name!r}]['places']", entry["places"])
    return Service(_base_url(name, entry["base_url"]), pool, places)


def _base_url(name: str, given: object) -> str:
    wanted = "an http:// or https:// address without query and fragment"
    setting = f"{SETTING}[{name!r}]['base_url']"
    if not isinstance(given, str) or not given.isprintable():
        raise WrongSetting(setting, given, wanted)
    try:
        parts = urlsplit(given)
        _ = parts.port
    except ValueError:
        raise WrongSetting(setting, given, wanted) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or " " in given:
        raise WrongSetting(setting, given, wanted)
    return given.rstrip("/")
