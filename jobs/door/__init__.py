"""The door: what is asked of a job before there is one. Whoever submits comes in by `jobs.entrance`, which asks it in its order (P7): the API, `jobs.submit`, the outbox.

    forms      what may be said of a job, as a pydantic model; whatever its type
    invalid    what no job can be made of: a code, a sentence, and the places
    submission a job on its way in: what it says of itself, and what admission is asked for
    asking     what was asked, and the submission that is made of it
    weighing   its params, cost class and limits
    idempotency, quotas
               a key that was used before; how often a client may submit
    refusals   every way to be refused: its code, status, title and sentence

Decided under the locks, in the database: `jobs.admission` and `jobs.batches.admission`. They know the door, and it knows neither.
"""
