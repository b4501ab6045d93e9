"""arrays.convolve: both of its ways are the sum that the definition says, and no file makes it allocate or run what it promises."""

import io
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from django.conf import settings

from workers.catalog import convolution
from workers.catalog.npy_limits import MAX_ELEMENTS, MAX_RESULT_ELEMENTS
from workers.testing import Ran, run, upload_id

ARRAY, KERNEL = upload_id(1), upload_id(2)


def npy(array: Any, **how: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **how)
    return file.getvalue()


def convolve(array: Any, kernel: Any, mode: str = "full") -> Ran:
    files = {
        name: content if isinstance(content, bytes) else npy(content)
        for name, content in ((ARRAY, array), (KERNEL, kernel))
    }
    return run("arrays.convolve", {"array": ARRAY, "kernel": KERNEL, "mode": mode}, uploads=files)


def result(ran: Ran) -> Any:
    assert ran.state == "succeeded", ran
    return np.load(io.BytesIO(ran.artifacts["convolved.npy"].data), allow_pickle=False)


def by_definition(array: Any, kernel: Any) -> Any:
    """Each element of the one times each of the other, added where their places add up to."""
    found = np.zeros([a + b - 1 for a, b in zip(array.shape, kernel.shape, strict=True)])
    for one in itertools.product(*map(range, array.shape)):
        for other in itertools.product(*map(range, kernel.shape)):
            found[tuple(a + b for a, b in zip(one, other, strict=True))] += array[one] * kernel[other]
    return found


def some(*shape: int) -> Any:
    return np.random.default_rng(seed=sum(shape)).normal(size=shape)


SHAPES = [
    ((7,), (3,)),
    ((3,), (7,)),
    ((1,), (1,)),
    ((100,), (90,)),
    ((9, 8), (2, 3)),
    ((2, 9), (7, 3)),
    ((4, 5, 6), (3, 3, 2)),
]


@pytest.mark.parametrize("way", ["direct", "fft"])
@pytest.mark.parametrize(("one", "other"), SHAPES)
def test_both_ways_are_the_definition_within_a_billionth(
    one: Any, other: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convolution, "is_direct", lambda *sizes: way == "direct")
    array, kernel = some(*one), some(*other)
    ran = convolve(array, kernel)
    assert ran.result["method"] == way
    assert np.abs(result(ran) - by_definition(array, kernel)).max() < 1e-9


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("kernel_size", [1, 2, 3, 40])
def test_the_modes_are_numpys(mode: Any, kernel_size: int) -> None:
    array, kernel = some(50), some(kernel_size)
    assert np.allclose(result(convolve(array, kernel, mode)), np.convolve(array, kernel, mode), atol=1e-12)


def test_same_is_as_large_as_the_array_also_under_a_larger_kernel() -> None:
    assert result(convolve(some(3, 4), some(9, 9), "same")).shape == (3, 4)


def test_a_small_kernel_goes_the_direct_way_and_a_large_one_by_transforms() -> None:
    assert convolve(some(1000), some(5)).result["method"] == "direct"
    assert convolve(some(1000), some(500)).result["method"] == "fft"


def test_what_comes_out_is_told() -> None:
    ran = convolve(np.ones((4, 4)), np.ones((2, 2)))
    told = dict(ran.result)
    assert told.pop("sum") == pytest.approx(64)
    size = len(ran.artifacts["convolved.npy"].data)
    assert told == {"shape": [5, 5], "dtype": "float64", "method": "direct", "bytes": size}


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", "<f2", "<i4", ">i2", "u1", "?"])
def test_any_real_type_and_order_is_read(kind: str) -> None:
    array = np.asfortranarray(np.arange(12).reshape(3, 4) % 2, kind)
    assert np.array_equal(result(convolve(array, np.ones((1, 1)))), array.astype(float))


@pytest.mark.parametrize("least", [1, 2, 7, 97, 1025, 100_003])
def test_transforms_are_of_a_quick_size_that_is_not_too_small(least: int) -> None:
    size = convolution._quick_size(least)
    assert least <= size < 1.2 * least + 1
    for factor in (2, 3, 5):
        while size % factor == 0:
            size //= factor
    assert size == 1


# ── Files that strangers made ────────────────────────────────────────────────────────────────────────────────────────


class Evil:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("it was run",))


def header(text: str, data: bytes = b"") -> bytes:
    raw = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + data


def shaped(shape: str, data: bytes = b"", kind: str = "<f8") -> bytes:
    return header(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}", data)


def _objects() -> bytes:
    array = np.empty(1, object)
    array[0] = Evil()
    return npy(array, allow_pickle=True)


BAD = {
    "nothing": b"",
    "text": b"1,2,3",
    "a pickle": pickle.dumps(Evil()),
    "objects": _objects(),
    "a zip of arrays": b"PK\x03\x04",
    "half a header": npy(np.ones(3))[:20],
    "a header that is code": header("__import__('os')"),
    "a header of brackets": header("[" * 100),
    "a version of the future": b"\x93NUMPY\x09\x00\x00\x00",
    "a long header": b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little"),
    "a petabyte": shaped("(1000000, 1000000, 100)"),
    "less than it says": shaped("(3,)", b"\0" * 16),
    "more than it says": shaped("(1,)", b"\0" * 16),
    "a negative shape": shaped("(-1,)"),
    "two negatives": shaped("(-1, -1)", b"\0" * 8),
    "no dimension": npy(np.float64(3)),
    "no element": npy(np.ones((0, 3))),
    "four dimensions": npy(np.ones((1, 1, 1, 1))),
    "complex numbers": npy(np.ones(3, complex)),
    "words": npy(np.array(["a"])),
    "instants": npy(np.array(["2026-01-01"], "M8[D]")),
    "records": npy(np.zeros(2, [("a", "f8")])),
    "no number": npy(np.array([1, np.nan])),
    "an infinity": npy(np.array([1, np.inf])),
    "too many": shaped("(4194305,)", kind="|u1"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_is_no_array_of_finite_numbers_is_refused_in_a_sentence(kind: str) -> None:
    ran = convolve(some(3), BAD[kind])
    assert (ran.state, ran.error_code) == ("failed", "bad_array"), ran.exception
    assert ran.error_message.startswith("The kernel ")
    assert ran.artifacts == {}


@pytest.mark.parametrize(
    ("array", "kernel", "mode", "code"),
    [
        (some(3), some(3, 3), "full", "bad_shapes"),
        (some(3), some(4), "valid", "bad_shapes"),
        (some(9, 2), some(2, 9), "valid", "bad_shapes"),
        (np.zeros((4000, 1), "u1"), np.zeros((1, 4000), "u1"), "full", "bad_shapes"),
        (np.full(3, 1e308), np.full(3, 1e308), "full", "too_large_numbers"),
    ],
)
def test_what_cannot_be_convolved_is_told(array: Any, kernel: Any, mode: str, code: str) -> None:
    assert convolve(array, kernel, mode).error_code == code


def test_the_largest_result_fits_the_largest_artifact() -> None:
    assert 8 * MAX_RESULT_ELEMENTS + 256 <= settings.WEIGHBRIDGE_MAX_ARTIFACT_BYTES
    assert MAX_ELEMENTS <= MAX_RESULT_ELEMENTS
