-- When the holder of the mailbox proved the address, by a mailed token: null means that anybody may have typed it, and mails then hold
-- nothing of what the account says. Existing accounts are unproven: see docs/decisions/0099-mails-to-unproven-addresses.md.
alter table users add column email_verified_at timestamptz(3);
