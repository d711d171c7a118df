-- Addresses with letters beyond ASCII: the few that a start looks at, because their domain may be stored in a form of an earlier release. SQL
-- cannot make the ASCII form of a domain. See docs/decisions/0101-one-mailbox-one-account.md.
create index users_email_not_ascii_idx on users (id) where octet_length(email) > length(email);
