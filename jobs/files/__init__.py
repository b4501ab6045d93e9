"""Files: uploads, which callers send for jobs to read, and artifacts, which jobs leave for their callers. Why they are
as they are: docs/decisions/0012-files.md.

    uploads       what a caller sent: kept, found by its client and its jobs, deleted, pruned
    room          how much of them a client may have
    upload_ids    how a job type asks for one, and how its id is found in params; no Django
    artifacts     what an attempt left: begun, finished, listed with its job, pruned
    spool         bytes on their way into the storage, of either kind
    stored_files  the storage itself, and the removal of rows with their files

The views are in jobs/api (uploads, artifacts, downloads, digests), the rows in jobs/models/files.py, what handlers see
in workers (artifacts, uploads), and bodies that come and go on the event loop in project/transfers.py.
"""
