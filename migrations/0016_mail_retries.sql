alter table email_deliveries
  -- What the mail says, until it is sent: a mail that was given up can be tried again however late.
  add column content json,
  -- Counts the jobs made for the mail; only the job with this number may send it.
  add column job_number integer not null default 1,
  -- Not before then: an account has a limit of mails an hour.
  add column send_after timestamptz(3);
create index email_deliveries_user_id_send_after_idx on email_deliveries (user_id, send_after);
