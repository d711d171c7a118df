-- functions: a336850181d0d5cd

-- Why the newest delivery to a failing endpoint was not taken.
alter table webhook_endpoints add column failing_reason text;
