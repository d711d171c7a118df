-- How an account was proven before its second factor is asked for, such as by a password or a provider; null for other challenges, and for
-- those of the release before, which were always of a password or a provider.
alter table auth_challenges
  add column proven_by text,
  add constraint auth_challenges_proven_before check (proven_by is null or purpose = 'second_factor');

-- A code is either for the session of an account, or for linking a person at a provider to the account of the session that presents it.
alter table oidc_codes
  alter column user_id drop not null,
  add column issuer text,
  add column subject text,
  add constraint oidc_codes_of_account_or_person check ((user_id is null) = (issuer is not null) and (issuer is null) = (subject is null));
