"""The text of database objects. A name carries its version; a file here is never changed once released."""

from pathlib import Path

from django.db import migrations


def sql(name: str) -> str:
    return (Path(__file__).parent / f"{name}.sql").read_text()


def function(name: str) -> migrations.RunSQL:
    return migrations.RunSQL(sql(name), f"DROP FUNCTION {name}")
