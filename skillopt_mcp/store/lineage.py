"""Lineage: which skills of a store count as one, as versions tell that went from folder to folder."""

KIN = (
    "with recursive named(id, skill_id) as (select id, skill_id from version union all select parent_id, skill_id from"
    " version where parent_id is not null),"
    " shared(id) as materialized (select id from named group by id having min(skill_id) < max(skill_id)),"
    " held(id, skill_id) as materialized (select distinct id, skill_id from named where id in (select id from shared)),"
    " kin(id) as (values (?1) union select its.skill_id from kin join held own on own.skill_id = kin.id"
    " join held its on its.id = own.id) select id from kin"
)
"""The ids of a skill (?1) and of all that share a version with it, or the parent of one, and so on: renamed, copied.

Versions are never deleted, so what is kin stays kin.
"""
