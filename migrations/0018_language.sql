-- The languages that src/language.ts ships. Null: the account has chosen none and follows DEFAULT_LANGUAGE, whatever it is when a mail is sent.
alter table users add column language text,
  -- A mail of a language without templates could not be rendered.
  add constraint users_language_known check (language in ('en', 'de', 'fr', 'es'));

-- The language of the registration, for the account that its token creates.
alter table pending_registrations add column language text,
  add constraint pending_registrations_language_known check (language in ('en', 'de', 'fr', 'es'));
