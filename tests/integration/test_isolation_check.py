"""P1 on the server: what a transaction is by default there."""

import pytest
from django.db import connection

from jobs.checks import transactions_see_what_was_committed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_a_database_with_another_default_is_refused(level: str) -> None:
    assert transactions_see_what_was_committed(databases=["default"]) == []
    with connection.cursor() as cursor:
        cursor.execute(f"SET default_transaction_isolation = '{level}'")
        (error,) = transactions_see_what_was_committed(databases=["default"])
        cursor.execute("RESET default_transaction_isolation")
    assert error.msg == f"The database begins transactions as {level}; admission needs READ COMMITTED as their default."
