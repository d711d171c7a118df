-- Counters of the package rate-limiter-flexible, which prescribes the columns and their order. Unlogged: after a crash they
-- start from zero, and what they count stays out of the WAL and of backups.
create unlogged table rate_limits (
  -- A limit's name and an HMAC of whom it counts: no address of a mailbox or a computer.
  key varchar(255) primary key,
  points integer not null default 0,
  -- Milliseconds since 1970.
  expire bigint
);
create index rate_limits_expire_idx on rate_limits (expire);
