"""The control plane: what is true about a job.

Where what is, by what it is for:

    a job           states (the six, and the moves between them), models; lifecycle/ is the only writer of a state after the first
    declared        classes (cost classes), registry (job types); ranges and checks judge a configuration, cores, secret_files and server_urls
                    read the machine's
    submitting      entrance (the one way in, for one job and for many, and the order of its checks), which asks the door, and then admission, or batches/
                    for many at once; both know door/ (what is asked of a job before there is one, and every refusal), which knows neither;
                    submit/ for Django code of the same installation, with its outbox; traces
    room and order  capacity (pure arithmetic), decision (who is let in, pure; sql/ decides the same), refused_lately (who else wants room),
                    costs with expected_cost (what a job takes), order (the model of whose turn it is; the database's
                    functions in sql/ keep it), limit_keys, waits (where a queued job stands),
                    turns/ (when who was refused is to come back, and what is kept for it), tally (what was answered, by the minute)
    looking         queries (reads for the API, admin and metrics), listing (pages of jobs), history (what a class's jobs were like),
                    kept (answers that may be a second old)
    operators       control/: what they pause, refuse, suspend and override while everything runs
    waking          wakeups (the one place that publishes), notify (who waits for what), broker (Redis, behind one breaker)
    tidying         sweeps, each a run_once()
    running         nodes, leases and once: what workers keep in the database; row_locks (not waiting for a row that somebody holds)
    files           uploads (sent before), artifacts (left by jobs); spool, stored_files, upload_ids
    callers         keys; api/ (HTTP), admin/ (operators), testing/ (fixtures for teams), telemetry (every metric)
    the database    storable (what it can hold), migrations/, sql/ (its functions, each with its version)
"""
