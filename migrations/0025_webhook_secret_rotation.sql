alter table webhook_endpoints
  -- The secret before the present one, which signs as well until then.
  add column previous_sealed_secret text,
  add column previous_secret_until timestamptz(3),
  add constraint webhook_endpoints_previous_secret_with_end check ((previous_sealed_secret is null) = (previous_secret_until is null));
