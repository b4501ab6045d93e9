"""Job type `arrays.convolve` (heavy): the discrete convolution of two uploaded arrays, as a .npy file."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from workers import JobContext, UploadId, job
from workers.catalog.npy_limits import MAX_DIMENSIONS, MAX_ELEMENTS

_FILE = f"An upload: a .npy file of real numbers, 1 to {MAX_DIMENSIONS} dimensions and at most {MAX_ELEMENTS:,} elements, all of them finite."


class ConvolveParams(BaseModel):
    """Two arrays with the same number of dimensions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    array: UploadId = Field(description=_FILE)
    kernel: UploadId = Field(description=f"The same, for the kernel. {_FILE}")
    mode: Literal["full", "same", "valid"] = Field(
        default="full",
        description=(
            "full: every place where the two overlap; same: of that the middle, as large as the array; valid: where the kernel, which must"
            " be no larger than the array, lies wholly inside."
        ),
    )


@job(
    "arrays.convolve",
    cost_class="heavy",
    params=ConvolveParams,
    example={
        "array": "0193f2b4-7a51-7c3e-9d2a-5b1f0c8e6d42",
        "kernel": "0193f2b4-7b02-7d11-8a40-2c9e1d7f3b56",
        "mode": "same",
    },
)
def convolve(ctx: JobContext[ConvolveParams]) -> dict[str, Any]:
    """Convolve an array with a kernel.

    Returns {"shape", "dtype": "float64", "method": "direct" or "fft", "sum", "bytes"}, and the array in convolved.npy.
    """
    from workers.catalog.convolution import convolved, read_array, write_array

    with ctx.open_upload(ctx.params.array) as file:
        array = read_array(file, "array")
    with ctx.open_upload(ctx.params.kernel) as file:
        kernel = read_array(file, "kernel")
    ctx.progress(0.3, "both arrays are read")
    found, method = convolved(array, kernel, ctx.params.mode, ctx.check)
    ctx.progress(0.9, "writing")
    with ctx.artifacts.create("convolved.npy", "application/x-npy") as file:
        size = write_array(found, file)
    return {"shape": list(found.shape), "dtype": "float64", "method": method, "sum": float(found.sum()), "bytes": size}
