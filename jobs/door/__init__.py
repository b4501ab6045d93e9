"""The one door: what is asked of a job before there is one, and in which order (P7). Whoever submits comes through here: the API, `jobs.submit`, the outbox.

    forms      what may be said of a job, as a pydantic model; whatever its type
    invalid    what no job can be made of: a code, a sentence, and the places
    asking     what was asked, and the submission that is made of it
    weighing   its params, cost class and limits
    idempotency, quotas
               a key that was used before; how often a client may submit
    entrance   the checks in their order, and admission
    refusals   every way to be refused: its code, status, title and sentence

Decided under the locks, in the database: `jobs.admission` and `jobs.batches.admission`.
"""
