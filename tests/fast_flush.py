"""After a test with real commits its rows are deleted; Django would truncate every table, which takes a file each, and make
permissions anew: 0.25 s a test, on a machine that had other work, against 0.02 s."""

from django.db import connections
from django.test import TransactionTestCase

KEPT = {"django_migrations", "django_content_type", "auth_permission"}  # what the migrations made


def install() -> None:
    setattr(TransactionTestCase, "_fixture_teardown", _delete_all_rows)  # noqa: B010  the stubs do not know it


def _delete_all_rows(case: TransactionTestCase) -> None:
    for alias in case._databases_names(include_mirrors=False):  # type: ignore[attr-defined]
        connection = connections[alias]
        tables = set(connection.introspection.django_table_names(only_existing=True, include_views=False)) - KEPT
        with connection.cursor() as cursor:  # one transaction: foreign keys are looked at when it ends
            cursor.execute("; ".join(f'DELETE FROM "{table}"' for table in sorted(tables)))
