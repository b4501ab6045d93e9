"""The published schema of the HTTP API (OpenAPI 3.1), put together from a description of each route.

How to add a route: describe its methods as Operations in the file of their kind (`of_jobs.py`, `of_files.py`, …; a new kind gets a file of its
own and a line in `operations.py`). What it answers is a model in `shapes.py`; a new problem is a line in `problems.py`, a new header one in
`headers.py`. The tests say what was forgotten: they compare the descriptions with the routes and scopes of the code, and hold every
answer that any test gets against them.

    parts       what an operation is described with
    shapes      bodies of answers (shapes_of_classes: of what there is)          problems  every error
    headers     of requests and answers    params    the params of each job type
    of_…        the operations             document  all of it as one OpenAPI document
"""
