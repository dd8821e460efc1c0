"""Columns: where both schemas keep what is compared. `NEW` overrides the queries of a table that has changed since."""

OLD = {
    "run": "select id from run order by rowid",
    "key": "select hex(key) from call order by id",
    "call": "select role, stage, draw, text, fault from call join reply on call_id = call.id order by call.id",
    "score": "select t.draw, version_id, name, hard, soft from trial t join task on task.id = task_id order by t.id",
    "step": "select epoch, n, verdict, parent_version, json_extract(record, '$.budget', '$.n_proposed', '$.n_applied',"
    " '$.current', '$.candidate', '$.best', '$.current_version', '$.best_version') from step order by run_id, n",
    "edit": "select version_id, n, op, path, target, content, status from edit join candidate c on c.id = candidate_id"
    " order by c.rowid, n",
    "decision": "select gate, scope, base_version, version_id, verdict from decision order by id",
    "pair": "select n, name, base, candidate from pair join task on task.id = task_id order by confirmation_id, n",
    "note": "select epoch, text from meta_note order by id",
}
NEW = OLD | {
    "score": "select draw, version_id, name, hard, soft from trial t join call on call.id = call_id"
    " join task on task.id = task_id order by t.id"
}

# Flags of `replay` that have another name now, such as "--slots": "--concurrency".
FLAGS: dict[str, str] = {"--slots": "--concurrency", "--gate": "--search-gate"}
