-- Which secret encrypts signing keys, webhooks' secrets and queued account mails: a process that has another one must encrypt nothing.
-- Empty until a process has encrypted something, or one of this release has started on a store that did before.
create table encryption_secrets (
  -- One row at most.
  is_current boolean primary key default true,
  -- HKDF-SHA-256 of STOREFRONT_SECRET, base64url: nothing can be decrypted with it.
  fingerprint text not null,
  changed_at timestamptz(3) not null default now(),
  constraint encryption_secrets_single_row check (is_current)
);
