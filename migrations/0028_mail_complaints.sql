-- functions: 205457c401a15670
-- When the customer reported a mail as spam.
alter table email_deliveries add column complained_at timestamptz(3);
