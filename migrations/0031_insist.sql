-- Ends a transaction that relied on something which has not come true, so that a commit sent along behind it undoes everything.
-- See docs/decisions/0030-placing-together.md.
create function insist(has_come_true boolean) returns void language plpgsql as $$
begin
  if has_come_true is not true then
    raise exception 'what this transaction relied on has not come true' using errcode = 'SF001';
  end if;
end
$$;

comment on column idempotency_keys.response is
  'The answer as it was sent, byte for byte, but for the number and the lines of the order: those are empty here, and in orders.';
