"""ctx.http over TLS: whom it trusts, and for which name."""

import ssl
from pathlib import Path

import pytest

from tests.acceptance.slow_services import Services, answering
from tests.unit.http_calls import client, make_client, pauses, services
from workers import names
from workers.http import Unreachable

__all__ = ["client", "pauses", "services"]

# A certificate that signed itself, for localhost and 127.0.0.1, and its key. For these tests only.
KEY = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg7uTzuFLUAWGGl6Ts
On2Pl50EVKgJ/+CP8zBlAmNQ2VKhRANCAAQn09O7jEay0jl3t4FcZic3CXEk/GF5
CPAHrwZMXCPQX6R98gVi/xfF3pwz4uSGoJGT4uiMxOUgF71SrBEWPjIb
-----END PRIVATE KEY-----
"""
CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUce28uwAT/rpSJ3k8nR0aiEsiCoQwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEzMDA4MjYwNFoYDzIxMjYxMTA2
MDgyNjA0WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQn09O7jEay0jl3t4FcZic3CXEk/GF5CPAHrwZMXCPQX6R98gVi/xfF
3pwz4uSGoJGT4uiMxOUgF71SrBEWPjIbo28wbTAdBgNVHQ4EFgQUqLqxxANkaQcz
uq6aDfNBibmUkXkwHwYDVR0jBBgwFoAUqLqxxANkaQczuq6aDfNBibmUkXkwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDRwAwRAIgKa7ermuRs3BEu387/YS/oaDTqxnhHu13jcC0I++70v4CIDL9
UNdsKraEAcbitoHSHPDDBE840DC2jJ/0+SAs3xMh
-----END CERTIFICATE-----
"""


@pytest.fixture
def encrypted(services: Services, tmp_path: Path) -> str:
    pem = tmp_path / "server.pem"
    pem.write_text(KEY + CERTIFICATE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    url, _ = services.add(answering(), ssl=context)
    return url


def test_a_certificate_nobody_vouches_for_is_refused_once(encrypted, client, pauses):
    with pytest.raises(Unreachable, match="certificate verify failed"):
        client.get(encrypted)
    assert pauses == []


# Answers for any name as if it were this machine's.
HERE = "import json, socket, sys; print(json.dumps([None, socket.getaddrinfo('127.0.0.1', *map(int, sys.argv[2:]))]))"


def test_a_certificate_of_a_trusted_authority_is_taken_and_its_name_checked(encrypted, pauses, monkeypatch):
    monkeypatch.setattr(names, "RESOLVER", HERE)
    trusting = make_client(pauses, tls=lambda: ssl.create_default_context(cadata=CERTIFICATE))
    assert trusting.get(encrypted.replace("127.0.0.1", "localhost")).json() == {"answer": 42}
    with pytest.raises(Unreachable, match="certificate verify failed: Hostname mismatch"):
        trusting.get(encrypted.replace("127.0.0.1", "prices.invalid"))
