"""Reading .npy files that strangers made, and the convolution of two arrays: directly where one is small, else by Fourier transforms."""

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.lib import format as npy

from workers.catalog.npy_limits import MAX_DIMENSIONS, MAX_ELEMENTS, MAX_RESULT_ELEMENTS
from workers.failures import Fail

Array = Any  # numpy.ndarray of float64
LONGEST_HEADER = 10_000  # bytes
# A step of the direct way multiplies and adds the whole array: 1.4 to 2.1 ns an element were measured. The three transforms took 3.5 to 4.4 ns an element
# for each doubling of their number, from 10⁵ elements on. So up to about so many steps for each doubling the direct way is the quicker one.
_STEPS_PER_DOUBLING = 2.0


def read_array(file: BinaryIO, what: str) -> Array:
    """As float64. Raises Fail (bad_array), before anything is allocated, for a header that promises too much or what could be code."""
    try:
        shape, in_columns, kind = _header(file)
    except Exception as error:  # NumPy has Python's own tokenizer look at it, which raises what it likes
        raise _bad(what, f"is no .npy file: {str(error)[:200]}") from None
    _check(shape, kind, what)
    elements = math.prod(shape)
    raw = file.read(elements * kind.itemsize + 1)
    if len(raw) != elements * kind.itemsize:
        less = len(raw) < elements * kind.itemsize
        raise _bad(what, f"holds {'fewer' if less else 'more'} elements than its shape {shape} says")
    array = np.frombuffer(raw, kind).reshape(shape, order="F" if in_columns else "C").astype(np.float64)
    if not np.isfinite(array).all():
        raise _bad(what, "holds an element that is infinite or no number")
    return array


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, Any]:
    version = npy.read_magic(file)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"its version {version} is not read here")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read(file, max_header_size=LONGEST_HEADER)


def _check(shape: tuple[int, ...], kind: Any, what: str) -> None:
    if kind.hasobject or kind.kind not in "buif":
        raise _bad(what, f"is of type {kind}; real numbers are taken, and no objects")
    if not 1 <= len(shape) <= MAX_DIMENSIONS:
        raise _bad(what, f"has {len(shape)} dimensions; 1 to {MAX_DIMENSIONS} are taken")
    if not 1 <= math.prod(shape) <= MAX_ELEMENTS or min(shape) < 1:
        raise _bad(what, f"has the shape {shape}; 1 to {MAX_ELEMENTS} elements are taken")


def _bad(what: str, why: str) -> Fail:
    return Fail("bad_array", f"The {what} {why}.")


def convolved(
    array: Array, kernel: Array, mode: Literal["full", "same", "valid"], check: Callable[[], None]
) -> tuple[Array, str]:
    """The convolution, and by which method. Raises Fail (bad_shapes), and what `check` does, which is called between steps."""
    full = _full_shape(array, kernel, mode)
    direct = is_direct(array.size, kernel.size, full)
    with np.errstate(all="ignore"):  # what overflows is seen below
        found = (_direct if direct else _by_transforms)(array, kernel, full, check)
    if not np.isfinite(found).all():
        raise Fail("too_large_numbers", "The convolution holds numbers that are beyond all doubles.")
    return np.ascontiguousarray(found[_cut(array.shape, kernel.shape, full, mode)]), "direct" if direct else "fft"


def _full_shape(array: Array, kernel: Array, mode: str) -> tuple[int, ...]:
    if array.ndim != kernel.ndim:
        raise Fail(
            "bad_shapes", f"The array has {array.ndim} dimensions and the kernel {kernel.ndim}; they must be alike."
        )
    pairs = list(zip(array.shape, kernel.shape, strict=True))
    if mode == "valid" and any(inner > outer for outer, inner in pairs):
        raise Fail(
            "bad_shapes", f"The kernel {kernel.shape} is larger than the array {array.shape}; so nothing is valid."
        )
    full = tuple(outer + inner - 1 for outer, inner in pairs)
    if math.prod(full) > MAX_RESULT_ELEMENTS:
        raise Fail(
            "bad_shapes", f"The result would have the shape {full}; at most {MAX_RESULT_ELEMENTS} elements are made."
        )
    return full


def is_direct(array_size: int, kernel_size: int, full: tuple[int, ...]) -> bool:
    """Whether the direct way is the quicker one."""
    return min(array_size, kernel_size) <= _STEPS_PER_DOUBLING * math.log2(math.prod(full) + 1)


def _direct(array: Array, kernel: Array, full: tuple[int, ...], check: Callable[[], None]) -> Array:
    """For each element of the smaller one the larger one, moved there and weighted."""
    large, small = (array, kernel) if array.size >= kernel.size else (kernel, array)
    found = np.zeros(full)
    for place in itertools.product(*map(range, small.shape)):
        check()
        found[tuple(slice(at, at + size) for at, size in zip(place, large.shape, strict=True))] += small[place] * large
    return found


def _by_transforms(array: Array, kernel: Array, full: tuple[int, ...], check: Callable[[], None]) -> Array:
    padded = [_quick_size(size) for size in full]
    axes = list(range(len(full)))
    spectrum = np.fft.rfftn(array, padded, axes)
    check()
    spectrum *= np.fft.rfftn(kernel, padded, axes)
    check()
    return np.fft.irfftn(spectrum, padded, axes)[tuple(map(slice, full))]


def _quick_size(least: int) -> int:
    """The smallest number from there on that is a product of twos, threes and fives: their transforms are the quick ones."""
    exponents = range(least.bit_length())
    return min(_doubled(5**fives * 3**threes, least) for fives in exponents for threes in exponents)


def _doubled(number: int, least: int) -> int:
    return number << max(0, math.ceil(math.log2(least / number)))


def _cut(outer: tuple[int, ...], inner: tuple[int, ...], full: tuple[int, ...], mode: str) -> tuple[slice, ...]:
    if mode == "full":
        return tuple(map(slice, full))
    if mode == "same":
        return tuple(slice((b - 1) // 2, (b - 1) // 2 + a) for a, b in zip(outer, inner, strict=True))
    return tuple(slice(b - 1, a) for a, b in zip(outer, inner, strict=True))


def write_array(array: Array, file: BinaryIO) -> int:
    """As .npy; its size in bytes."""
    npy.write_array(file, array, allow_pickle=False)
    return file.tell()
