-- contract: no process of this version reads activities for the lake.
-- They served the copy of activities in the lake: see docs/decisions/0209.
drop trigger activities_have_transaction on activities;
drop function assign_transaction_id();
drop trigger database_incarnations_advance_activities on database_incarnations;
drop function advance_activities();
drop function newest_activity_id();
