-- functions: 81bbc3336ec8fb68
-- When the customer reported a mail as spam.
alter table email_deliveries add column complained_at timestamptz(3);
