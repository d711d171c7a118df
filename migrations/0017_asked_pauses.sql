-- A pause that the receiver asked for, such as by Retry-After: the end of an outage does not end it.
alter table email_deliveries add column is_pause_asked boolean not null default false;
alter table webhook_deliveries add column is_pause_asked boolean not null default false;
alter table account_mails add column is_pause_asked boolean not null default false;
alter table cache_purges add column is_pause_asked boolean not null default false;
