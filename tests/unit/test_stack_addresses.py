"""A server that cannot be reached is told in a sentence that holds no password."""

import pytest

from stack import addresses
from stack.failures import StackError
from stack.ports import free_port


@pytest.mark.parametrize(
    ("variable", "scheme", "product"), [("DATABASE_URL", "postgresql", "PostgreSQL"), ("REDIS_URL", "redis", "Redis")]
)
def test_a_refused_connection_names_product_place_and_variable(variable: str, scheme: str, product: str) -> None:
    port = free_port()
    with pytest.raises(StackError) as failure:
        addresses.must_answer(variable, f"{scheme}://someone:hidden@127.0.0.1:{port}/x")
    assert str(failure.value) == f"{product} at 127.0.0.1:{port} ({variable}) does not answer: connection refused."


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://u:hidden@no-such-host.invalid/x", "the host name is not known"),
        ("postgresql://u:hidden@h:port/x", "must be postgresql://user:password@host:port/name"),
        ("postgresql://u:hidden@h:70000/x", "must be postgresql://user:password@host:port/name"),
        ("mysql://u:hidden@127.0.0.1:5432/x", "must be a URL that begins with postgresql://"),
        ("//u:hidden@[::1/x", "must be postgresql://user:password@host:port/name"),
        ("hidden", "must be a URL that begins with postgresql://"),
    ],
)
def test_other_unusable_addresses_give_a_sentence_too(url: str, says: str) -> None:
    with pytest.raises(StackError) as failure:
        addresses.must_answer("DATABASE_URL", url)
    assert says in str(failure.value)
    assert "hidden" not in str(failure.value)


def test_waiting_ends_with_the_first_good_answer_or_the_last_trouble() -> None:
    answers = iter(["starting", "starting", None])
    assert addresses.wait_until_well(lambda: next(answers), 10.0) is None
    assert addresses.wait_until_well(lambda: "still down", 0.1) == "still down"
