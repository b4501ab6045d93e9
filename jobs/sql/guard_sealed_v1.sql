-- A sealed batch never changes, raw SQL included (P37): neither when and how it was sealed, nor which of its items had not ended then.
-- What the others brought stands in their jobs, which guard_transitions_v1 holds.
CREATE FUNCTION guard_sealed_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'jobs_batch' THEN
        IF (NEW.sealed_at, NEW.cancel_requested_at, NEW.deadline_at, NEW.client_id)
                IS DISTINCT FROM (OLD.sealed_at, OLD.cancel_requested_at, OLD.deadline_at, OLD.client_id) THEN
            RAISE EXCEPTION 'batch % is sealed: it never changes', OLD.id USING ERRCODE = 'check_violation';
        END IF;
    ELSIF EXISTS (SELECT 1 FROM jobs_batch batch WHERE batch.id = OLD.batch_id AND batch.sealed_at IS NOT NULL) THEN
        RAISE EXCEPTION 'batch % is sealed: its item % never changes', OLD.batch_id, OLD.name USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER batch_stays BEFORE UPDATE ON jobs_batch FOR EACH ROW
    WHEN (OLD.sealed_at IS NOT NULL) EXECUTE FUNCTION guard_sealed_v1();
CREATE TRIGGER item_stays BEFORE UPDATE ON jobs_batchitem FOR EACH ROW EXECUTE FUNCTION guard_sealed_v1();
