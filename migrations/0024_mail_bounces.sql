-- When and why the mail provider gave a sent mail back.
alter table email_deliveries add column bounced_at timestamptz(3), add column bounce_reason text;
