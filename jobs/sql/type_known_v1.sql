-- Does a live node of the class know this job type (P27)? One that is stopping counts: its successor is on its way.
CREATE FUNCTION type_known_v1(p_cost_class text, p_type text, p_beat interval) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1 FROM live_nodes_v1(p_cost_class, p_beat) node WHERE p_type = ANY(node.types)
    )
$$;
