-- Whom the store's access tokens are issued by, and for: all processes of the API must agree, or they refuse each other's tokens. Empty until
-- the first of them has started. See docs/decisions/0153-one-issuer.md.
create table token_issuers (
  -- One row at most.
  is_current boolean primary key default true,
  issuer text not null,
  changed_at timestamptz(3) not null default now(),
  constraint token_issuers_single_row check (is_current)
);
