"""Job type `reports.statistics` (heavy): what a CSV file's numeric columns are like, in figures and as a chart."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from workers import JobContext, UploadId, job
from workers.catalog.csv_table import MAX_COLUMNS, MAX_ROWS, MISSING, read_table

_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t"}


class StatisticsParams(BaseModel):
    """Which file, and how its fields are set apart."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: UploadId = Field(
        description=(
            f"An upload: a CSV file in UTF-8 whose first line names its columns, at most {MAX_COLUMNS} of them and {MAX_ROWS:,} rows."
            f" A field counts as missing if it is one of {', '.join(repr(text) for text in sorted(MISSING))}."
        )
    )
    delimiter: str = Field(
        default="comma", pattern=f"^({'|'.join(_DELIMITERS)})$", description=f"One of {', '.join(_DELIMITERS)}."
    )
    chart: bool = Field(default=True, description="Whether to draw chart.png, a histogram of each numeric column.")


@job(
    "reports.statistics",
    cost_class="heavy",
    params=StatisticsParams,
    example={"file": "0193f2b4-7a51-7c3e-9d2a-5b1f0c8e6d42", "delimiter": "comma"},
)
def statistics(ctx: JobContext[StatisticsParams]) -> dict[str, Any]:
    """Describe the numeric columns of a CSV file, in figures and as a chart.

    Returns {"rows", "columns": of each column {"name", "numeric", "count", "missing"}, and of a numeric one also {"mean", "std", "min", "q25",
    "median", "q75", "max"}}; std is that of a sample, null for fewer than two values. The same as table in statistics.csv, and chart.png.
    """
    from workers.catalog.csv_summary import draw, summary, write

    with ctx.open_upload(ctx.params.file) as file:
        table = read_table(file, _DELIMITERS[ctx.params.delimiter], lambda rows: _go_on(ctx, rows))
    ctx.progress(0.6, f"{table.rows} rows are read")
    columns = [summary(column) for column in table.columns]
    with ctx.artifacts.create("statistics.csv", "text/csv; charset=utf-8") as csv_file:
        write(columns, csv_file)
    numeric = [column for column in table.columns if column.numeric]
    if ctx.params.chart and numeric:
        ctx.progress(0.7, "drawing")
        with ctx.artifacts.create("chart.png", "image/png") as chart:
            draw(numeric, chart)
    return {"rows": table.rows, "columns": columns}


def _go_on(ctx: JobContext[StatisticsParams], rows: int) -> None:
    """Between rows. How many there will be is not known, so what is shown nears its end ever more slowly."""
    ctx.check()
    ctx.progress(0.6 * rows / (rows + 100_000), f"{rows} rows are read")
