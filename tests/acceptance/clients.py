"""More clients of a stack than the one that it comes with."""

import hashlib

from stack.local import Stack
from tests.acceptance import records


def make_client(stack: Stack, name: str) -> str:
    """Its key, as `manage.py keys make` would write it, without a second of processor time for each."""
    key = f"wb_of_{name}"
    records.execute(
        stack.database_url,
        f"""
        WITH client AS (INSERT INTO jobs_apiclient (name) VALUES ('{name}') RETURNING id)
        INSERT INTO jobs_apikey (client_id, digest, hint, scopes)
        SELECT id, '{hashlib.sha256(key.encode()).hexdigest()}', '{key[:8]}', '{{jobs:submit,jobs:read}}' FROM client
        """,
    )
    return key
