"""How large the arrays of arrays.convolve may be. Apart from what computes, since the web describes the type and needs no NumPy for it."""

MAX_DIMENSIONS = 3
MAX_ELEMENTS = 4_194_304  # 32 MiB as float64; two of them take a second
MAX_RESULT_ELEMENTS = 8_388_000  # 64 MiB as float64, the most that an artifact may be unless the settings say otherwise
