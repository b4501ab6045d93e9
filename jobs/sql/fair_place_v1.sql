-- The place that a new job of this client and flow would have in the order of its class: start-time fair queueing over clients (P11), and inside
-- the client over its flows (P11a). Only read here; fair_charge_v1 gives the place. Exact under the class's lock, since only admissions
-- write these clocks; without it, as good as the moment. The model is jobs/order.py.
--
-- p_idle: nothing waits or runs in the class. Ranks and clocks are virtual time: seconds of work per unit of weight.
CREATE FUNCTION fair_place_v1(p_cost_class text, p_client bigint, p_flow text, p_idle boolean)
RETURNS TABLE (rank double precision, flow_rank double precision, virtual_time double precision, flow_time double precision)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    clock jobs_fairclock%ROWTYPE;
    share jobs_fairshare%ROWTYPE;
    running record;  -- how far those who run have come
    waiting double precision;  -- the lowest rank that waits and never ran: no later one is below it, so the clock may go as far
    in_flows double precision;
    flow_finish double precision;
    own_idle boolean;  -- nothing of the client's waits or runs in the class
BEGIN
    SELECT * INTO clock FROM jobs_fairclock of_class WHERE of_class.cost_class = p_cost_class;
    SELECT * INTO share FROM jobs_fairshare own WHERE own.cost_class = p_cost_class AND own.client_id = p_client;
    SELECT own.finish_tag INTO flow_finish FROM jobs_flowshare own
    WHERE own.cost_class = p_cost_class AND own.client_id = p_client AND own.flow = p_flow;
    SELECT max(job.rank) AS rank, max(job.flow_rank) FILTER (WHERE job.client_id = p_client) AS flow_rank INTO running
    FROM jobs_job job WHERE job.cost_class = p_cost_class AND job.state = 'running';
    SELECT job.rank INTO waiting FROM jobs_job job
    WHERE job.cost_class = p_cost_class AND job.state = 'queued' AND job.attempt = 0 ORDER BY job.rank, job.turn LIMIT 1;
    SELECT job.flow_rank INTO in_flows FROM jobs_job job
    WHERE job.cost_class = p_cost_class AND job.client_id = p_client AND job.state = 'queued' AND job.attempt = 0
    ORDER BY job.flow_rank, job.sequence LIMIT 1;
    own_idle := running.flow_rank IS NULL AND NOT EXISTS (
        SELECT 1 FROM jobs_job job WHERE job.cost_class = p_cost_class AND job.client_id = p_client AND job.state = 'queued');

    -- Idle, all begin anew beside the one who was served last: who used what nobody else wanted owes nothing for it.
    virtual_time := coalesce(greatest(clock.virtual_time, running.rank,
        CASE WHEN p_idle THEN clock.highest_tag WHEN waiting IS NULL THEN clock.highest_rank ELSE waiting END), 0);
    flow_time := coalesce(greatest(share.flow_time, running.flow_rank,
        CASE WHEN in_flows IS NOT NULL THEN in_flows WHEN own_idle THEN share.highest_flow_tag ELSE share.highest_flow_rank END), 0);
    rank := greatest(virtual_time, share.finish_tag);
    flow_rank := greatest(flow_time, flow_finish);
    RETURN NEXT;
END
$$;
