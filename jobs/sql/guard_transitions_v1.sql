-- The transition table of jobs/states.py, held against everybody, raw SQL included (P37).
CREATE FUNCTION guard_transitions_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'queued' THEN
            RAISE EXCEPTION 'a job begins as queued, not as %', NEW.state USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.state IS DISTINCT FROM OLD.state AND (OLD.state, NEW.state) NOT IN (
        ('queued', 'running'), ('queued', 'cancelled'), ('queued', 'expired'), ('queued', 'failed'),
        ('running', 'succeeded'), ('running', 'failed'), ('running', 'cancelled'), ('running', 'queued')
    ) THEN
        RAISE EXCEPTION 'job % may not move from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.finished_at IS NOT NULL AND
            (NEW.finished_at, NEW.attempt, NEW.error_code, NEW.error_message, NEW.error_details, NEW.error_retryable, NEW.stopped_by)
            IS DISTINCT FROM
            (OLD.finished_at, OLD.attempt, OLD.error_code, OLD.error_message, OLD.error_details, OLD.error_retryable, OLD.stopped_by) THEN
        RAISE EXCEPTION 'job % is %: how it ended never changes', OLD.id, OLD.state USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.finished_at IS NULL AND NEW.finished_at >= statement_timestamp() THEN
        -- What the statement stamped may be from before it waited for this row. Now the row is ours: whoever follows ends in their order
        -- (GET /jobs/changes) has seen none that is later than this one and is not told of this one.
        NEW.finished_at := clock_timestamp();
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER job_begins BEFORE INSERT ON jobs_job FOR EACH ROW EXECUTE FUNCTION guard_transitions_v1();
-- A beat that renews a lease pays nothing for the guard.
CREATE TRIGGER job_moves BEFORE UPDATE ON jobs_job FOR EACH ROW
    WHEN (NEW.state IS DISTINCT FROM OLD.state OR OLD.finished_at IS NOT NULL) EXECUTE FUNCTION guard_transitions_v1();
