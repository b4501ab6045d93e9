-- Give a new job its place in the order of its class, and charge its client and flow for it, and for what they owe (P11, P11a). Under the
-- class's lock: nobody else writes these clocks. A requeue only adds rows of debt, so neither ever waits for the other.
--
-- p_cost: expected seconds.
CREATE FUNCTION fair_charge_v1(p_cost_class text, p_client bigint, p_flow text, p_cost double precision, p_idle boolean)
RETURNS TABLE (rank double precision, flow_rank double precision) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    place record;
    heaviness double precision;
    owed record;
    finish double precision;
    flow_finish double precision;
BEGIN
    SELECT * INTO place FROM fair_place_v1(p_cost_class, p_client, p_flow, p_idle);
    SELECT client.weight INTO heaviness FROM jobs_apiclient client WHERE client.id = p_client;
    WITH paid AS (
        DELETE FROM jobs_fairdebt debt WHERE debt.cost_class = p_cost_class AND debt.client_id = p_client
        AND (debt.flow IS NULL OR debt.flow = p_flow) RETURNING debt.flow, debt.seconds
    )
    SELECT coalesce(sum(paid.seconds) FILTER (WHERE paid.flow IS NULL), 0) AS by_client,
           coalesce(sum(paid.seconds) FILTER (WHERE paid.flow IS NOT NULL), 0) AS by_flow INTO owed FROM paid;
    INSERT INTO jobs_flowshare AS share (cost_class, client_id, flow, finish_tag)
    VALUES (p_cost_class, p_client, p_flow, place.flow_rank + p_cost + owed.by_flow)
    ON CONFLICT (cost_class, client_id, flow) DO UPDATE
    SET finish_tag = excluded.finish_tag, used_at = clock_timestamp()
    RETURNING share.finish_tag INTO flow_finish;
    INSERT INTO jobs_fairshare AS share (cost_class, client_id, finish_tag, flow_time, highest_flow_rank, highest_flow_tag)
    VALUES (p_cost_class, p_client, place.rank + (p_cost + owed.by_client) / heaviness, place.flow_time, place.flow_rank, flow_finish)
    ON CONFLICT (cost_class, client_id) DO UPDATE
    SET finish_tag = excluded.finish_tag, flow_time = excluded.flow_time,
        highest_flow_rank = greatest(share.highest_flow_rank, excluded.highest_flow_rank),
        highest_flow_tag = greatest(share.highest_flow_tag, excluded.highest_flow_tag), used_at = clock_timestamp()
    RETURNING share.finish_tag INTO finish;
    INSERT INTO jobs_fairclock AS clock (cost_class, virtual_time, highest_rank, highest_tag)
    VALUES (p_cost_class, place.virtual_time, place.rank, finish)
    ON CONFLICT (cost_class) DO UPDATE
    SET virtual_time = excluded.virtual_time, highest_rank = greatest(clock.highest_rank, excluded.highest_rank),
        highest_tag = greatest(clock.highest_tag, excluded.highest_tag);
    RETURN QUERY SELECT place.rank, place.flow_rank;
END
$$;
