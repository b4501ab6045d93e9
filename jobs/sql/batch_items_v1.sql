-- The items of a batch as rows: an array of objects, numbered from 1 by `position`, durations in seconds. `refused` is a verdict that the caller brings.
CREATE FUNCTION batch_items_v1(p_items jsonb) RETURNS TABLE (
    "position" integer, name text, type text, cost_class text, params jsonb, labels jsonb, timeout double precision, max_attempts integer,
    max_deliveries integer, max_wait double precision, deadline_in double precision, deadline_at timestamptz, max_waiting integer,
    processes integer, key text, fingerprint text, refused text, flow text, priority smallint, ageing double precision,
    declared_cost double precision, limit_keys text[], max_backlog double precision, kept integer, kept_seconds double precision, own_turns integer
) LANGUAGE sql STABLE AS $$
    SELECT * FROM jsonb_to_recordset(p_items) AS item (
        "position" integer, name text, type text, cost_class text, params jsonb, labels jsonb, timeout double precision, max_attempts integer,
        max_deliveries integer, max_wait double precision, deadline_in double precision, deadline_at timestamptz, max_waiting integer,
        processes integer, key text, fingerprint text, refused text, flow text, priority smallint, ageing double precision,
        declared_cost double precision, limit_keys text[], max_backlog double precision, kept integer, kept_seconds double precision, own_turns integer)
$$;
