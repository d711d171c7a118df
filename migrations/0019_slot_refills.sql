-- contract: no release has this table
-- functions: 3ddfcb41adf26e95

alter table slot_positions
  -- The newest refill whose events are not all on the topic yet: an older one that ends later must not take it for done. Set from before the slot is
  -- dropped or created until the topic has what it missed.
  add column refill_id uuid,
  -- Why it was begun, for the operator.
  add column refill_reason text;

insert into slot_positions (slot_name, lost_reason, refill_id, refill_reason)
select slot_name, reason, replay_id, reason from slot_refills
on conflict (slot_name) do update set refill_id = excluded.refill_id, refill_reason = excluded.refill_reason;

drop table slot_refills;
